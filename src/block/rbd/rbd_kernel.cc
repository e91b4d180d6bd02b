#include "block/rbd/rbd_kernel.h"

#include <fcntl.h>
#include <linux/keyctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>

#include "base/base64.h"
#include "base/log.h"
#include "platform/errno.h"
#include "platform/files/durable_file.h"
#include "platform/processes/child.h"

namespace berth::block {

using base::Error;
using base::Quote;
using base::Status;
using base::StatusCode;

namespace {

constexpr char kBus[] = "/sys/bus/rbd";
constexpr char kAddDevice[] = "/sys/bus/rbd/add_single_major";
constexpr char kRemoveDevice[] = "/sys/bus/rbd/remove_single_major";
constexpr char kDevices[] = "/sys/bus/rbd/devices";
// The attributes of a device are short; config_info repeats what was written to add it.
constexpr size_t kLongestAttribute = 4096;
// How long the kernel tries to reach a monitor, in seconds.
constexpr int kMonitorSeconds = 10;
constexpr uint64_t kSector = 512;

std::string ReadAttribute(const std::string& device, const std::string& name) {
  auto read =
      platform::ReadFile(fmt::format("{}/{}/{}", kDevices, device, name), kLongestAttribute);
  if (!read.ok()) return "";
  while (!read->empty() && read->back() == '\n') read->pop_back();
  return *std::move(read);
}

template <typename Number>
Number ToNumber(std::string_view text) {
  Number number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

// Writes `text` to a file of sysfs, in a child, because the kernel works within the write. `secret`
// is put into the child's own keyring under `key_name` before; empty: there is none.
Status WriteToBus(const std::string& context, const char* path, const std::string& text,
                  const std::string& key_name, const std::string& secret,
                  std::chrono::milliseconds timeout) {
  return platform::RunInChild(context, timeout, [path = std::string(path), text, key_name, secret] {
    if (!secret.empty() && syscall(SYS_add_key, "ceph", key_name.c_str(), secret.data(),
                                   secret.size(), KEY_SPEC_PROCESS_KEYRING) < 0) {
      return errno;
    }
    const int fd = open(path.c_str(), O_WRONLY | O_CLOEXEC);
    if (fd < 0) return errno;
    const ssize_t written = write(fd, text.data(), text.size());
    const int error = written < 0 ? errno : 0;
    close(fd);
    return error;
  });
}

}  // namespace

bool HasKernelRbd() { return access(kAddDevice, W_OK) == 0; }

Status MapRbdDevice(const RbdSettings& settings, const RbdMapRequest& request,
                    std::chrono::milliseconds timeout) {
  if (!HasKernelRbd()) {
    return Error(StatusCode::kFailedPrecondition,
                 "this kernel has no RBD client in {}: load its module (modprobe rbd), or use "
                 "access Proxy",
                 kBus);
  }
  const auto secret = base::DecodeBase64(request.key);
  if (!secret.has_value()) return Error(StatusCode::kInternal, "the key is not base64");
  const std::string key_name = "berth." + request.mark;
  // libceph takes the key from the keyring by its name, so that sysfs never shows the key.
  std::string options = fmt::format("name={},key={},noshare,mount_timeout={},{}", settings.user,
                                    key_name, kMonitorSeconds, request.read_only ? "ro" : "rw");
  if (!request.read_only && !request.shared_writers) options += ",exclusive";
  if (!settings.ns.empty()) options += ",_pool_ns=" + settings.ns;
  const std::string text = fmt::format("{} {} {} {} -", fmt::join(settings.monitors, ","), options,
                                       settings.pool, request.image);
  const std::string context = fmt::format("map image {} by the kernel", Quote(request.image));
  const Status added = WriteToBus(context, kAddDevice, text, key_name, *secret, timeout);
  if (added.ok()) return added;
  // The kernel gives EROFS for a lock that another client has: without `exclusive` it would map the
  // image for reading.
  const auto is = [&](int error) { return added == platform::ErrnoError(error, context); };
  if (is(EROFS) || is(EBUSY)) {
    return Error(StatusCode::kFailedPrecondition, "{}: another client has its lock", context);
  }
  if (is(EACCES) || is(EPERM) || is(ENOKEY)) {
    return Error(StatusCode::kPermissionDenied, "{}: Ceph refuses the key of user {}", context,
                 Quote(settings.user));
  }
  if (is(ETIMEDOUT) || is(EIO)) {
    return Error(StatusCode::kDeadlineExceeded, "{}: no monitor answers at {}", context,
                 fmt::join(settings.monitors, ","));
  }
  return added;
}

Status RefreshRbdDevice(uint32_t id, std::chrono::milliseconds timeout) {
  const std::string path = fmt::format("{}/{}/refresh", kDevices, id);
  return WriteToBus(fmt::format("refresh /dev/rbd{}", id), path.c_str(), "1", "", "", timeout);
}

Status UnmapRbdDevice(uint32_t id, bool force, std::chrono::milliseconds timeout) {
  const std::string context = fmt::format("unmap /dev/rbd{}", id);
  const Status removed = WriteToBus(
      context, kRemoveDevice, fmt::format("{}{}", id, force ? " force" : ""), "", "", timeout);
  if (removed == platform::ErrnoError(ENOENT, context)) return base::OkStatus();
  if (removed == platform::ErrnoError(EBUSY, context)) {
    return Error(StatusCode::kFailedPrecondition, "{}: something has it open", context);
  }
  return removed;
}

base::StatusOr<std::vector<RbdDevice>> ListRbdDevices(const std::string& mark) {
  std::vector<RbdDevice> devices;
  if (access(kDevices, F_OK) != 0) return devices;
  ASSIGN_OR_RETURN(const std::vector<std::string> names, platform::ListFolder(kDevices));
  const std::string wanted = fmt::format("key=berth.{},", mark);
  for (const std::string& name : names) {
    if (ReadAttribute(name, "config_info").find(wanted) == std::string::npos) continue;
    const unsigned major = ToNumber<unsigned>(ReadAttribute(name, "major"));
    const unsigned minor = ToNumber<unsigned>(ReadAttribute(name, "minor"));
    RbdDevice device{.id = ToNumber<uint32_t>(name),
                     .path = "/dev/rbd" + name,
                     .device_number = makedev(major, minor),
                     .image = ReadAttribute(name, "name"),
                     .client = ReadAttribute(name, "client_addr"),
                     .size_bytes = ToNumber<uint64_t>(ReadAttribute(name, "size"))};
    const auto read_only = platform::ReadFile(fmt::format("/sys/block/rbd{}/ro", name), kSector);
    device.read_only = read_only.ok() && read_only->starts_with('1');
    // Where /dev is not a devtmpfs, as in a container, the device may have no device node yet.
    if (access(device.path.c_str(), F_OK) != 0) {
      mknod(device.path.c_str(), S_IFBLK | 0600, device.device_number);
    }
    devices.push_back(std::move(device));
  }
  return devices;
}

}  // namespace berth::block
