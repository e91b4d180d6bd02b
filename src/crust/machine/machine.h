// The virtual machine of one sandbox: a process of QEMU (machine "microvm") with Debian's kernel
// and berth-guest, which outlives this process and is found again by a later one.
//
//   [absent] ──▶ Start ──▶ [running] ──▶ the guest panics, or a process dies ──▶ [ended]
//      ▲                       │                                                   │
//      └────────────────────── End ◀───────────────────────────────────────────────┘
//
// A sandbox whose containers run in the guest has a second process: virtiofsd, which shares their
// files with it (file_sharing.h). Without it the guest is of no use.
//
// Disks are plugged in and out over QMP, QEMU's own protocol. QEMU itself is the record of what is
// plugged in: each step looks first at what an earlier process did, so that it can be repeated
// after a kill at any point. A machine whose guest has ended stays until End, so that its console
// tells why. Not thread-safe. UNAVAILABLE: the machine has ended, and the message says why.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/ipc/message.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "crust/machine/file_sharing.h"
#include "crust/machine/guest_client.h"
#include "crust/machine/machine_record.h"
#include "platform/processes/qmp_client.h"

namespace berth::crust {

struct MachineSettings {
  std::string qemu = "qemu-system-x86_64";  // as DaemonOptions::program
  std::string virtiofsd = "/usr/lib/qemu/virtiofsd";
  std::string kernel;  // the guest's: a bzImage or an ELF file
  std::string image;   // the initramfs (guest_image.h)
  int64_t memory_mib = 256;
  int cpus = 1;
  std::string accelerator = "tcg";  // or "kvm" (accelerator.h)
  // The frequency of the processor's time stamp counter, by which the guest measures time under
  // "tcg", because this machine has no other clock to compare it with; 0: not known.
  int64_t tsc_khz = 0;
  std::chrono::milliseconds boot_within{60'000};
  // How long QEMU, and the guest's first program, which never blocks, may take to answer.
  std::chrono::milliseconds answer_within{20'000};
};

// These belong to the machine of one sandbox, while many sandboxes have MachineSettings in common.
struct MachineNeeds {
  int64_t memory_mib = 0;  // 0: as in MachineSettings
  int cpus = 0;            // 0: as in MachineSettings
  std::optional<MachineShare> share;
  // The path of the sandbox's network namespace (`linux.namespaces` of its config.json); "": the
  // guest gets no network card. Nor does it get one if the namespace has no interface
  // (sandbox_network.h).
  std::string network;
};

// The tag by which the guest mounts the folder that is shared with it (`guest.begin`).
inline constexpr std::string_view kShareTag = "berth";

// Paths of one machine, in a folder on a tmpfs.
struct MachinePaths {
  explicit MachinePaths(std::string folder) : folder(std::move(folder)) {}
  std::string folder;
  std::string Qmp() const { return folder + "/qmp"; }
  std::string Control() const { return folder + "/control"; }
  std::string Log() const { return folder + "/log"; }             // what QEMU itself says
  std::string Share() const { return folder + "/share"; }         // virtiofsd's socket
  std::string ShareLog() const { return folder + "/share-log"; }  // what virtiofsd says
  std::string Port(std::string_view name) const { return folder + "/port-" + std::string(name); }
  std::string Files() const { return folder + "/files"; }  // crust/containers/shared_folder.h
};

// QEMU's arguments. `mac` is the address of the network card, whose tap QEMU has as descriptor
// platform::kHeldFd; "": there is none. Pure.
std::vector<std::string> MachineArguments(const MachineSettings& settings,
                                          const MachinePaths& paths, const MachineNeeds& needs = {},
                                          const std::string& mac = "");

enum class MachineState { kAbsent, kRunning, kEnded };

// A port of virtio-serial, and the connection to its socket on the host.
struct MachinePort {
  size_t number = 0;
  std::string name;  // in the guest
  base::UniqueFd socket;
};

class Machine {
 public:
  using Deadline = std::chrono::steady_clock::time_point;
  // How long the guest may take until it sees a disk that was plugged in.
  static constexpr std::chrono::milliseconds kPlugTime{30'000};

  // `settings` and `records` are borrowed and must outlive this.
  Machine(const MachineSettings& settings, const MachineRecords& records, std::string sandbox_id,
          MachinePaths paths);

  // Finds out what an earlier process left. A machine that was being started is ended, so that it
  // is absent. Error: it is not known.
  base::StatusOr<MachineState> FindState();

  // Starts the machine and waits until the guest answers. OK if it runs already. UNAVAILABLE also:
  // an earlier machine of the sandbox has ended, and is not replaced, because what it held is gone.
  // A machine that runs already has what it was started with, and `needs` changes nothing. The
  // caller calls guest.begin and guest.network, which can be repeated. UNIMPLEMENTED: a guest
  // cannot have such a network.
  base::Status Start(const MachineNeeds& needs = {});

  // Kills the machine and removes its files and its record. OK if it is absent. What the guest had
  // not written to its disks is lost. DEADLINE_EXCEEDED: the process waits in the kernel.
  base::Status End();

  // Kills the processes alone, so that they have no device open, and keeps the record: the machine
  // has ended, and is not started again. OK if it is absent.
  base::Status KillProcess();

  // Calls the guest, which runs. `cancelled` may be empty; CANCELLED if it becomes true.
  base::StatusOr<base::ipc::Message> CallGuest(base::ipc::Message request, Deadline deadline,
                                               const std::function<bool()>& cancelled = nullptr);
  // DEADLINE_EXCEEDED: the guest's first program does not answer, so the guest hangs.
  base::Status Ping();

  // Adds a virtio-serial port of that name, and returns the path of its socket on the host, to
  // which one process at a time can connect. OK if there is one already.
  base::StatusOr<std::string> AddPort(const std::string& name);
  // Connects to the first port from number `from` on to which nobody is connected, and adds one if
  // all are in use. A port is used again, because a machine can have only kMostPorts.
  // RESOURCE_EXHAUSTED: there are no more.
  base::StatusOr<MachinePort> TakePort(size_t from = 0);
  static constexpr size_t kMostPorts = 62;

  // A pidfd of QEMU. UNAVAILABLE: it has ended.
  base::StatusOr<base::UniqueFd> OpenProcess();

  // Plugs in the block device that `device` is a descriptor of, and returns the serial number by
  // which the guest finds the disk. QEMU keeps a copy of the descriptor, with its exclusive claim,
  // until the disk is unplugged. If a disk of that name is plugged in already, nothing changes.
  base::StatusOr<std::string> PlugDisk(const std::string& name, int device, bool read_only);
  // Returns the serial number of a disk that is plugged in; nullopt: none of that name is.
  base::StatusOr<std::optional<std::string>> FindDisk(const std::string& name);
  // OK if no disk of that name is plugged in. Afterwards the machine does not have the device open.
  base::Status UnplugDisk(const std::string& name);
  // Tells the guest that the device has grown to `bytes`.
  base::Status ResizeDisk(const std::string& name, int64_t bytes);

 private:
  // As QmpClient::Call. Connects if there is no connection.
  base::StatusOr<base::Json> CallQmp(std::string_view command, base::Json arguments,
                                     int descriptor = -1);
  // Starts the processes of the machine, and writes them into the record.
  base::Status StartProcesses(const MachineNeeds& needs);
  base::Status AwaitBoot();
  // The error of a call that failed because the machine has ended, with the reason if it is known.
  base::Status DescribeEnd();
  // Whether the process runs, as far as anybody can tell.
  bool MayRun() const;
  // UNAVAILABLE if the guest has ended and QEMU waits, or the process that shares files has ended.
  base::Status CheckRunning();
  base::Status CheckSharing() const;
  base::Status KillProcesses();
  base::Status RemoveFdSets(const std::string& name);
  // Runs `command` until QEMU does not refuse it any more, because it ends what it did before on
  // its own time.
  base::Status CallUntilDone(std::string_view command, const base::Json& arguments);

  const MachineSettings& settings_;
  const MachineRecords& records_;
  const std::string sandbox_id_;
  const MachinePaths paths_;
  std::optional<MachineRecord> record_;
  std::optional<platform::QmpClient> qmp_;
  GuestClient guest_;
  std::string reason_;  // the last words of a guest that has ended
};

}  // namespace berth::crust
