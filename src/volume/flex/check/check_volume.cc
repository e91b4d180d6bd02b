// The steps that the scratch volume goes through: mounted, written, grown, unmounted, mounted
// again.
#include <fcntl.h>
#include <linux/capability.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "base/files/whole_file.h"
#include "base/log.h"
#include "base/unique_fd.h"
#include "platform/file_systems/device_file_system.h"
#include "platform/files/durable_file.h"
#include "platform/processes/capabilities.h"
#include "volume/flex/check/check_run.h"

namespace berth::volume {
namespace {

using base::StatusCode;

constexpr char kFile[] = "/berth-check";
constexpr char kContent[] = "what was written must be read again\n";
constexpr int64_t kOldBytes = 64LL << 20;
constexpr int64_t kNewBytes = 128LL << 20;

// 0, or an errno.
int WriteFile(const std::string& path) {
  const base::UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!fd.valid()) return errno;
  if (const int error = base::WriteAll(fd.get(), kContent); error != 0) return error;
  return fsync(fd.get()) == 0 ? 0 : errno;
}

}  // namespace

std::string CheckRun::PodFolder(std::string_view pod) const {
  return scratch_.paths().PodVolume(api::PodUid(pod), options_.driver, api::VolumeName(volume_));
}

// ---- mount

bool CheckRun::CheckMounted(const std::string& command, const std::string& folder, bool again) {
  const auto mounts = scratch_.FindMounts(folder);
  if (!mounts.ok()) return false;
  if (mounts->size() > 1) {
    findings_.AddFault(
        "mounts-twice", command,
        "called for a folder where the volume is mounted, as after a crash, it mounts "
        "it once more on top: one unmount does not end that");
  }
  if (!mounts->empty() || again) return !mounts->empty();
  if (command == "mountdevice") {
    findings_.AddRemark("mounts-nothing", command, "it says Success and mounts nothing");
  } else {
    findings_.AddFault(
        "mounts-nothing", command,
        "it says Success and mounts nothing: what a pod writes would lie on the node's "
        "own disk");
  }
  return false;
}

bool CheckRun::MountDevicePlainly(Use& use) {
  if (use.device.empty()) return true;
  const auto type = platform::ChooseFileSystemType(use.device, options_.fs_type);
  base::Status done = type.status();
  if (done.ok()) done = platform::PrepareFileSystem(exec_, use.device, *type);
  if (done.ok()) {
    done = scratch_.mounter().Mount({.source = use.device,
                                     .target = use.device_folder,
                                     .fs_type = *type,
                                     .options = {use.read_only ? "ro" : "rw"}});
  }
  if (done.ok()) return true;
  findings_.AddFault(
      "device-not-usable", "waitforattach",
      fmt::format("mountdevice is not supported, and the device cannot be mounted in "
                  "place of it: {}",
                  base::ToString(done)));
  return false;
}

bool CheckRun::MountDevice(Use& use, bool twice) {
  const std::string options = OptionsFor(use.read_only, false).RenderJson();
  use.device = attached_device_;
  DriverReply reply;
  const Outcome waited = MustSucceed("waitforattach", {use.device, options}, "refused",
                                     "the device does not come", &reply);
  if (waited == Outcome::kFailed) return false;
  if (waited == Outcome::kDone && !reply.device.empty()) use.device = reply.device;
  if (!platform::MakeFolders(use.device_folder, 0750).ok()) return false;
  const std::vector<std::string> arguments = {use.device_folder, use.device, options};
  const Outcome mounted = MustSucceed("mountdevice", arguments, "refused", "it is not mounted");
  if (mounted == Outcome::kFailed) return false;
  if (mounted == Outcome::kNotSupported) return MountDevicePlainly(use);
  CheckMounted("mountdevice", use.device_folder, false);
  if (twice) {
    MustSucceed("mountdevice", arguments, "mount-again",
                "a device that is mounted is mounted again after a crash, and that has to succeed");
    CheckMounted("mountdevice", use.device_folder, true);
  }
  return true;
}

bool CheckRun::MountForPod(const Use& use, bool twice) {
  const DriverOptions options = OptionsFor(use.read_only, true);
  if (!platform::MakeFolders(use.pod_folder, 0750).ok()) return false;
  const std::vector<std::string> arguments = {use.pod_folder, options.RenderJson()};
  const Outcome mounted = MustSucceed("mount", arguments, "refused", "the volume is not mounted",
                                      options.secrets, nullptr);
  if (mounted == Outcome::kFailed) return false;
  if (mounted == Outcome::kNotSupported) {
    const auto device = scratch_.FindMounts(use.device_folder);
    if (use.device_folder.empty() || !device.ok() || device->empty()) {
      findings_.AddFault("no-mount", "mount",
                         "it is not supported, and no device is mounted that could be bound to the "
                         "pod in place of it: no pod can use a volume of this driver");
      return false;
    }
    return scratch_.mounter()
        .Mount({.source = use.device_folder,
                .target = use.pod_folder,
                .fs_type = "",
                .options = {"bind"}})
        .ok();
  }
  if (!CheckMounted("mount", use.pod_folder, false)) return false;
  if (twice) {
    MustSucceed("mount", arguments, "mount-again",
                "a volume that is mounted is mounted again after a crash, and that has to succeed",
                options.secrets, nullptr);
    CheckMounted("mount", use.pod_folder, true);
  }
  return true;
}

bool CheckRun::SetUp(Use& use, bool twice) {
  if (capabilities_.attach) {
    use.device_folder =
        scratch_.paths().FlexMount(options_.driver, api::VolumeName(volume_)).text();
    if (!MountDevice(use, twice)) return false;
  }
  return MountForPod(use, twice);
}

// ---- unmount

bool CheckRun::Unmount(const std::string& command, const std::string& folder, bool twice) {
  const auto before = scratch_.FindMounts(folder);
  // Kubernetes, too, asks for a device only if something is mounted.
  if (command == "unmountdevice" && before.ok() && before->empty()) {
    rmdir(folder.c_str());
    return true;
  }
  const Outcome outcome =
      MustSucceed(command, {folder}, "refused", "the volume stays mounted on the node");
  if (outcome == Outcome::kDone) {
    const auto after = scratch_.FindMounts(folder);
    if (after.ok() && !after->empty() && before.ok() && after->size() >= before->size()) {
      findings_.AddFault("still-mounted", command,
                         "it says Success, and the volume is still mounted: it would be attached "
                         "elsewhere while it is written here");
    }
    // The driver may have removed the folder; then Kubernetes considers it done.
    if (twice && command == "unmount" && std::filesystem::exists(folder)) {
      MustSucceed(command, {folder}, "unmount-again",
                  "a volume that is unmounted is unmounted again after a crash, and that has to "
                  "succeed");
    }
  }
  for (auto left = scratch_.FindMounts(folder); left.ok() && !left->empty();
       left = scratch_.FindMounts(folder)) {
    if (!scratch_.mounter().UnmountLazy(folder).ok()) return false;
  }
  if (rmdir(folder.c_str()) != 0 && errno == ENOTEMPTY) {
    findings_.AddFault("leaves-files", command,
                       "files lie in the folder once it is unmounted, on the node's own disk: "
                       "Kubernetes does not remove it then");
  }
  return outcome != Outcome::kFailed;
}

bool CheckRun::TearDown(const Use& use, bool twice) {
  const bool unmounted = Unmount("unmount", use.pod_folder, twice);
  if (use.device_folder.empty()) return unmounted;
  return Unmount("unmountdevice", use.device_folder, twice) && unmounted;
}

// ---- the phases

bool CheckRun::WriteData(const Use& use) {
  const int error = WriteFile(use.pod_folder + kFile);
  if (error == 0) return true;
  findings_.AddFault(
      "not-writable", "mount",
      fmt::format("a volume that was mounted to be written cannot be: {}", std::strerror(error)));
  return false;
}

void CheckRun::CheckData(const Use& use) {
  if (!options_.keeps_data) return;
  const auto content = platform::ReadFile(use.pod_folder + kFile);
  if (content.ok() && *content == kContent) return;
  findings_.AddFault("loses-data", "mount",
                     "written data is gone after the volume was unmounted and mounted again; if a "
                     "volume must be empty each time, use --ephemeral");
}

void CheckRun::CheckExpand(const Use& use) {
  if (!knows_not_supported_) return;
  const std::string options = OptionsFor(use.read_only, false).RenderJson();
  const std::string folder = use.device_folder.empty() ? use.pod_folder : use.device_folder;
  const std::string new_bytes = std::to_string(kNewBytes);
  const std::string old_bytes = std::to_string(kOldBytes);
  MustSucceed("expandvolume", {options, folder, new_bytes, old_bytes}, "refused",
              "the volume does not grow; if none of this driver does, say Not supported");
  if (!capabilities_.requires_fs_resize) return;
  const std::vector<std::string> arguments = {options, use.device, folder, new_bytes, old_bytes};
  if (CanGrowMounted(folder)) {
    MustSucceed("expandfs", arguments, "refused",
                "the file system does not grow; if the driver need not do it, say Not supported");
    return;
  }
  const auto answer = CallDriver("expandfs", arguments);
  if (answer.ok() || answer.status().code() == StatusCode::kUnimplemented ||
      calls_.IsUnusable("expandfs")) {
    return;
  }
  findings_.AddRemark(
      "lacks-capability", "expandfs",
      fmt::format("the check cannot tell whether the file system grows: the kernel grows a mounted "
                  "ext4 only for a process with CAP_SYS_RESOURCE, which this one lacks; run the "
                  "check as root outside of a container, or in a privileged one. The driver said: "
                  "{}",
                  base::Message(answer.status())));
}

// Whether the kernel lets the driver grow the mounted file system. A node agent has the right.
bool CheckRun::CanGrowMounted(const std::string& folder) {
  if (platform::HasCapability(CAP_SYS_RESOURCE)) return true;
  const auto mounts = scratch_.FindMounts(folder);
  return !mounts.ok() || mounts->empty() || mounts->back().fs_type != "ext4";
}

void CheckRun::CheckReadAndWrite() {
  Use first{.pod_folder = PodFolder("pod-1")};
  const bool usable = SetUp(first, true);
  const bool written = usable && WriteData(first);
  if (usable) CheckExpand(first);
  TearDown(first, true);
  if (!written) return;
  Use second{.pod_folder = PodFolder("pod-2")};
  if (SetUp(second, false)) CheckData(second);
  TearDown(second, false);
}

void CheckRun::CheckReadOnly() {
  Use use{.read_only = true, .pod_folder = PodFolder("pod-3")};
  if (SetUp(use, false) && WriteFile(use.pod_folder + "/berth-check-read-only") == 0) {
    findings_.AddFault("ignores-read-only", use.device_folder.empty() ? "mount" : "mountdevice",
                       "kubernetes.io/readwrite is \"ro\", and the volume can be written");
    unlink((use.pod_folder + "/berth-check-read-only").c_str());
  }
  TearDown(use, false);
}

void CheckRun::CheckFailingMount() {
  if (options_.options.empty() || capabilities_.attach) return;
  DriverOptions options = OptionsFor(false, true);
  for (const auto& [name, value] : options_.options) options.values.erase(name);
  const std::string folder = PodFolder("pod-4");
  if (!platform::MakeFolders(folder, 0750).ok()) return;
  const auto reply = CallDriver("mount", {folder, options.RenderJson()}, options.secrets);
  const auto mounts = scratch_.FindMounts(folder);
  if (reply.status().code() == StatusCode::kInternal && mounts.ok() && !mounts->empty()) {
    findings_.AddFault("failure-leaves-mount", "mount",
                       "it says Failure and leaves the folder mounted: the next try, which finds a "
                       "mount, takes that for success");
  }
  if (reply.ok()) {
    Unmount("unmount", folder, false);
    return;
  }
  for (auto left = scratch_.FindMounts(folder); left.ok() && !left->empty();
       left = scratch_.FindMounts(folder)) {
    if (!scratch_.mounter().UnmountLazy(folder).ok()) break;
  }
  rmdir(folder.c_str());
}

void CheckRun::CheckUnmountOfNothing() {
  if (findings_.Has("unmount-again", "unmount")) return;
  const std::string folder = PodFolder("pod-5");
  if (!platform::MakeFolders(folder, 0750).ok()) return;
  MustSucceed("unmount", {folder}, "unmount-not-mounted",
              "a pod's end may come before its mount, and then unmount is called for a folder that "
              "is not mounted: that has to succeed");
  rmdir(folder.c_str());
}

}  // namespace berth::volume
