// The part of Pool that opens a pool, and finishes or undoes the changes that a crash interrupted
// before the pool serves calls.
#include <errno.h>
#include <sys/stat.h>

#include "base/fault.h"
#include "base/log.h"
#include "block/pools/pool.h"
#include "platform/errno.h"
#include "platform/file_systems/reflink.h"
#include "platform/files/durable_file.h"
#include "platform/files/private_folder.h"
#include "platform/files/record_files.h"

namespace berth::block {

base::StatusOr<std::unique_ptr<Pool>> Pool::Open(const std::string& folder,
                                                 const PoolOptions& options,
                                                 platform::Mounter& mounter,
                                                 const base::Clock& clock) {
  if (!(options.overcommit > 0)) {
    return base::Error(base::StatusCode::kInvalidArgument, "over-commit ratio {} is not above 0",
                       options.overcommit);
  }
  if (!(options.inline_share >= 0 && options.inline_share <= 1)) {
    return base::Error(base::StatusCode::kInvalidArgument,
                       "share {} of inline volumes is not from 0 to 1", options.inline_share);
  }
  std::unique_ptr<Pool> pool(new Pool(folder, options, mounter, clock));
  RETURN_IF_ERROR_WITH(pool->Recover(), fmt::format("open pool {}", base::Quote(folder)));
  return pool;
}

base::Status Pool::Recover() {
  // The pool's folder itself may serve others as well, and its driver looks after its mode.
  RETURN_IF_ERROR(platform::MakeFolders(paths_.folder(), 0700));
  for (const std::string& folder : {paths_.Folder(Kind::kVolume), paths_.Folder(Kind::kSnapshot),
                                    paths_.Groups(), paths_.Node()}) {
    RETURN_IF_ERROR(platform::MakePrivateFolder(folder));
  }
  ASSIGN_OR_RETURN(lock_, platform::LockFile(paths_.Lock()));
  ASSIGN_OR_RETURN(place_.boot_id, platform::ReadBootId());
  struct stat st;
  if (stat(paths_.Folder(Kind::kVolume).c_str(), &st) != 0) {
    return platform::ErrnoError(errno, "stat the volumes' folder");
  }
  place_.device = st.st_dev;
  ASSIGN_OR_RETURN(reflink_, platform::CanReflink(paths_.Folder(Kind::kVolume)));
  std::vector<Record> unfinished;
  {
    base::MutexLock lock(mutex_);
    RETURN_IF_ERROR(LoadRecords(Kind::kVolume));
    RETURN_IF_ERROR(LoadRecords(Kind::kSnapshot));
    RETURN_IF_ERROR(groups_.Load(paths_.Groups()));
    for (const Shelf& shelf : shelves_) {
      for (const auto& [id, record] : shelf.records) {
        if (record.state != State::kReady || record.growing_from > 0) unfinished.push_back(record);
      }
    }
  }
  for (const Record& record : unfinished) {
    // A volume whose change cannot be finished must not keep the pool from serving the other
    // volumes; the next open, or the repeated CSI call, tries again.
    if (const base::Status status = FinishChange(record); !status.ok()) {
      LOG_ERROR("{} {} was left {} by a crash, and finishing it failed: {}", NameOf(record.kind),
                base::Quote(record.id), NameOf(record.state), base::ToString(status));
    }
  }
  FinishGroups();
  return base::OkStatus();
}

base::Status Pool::LoadRecords(Kind kind) {
  const std::string folder = paths_.Folder(kind);
  const auto decode = [kind](std::string_view text) -> base::StatusOr<Record> {
    ASSIGN_OR_RETURN(Record record, DecodeRecord(text));
    if (record.kind == kind) return record;
    return base::Error(base::StatusCode::kDataLoss, "it is the record of a {}",
                       NameOf(record.kind));
  };
  // The image of a damaged record is left alone.
  ASSIGN_OR_RETURN(const platform::LoadedRecords<Record> loaded,
                   platform::LoadRecords<Record>(folder, {.on_damage = platform::OnDamage::kLeave},
                                                 decode, &Record::id));
  for (const platform::DamagedRecord& damaged : loaded.damaged) {
    shelf(kind).unreadable[damaged.name] = base::Message(damaged.why);
  }
  for (const Record& record : loaded.records) {
    if (!shelf(kind).ids.contains(record.name)) {
      RememberRecord(record);
      continue;
    }
    const std::string why = fmt::format("another record has the name {}", base::Quote(record.name));
    LOG_ERROR("the record of {} {} cannot be used; its image is left alone: {}", NameOf(kind),
              base::Quote(record.id), why);
    shelf(kind).unreadable[record.id] = why;
  }
  return WarnOfForeignFiles(kind);
}

base::Status Pool::WarnOfForeignFiles(Kind kind) const {
  ASSIGN_OR_RETURN(const std::vector<std::string> names, platform::ListFolder(paths_.Folder(kind)));
  for (const std::string& name : names) {
    const std::string record =
        name.substr(0, name.rfind('.')) + std::string(platform::kRecordSuffix);
    // The pool writes a record before the image, and removes the record after the image.
    if (name == record || (name.ends_with(".img") && std::ranges::binary_search(names, record))) {
      continue;
    }
    LOG_WARNING("{} in pool {} belongs to no record and is left alone", base::Quote(name),
                base::Quote(paths_.folder()));
  }
  return base::OkStatus();
}

base::Status Pool::FinishChange(const Record& record) {
  RETURN_IF_ERROR(base::FaultPoint<"block.open.resume.before">());
  if (record.state == State::kReady) return CompleteGrowth(record);
  if (record.state == State::kCreating) ThawSource(record);
  LOG_INFO("{} {} is removed, because a crash left it {}", NameOf(record.kind),
           base::Quote(record.id), NameOf(record.state));
  return RemoveImageAndRecord(record);
}

}  // namespace berth::block
