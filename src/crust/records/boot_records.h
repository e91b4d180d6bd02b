// The records of one kind that describe what this boot has mounted, in one file for each record. A
// record is written before the step that it describes. Records of another boot describe what is
// gone, and are dropped when they are loaded. So their folder may be a tmpfs, where writing them
// waits for no disk.
//
// A kind is a type without objects, which says:
//
//   Record            the record; its member `boot_id` is a string
//   kFault            its name in fault points (durable_file.h)
//   kName             the name for people, as in "write the sandbox's record"
//   IdOf(record)      the name of its file without the suffix
//   Encode, Decode    to and from the file's text
//
// Thread-safe for different records.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/status.h"
#include "platform/files/durable_file.h"
#include "platform/files/private_folder.h"
#include "platform/files/record_files.h"

namespace berth::crust {

// The largest record that is read.
inline constexpr size_t kMaxRecordBytes = 8 * 1024 * 1024;

template <typename Kind>
class BootRecords {
 public:
  using Record = typename Kind::Record;

  // `folder` is made if missing. The records in `former`, where an earlier version kept them, are
  // moved into it, because containers may use what they describe; "": there was no other folder.
  static base::StatusOr<BootRecords> Open(std::string folder, const std::string& former = "") {
    RETURN_IF_ERROR(platform::MakePrivateFolder(folder));
    RETURN_IF_ERROR(platform::RemoveTornWrites(folder));
    if (!former.empty()) RETURN_IF_ERROR(MoveRecords(former, folder));
    ASSIGN_OR_RETURN(std::string boot_id, platform::ReadBootId());
    return BootRecords(std::move(folder), std::move(boot_id));
  }

  struct Loaded {
    std::vector<Record> records;          // those of this boot
    std::vector<std::string> unreadable;  // ids of records of any boot; logged
  };
  // Reads all records, and removes those of other boots. A record that cannot be read stays, with
  // what it describes, because containers may use that.
  base::StatusOr<Loaded> LoadRecords() const {
    ASSIGN_OR_RETURN(
        platform::LoadedRecords<Record> files,
        platform::LoadRecords<Record>(
            folder_, {.on_damage = platform::OnDamage::kLeave, .max_bytes = kMaxRecordBytes},
            Kind::Decode, Kind::IdOf));
    Loaded loaded;
    for (platform::DamagedRecord& damaged : files.damaged) {
      loaded.unreadable.push_back(std::move(damaged.name));
    }
    for (Record& record : files.records) {
      if (!platform::IsThisBoot(record.boot_id, boot_id_)) {
        RETURN_IF_ERROR(RemoveRecord(Kind::IdOf(record)));
        continue;
      }
      loaded.records.push_back(std::move(record));
    }
    return loaded;
  }

  // Sets the record's boot id and writes the record; a handler that is killed leaves the old one or
  // the new one.
  base::Status WriteRecord(Record& record) const {
    record.boot_id = boot_id_;
    return base::Annotate(
        platform::WriteDurably<Kind::kFault>(Path(Kind::IdOf(record)), Kind::Encode(record)),
        fmt::format("write {}", Kind::kName));
  }

  // OK if there is no record.
  base::Status RemoveRecord(const std::string& id) const {
    return base::Annotate(platform::RemoveDurably<Kind::kFault>(Path(id)),
                          fmt::format("remove {}", Kind::kName));
  }

  const std::string& folder() const { return folder_; }

 private:
  BootRecords(std::string folder, std::string boot_id)
      : folder_(std::move(folder)), boot_id_(std::move(boot_id)) {}

  static base::Status MoveRecords(const std::string& from, const std::string& to) {
    const auto names = platform::ListFolder(from);
    if (names.status().code() == base::StatusCode::kNotFound) return base::OkStatus();
    RETURN_IF_ERROR(names.status());
    for (const std::string& name : *names) {
      if (!name.ends_with(platform::kRecordSuffix)) continue;
      ASSIGN_OR_RETURN(const std::string text,
                       platform::ReadFile(fmt::format("{}/{}", from, name), kMaxRecordBytes));
      RETURN_IF_ERROR(platform::WriteDurably<Kind::kFault>(fmt::format("{}/{}", to, name), text));
    }
    return platform::RemoveTree(from);
  }

  std::string Path(const std::string& id) const {
    return fmt::format("{}/{}{}", folder_, id, platform::kRecordSuffix);
  }

  std::string folder_;
  std::string boot_id_;
};

}  // namespace berth::crust
