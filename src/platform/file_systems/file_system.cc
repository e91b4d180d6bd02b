#include "platform/file_systems/file_system.h"

#include <blkid/blkid.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <span>

#include "base/fault.h"
#include "base/log.h"
#include "base/unique_fd.h"
#include "platform/devices/device_file.h"
#include "platform/file_systems/file_systems.h"
#include "platform/files/durable_file.h"
#include "platform/processes/child.h"
#include "platform/processes/forked_workers.h"

namespace berth::platform {
namespace {

using base::Quote;
using base::StatusCode;

constexpr uint64_t kMiB = 1 << 20;
constexpr std::chrono::seconds kReadTimeout(30);

struct FreeProbe {
  void operator()(blkid_probe probe) const { blkid_free_probe(probe); }
};
using Probe = std::unique_ptr<std::remove_pointer_t<blkid_probe>, FreeProbe>;

std::string_view GetProbeValue(blkid_probe probe, const char* name) {
  const char* value = nullptr;
  if (blkid_probe_lookup_value(probe, name, &value, nullptr) != 0 || value == nullptr) return "";
  return value;
}

enum class ProbeOutcome { kNothing, kFound, kContradiction, kReadError };

using ProbeText = std::array<char, 256>;  // ends in '\0'; libblkid's values are shorter

struct ProbeAnswer {
  ProbeOutcome outcome = ProbeOutcome::kReadError;
  ProbeText type = {};
  ProbeText uuid = {};
  ProbeText usage = {};
  SuperblockBytes superblock = {};
};

void CopyText(std::string_view from, ProbeText& to) { from.copy(to.data(), to.size() - 1); }

// The size of a block device or of an image file; 0 or an errno. Async-signal-safe.
int ReadDeviceSize(int fd, uint64_t& size) {
  struct stat st;
  if (fstat(fd, &st) != 0) return errno;
  size = static_cast<uint64_t>(st.st_size);
  return S_ISREG(st.st_mode) ? 0 : ReadBlockDeviceSize(fd, size);
}

// 0 or an errno. Async-signal-safe.
int ReadIsZero(int fd, uint64_t from, uint64_t bytes, bool& zero) {
  std::array<char, 65536> buffer;
  zero = true;
  for (uint64_t at = from; zero && at < from + bytes;) {
    const size_t want = std::min<uint64_t>(buffer.size(), from + bytes - at);
    const ssize_t n = pread(fd, buffer.data(), want, static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return n < 0 ? errno : EIO;
    zero = std::all_of(buffer.begin(), buffer.begin() + n, [](char c) { return c == 0; });
    at += static_cast<uint64_t>(n);
  }
  return 0;
}

struct Ends {
  uint64_t size;
  bool first_is_zero, last_is_zero;  // each of a MiB, or of the whole device if it is smaller
};

// 0 or an errno. Async-signal-safe.
int ReadEnds(const char* device, Ends& ends) {
  const int fd = open(device, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return errno;
  if (const int error = ReadDeviceSize(fd, ends.size); error != 0) return error;
  const uint64_t bytes = std::min(ends.size, kMiB);
  if (const int error = ReadIsZero(fd, 0, bytes, ends.first_is_zero); error != 0) return error;
  return ReadIsZero(fd, ends.size - bytes, bytes, ends.last_is_zero);
}

// A device on which libblkid finds nothing is not necessarily empty: raw data has no signature.
base::Status CheckZeroEnds(const std::string& device, uint64_t min_bytes) {
  ASSIGN_OR_RETURN(const Ends ends,
                   AskChild<Ends>(fmt::format("read the ends of {}", Quote(device)), kReadTimeout,
                                  [device](Ends& ends) { return ReadEnds(device.c_str(), ends); }));
  if (ends.size < min_bytes) {
    return base::Error(StatusCode::kInvalidArgument,
                       "device {} has {} bytes, fewer than the {} that the file system needs",
                       Quote(device), ends.size, min_bytes);
  }
  if (ends.first_is_zero && ends.last_is_zero) return base::OkStatus();
  return base::Error(
      StatusCode::kFailedPrecondition,
      "device {} has no signature but is not blank: its {} MiB holds data; wipe it if "
      "the data may go",
      Quote(device), ends.first_is_zero ? "last" : "first");
}

// libblkid reads a few bytes at each of some eighty places near both ends, one after the other.
// This makes the kernel fetch them in one go.
void ReadEndsAhead(int fd, uint64_t size) {
  constexpr uint64_t kHead = 320 * 1024;
  constexpr uint64_t kTail = 512 * 1024;
  const uint64_t tail = std::min(size, kTail);
  posix_fadvise(fd, 0, kHead, POSIX_FADV_WILLNEED);
  posix_fadvise(fd, static_cast<off_t>(size - tail), static_cast<off_t>(tail), POSIX_FADV_WILLNEED);
}

// Probes the device; 0 or an errno. Runs in a forked worker.
int ProbeDevice(const char* device, ProbeAnswer& answer) {
  const base::UniqueFd fd(open(device, O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) return errno;
  uint64_t size = 0;
  if (const int error = ReadDeviceSize(fd.get(), size); error != 0) return error;
  ReadEndsAhead(fd.get(), size);
  const Probe probe(blkid_new_probe());
  if (probe == nullptr) return ENOMEM;
  if (blkid_probe_set_device(probe.get(), fd.get(), 0, 0) != 0) return 0;
  // A damaged superblock counts, too, because its file system may be repaired.
  blkid_probe_enable_superblocks(probe.get(), 1);
  blkid_probe_set_superblocks_flags(probe.get(), BLKID_SUBLKS_TYPE | BLKID_SUBLKS_UUID |
                                                     BLKID_SUBLKS_USAGE | BLKID_SUBLKS_BADCSUM);
  blkid_probe_enable_partitions(probe.get(), 1);
  blkid_probe_enable_topology(probe.get(), 0);
  const int result = blkid_do_safeprobe(probe.get());
  answer.outcome = result == -2  ? ProbeOutcome::kContradiction
                   : result < 0  ? ProbeOutcome::kReadError
                   : result == 0 ? ProbeOutcome::kFound
                                 : ProbeOutcome::kNothing;
  if (answer.outcome != ProbeOutcome::kFound) return 0;
  std::string_view type = GetProbeValue(probe.get(), "TYPE");
  if (!type.empty()) {
    CopyText(GetProbeValue(probe.get(), "UUID"), answer.uuid);
    CopyText(GetProbeValue(probe.get(), "USAGE"), answer.usage);
  } else if (type = GetProbeValue(probe.get(), "PTTYPE"); !type.empty()) {
    CopyText(GetProbeValue(probe.get(), "PTUUID"), answer.uuid);
    CopyText("partition table", answer.usage);
  } else {
    type = "unknown";
    CopyText("partition table", answer.usage);
  }
  CopyText(type, answer.type);
  const FileSystem* fs = FindFileSystem(type);
  if (fs == nullptr) return 0;
  return pread(fd.get(), answer.superblock.data(), answer.superblock.size(),
               fs->superblock_offset()) >= 0
             ? 0
             : errno;
}

int AnswerProbe(const char* device, std::span<std::byte> reply) {
  ProbeAnswer answer;
  const int error = ProbeDevice(device, answer);
  memcpy(reply.data(), &answer, sizeof(answer));
  return error;
}

// libblkid allocates memory, and the device may stop answering at any of its reads.
ForkedWorkers& GetProbeWorkers() {
  static ForkedWorkers& workers = *new ForkedWorkers(AnswerProbe);  // threads may outlive main
  return workers;
}

}  // namespace

void PrepareProbes() { GetProbeWorkers().Prepare(); }

base::StatusOr<std::optional<Signature>> ProbeSignature(const std::string& device) {
  const std::string context = fmt::format("probe {}", Quote(device));
  ASSIGN_OR_RETURN(const ProbeAnswer answer,
                   GetProbeWorkers().SendRequest<ProbeAnswer>(context, kReadTimeout, device));
  switch (answer.outcome) {
    case ProbeOutcome::kNothing:
      return std::optional<Signature>();
    case ProbeOutcome::kContradiction:
      return base::Error(StatusCode::kFailedPrecondition,
                         "{}: several signatures contradict each other; wipe the stale one",
                         context);
    case ProbeOutcome::kReadError:
      return base::Error(StatusCode::kInternal, "{}: read error", context);
    case ProbeOutcome::kFound:
      break;
  }
  return std::optional(Signature{.type = answer.type.data(),
                                 .uuid = answer.uuid.data(),
                                 .usage = answer.usage.data(),
                                 .superblock = answer.superblock});
}

base::Status FileSystem::IsSupported(Exec& exec) const {
  ASSIGN_OR_RETURN(const std::string known, ReadFile("/proc/filesystems"));
  if (known.find(fmt::format("\t{}\n", type())) == std::string::npos) {
    // It may be a module that the first mount loads.
    base::StatusOr<CommandResult> module =
        exec.Run({.argv = {"modprobe", "-n", "-q", fmt::format("fs-{}", type())}});
    if (!module.ok() || module->exit_code != 0) {
      return base::Error(StatusCode::kFailedPrecondition, "this kernel has no {}", type());
    }
  }
  const base::StatusOr<CommandResult> version =
      exec.Run({.argv = {std::string(mkfs()), "-V"}, .timeout = std::chrono::seconds(10)});
  if (version.status().code() == StatusCode::kNotFound) {
    return base::Error(StatusCode::kFailedPrecondition, "{} is not installed", mkfs());
  }
  return version.status();
}

base::Status RunChecker(Exec& exec, std::vector<std::string> checker, std::string_view type,
                        const std::string& device) {
  const std::string name = fmt::format("{}", fmt::join(checker, " "));
  checker.push_back(device);
  ASSIGN_OR_RETURN(const CommandResult result,
                   exec.Run({.argv = std::move(checker), .timeout = std::chrono::minutes(30)}));
  if (result.exit_code == 0) return base::OkStatus();
  const std::string text = result.err + result.out;
  return base::Error(result.exit_code < 128 ? StatusCode::kDataLoss : StatusCode::kInternal,
                     "check {} on {}: {} exited with {}: {}", type, Quote(device), name,
                     result.exit_code, text.substr(0, 1024));
}

const FileSystem* FindFileSystem(std::string_view type) {
  for (const FileSystem* fs : {&Ext4(), &Xfs(), &Btrfs()}) {
    if (fs->type() == type) return fs;
  }
  return nullptr;
}

base::Status FormatIfBlank(Exec& exec, const std::string& device, std::string_view type,
                           const FormatOptions& options) {
  const FileSystem* fs = FindFileSystem(type);
  if (fs == nullptr) {
    return base::Error(StatusCode::kInvalidArgument,
                       "file system type {} is not one of ext4, xfs, btrfs", Quote(type));
  }
  ASSIGN_OR_RETURN(const std::optional<Signature> found, ProbeSignature(device));
  if (found && found->type == type) return base::OkStatus();
  if (found) {
    return base::Error(StatusCode::kFailedPrecondition,
                       "device {} holds {} ({}), not {}; it is not formatted, as it may hold data",
                       Quote(device), found->type, found->usage.empty() ? "other" : found->usage,
                       type);
  }
  RETURN_IF_ERROR(CheckZeroEnds(device, fs->min_bytes()));
  RETURN_IF_ERROR(base::FaultPoint<"platform.format.before">());
  RETURN_IF_ERROR_WITH(fs->Format(exec, device, options),
                       fmt::format("format {} as {}", Quote(device), type));
  return base::FaultPoint<"platform.format.after">();
}

}  // namespace berth::platform
