#include "crust/machine/vm_sandbox.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <thread>
#include <utility>
#include <vector>

#include "base/fault.h"
#include "base/ipc/guest_call.h"
#include "base/log.h"
#include "base/sha256.h"
#include "crust/device.h"
#include "crust/machine/guest_device.h"
#include "crust/machine/vm_containers.h"
#include "crust/mount_namespace.h"
#include "platform/errno.h"
#include "platform/files/durable_file.h"
#include "platform/files/private_folder.h"
#include "platform/mounts/mounter.h"
#include "platform/processes/child.h"

namespace berth::crust {

using base::Error;
using base::Quote;
using base::Status;
using base::StatusCode;
using base::StatusOr;
using base::ipc::Message;
using std::chrono::steady_clock;
namespace calls = base::ipc::guest;

namespace {

constexpr std::chrono::seconds kOpenTime(10);
constexpr std::chrono::milliseconds kBusyPoll(20);  // while an earlier call of the guest ends
// The walk over files has no limit, but no call waits for ever.
constexpr std::chrono::hours kWalkTime(24);

// Runs in a child process. 0 or an errno.
int CheckNothingMounted(const std::string& path) {
  struct statx found = {};
  constexpr int kFlags = AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC;
  if (statx(AT_FDCWD, path.c_str(), kFlags, STATX_TYPE, &found) != 0) {
    return errno == ENOENT ? 0 : errno;
  }
  return (found.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0 ? EBUSY : 0;
}

Message MakeRequest(std::string_view method, const MountPlan& plan) {
  return Message()
      .Set(base::ipc::kMethod, std::string(method))
      .Set(calls::kName, std::string(plan.name()))
      .Set(calls::kType, std::string(plan.fs_type()));
}

int64_t NumberOf(const Message& reply, std::string_view field) {
  return std::max<int64_t>(reply.FindNumber(field).value_or(0), 0);
}

class VmSandbox final : public Sandbox {
 public:
  VmSandbox(const VmLimits& limits, Machine machine, platform::Mounter& mounter,
            const VmContainers::Paths& paths)
      : limits_(limits), machine_(std::move(machine)), containers_(machine_, mounter, paths) {}

  Status PublishVolume(const MountPlan& plan, const PublishContext& context) override {
    ASSIGN_OR_RETURN(const Message mount, MountRequest(plan));
    RETURN_IF_ERROR(CheckPlan(plan));
    RETURN_IF_ERROR(machine_.Start());
    const std::string name(plan.name());
    ASSIGN_OR_RETURN(std::optional<std::string> serial, machine_.FindDisk(name));
    if (!serial.has_value()) {
      // A handler that was killed may have passed the device on already.
      RETURN_IF_ERROR(machine_.UnplugDisk(name));
      ASSIGN_OR_RETURN(const base::UniqueFd device,
                       OpenForGuest(plan.device, plan.read_only(), Claim::kExclusive));
      ASSIGN_OR_RETURN(serial, machine_.PlugDisk(name, device.get(), plan.read_only()));
    }
    RETURN_IF_ERROR(base::FaultPoint<"crust.mount.before">());
    const Status mounted = CallMount(Message(mount).Set(calls::kSerial, *serial), plan, context);
    if (mounted.ok()) return base::FaultPoint<"crust.mount.after">();
    // A final failure leaves nothing plugged in.
    if (mounted.code() != StatusCode::kDeadlineExceeded &&
        mounted.code() != StatusCode::kUnavailable && mounted.code() != StatusCode::kInternal) {
      if (const Status undone = UnpublishVolume(plan); !undone.ok()) {
        return Error(StatusCode::kInternal, "{}; and then: {}", base::Message(mounted),
                     base::Message(undone));
      }
    }
    return mounted;
  }

  Status UnpublishVolume(const MountPlan& plan) override {
    ASSIGN_OR_RETURN(const MachineState state, machine_.FindState());
    if (state == MachineState::kAbsent) return base::OkStatus();
    // Nothing can be unmounted in a guest that has ended, and its process may still hold the disks.
    // It has no use any more.
    if (state == MachineState::kEnded) return machine_.KillProcess();
    const std::string name(plan.name());
    ASSIGN_OR_RETURN(const std::optional<std::string> plugged, machine_.FindDisk(name));
    if (plugged.has_value()) {
      RETURN_IF_ERROR(CallUnmount(plan));
      RETURN_IF_ERROR(base::FaultPoint<"crust.machine.unmounted">());
    }
    return machine_.UnplugDisk(name);
  }

  StatusOr<VolumeStats> ReadStats(const MountPlan& plan) override {
    RETURN_IF_ERROR(CheckExists());
    const StatusOr<Message> reply =
        machine_.CallGuest(MakeRequest(calls::kStats, plan), steady_clock::now() + limits_.stats);
    if (!reply.ok()) {
      if (reply.status().code() == StatusCode::kNotFound) return reply.status();
      return VolumeStats{.abnormal = true,
                         .condition = fmt::format("the sandbox's guest cannot read the volume: {}",
                                                  base::Message(reply.status()))};
    }
    VolumeStats stats{.usage =
                          platform::FileSystemUsage{
                              .total_bytes = NumberOf(*reply, calls::kTotalBytes),
                              .used_bytes = NumberOf(*reply, calls::kUsedBytes),
                              .available_bytes = NumberOf(*reply, calls::kAvailableBytes),
                              .total_inodes = NumberOf(*reply, calls::kTotalInodes),
                              .used_inodes = NumberOf(*reply, calls::kUsedInodes),
                              .available_inodes = NumberOf(*reply, calls::kAvailableInodes)},
                      .condition = "the file system answers in the guest"};
    const std::string* failure = reply->FindText(calls::kFailure);
    const bool became_read_only = NumberOf(*reply, calls::kReadOnly) != 0 && !plan.read_only();
    const bool failed = failure != nullptr && !failure->empty();
    if (!became_read_only && !failed) return stats;
    stats.abnormal = true;
    stats.condition =
        became_read_only ? "the file system has become read-only in the guest, as it does after an "
                           "error"
                         : "the file system has failed in the guest";
    if (failed) stats.condition += ": " + Quote(failure->substr(0, 1024));
    return stats;
  }

  StatusOr<int64_t> ExpandVolume(const MountPlan& plan) override {
    RETURN_IF_ERROR(CheckExists());
    ASSIGN_OR_RETURN(const int64_t bytes, ReadDeviceSize(plan.device));
    RETURN_IF_ERROR(base::FaultPoint<"crust.grow.before">());
    RETURN_IF_ERROR(machine_.ResizeDisk(std::string(plan.name()), bytes));
    ASSIGN_OR_RETURN(const Message reply,
                     machine_.CallGuest(MakeRequest(calls::kExpand, plan).Set(calls::kBytes, bytes),
                                        steady_clock::now() + limits_.grow));
    RETURN_IF_ERROR(base::FaultPoint<"crust.grow.after">());
    return NumberOf(reply, calls::kTotalBytes);
  }

  StatusOr<Graft> MakeGraft(const MountPlan& plan, const std::string&) override {
    return Error(StatusCode::kInternal,
                 "volume {} is mounted in the guest of a virtual machine, and has no mount on the "
                 "host",
                 Quote(plan.device.source));
  }

  GuestContainers* containers() override { return &containers_; }

  Status ForceEnd() override { return machine_.KillProcess(); }

  Status RemoveSandbox() override {
    RETURN_IF_ERROR(machine_.End());
    return containers_.Remove();
  }

 private:
  // What a guest can carry out of the plan, as its request. FAILED_PRECONDITION: it needs more.
  static StatusOr<Message> MountRequest(const MountPlan& plan) {
    const auto* mount = plan.Find<MountFileSystem>();
    if (mount == nullptr) return Error(StatusCode::kInternal, "the plan mounts nothing");
    if (!plan.device.block || !mount->utility.empty()) {
      return Error(StatusCode::kFailedPrecondition,
                   "a sandbox that is a virtual machine has no network to reach the share {}",
                   Quote(plan.device.source));
    }
    if (!mount->selinux_label.empty()) {
      return Error(StatusCode::kFailedPrecondition,
                   "a sandbox that is a virtual machine has no SELinux, which the label {} needs",
                   Quote(mount->selinux_label));
    }
    for (const Step& step : plan.steps) {
      if (!std::holds_alternative<MountFileSystem>(step) &&
          !std::holds_alternative<ApplyGroup>(step) &&
          !std::holds_alternative<PlaceInSandbox>(step)) {
        return Error(
            StatusCode::kFailedPrecondition,
            "a sandbox that is a virtual machine cannot carry out a step of the mount plan");
      }
    }
    const platform::ParsedOptions parsed = platform::ParseMountOptions(mount->options);
    Message request = MakeRequest(calls::kMount, plan);
    request.Set(calls::kFlags, static_cast<int64_t>(parsed.flags))
        .Set(calls::kData, parsed.data)
        .Set(calls::kMilliseconds, Machine::kPlugTime.count());
    const auto* group = plan.Find<ApplyGroup>();
    if (group != nullptr && !plan.read_only()) {
      request.Set(calls::kGroup, static_cast<int64_t>(group->group))
          .Set(calls::kOnlyRoot, group->only_on_root_mismatch ? int64_t{1} : int64_t{0});
    }
    return request;
  }

  static Status CheckPlan(const MountPlan& plan) {
    for (const Check& check : plan.checks) {
      const auto* host = std::get_if<IsNotMountedAt>(&check);
      if (host == nullptr) continue;
      ASSIGN_OR_RETURN(const int error, platform::AskChild<int>("check the target path", kOpenTime,
                                                                [path = host->path](int& error) {
                                                                  error = CheckNothingMounted(path);
                                                                  return 0;
                                                                }));
      if (error == EBUSY) {
        return Error(StatusCode::kFailedPrecondition,
                     "something is mounted on the host where the deferred volume would be");
      }
      if (error != 0) return platform::ErrnoError(error, "check the target path");
    }
    return base::OkStatus();
  }

  Status CheckExists() {
    ASSIGN_OR_RETURN(const MachineState state, machine_.FindState());
    if (state == MachineState::kRunning) return base::OkStatus();
    if (state == MachineState::kEnded) return machine_.Start();  // tells why it has ended
    return Error(StatusCode::kNotFound, "the sandbox has no virtual machine");
  }

  // A walk over many files goes on until it is done or cancelled, as long as the guest answers.
  Status CallMount(const Message& request, const MountPlan& plan, const PublishContext& context) {
    const bool walks = request.FindNumber(calls::kGroup).has_value();
    const auto limit = walks ? std::chrono::milliseconds(kWalkTime) : limits_.mount;
    return machine_.CallGuest(request, steady_clock::now() + limit, context.cancelled).status();
  }

  // The guest ends a mount that still runs, and refuses the unmount meanwhile.
  Status CallUnmount(const MountPlan& plan) {
    const auto deadline = steady_clock::now() + limits_.unmount;
    RETURN_IF_ERROR(machine_.Ping());
    while (true) {
      const Status done = machine_.CallGuest(MakeRequest(calls::kUnmount, plan), deadline).status();
      if (done.code() != StatusCode::kUnavailable || steady_clock::now() >= deadline) return done;
      ASSIGN_OR_RETURN(const MachineState state, machine_.FindState());
      if (state != MachineState::kRunning) return done;
      std::this_thread::sleep_for(kBusyPoll);
    }
  }

  const VmLimits limits_;
  Machine machine_;
  VmContainers containers_;  // uses machine_
};

class VmSandboxes final : public SandboxKind {
 public:
  VmSandboxes(const MachineSettings& settings, const VmLimits& limits, MachineRecords records,
              const VmFolders& folders, platform::Mounter& mounter)
      : settings_(settings),
        limits_(limits),
        records_(std::move(records)),
        folders_(folders),
        mounter_(mounter) {}

  StatusOr<std::unique_ptr<Sandbox>> OpenSandbox(const std::string& id) override {
    // A socket's path has at most 107 bytes, and an id may have 128.
    constexpr size_t kFolderName = 16;
    base::Sha256 hash;
    hash.Add(id);
    const std::string folder = hash.FinishHex().substr(0, kFolderName);
    const MachinePaths paths(folders_.machines + "/" + folder);
    Machine machine(settings_, records_, id, paths);
    RETURN_IF_ERROR(machine.FindState());
    return std::make_unique<VmSandbox>(
        limits_, std::move(machine), mounter_,
        VmContainers::Paths{.pin = folders_.pins + "/" + id, .files = paths.Files()});
  }

  // Removes the records of machines that ended with an earlier boot.
  Status RemoveOldRecords() const {
    ASSIGN_OR_RETURN(const std::vector<std::string> ids, records_.ListSandboxes());
    for (const std::string& id : ids) {
      const auto record = records_.ReadRecord(id);
      if (!record.ok()) {
        LOG_WARNING("the record of the virtual machine of sandbox {}: {}", Quote(id),
                    base::ToString(record.status()));
        continue;
      }
      if (!records_.IsOfThisBoot(*record)) RETURN_IF_ERROR(records_.RemoveRecord(id));
    }
    return base::OkStatus();
  }

 private:
  const MachineSettings& settings_;
  const VmLimits limits_;
  const MachineRecords records_;
  const VmFolders folders_;
  platform::Mounter& mounter_;
};

}  // namespace

StatusOr<std::unique_ptr<SandboxKind>> NewVmSandboxes(const MachineSettings& settings,
                                                      platform::Mounter& mounter,
                                                      const VmFolders& folders,
                                                      const VmLimits& limits) {
  ASSIGN_OR_RETURN(MachineRecords records, MachineRecords::Open(folders.records));
  RETURN_IF_ERROR(platform::MakePrivateFolder(folders.machines));
  RETURN_IF_ERROR(platform::MakePrivateFolder(folders.pins));
  RETURN_IF_ERROR(PreparePins(mounter, folders.pins));
  RETURN_IF_ERROR(RemoveEmptyPins(folders.pins));
  auto kind = std::make_unique<VmSandboxes>(settings, limits, std::move(records), folders, mounter);
  RETURN_IF_ERROR(kind->RemoveOldRecords());
  return kind;
}

}  // namespace berth::crust
