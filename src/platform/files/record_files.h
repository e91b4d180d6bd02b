// Reads folders of records: small JSON files with a version that say what may exist, and that are
// written before the step that makes it (durable_file.h, record_folder.h).
//
// A record is damaged if it cannot be read or decoded, or if its content belongs to another file's
// name. One damaged record does not hide the others, and it is never removed.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/json.h"
#include "base/log.h"
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
// has more than `max_bytes`, has an error as its text. RESOURCE_EXHAUSTED: there are no descriptors
// now. Call it before any other code writes in the folder.
base::StatusOr<std::vector<RecordFile>> ReadRecordFiles(const std::string& folder,
                                                        size_t max_bytes = 1024 * 1024);

// Parses a record. DATA_LOSS: it is not JSON, or its member "version" is not `version`.
base::StatusOr<base::Json> ParseRecord(std::string_view text, int version,
                                       const base::json::ParseLimits& limits = {});

// Parses a record of a kind whose first files had no version. As ParseRecord, but a record without
// the member "version" is read, too, because an earlier Berth may have written it.
base::StatusOr<base::Json> ParseRecordOrUnversioned(std::string_view text, int version,
                                                    const base::json::ParseLimits& limits = {});

// Reads the kernel's boot id. A record of another boot describes mounts that no longer exist.
// NOT_FOUND: it cannot be read.
base::StatusOr<std::string> ReadBootId();

// Whether a record with the boot id `recorded` is of this boot (ReadBootId). A record of another
// boot describes mounts, devices and processes that no longer exist.
inline bool IsThisBoot(std::string_view recorded, std::string_view this_boot) {
  return !recorded.empty() && recorded == this_boot;
}

// Renames a damaged record to PATH.damaged-RANDOM, so that a person can read it and the program
// does not read it again. Returns the new path, or the errno as a Status.
base::StatusOr<std::string> SetRecordAside(const std::string& path);

enum class OnDamage {
  kSetAside,  // renames the record with SetRecordAside
  kLeave,     // leaves the record, so that the next load finds it damaged, too
  kRefuse,    // fails the load
};

struct LoadOptions {
  OnDamage on_damage = OnDamage::kSetAside;
  size_t max_bytes = 1024 * 1024;
};

struct DamagedRecord {
  std::string path;  // its path now
  std::string name;  // as in RecordFile
  base::Status why;
};

template <typename T>
struct LoadedRecords {
  std::vector<T> records;  // in the order of their files' names
  std::vector<DamagedRecord> damaged;
};

// Logs the damaged record of `file`, and does with it what `on_damage` says. An error only with
// kRefuse.
base::StatusOr<DamagedRecord> HandleDamage(const RecordFile& file, const base::Status& why,
                                           OnDamage on_damage);

// Reads all records of a folder as ReadRecordFiles does. `decode` makes a StatusOr<T> of a record's
// text, and `name_of` gives the RecordFile::name that belongs to a T. An error if the folder cannot
// be read, or if a record is damaged and OnDamage is kRefuse.
template <typename T, typename Decode, typename NameOf>
base::StatusOr<LoadedRecords<T>> LoadRecords(const std::string& folder, const LoadOptions& options,
                                             const Decode& decode, const NameOf& name_of) {
  ASSIGN_OR_RETURN(const std::vector<RecordFile> files, ReadRecordFiles(folder, options.max_bytes));
  LoadedRecords<T> loaded;
  for (const RecordFile& file : files) {
    base::StatusOr<T> record =
        file.text.ok() ? decode(*file.text) : base::StatusOr<T>(file.text.status());
    if (record.ok() && std::invoke(name_of, *record) != file.name) {
      record = base::Error(base::StatusCode::kDataLoss, "its content belongs to the name {}",
                           base::Quote(std::invoke(name_of, *record)));
    }
    if (record.ok()) {
      loaded.records.push_back(*std::move(record));
      continue;
    }
    ASSIGN_OR_RETURN(DamagedRecord damaged, HandleDamage(file, record.status(), options.on_damage));
    loaded.damaged.push_back(std::move(damaged));
  }
  return loaded;
}

}  // namespace berth::platform
