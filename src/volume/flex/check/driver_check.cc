#include "volume/flex/check/driver_check.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/ids.h"
#include "volume/flex/check/check_run.h"
#include "volume/flex/check/scratch.h"

namespace berth::volume {
namespace {

using base::Error;
using base::Status;
using base::StatusCode;
using base::StatusOr;

Status CheckExecutable(const std::string& path) {
  std::error_code error;
  if (!std::filesystem::exists(path, error)) {
    return Error(StatusCode::kNotFound, "there is no driver at '{}'", path);
  }
  if (!std::filesystem::is_regular_file(path, error)) {
    return Error(StatusCode::kFailedPrecondition, "'{}' is no file: name the driver's executable",
                 path);
  }
  if (access(path.c_str(), X_OK) != 0) {
    return Error(StatusCode::kFailedPrecondition, "'{}' is not executable: chmod 0755 it", path);
  }
  return base::OkStatus();
}

void ReplaceScratch(std::map<std::string, std::string>& options, const std::string& folder) {
  constexpr std::string_view kPlace = "{scratch}";
  for (auto& [name, value] : options) {
    for (size_t at = 0; (at = value.find(kPlace, at)) != std::string::npos; at += folder.size()) {
      value.replace(at, kPlace.size(), folder);
    }
  }
}

}  // namespace

std::string DriverNameOf(const std::string& executable) {
  const std::filesystem::path path(executable);
  const std::string file = path.filename();
  const std::string folder = path.parent_path().filename();
  const size_t tilde = folder.find('~');
  if (tilde == std::string::npos || folder.substr(tilde + 1) != file) return file;
  return fmt::format("{}/{}", folder.substr(0, tilde), file);
}

StatusOr<DriverCheckReport> CheckDriver(platform::Exec& exec, const DriverCheckOptions& options) {
  DriverCheckOptions full = options;
  std::error_code error;
  full.executable = std::filesystem::absolute(options.executable, error).lexically_normal();
  RETURN_IF_ERROR(CheckExecutable(full.executable));
  if (geteuid() != 0) {
    return Error(StatusCode::kPermissionDenied,
                 "only root can check a driver, because the check mounts volumes");
  }
  if (full.driver.empty()) full.driver = DriverNameOf(full.executable);
  ASSIGN_OR_RETURN(const auto scratch, Scratch::Make(full.scratch));
  const std::string backing = scratch->folder() + "/backing";
  std::filesystem::create_directory(backing, error);
  ReplaceScratch(full.options, backing);
  CheckRun run(exec, full, *scratch);
  return run.Run();
}

}  // namespace berth::volume
