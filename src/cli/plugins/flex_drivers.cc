#include "cli/plugins/flex_drivers.h"

#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <set>

#include "base/json.h"
#include "base/log.h"
#include "base/text.h"
#include "base/unique_fd.h"
#include "cli/table.h"
#include "platform/errno.h"
#include "platform/files/durable_file.h"
#include "volume/flex/check/driver_check.h"
#include "volume/flex/driver_folder.h"
#include "volume/flex/driver_install.h"
#include "volume/flex/kubelet_process.h"

namespace berth::cli {
namespace {

namespace fs = std::filesystem;
using base::Error;
using base::Quote;
using base::Status;
using base::StatusCode;
using base::StatusOr;
using platform::ErrnoError;
using volume::DriverFile;
using volume::DriverFolder;

Status ToStatus(const std::error_code& error, std::string_view context) {
  if (!error) return base::OkStatus();
  return ErrnoError(error.value(), context);
}

std::string WithoutSlash(const std::string& path) {
  std::error_code error;
  return std::string(base::TrimSlashes(fs::absolute(path, error).lexically_normal().native()));
}

// One installation, from the source to the driver folder.
class Installation {
 public:
  explicit Installation(const FlexInstallOptions& options)
      : options_(options),
        drivers_(WithoutSlash(options.drivers)),
        source_(WithoutSlash(options.source)) {}

  StatusOr<std::string> Run(const CheckFlexDriver& check) {
    RETURN_IF_ERROR(FindDriverName());
    ASSIGN_OR_RETURN(const bool update,
                     volume::HasDriverFolder(drivers_ + "/" + volume::FolderOfDriver(driver_)));
    ASSIGN_OR_RETURN(stage_, volume::DriverInstallation::BeginInstallation(drivers_, driver_));
    RETURN_IF_ERROR(StageFiles());
    const StatusOr<DriverFolder> driver = stage_->ReadStage();
    RETURN_IF_ERROR_WITH(driver, fmt::format("{} is no driver", Quote(source_)));
    RETURN_IF_ERROR_WITH(check(stage_->staged() + "/" + driver->executable().path, driver_),
                         "nothing was installed");
    // Places the files that were read before the check. The check ran the driver, and files that
    // the driver wrote beside itself do not belong to it.
    RETURN_IF_ERROR(stage_->PlaceDriver(*driver));
    return fmt::format("{} {} as {}\n", update ? "updated" : "installed", driver_,
                       stage_->target() + "/" + driver->executable().path);
  }

 private:
  Status FindDriverName() {
    std::error_code error;
    source_is_folder_ = fs::is_directory(source_, error);
    const std::string source_name = fs::path(source_).filename();
    if (source_is_folder_) {
      ASSIGN_OR_RETURN(driver_, volume::DriverOfFolder(source_name));
      if (!options_.files.empty() || (!options_.driver.empty() && options_.driver != driver_)) {
        return Error(StatusCode::kInvalidArgument,
                     "{} is a folder with the whole driver '{}': it is given without files and "
                     "without another name",
                     Quote(source_), driver_);
      }
    } else {
      driver_ = options_.driver.empty() ? volume::DriverNameOf(source_) : options_.driver;
    }
    return volume::DriverOfFolder(volume::FolderOfDriver(driver_)).status();
  }

  Status StageFiles() {
    const std::string staged = stage_->staged();
    if (source_is_folder_) return CopyTree(source_, staged);
    RETURN_IF_ERROR(platform::MakeFolders(staged, 0755));
    std::error_code error;
    // If the source is a link to the executable, the executable itself is copied.
    const std::string source = fs::canonical(source_, error);
    RETURN_IF_ERROR(ToStatus(error, fmt::format("look at {}", Quote(source_))));
    RETURN_IF_ERROR(CopyTree(source, staged + "/" + driver_.substr(driver_.find('/') + 1)));
    for (const std::string& file : options_.files) {
      const std::string full = WithoutSlash(file);
      const std::string name = fs::path(full).filename();
      const std::string to = staged + "/" + name;
      if (name.starts_with('.') || fs::exists(fs::symlink_status(to, error))) {
        return Error(StatusCode::kInvalidArgument, "{} cannot be put beside the executable: {}",
                     Quote(full),
                     name.starts_with('.') ? "names that begin with a dot are ignored there"
                                           : "something of that name is there");
      }
      RETURN_IF_ERROR(CopyTree(full, to));
    }
    return base::OkStatus();
  }

  static Status CopyTree(const std::string& from, const std::string& to) {
    std::error_code error;
    fs::copy(from, to, fs::copy_options::recursive | fs::copy_options::copy_symlinks, error);
    return ToStatus(error, fmt::format("copy {}", Quote(from)));
  }

  const FlexInstallOptions& options_;
  const std::string drivers_, source_;
  bool source_is_folder_ = false;
  std::string driver_;
  std::unique_ptr<volume::DriverInstallation> stage_;
};

std::string FormatSize(const DriverFolder& driver) {
  uint64_t bytes = 0;
  for (const DriverFile& file : driver.files) bytes += file.identity.size;
  return fmt::format("{} KiB", (bytes + 1023) / 1024);
}

size_t CountFiles(const DriverFolder& driver) {
  return static_cast<size_t>(std::ranges::count_if(
      driver.files, [](const DriverFile& file) { return file.kind != DriverFile::Kind::kFolder; }));
}

// The kubelet's folders for the volumes of a driver:
//   .../pods/UID/volumes/VENDOR~DRIVER/NAME
//   .../plugins/kubernetes.io/flexvolume/VENDOR/DRIVER/mounts/NAME
Status CheckUnmounted(const FlexRemoveOptions& options, const std::string& folder) {
  const std::string of_pods = "/volumes/" + folder + "/";
  const std::string of_devices =
      fmt::format("/plugins/kubernetes.io/flexvolume/{}/mounts/", options.driver);
  const std::string of_berth = options.berth_kubelet + "/";
  ASSIGN_OR_RETURN(const auto of_kubelet, volume::ReadKubeletMounts(options.root));
  std::set<std::string> mount_points;
  for (const auto* mounts : {&options.mounts, &of_kubelet}) {
    for (const platform::MountEntry& mount : *mounts) mount_points.insert(mount.mount_point);
  }
  std::string mounted;
  for (const std::string& at : mount_points) {
    const bool is_of_driver = at.find(of_pods) != at.npos || at.find(of_devices) != at.npos;
    if (!is_of_driver || (!options.berth_kubelet.empty() && at.starts_with(of_berth))) continue;
    mounted += (mounted.empty() ? "" : ", ") + Quote(at);
  }
  if (mounted.empty()) return base::OkStatus();
  return Error(
      StatusCode::kFailedPrecondition,
      "volumes of driver '{}' are mounted, and the kubelet cannot unmount them without it: "
      "{}; stop the pods that use them, or use --now",
      options.driver, mounted);
}

}  // namespace

StatusOr<std::string> InstallFlexDriver(const FlexInstallOptions& options,
                                        const CheckFlexDriver& check) {
  return Installation(options).Run(check);
}

StatusOr<std::string> ListFlexDrivers(const std::string& drivers) {
  const auto fd = volume::OpenDrivers(drivers);
  if (fd.status().code() == StatusCode::kNotFound) {
    return fmt::format("there is no driver folder {}\n", Quote(drivers));
  }
  RETURN_IF_ERROR(fd);
  ASSIGN_OR_RETURN(const volume::DriverScan scan, volume::ScanDrivers(fd->get()));
  base::Json table = {{"columnDefinitions", base::Json::array()}, {"rows", base::Json::array()}};
  for (const char* name : {"Name", "Files", "Size", "Problem"}) {
    table["columnDefinitions"].push_back({{"name", name}});
  }
  const auto add_row = [&table](base::Json cells) {
    table["rows"].push_back({{"cells", std::move(cells)}});
  };
  for (const DriverFolder& driver : scan.drivers) {
    add_row({driver.driver, std::to_string(CountFiles(driver)), FormatSize(driver), ""});
  }
  for (const auto& [folder, why] : scan.left_out) {
    const auto name = volume::DriverOfFolder(folder);
    add_row({name.value_or(folder), "-", "-", base::Message(why)});
  }
  if (table["rows"].empty()) return fmt::format("there are no drivers in {}\n", Quote(drivers));
  return TablePrinter(false, false, "").RenderTable(table);
}

StatusOr<std::string> RemoveFlexDriver(const FlexRemoveOptions& options) {
  const std::string& driver = options.driver;
  const std::string drivers = WithoutSlash(options.drivers);
  const std::string folder = volume::FolderOfDriver(driver);
  RETURN_IF_ERROR(volume::DriverOfFolder(folder));
  const std::string path = drivers + "/" + folder;
  ASSIGN_OR_RETURN(const bool exists, volume::HasDriverFolder(path));
  if (!exists) {
    return Error(StatusCode::kNotFound, "there is no driver '{}': {} does not exist", driver,
                 Quote(path));
  }
  if (!options.now) RETURN_IF_ERROR(CheckUnmounted(options, folder));
  const std::string executable = path + "/" + folder.substr(folder.find('~') + 1);
  // If a folder is in the executable's place (EISDIR), it is removed with the rest.
  if (unlink(executable.c_str()) != 0 && errno != ENOENT && errno != EISDIR) {
    return ErrnoError(errno, fmt::format("remove {}", Quote(executable)));
  }
  RETURN_IF_ERROR(volume::SyncPath(path));
  RETURN_IF_ERROR(platform::RemoveTree(path));
  RETURN_IF_ERROR(volume::SyncPath(drivers));
  return fmt::format("removed {} from {}\n", driver, path);
}

}  // namespace berth::cli
