#include "platform/files/record_files.h"

#include <sys/stat.h>

#include <cerrno>
#include <cstdio>

#include "base/files/process_stat.h"
#include "base/ids.h"
#include "platform/errno.h"
#include "platform/files/durable_file.h"
#include "platform/files/private_folder.h"

namespace berth::platform {

using base::StatusOr;

namespace {

// Whether the read of a file failed because there is no descriptor now, which says nothing about
// the file. A file that is too large has the same code.
bool IsShortage(const base::Status& read, const std::string& path, size_t max_bytes) {
  if (read.code() != base::StatusCode::kResourceExhausted) return false;
  struct stat st;
  return stat(path.c_str(), &st) != 0 || st.st_size <= static_cast<off_t>(max_bytes);
}

}  // namespace

StatusOr<std::vector<RecordFile>> ReadRecordFiles(const std::string& folder, size_t max_bytes) {
  RETURN_IF_ERROR(MakePrivateFolder(folder));
  RETURN_IF_ERROR(RemoveTornWrites(folder));
  ASSIGN_OR_RETURN(const std::vector<std::string> names, ListFolder(folder));
  std::vector<RecordFile> files;
  for (const std::string& name : names) {
    if (!name.ends_with(kRecordSuffix)) continue;
    std::string path = fmt::format("{}/{}", folder, name);
    StatusOr<std::string> text = ReadFile(path, max_bytes);
    if (IsShortage(text.status(), path, max_bytes)) return text.status();
    files.push_back({.path = std::move(path),
                     .name = name.substr(0, name.size() - kRecordSuffix.size()),
                     .text = std::move(text)});
  }
  return files;
}

namespace {

StatusOr<base::Json> ParseJson(std::string_view text, const base::json::ParseLimits& limits) {
  StatusOr<base::Json> record = base::json::Parse(text, limits);
  if (record.ok()) return record;
  return base::Error(base::StatusCode::kDataLoss, "not JSON: {}", base::Message(record.status()));
}

base::Status CheckVersion(const base::Json& record, int version) {
  if (const int64_t found = base::json::Int(record, {"version"}); found != version) {
    return base::Error(base::StatusCode::kDataLoss, "record version {} is not {}", found, version);
  }
  return base::OkStatus();
}

}  // namespace

StatusOr<base::Json> ParseRecord(std::string_view text, int version,
                                 const base::json::ParseLimits& limits) {
  ASSIGN_OR_RETURN(base::Json record, ParseJson(text, limits));
  RETURN_IF_ERROR(CheckVersion(record, version));
  return record;
}

StatusOr<base::Json> ParseRecordOrUnversioned(std::string_view text, int version,
                                              const base::json::ParseLimits& limits) {
  ASSIGN_OR_RETURN(base::Json record, ParseJson(text, limits));
  const bool unversioned = record.is_object() && !record.contains("version");
  if (!unversioned) RETURN_IF_ERROR(CheckVersion(record, version));
  return record;
}

StatusOr<std::string> SetRecordAside(const std::string& path) {
  std::string to = fmt::format("{}.damaged-{}", path, base::RandomSuffix(5));
  if (std::rename(path.c_str(), to.c_str()) != 0) return ErrnoError(errno, "move it aside");
  return to;
}

StatusOr<DamagedRecord> HandleDamage(const RecordFile& file, const base::Status& why,
                                     OnDamage on_damage) {
  if (on_damage == OnDamage::kRefuse) {
    return base::Annotate(why, fmt::format("read the record {}", base::Quote(file.path)));
  }
  DamagedRecord damaged{.path = file.path, .name = file.name, .why = why};
  std::string fate = "it is left there";
  if (on_damage == OnDamage::kSetAside) {
    if (const StatusOr<std::string> aside = SetRecordAside(file.path); aside.ok()) {
      damaged.path = *aside;
      fate = fmt::format("it is set aside as {}", base::Quote(*aside));
    } else {
      fate = base::Message(aside.status());
    }
  }
  LOG_ERROR("record {} is damaged: {}; {}", base::Quote(file.path), base::Message(why), fate);
  return damaged;
}

StatusOr<std::string> ReadBootId() {
  std::string id = base::ReadBootId();
  if (!id.empty()) return id;
  return base::Error(base::StatusCode::kNotFound,
                     "the kernel's boot id cannot be read: is /proc mounted?");
}

}  // namespace berth::platform
