#include "crust/kata/direct_volume.h"

#include <unistd.h>

#include <cerrno>

#include "base/base64.h"
#include "base/ipc/crust_call.h"
#include "base/log.h"
#include "platform/errno.h"
#include "platform/files/durable_file.h"

namespace berth::crust::kata {
namespace {

using base::Json;
using base::Status;
using base::StatusCode;
using base::StatusOr;

constexpr std::string_view kMountInfo = "mountInfo.json";
// Both of Kata's runtimes know this type; the older one takes any.
constexpr std::string_view kVolumeType = "directvol";
constexpr size_t kMaxMountInfo = 1024 * 1024;

}  // namespace

Json MakeMountInfo(const MountPlan& plan) {
  Json info = {
      {"volume-type", kVolumeType}, {"device", plan.device.source}, {"fstype", plan.fs_type()}};
  const bool read_only = plan.read_only();
  Json options = Json::array();
  if (const auto* mount = plan.Find<MountFileSystem>()) {
    for (const std::string& option : mount->options) {
      if (option != "ro" && option != "rw") options.push_back(option);
    }
  }
  if (read_only) options.push_back("ro");
  if (!options.empty()) info["options"] = std::move(options);
  if (const auto* group = plan.Find<ApplyGroup>(); group != nullptr && !read_only) {
    info["metadata"] = {
        {"fsGroup", std::to_string(group->group)},
        {"fsGroupChangePolicy", group->only_on_root_mismatch ? "OnRootMismatch" : "Always"}};
  }
  return info;
}

std::string DirectVolumes::Folder(const platform::TargetPath& target) const {
  std::string name = base::EncodeBase64Url(target.text());
  while (name.size() % 4 != 0) name += '=';
  return folder_ + "/" + name;
}

Status DirectVolumes::WriteVolume(const platform::TargetPath& target, const Json& info) const {
  const std::string folder = Folder(target);
  const std::string path = fmt::format("{}/{}", folder, kMountInfo);
  RETURN_IF_ERROR(platform::MakeFolders(folder, 0700));
  // Kata takes the name of any other file for a sandbox's id.
  RETURN_IF_ERROR(platform::RemoveTornWrites(folder));
  const std::string text = base::json::Dump(info);
  if (const auto now = platform::ReadFile(path, kMaxMountInfo); now.ok() && *now == text) {
    return base::OkStatus();
  }
  return base::Annotate(platform::WriteDurably<"crust.kata_mount_info">(path, text),
                        "write the file that tells Kata of the volume");
}

StatusOr<bool> DirectVolumes::HasVolume(const platform::TargetPath& target) const {
  const std::string path = fmt::format("{}/{}", Folder(target), kMountInfo);
  if (access(path.c_str(), F_OK) == 0) return true;
  if (errno == ENOENT || errno == ENOTDIR || errno == ENAMETOOLONG) return false;
  return platform::ErrnoError(errno, fmt::format("look for {}", base::Quote(path)));
}

Status DirectVolumes::RemoveVolume(const platform::TargetPath& target) const {
  const std::string folder = Folder(target);
  const Status removed = [&]() -> Status {
    if (access(folder.c_str(), F_OK) != 0 && errno == ENOENT) return base::OkStatus();
    RETURN_IF_ERROR(
        platform::RemoveDurably<"crust.kata_mount_info">(fmt::format("{}/{}", folder, kMountInfo)));
    return platform::RemoveTree(folder);
  }();
  return base::Annotate(removed, "remove the file that tells Kata of the volume");
}

StatusOr<std::vector<rpc::SandboxId>> DirectVolumes::ListSandboxes(
    const platform::TargetPath& target) const {
  const auto names = platform::ListFolder(Folder(target));
  std::vector<rpc::SandboxId> sandboxes;
  if (names.status().code() == StatusCode::kNotFound) return sandboxes;
  RETURN_IF_ERROR(names);
  for (const std::string& name : *names) {
    if (name != kMountInfo && base::ipc::crust::IsId(name)) sandboxes.emplace_back(name);
  }
  return sandboxes;
}

StatusOr<std::vector<platform::TargetPath>> DirectVolumes::ListTargets() const {
  const auto names = platform::ListFolder(folder_);
  std::vector<platform::TargetPath> targets;
  if (names.status().code() == StatusCode::kNotFound) return targets;
  RETURN_IF_ERROR(names);
  for (std::string name : *names) {
    while (name.ends_with('=')) name.pop_back();
    if (const auto path = base::DecodeBase64Url(name)) targets.emplace_back(*path);
  }
  return targets;
}

}  // namespace berth::crust::kata
