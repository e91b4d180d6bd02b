#include "node/containers/container_log.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "api/time.h"
#include "base/log.h"
#include "base/text.h"
#include "base/unique_fd.h"
#include "platform/errno.h"

namespace berth::node {

namespace {

using base::Status;
using base::StatusOr;

constexpr size_t kBlock = 64 * 1024;
// containerd splits lines at 16 KiB. A longer line than this comes from another program and is
// dropped.
constexpr size_t kMaxLine = 1024 * 1024;

StatusOr<base::UniqueFd> OpenLog(const std::string& path) {
  base::UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  if (!fd.valid()) return platform::ErrnoError(errno, fmt::format("open log '{}'", path));
  struct stat info{};
  if (fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    return base::Error(base::StatusCode::kFailedPrecondition, "log '{}' is no regular file", path);
  }
  return fd;
}

// The offset at which the last `lines` lines of the file begin. Each partial entry is a line of the
// file, so it counts as one.
StatusOr<off_t> TailOffset(int fd, int64_t lines) {
  off_t end = lseek(fd, 0, SEEK_END);
  if (end < 0) return platform::ErrnoError(errno, "seek in a log");
  if (lines <= 0) return end;
  std::vector<char> block(kBlock);
  int64_t seen = 0;
  off_t at = end;
  while (at > 0) {
    const off_t from = std::max<off_t>(0, at - static_cast<off_t>(kBlock));
    const ssize_t size = pread(fd, block.data(), static_cast<size_t>(at - from), from);
    if (size < 0) return platform::ErrnoError(errno, "read a log");
    for (ssize_t i = size - 1; i >= 0; --i) {
      if (block[static_cast<size_t>(i)] != '\n' || from + i == end - 1) continue;
      if (++seen == lines) return from + i + 1;
    }
    at = from;
  }
  return off_t{0};
}

// Turns the file's bytes into the output that LogOptions ask for, and sends it.
class LogWriter {
 public:
  LogWriter(const LogOptions& options, const LogSink& sink) : options_(options), sink_(sink) {}

  // Sends the lines of `bytes` that are complete. False: limit_bytes is reached, or the reader has
  // gone away.
  bool Feed(std::string_view bytes) {
    buffer_ += bytes;
    size_t begin = 0;
    std::string out;
    for (size_t end = buffer_.find('\n'); end != std::string::npos;
         end = buffer_.find('\n', begin)) {
      Append(std::string_view(buffer_).substr(begin, end - begin), out);
      begin = end + 1;
    }
    buffer_.erase(0, begin);
    if (buffer_.size() > kMaxLine) buffer_.clear();
    return Send(out);
  }

 private:
  void Append(std::string_view line, std::string& out) {
    const auto entry = ParseLogLine(line);
    if (!entry.has_value()) return;
    if (options_.since.has_value() && entry->at < *options_.since) return;
    if (options_.timestamps && at_line_start_) {
      out += entry->time;
      out += ' ';
    }
    out += entry->text;
    if (!entry->partial) out += '\n';
    at_line_start_ = !entry->partial;
  }

  bool Send(std::string_view out) {
    if (options_.limit_bytes.has_value()) {
      const auto left = static_cast<size_t>(std::max<int64_t>(0, *options_.limit_bytes - sent_));
      out = out.substr(0, left);
      sent_ += static_cast<int64_t>(out.size());
      if (!out.empty() && !sink_(out)) return false;
      return sent_ < *options_.limit_bytes;
    }
    return out.empty() || sink_(out);
  }

  const LogOptions& options_;
  const LogSink& sink_;
  std::string buffer_;
  bool at_line_start_ = true;
  int64_t sent_ = 0;
};

// Waits for changes in a log's folder, in which the file and its successors after a rotation are.
class FolderWait {
 public:
  // A machine has few inotify instances (fs.inotify.max_user_instances, often 128). Without one,
  // Wait takes a second each time.
  static FolderWait Open(const std::string& path) {
    FolderWait out;
    out.fd_.Reset(inotify_init1(IN_CLOEXEC | IN_NONBLOCK));
    const std::string folder(base::FolderOf(path));
    if (!out.fd_.valid() ||
        inotify_add_watch(out.fd_.get(), folder.c_str(),
                          IN_MODIFY | IN_CREATE | IN_MOVED_TO | IN_CLOSE_WRITE) < 0) {
      const Status why =
          platform::ErrnoError(errno, fmt::format("watch the logs in '{}' with inotify", folder));
      LOG_INFO("a log is read each second: {}", base::ToString(why));
      out.fd_.Reset();
    }
    return out;
  }
  // Waits until a change, at most a second, because the end of the container changes no file.
  void Wait() {
    pollfd item{.fd = fd_.get(), .events = POLLIN, .revents = 0};
    if (poll(&item, 1, 1000) <= 0) return;
    char events[4096];
    while (read(fd_.get(), events, sizeof(events)) > 0) {
    }
  }

 private:
  base::UniqueFd fd_;
};

// Feeds the rest of the file to the writer. False: the writer needs no more, or the reader has gone
// away, which is asked before each block, because the container may write on.
StatusOr<bool> FeedRest(int fd, std::vector<char>& block, LogWriter& writer,
                        const std::function<bool()>& cancelled) {
  while (!cancelled()) {
    const ssize_t size = read(fd, block.data(), block.size());
    if (size < 0) return platform::ErrnoError(errno, "read a log");
    if (size == 0) return true;
    if (!writer.Feed({block.data(), static_cast<size_t>(size)})) return false;
  }
  return false;
}

bool IsReplaced(int fd, const std::string& path) {
  struct stat open_file{}, named{};
  return fstat(fd, &open_file) == 0 && stat(path.c_str(), &named) == 0 &&
         (open_file.st_ino != named.st_ino || open_file.st_dev != named.st_dev);
}

}  // namespace

std::optional<LogEntry> ParseLogLine(std::string_view line) {
  LogEntry out;
  const size_t first = line.find(' ');
  if (first == std::string_view::npos) return std::nullopt;
  const size_t second = line.find(' ', first + 1);
  if (second == std::string_view::npos) return std::nullopt;
  size_t third = line.find(' ', second + 1);
  if (third == std::string_view::npos) third = line.size();
  out.time = line.substr(0, first);
  const std::string_view stream = line.substr(first + 1, second - first - 1);
  const std::string_view tags = line.substr(second + 1, third - second - 1);
  if (stream != "stdout" && stream != "stderr") return std::nullopt;
  const auto at = api::ParseTime(out.time);
  if (!at.ok()) return std::nullopt;
  out.at = *at;
  out.error_stream = stream == "stderr";
  out.partial = tags.substr(0, tags.find(':')) == "P";
  out.text = third < line.size() ? line.substr(third + 1) : std::string_view();
  return out;
}

Status ReadContainerLog(const std::string& path, const LogOptions& options, const LogSink& sink,
                        const std::function<bool()>& ended,
                        const std::function<bool()>& cancelled) {
  ASSIGN_OR_RETURN(base::UniqueFd file, OpenLog(path));
  std::optional<FolderWait> changes;
  if (options.follow) {
    // The watch begins before the first read, so that no change is missed between the two.
    changes = FolderWait::Open(path);
  }
  if (options.tail_lines.has_value()) {
    ASSIGN_OR_RETURN(const off_t offset, TailOffset(file.get(), *options.tail_lines));
    if (lseek(file.get(), offset, SEEK_SET) < 0)
      return platform::ErrnoError(errno, "seek in a log");
  }
  LogWriter writer(options, sink);
  std::vector<char> block(kBlock);
  while (true) {
    // This is asked before the read, so that the read gets everything that the container wrote
    // before its end.
    const bool last = !options.follow || ended();
    ASSIGN_OR_RETURN(const bool more, FeedRest(file.get(), block, writer, cancelled));
    if (!more) return base::OkStatus();
    if (IsReplaced(file.get(), path)) {
      // What was written to the old file after the read above and before its rotation.
      ASSIGN_OR_RETURN(const bool wants_more, FeedRest(file.get(), block, writer, cancelled));
      if (!wants_more) return base::OkStatus();
      ASSIGN_OR_RETURN(file, OpenLog(path));
      continue;
    }
    if (last || cancelled()) return base::OkStatus();
    changes->Wait();
  }
}

}  // namespace berth::node
