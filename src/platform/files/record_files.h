// Reads folders of records: small JSON files with a version that say what may exist, and that are
// written before the step that makes it (durable_file.h, record_folder.h).
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/status.h"

namespace berth::platform {

inline constexpr std::string_view kRecordSuffix = ".json";

struct RecordFile {
  std::string path;
  std::string name;  // the file's name without the suffix, such as a volume's name
  base::StatusOr<std::string> text;
};

// Makes the folder (mode 0700) if it is missing, removes what interrupted writes left, and reads
// each file that ends with kRecordSuffix, in the order of the names. A file that cannot be read, or
// has more than `max_bytes`, has an error as its text. Call it before any other code writes in the
// folder.
base::StatusOr<std::vector<RecordFile>> ReadRecordFiles(const std::string& folder,
                                                        size_t max_bytes = 1024 * 1024);

// Parses a record. DATA_LOSS: it is not JSON, or its member "version" is not `version`.
base::StatusOr<base::Json> ParseRecord(std::string_view text, int version,
                                       const base::json::ParseLimits& limits = {});

// Renames a record that cannot be used, so that a person can read it and the program does not read
// it again. `aside` is its new path, to which a random suffix is added. Returns the new path, or
// the errno as a Status.
base::StatusOr<std::string> SetRecordAside(const std::string& path, const std::string& aside);

}  // namespace berth::platform
