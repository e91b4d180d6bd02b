#include "crust/volume_mount.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <string>
#include <vector>

#include "base/fault.h"
#include "base/log.h"
#include "crust/share_address.h"
#include "platform/errno.h"
#include "platform/mounts/btrfs_devices.h"
#include "platform/mounts/mounter.h"
#include "platform/processes/child.h"

namespace berth::crust {
namespace {

using base::Error;
using base::Quote;
using base::StatusCode;
using base::StatusOr;

using std::chrono::steady_clock;

constexpr std::chrono::minutes kMountTimeout(2);
// A look-up of a name takes longer if the first name server does not answer.
constexpr std::chrono::seconds kLookUpTimeout(30);
// The mount is tried again, because checks whether a device is in use claim it for a moment; this
// handler's own checks do so, too.
constexpr int kBusyTries = 20;
constexpr timespec kBusyPause = {.tv_sec = 0, .tv_nsec = 10'000'000};

// The stage that a child had reached when it failed.
enum class Stage : int { kStart, kOtherDevice, kMountedOnHost, kConfigure, kMount, kOtherMounted };

// What a child reports besides its descriptor. It is in a shared mapping, because the child may
// still write there after this process has given it up.
struct Report {
  Stage stage;
  bool exclusive;
  platform::OtherDevices other;  // of the btrfs that was mounted
  size_t length;
  std::array<char, 2048> text;  // the kernel's messages
};

class SharedReport {
 public:
  SharedReport()
      : at_(mmap(nullptr, sizeof(Report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
                 0)) {}
  ~SharedReport() {
    if (valid()) munmap(at_, sizeof(Report));
  }
  SharedReport(const SharedReport&) = delete;
  SharedReport& operator=(const SharedReport&) = delete;
  bool valid() const { return at_ != MAP_FAILED; }
  Report& operator*() const { return *static_cast<Report*>(at_); }

 private:
  void* const at_;
};

struct Parameter {
  std::string key;
  std::string value;
  bool flag = false;
};

// All that a child needs. It is prepared before the fork, because the child must not allocate.
struct Job {
  std::string source;
  std::string type;
  std::vector<Parameter> parameters;
  bool read_only = false;
  bool shared = false;      // another sandbox has it mounted for writing
  unsigned attributes = 0;  // MOUNT_ATTR_*
  std::optional<IsDevice> device;
  std::optional<IsNotMountedAt> not_mounted;
};

unsigned ToMountAttributes(unsigned long flags) {
  constexpr std::array kPairs = std::to_array<std::pair<unsigned long, unsigned>>({
      {MS_NOSUID, MOUNT_ATTR_NOSUID},
      {MS_NODEV, MOUNT_ATTR_NODEV},
      {MS_NOEXEC, MOUNT_ATTR_NOEXEC},
      {MS_NODIRATIME, MOUNT_ATTR_NODIRATIME},
      {MS_NOSYMFOLLOW, MOUNT_ATTR_NOSYMFOLLOW},
  });
  unsigned attributes = 0;
  for (const auto& [flag, attribute] : kPairs) {
    if (flags & flag) attributes |= attribute;
  }
  if (flags & MS_NOATIME) return attributes | MOUNT_ATTR_NOATIME;
  if (flags & MS_STRICTATIME) return attributes | MOUNT_ATTR_STRICTATIME;
  return attributes;  // relatime is the kernel's default
}

Job MakeJob(const MountPlan& plan, const MountFileSystem& mount, bool shared) {
  const platform::ParsedOptions parsed = platform::ParseMountOptions(mount.options);
  Job job{.source = plan.device.source,
          .type = mount.type,
          .read_only = (parsed.flags & MS_RDONLY) != 0,
          .shared = shared,
          .attributes = ToMountAttributes(parsed.flags)};
  constexpr std::array kFlags = std::to_array<std::pair<unsigned long, const char*>>({
      {MS_SYNCHRONOUS, "sync"},
      {MS_DIRSYNC, "dirsync"},
      {MS_LAZYTIME, "lazytime"},
  });
  for (const auto& [flag, name] : kFlags) {
    if (parsed.flags & flag) job.parameters.push_back({.key = name, .flag = true});
  }
  for (const std::string& option : mount.options) {
    // Each option is parsed separately, because a value may contain commas.
    if (platform::ParseMountOptions({option}).data.empty()) continue;
    const size_t equals = option.find('=');
    if (equals == std::string::npos) {
      job.parameters.push_back({.key = option, .flag = true});
    } else {
      job.parameters.push_back(
          {.key = option.substr(0, equals), .value = option.substr(equals + 1)});
    }
  }
  if (!mount.selinux_label.empty()) {
    job.parameters.push_back({.key = "context", .value = mount.selinux_label});
  }
  for (const Check& check : plan.checks) {
    if (const auto* device = std::get_if<IsDevice>(&check)) job.device = *device;
    if (const auto* host = std::get_if<IsNotMountedAt>(&check)) job.not_mounted = *host;
  }
  return job;
}

// The functions from here to RunJob run in the child process. They must not allocate. Their results
// are 0 or a negative errno.

int CheckDevice(const Job& job) {
  struct stat st;
  if (stat(job.source.c_str(), &st) != 0) return -errno;
  return S_ISBLK(st.st_mode) && st.st_rdev == job.device->number ? 0 : -ESTALE;
}

// Checks that nothing is mounted at the target path of the host, without a call into a file system
// that is mounted there.
int CheckHost(const std::string& path) {
  struct statx found = {};
  constexpr int kFlags = AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC;
  if (statx(AT_FDCWD, path.c_str(), kFlags, STATX_TYPE, &found) != 0) {
    return errno == ENOENT ? 0 : -errno;
  }
  return (found.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0 ? -EBUSY : 0;
}

// Whether the device is mounted or open exclusively, or cannot be opened.
bool IsInUse(const char* device) {
  const int fd = open(device, O_RDONLY | O_EXCL | O_CLOEXEC | O_NONBLOCK);
  if (fd >= 0) close(fd);
  return fd < 0;
}

// Reads the context's messages. Each begins with its level: "e ext4: Unknown parameter 'x'".
void ReadMessages(int context, Report& report) {
  while (report.length + 2 < report.text.size()) {
    const size_t room = report.text.size() - report.length - 2;
    const ssize_t size = read(context, report.text.data() + report.length, room);
    if (size <= 0) return;
    report.length += static_cast<size_t>(size);
    if (report.text[report.length - 1] == '\n') --report.length;
    report.text[report.length++] = ';';
  }
}

int ConfigureContext(int context, const Job& job, bool read_only) {
  if (fsconfig(context, FSCONFIG_SET_STRING, "source", job.source.c_str(), 0) != 0) return -errno;
  if (read_only && fsconfig(context, FSCONFIG_SET_FLAG, "ro", nullptr, 0) != 0) return -errno;
  for (const Parameter& parameter : job.parameters) {
    const auto command = parameter.flag ? FSCONFIG_SET_FLAG : FSCONFIG_SET_STRING;
    const char* value = parameter.flag ? nullptr : parameter.value.c_str();
    if (fsconfig(context, command, parameter.key.c_str(), value, 0) != 0) return -errno;
  }
  return 0;
}

// Returns a descriptor of the detached mount, or a negative errno.
int MountJob(const Job& job, bool read_only, unsigned attributes, Report& report) {
  report.stage = Stage::kConfigure;
  const int context = fsopen(job.type.c_str(), FSOPEN_CLOEXEC);
  if (context < 0) return -errno;
  int result = ConfigureContext(context, job, read_only);
  if (result == 0) {
    report.stage = Stage::kMount;
    if (fsconfig(context, FSCONFIG_CMD_CREATE, nullptr, nullptr, 0) != 0) result = -errno;
  }
  if (result == 0) {
    result = fsmount(context, FSMOUNT_CLOEXEC, attributes);
    if (result < 0) result = -errno;
  }
  if (result < 0) ReadMessages(context, report);
  close(context);
  return result;
}

// Checks the device again after the mount, because the path may lead to another device by now.
int CheckMounted(int mounted, const Job& job) {
  struct stat st;
  if (fstat(mounted, &st) != 0) return -errno;
  // btrfs has its own numbers, which belong to no device.
  if (major(st.st_dev) == 0) return CheckDevice(job);
  return st.st_dev == job.device->number ? 0 : -ESTALE;
}

// Returns a descriptor of the detached mount, or a negative errno. A device that is in use for a
// moment is tried again.
int MountPatiently(const Job& job, Report& report) {
  int mounted = MountJob(job, job.read_only, job.attributes, report);
  for (int i = 0; mounted == -EBUSY && job.device.has_value() && i < kBusyTries; ++i) {
    clock_nanosleep(CLOCK_MONOTONIC, 0, &kBusyPause, nullptr);
    report.length = 0;
    mounted = MountJob(job, job.read_only, job.attributes, report);
    if (mounted != -EBUSY || !job.read_only || !job.shared) continue;
    // The file system is mounted already for another sandbox, which may write. A file system is
    // read-only for all its mounts or for none, but a single mount of it can be read-only, so such
    // a mount is made. This is done only if the device is shared, because otherwise the mount could
    // write to a device that must only be read.
    report.length = 0;
    mounted = MountJob(job, false, job.attributes | MOUNT_ATTR_RDONLY, report);
  }
  return mounted;
}

// As MountPatiently, for a job with a device: the mount is of that device.
int MountDevice(const Job& job, Report& report) {
  const int mounted = MountPatiently(job, report);
  if (mounted < 0) return mounted;
  report.stage = Stage::kOtherMounted;
  const int error = CheckMounted(mounted, job);
  if (error == 0) return mounted;
  close(mounted);
  return error;
}

// As MountDevice. The btrfs consists of that device alone.
int MountBtrfs(const Job& job, Report& report) {
  int mounted = -1;
  const auto mount_and_open = [&] {
    mounted = MountDevice(job, report);
    if (mounted < 0) return mounted;
    const int root = openat(mounted, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return root < 0 ? -errno : root;
  };
  const int root = platform::MountOwnBtrfs(
      job.source.c_str(), /*alone=*/true, mount_and_open, [&mounted] { close(mounted); },
      report.other);
  if (root < 0) return root;
  close(root);
  return mounted;
}

int RunJob(const Job& job, Report& report) {
  if (job.device.has_value()) {
    report.stage = Stage::kOtherDevice;
    if (const int error = CheckDevice(job); error != 0) return error;
    report.exclusive = !IsInUse(job.source.c_str());
  }
  if (job.not_mounted.has_value()) {
    report.stage = Stage::kMountedOnHost;
    if (const int error = CheckHost(job.not_mounted->path); error != 0) return error;
  }
  if (!job.device.has_value()) return MountPatiently(job, report);
  return job.type == "btrfs" ? MountBtrfs(job, report) : MountDevice(job, report);
}

base::Status ExplainFailure(const MountPlan& plan, int error, const Report& report) {
  const std::string source = Quote(plan.device.source);
  switch (report.stage) {
    case Stage::kOtherDevice:
    case Stage::kOtherMounted:
      if (error == ESTALE) {
        return Error(StatusCode::kFailedPrecondition,
                     "{} leads to another device than before, {}:{}", source,
                     major(plan.device.number), minor(plan.device.number));
      }
      if (error == EXDEV) {
        return Error(StatusCode::kFailedPrecondition, "mount {}: {}", source,
                     platform::DescribeOther(report.other));
      }
      return platform::ErrnoError(error, fmt::format("check device {}", source));
    case Stage::kMountedOnHost:
      if (error == EBUSY) {
        return Error(StatusCode::kFailedPrecondition,
                     "something is mounted on the host where the deferred volume would be");
      }
      return platform::ErrnoError(error, "check the target path");
    default:
      break;
  }
  std::string what =
      fmt::format("{} {} of {}", report.stage == Stage::kMount ? "mount" : "set the options of",
                  plan.fs_type(), source);
  if (report.length > 0) {
    const size_t length = std::min(report.length, report.text.size());
    what += fmt::format(": the kernel says {}",
                        Quote(std::string_view(report.text.data(), length - 1)));
  }
  return platform::ErrnoError(error, what);
}

// Whether the server may still answer at another address.
bool IsUnreachable(int error) {
  return error == ECONNREFUSED || error == EHOSTUNREACH || error == ENETUNREACH ||
         error == ETIMEDOUT || error == EADDRNOTAVAIL || error == EAFNOSUPPORT;
}

struct Attempt {
  std::optional<VolumeMount> mount;
  int error = 0;         // an errno, if there is no mount
  base::Status failure;  // the same in words
};

// Mounts once. An error is one of the call itself, and its outcome is unknown.
StatusOr<Attempt> TryMount(const MountPlan& plan, const Job& job,
                           std::chrono::milliseconds timeout) {
  const auto report = std::make_shared<SharedReport>();
  if (!report->valid()) return platform::ErrnoError(errno, "mmap");
  ASSIGN_OR_RETURN(platform::OpenedInChild opened,
                   platform::OpenInChild(fmt::format("mount {} of {}", job.type, Quote(job.source)),
                                         timeout, [job, report] { return RunJob(job, **report); }));
  if (opened.fd.valid()) {
    return Attempt{
        .mount = VolumeMount{.root = std::move(opened.fd), .exclusive = (**report).exclusive}};
  }
  return Attempt{.error = opened.error, .failure = ExplainFailure(plan, opened.error, **report)};
}

// Mounts a share by the first of its server's addresses at which the server can be reached.
StatusOr<Attempt> TryAddresses(const MountPlan& plan, const Job& job,
                               const std::vector<std::string>& addresses) {
  const auto deadline = steady_clock::now() + kMountTimeout;
  Attempt attempt;
  for (size_t i = 0; i < addresses.size(); ++i) {
    Job with_address = job;
    with_address.parameters.push_back({.key = "addr", .value = addresses[i]});
    const auto share =
        (deadline - steady_clock::now()) / static_cast<int64_t>(addresses.size() - i);
    ASSIGN_OR_RETURN(
        attempt, TryMount(plan, with_address, std::chrono::ceil<std::chrono::milliseconds>(share)));
    if (attempt.mount.has_value()) return attempt;
    attempt.failure =
        base::Annotate(attempt.failure, fmt::format("server address {}", addresses[i]));
    if (!IsUnreachable(attempt.error)) return attempt;
  }
  return attempt;
}

}  // namespace

StatusOr<VolumeMount> MountVolume(const MountPlan& plan, bool shared) {
  const auto* mount = plan.Find<MountFileSystem>();
  if (mount == nullptr) return Error(StatusCode::kInternal, "the plan mounts nothing");
  const Job job = MakeJob(plan, *mount, shared);
  ASSIGN_OR_RETURN(
      const std::vector<std::string> addresses,
      FindShareAddresses(plan.device.source, *mount, steady_clock::now() + kLookUpTimeout));
  RETURN_IF_ERROR(base::FaultPoint<"crust.mount.before">());
  ASSIGN_OR_RETURN(Attempt attempt, addresses.empty() ? TryMount(plan, job, kMountTimeout)
                                                      : TryAddresses(plan, job, addresses));
  if (!attempt.mount.has_value()) return attempt.failure;
  RETURN_IF_ERROR(base::FaultPoint<"crust.mount.after">());
  return *std::move(attempt.mount);
}

}  // namespace berth::crust
