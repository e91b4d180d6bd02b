#include "platform/files/record_folder.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/log.h"
#include "platform/errno.h"
#include "platform/files/disk_reserve.h"
#include "platform/files/private_folder.h"

namespace berth::platform {
namespace {

using base::Quote;

constexpr size_t kMostSpares = 64;
constexpr int kMostNames = 1000000;  // six digits

base::StatusOr<base::UniqueFd> OpenForWrite(const std::string& path) {
  base::UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.valid()) return ErrnoError(errno, "open");
  return fd;
}

}  // namespace

base::StatusOr<std::unique_ptr<RecordFolder>> RecordFolder::Open(std::string folder) {
  RETURN_IF_ERROR(MakePrivateFolder(folder));
  RETURN_IF_ERROR(RemoveTornWrites(folder));
  return std::unique_ptr<RecordFolder>(new RecordFolder(std::move(folder)));
}

RecordFolder::~RecordFolder() {
  base::MutexLock lock(mutex_);
  for (const std::string& spare : spares_) unlink(spare.c_str());
}

std::string RecordFolder::NewTemp() {
  made_ = (made_ + 1) % kMostNames;
  return fmt::format("{}/.record.tmp-{:06}", folder_, made_);
}

std::string RecordFolder::TakeTemp() {
  base::MutexLock lock(mutex_);
  if (spares_.empty()) return NewTemp();
  std::string spare = std::move(spares_.back());
  spares_.pop_back();
  return spare;
}

void RecordFolder::KeepSpare(std::string spare) {
  {
    base::MutexLock lock(mutex_);
    if (spares_.size() < kMostSpares) return spares_.push_back(std::move(spare));
  }
  unlink(spare.c_str());
}

base::Status RecordFolder::SyncFolder() const {
  const base::UniqueFd fd(open(folder_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid() || fsync(fd.get()) != 0) return ErrnoError(errno, "fsync of its folder");
  return base::OkStatus();
}

base::StatusOr<bool> RecordFolder::ReplaceFile(const internal::WritePoints& points,
                                               const std::string& temp, const std::string& path,
                                               std::string_view content) {
  ASSIGN_OR_RETURN(const base::UniqueFd fd, OpenForWrite(temp));
  RETURN_IF_ERROR(WriteAll(fd.get(), content));
  // The file is cut only after the write, so that content that overwrites old content needs no new
  // block.
  if (ftruncate(fd.get(), static_cast<off_t>(content.size())) != 0) {
    return ErrnoError(errno, "truncate");
  }
  if (fsync(fd.get()) != 0) return ErrnoError(errno, "fsync");
  RETURN_IF_ERROR(points.temp.PassPoint());
  if (renameat2(AT_FDCWD, temp.c_str(), AT_FDCWD, path.c_str(), RENAME_EXCHANGE) == 0) return true;
  // The file does not exist yet, or this file system cannot exchange.
  if (rename(temp.c_str(), path.c_str()) != 0) return ErrnoError(errno, "rename");
  return false;
}

base::Status RecordFolder::Write(const internal::WritePoints& points, const std::string& name,
                                 std::string_view content) {
  RETURN_IF_ERROR(points.before.PassPoint());
  const std::string path = folder_ + "/" + name;
  const std::string context = fmt::format("write {}", Quote(path));
  std::string temp = TakeTemp();
  base::StatusOr<bool> spare = ReplaceFile(points, temp, path, content);
  if (spare.status().code() == base::StatusCode::kResourceExhausted && GiveUpReserve(path)) {
    spare = ReplaceFile(points, temp, path, content);
  }
  if (!spare.ok()) unlink(temp.c_str());
  RETURN_IF_ERROR_WITH(spare, context);
  // The old file becomes a spare only after the sync, because a crash before it may bring the old
  // file back.
  RETURN_IF_ERROR_WITH(SyncFolder(), context);
  if (*spare) KeepSpare(std::move(temp));
  return points.after.PassPoint();
}

base::Status RecordFolder::Remove(const internal::RemovePoints& points, const std::string& name) {
  RETURN_IF_ERROR(points.before.PassPoint());
  const std::string path = folder_ + "/" + name;
  const std::string context = fmt::format("remove {}", Quote(path));
  std::string temp;
  {
    base::MutexLock lock(mutex_);
    temp = NewTemp();
  }
  const bool moved = rename(path.c_str(), temp.c_str()) == 0;
  if (!moved && errno != ENOENT) return ErrnoError(errno, context);
  RETURN_IF_ERROR_WITH(SyncFolder(), context);
  if (moved) KeepSpare(std::move(temp));
  return points.after.PassPoint();
}

}  // namespace berth::platform
