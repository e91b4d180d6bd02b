#include "volume/flex/driver_install.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "base/fault.h"
#include "base/log.h"
#include "platform/errno.h"
#include "platform/files/durable_file.h"

namespace berth::volume {
namespace {

using base::Error;
using base::Quote;
using base::Status;
using base::StatusCode;
using base::StatusOr;
using platform::ErrnoError;

Status Rename(const std::string& from, const std::string& to) {
  if (rename(from.c_str(), to.c_str()) == 0) return base::OkStatus();
  return ErrnoError(errno, fmt::format("put {} in place", Quote(to)));
}

}  // namespace

Status SyncPath(const std::string& path) {
  const base::UniqueFd fd(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd.valid() || fsync(fd.get()) != 0) {
    return ErrnoError(errno, fmt::format("sync {} to disk", Quote(path)));
  }
  return base::OkStatus();
}

StatusOr<bool> HasDriverFolder(const std::string& path) {
  struct stat st;
  if (lstat(path.c_str(), &st) != 0) {
    if (errno == ENOENT) return false;
    return ErrnoError(errno, fmt::format("stat {}", Quote(path)));
  }
  if (S_ISDIR(st.st_mode)) return true;
  return Error(StatusCode::kFailedPrecondition, "{} is {}, and not a driver's folder", Quote(path),
               S_ISLNK(st.st_mode) ? "a symbolic link" : "a file");
}

DriverInstallation::DriverInstallation(std::string drivers, std::string folder)
    : drivers_(std::move(drivers)),
      folder_(std::move(folder)),
      stage_(drivers_ + "/.berth-install") {}

DriverInstallation::~DriverInstallation() {
  // If this fails, the next installation removes the stage.
  if (lock_.valid()) static_cast<void>(platform::RemoveTree(stage_));
}

StatusOr<std::unique_ptr<DriverInstallation>> DriverInstallation::BeginInstallation(
    const std::string& drivers, const std::string& driver) {
  const std::string folder = FolderOfDriver(driver);
  RETURN_IF_ERROR(DriverOfFolder(folder));
  std::unique_ptr<DriverInstallation> begun(new DriverInstallation(drivers, folder));
  RETURN_IF_ERROR(HasDriverFolder(begun->target()));
  RETURN_IF_ERROR(platform::MakeFolders(drivers, 0755));
  auto lock = platform::LockFile(drivers + "/.berth-install.lock");
  RETURN_IF_ERROR_WITH(lock, "another installation runs");
  begun->lock_ = *std::move(lock);
  RETURN_IF_ERROR(platform::RemoveTree(begun->stage_));
  RETURN_IF_ERROR(platform::MakeFolders(begun->stage_, 0700));
  return begun;
}

StatusOr<DriverFolder> DriverInstallation::ReadStage() const {
  ASSIGN_OR_RETURN(const base::UniqueFd fd, OpenDrivers(stage_));
  return ReadDriver(fd.get(), folder_);
}

Status DriverInstallation::MakeDurable(const DriverFile& file) const {
  const std::string path = staged() + "/" + file.path;
  if (file.kind == DriverFile::Kind::kLink) return base::OkStatus();
  // No other user may write the driver, because root runs it.
  const mode_t mode = file.kind == DriverFile::Kind::kFolder ? 0755 : file.mode & 0755;
  if (chmod(path.c_str(), mode) != 0) {
    return ErrnoError(errno, fmt::format("chmod {}", Quote(path)));
  }
  return SyncPath(path);
}

Status DriverInstallation::PlaceDriver(const DriverFolder& driver) const {
  for (const DriverFile& file : driver.files) RETURN_IF_ERROR(MakeDurable(file));
  RETURN_IF_ERROR(platform::MakeFolders(target(), 0755));
  const std::string& executable = driver.executable().path;
  for (const DriverFile& file : driver.files) {
    if (file.path == executable) continue;
    const std::string path = target() + "/" + file.path;
    if (file.kind != DriverFile::Kind::kFolder) {
      RETURN_IF_ERROR(Rename(staged() + "/" + file.path, path));
      continue;
    }
    ASSIGN_OR_RETURN(const bool there, HasDriverFolder(path));
    if (!there) RETURN_IF_ERROR(platform::MakeFolders(path, 0755));
  }
  for (const DriverFile& file : driver.files) {
    if (file.kind == DriverFile::Kind::kFolder) {
      RETURN_IF_ERROR(SyncPath(target() + "/" + file.path));
    }
  }
  RETURN_IF_ERROR(SyncPath(target()));
  RETURN_IF_ERROR(base::FaultPoint<"volume.flex_install.place.before">());
  RETURN_IF_ERROR(Rename(staged() + "/" + executable, target() + "/" + executable));
  RETURN_IF_ERROR(base::FaultPoint<"volume.flex_install.place.after">());
  RETURN_IF_ERROR(SyncPath(target()));
  return SyncPath(drivers_);
}

Status InstallDriverFile(const std::string& drivers, const std::string& driver,
                         std::string_view content) {
  ASSIGN_OR_RETURN(const auto installation, DriverInstallation::BeginInstallation(drivers, driver));
  RETURN_IF_ERROR(platform::MakeFolders(installation->staged(), 0755));
  const std::string path = installation->staged() + "/" + driver.substr(driver.find('/') + 1);
  RETURN_IF_ERROR(platform::WriteDurably<"volume.flex_install.executable">(path, content, 0755));
  ASSIGN_OR_RETURN(const DriverFolder staged, installation->ReadStage());
  return installation->PlaceDriver(staged);
}

}  // namespace berth::volume
