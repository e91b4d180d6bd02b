#include "cli/flex_drivers.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "base/json.h"
#include "base/log.h"
#include "base/unique_fd.h"
#include "cli/table.h"
#include "platform/durable_file.h"
#include "platform/errno.h"
#include "volume/flex/check/driver_check.h"
#include "volume/flex/driver_folder.h"

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

Status Sync(const std::string& path) {
  const base::UniqueFd fd(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd.valid() || fsync(fd.get()) != 0) {
    return ErrnoError(errno, fmt::format("write {} to disk", Quote(path)));
  }
  return base::OkStatus();
}

Status Rename(const std::string& from, const std::string& to) {
  if (rename(from.c_str(), to.c_str()) == 0) return base::OkStatus();
  return ErrnoError(errno, fmt::format("put {} in place", Quote(to)));
}

// Whether a driver's own folder is there. FAILED_PRECONDITION: something else is.
StatusOr<bool> HasFolder(const std::string& path) {
  struct stat st;
  if (lstat(path.c_str(), &st) != 0) {
    if (errno == ENOENT) return false;
    return ErrnoError(errno, fmt::format("look at {}", Quote(path)));
  }
  if (S_ISDIR(st.st_mode)) return true;
  return Error(StatusCode::kFailedPrecondition, "{} is {}, and not a driver's folder", Quote(path),
               S_ISLNK(st.st_mode) ? "a symbolic link" : "a file");
}

std::string WithoutSlash(const std::string& path) {
  std::error_code error;
  std::string full = fs::absolute(path, error).lexically_normal();
  while (full.size() > 1 && full.ends_with('/')) full.pop_back();
  return full;
}

// An installation on its way from the source to the driver folder.
class Installation {
 public:
  explicit Installation(const FlexInstallOptions& options)
      : options_(options),
        drivers_(WithoutSlash(options.drivers)),
        source_(WithoutSlash(options.source)),
        stage_(drivers_ + "/.berth-install") {}
  ~Installation() {
    // What is left of it the next installation clears away.
    if (lock_.valid()) static_cast<void>(platform::RemoveTree(stage_));
  }
  Installation(const Installation&) = delete;
  Installation& operator=(const Installation&) = delete;

  StatusOr<std::string> Run(const CheckFlexDriver& check) {
    RETURN_IF_ERROR(Name());
    ASSIGN_OR_RETURN(const bool update, HasFolder(target()));
    RETURN_IF_ERROR(platform::MakeFolders(drivers_, 0755));
    auto lock = platform::LockFile(drivers_ + "/.berth-install.lock");
    RETURN_IF_ERROR_WITH(lock, "another installation runs");
    lock_ = *std::move(lock);
    RETURN_IF_ERROR(Stage());
    ASSIGN_OR_RETURN(const DriverFolder driver, ReadStage());
    RETURN_IF_ERROR_WITH(check(staged() + "/" + driver.executable().path, driver_),
                         "nothing was installed");
    // The check ran it: what it wrote beside itself is no part of it.
    for (const DriverFile& file : driver.files) RETURN_IF_ERROR(MakeDurable(file));
    RETURN_IF_ERROR(Place(driver));
    return fmt::format("{} {} as {}\n", update ? "updated" : "installed", driver_,
                       target() + "/" + driver.executable().path);
  }

 private:
  std::string target() const { return drivers_ + "/" + folder_; }
  std::string staged() const { return stage_ + "/" + folder_; }

  Status Name() {
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
    folder_ = volume::FolderOfDriver(driver_);
    return volume::DriverOfFolder(folder_).status();
  }

  Status Stage() {
    RETURN_IF_ERROR(platform::RemoveTree(stage_));
    RETURN_IF_ERROR(platform::MakeFolders(stage_, 0700));
    if (source_is_folder_) return Copy(source_, staged());
    RETURN_IF_ERROR(platform::MakeFolders(staged(), 0755));
    std::error_code error;
    // A link to the executable stands for it.
    const std::string source = fs::canonical(source_, error);
    RETURN_IF_ERROR(ToStatus(error, fmt::format("look at {}", Quote(source_))));
    RETURN_IF_ERROR(Copy(source, staged() + "/" + driver_.substr(driver_.find('/') + 1)));
    for (const std::string& file : options_.files) {
      const std::string full = WithoutSlash(file);
      const std::string name = fs::path(full).filename();
      const std::string to = staged() + "/" + name;
      if (name.starts_with('.') || fs::exists(fs::symlink_status(to, error))) {
        return Error(StatusCode::kInvalidArgument, "{} cannot be put beside the executable: {}",
                     Quote(full),
                     name.starts_with('.') ? "names that begin with a dot are ignored there"
                                           : "something of that name is there");
      }
      RETURN_IF_ERROR(Copy(full, to));
    }
    return base::OkStatus();
  }

  static Status Copy(const std::string& from, const std::string& to) {
    std::error_code error;
    fs::copy(from, to, fs::copy_options::recursive | fs::copy_options::copy_symlinks, error);
    return ToStatus(error, fmt::format("copy {}", Quote(from)));
  }

  // What is staged, by the rules that hold for drivers in place.
  StatusOr<DriverFolder> ReadStage() const {
    ASSIGN_OR_RETURN(const base::UniqueFd fd, volume::OpenDrivers(stage_));
    auto driver = volume::ReadDriver(fd.get(), folder_);
    RETURN_IF_ERROR_WITH(driver, fmt::format("{} is no driver", Quote(source_)));
    return driver;
  }

  Status MakeDurable(const DriverFile& file) const {
    const std::string path = staged() + "/" + file.path;
    if (file.kind == DriverFile::Kind::kLink) return base::OkStatus();
    // A driver is run by root: nobody else writes it.
    const mode_t mode = file.kind == DriverFile::Kind::kFolder ? 0755 : file.mode & 0755;
    if (chmod(path.c_str(), mode) != 0) {
      return ErrnoError(errno, fmt::format("chmod {}", Quote(path)));
    }
    return Sync(path);
  }

  Status Place(const DriverFolder& driver) const {
    RETURN_IF_ERROR(platform::MakeFolders(target(), 0755));
    const std::string& executable = driver.executable().path;
    for (const DriverFile& file : driver.files) {
      if (file.path == executable) continue;
      const std::string path = target() + "/" + file.path;
      if (file.kind != DriverFile::Kind::kFolder) {
        RETURN_IF_ERROR(Rename(staged() + "/" + file.path, path));
        continue;
      }
      ASSIGN_OR_RETURN(const bool there, HasFolder(path));
      if (!there) RETURN_IF_ERROR(platform::MakeFolders(path, 0755));
    }
    for (const DriverFile& file : driver.files) {
      if (file.kind == DriverFile::Kind::kFolder) {
        RETURN_IF_ERROR(Sync(target() + "/" + file.path));
      }
    }
    RETURN_IF_ERROR(Sync(target()));
    RETURN_IF_ERROR(Rename(staged() + "/" + executable, target() + "/" + executable));
    RETURN_IF_ERROR(Sync(target()));
    return Sync(drivers_);
  }

  const FlexInstallOptions& options_;
  const std::string drivers_, source_, stage_;
  bool source_is_folder_ = false;
  std::string driver_, folder_;
  base::UniqueFd lock_;
};

std::string SizeOf(const DriverFolder& driver) {
  uint64_t bytes = 0;
  for (const DriverFile& file : driver.files) bytes += file.identity.size;
  return fmt::format("{} KiB", (bytes + 1023) / 1024);
}

size_t FilesOf(const DriverFolder& driver) {
  return static_cast<size_t>(std::ranges::count_if(
      driver.files, [](const DriverFile& file) { return file.kind != DriverFile::Kind::kFolder; }));
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
    add_row({driver.driver, std::to_string(FilesOf(driver)), SizeOf(driver), ""});
  }
  for (const auto& [folder, why] : scan.left_out) {
    const auto name = volume::DriverOfFolder(folder);
    add_row({name.value_or(folder), "-", "-", base::Message(why)});
  }
  if (table["rows"].empty()) return fmt::format("there are no drivers in {}\n", Quote(drivers));
  return TablePrinter(false, false, "").Render(table);
}

StatusOr<std::string> RemoveFlexDriver(const std::string& drivers, const std::string& driver) {
  const std::string folder = volume::FolderOfDriver(driver);
  RETURN_IF_ERROR(volume::DriverOfFolder(folder));
  const std::string path = WithoutSlash(drivers) + "/" + folder;
  ASSIGN_OR_RETURN(const bool there, HasFolder(path));
  if (!there) {
    return Error(StatusCode::kNotFound, "there is no driver '{}': {} does not exist", driver,
                 Quote(path));
  }
  const std::string executable = path + "/" + folder.substr(folder.find('~') + 1);
  // One that is a folder goes with the rest.
  if (unlink(executable.c_str()) != 0 && errno != ENOENT && errno != EISDIR) {
    return ErrnoError(errno, fmt::format("remove {}", Quote(executable)));
  }
  RETURN_IF_ERROR(Sync(path));
  RETURN_IF_ERROR(platform::RemoveTree(path));
  RETURN_IF_ERROR(Sync(WithoutSlash(drivers)));
  return fmt::format("removed {} from {}\n", driver, path);
}

}  // namespace berth::cli
