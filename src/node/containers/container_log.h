// Reads the log files that a container runtime writes (CRI's format):
//   2026-01-01T00:00:00.000000000Z stdout F a whole line
//   2026-01-01T00:00:00.000000000Z stdout P the beginning of a line, whose rest follows
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/status.h"

namespace berth::node {

struct LogEntry {
  std::string_view time;
  base::WallTime at;
  bool error_stream = false;
  bool partial = false;  // the rest of the line is in the next entry
  std::string_view text;
};

// Parses one line, without its newline. nullopt: it is not a line of this format. The views point
// into `line`.
std::optional<LogEntry> ParseLogLine(std::string_view line);

struct LogOptions {
  bool follow = false;
  bool timestamps = false;
  std::optional<int64_t> tail_lines;
  std::optional<int64_t> limit_bytes;
  std::optional<base::WallTime> since;
};

// Gets the output. False: the reader has gone away, so no more is sent.
using LogSink = std::function<bool(std::string_view bytes)>;

// Sends the log at `path` to `sink`. With `follow` it goes on with lines that are appended, also
// after the file was replaced (rotation). It returns when `ended` says that the container writes no
// more and the file is read to its end, or when `cancelled` says that nobody reads any more. Both
// are called after each change and at least once a second. NOT_FOUND: there is no such file;
// FAILED_PRECONDITION: it is not a regular file.
base::Status ReadContainerLog(const std::string& path, const LogOptions& options,
                              const LogSink& sink, const std::function<bool()>& ended,
                              const std::function<bool()>& cancelled);

}  // namespace berth::node
