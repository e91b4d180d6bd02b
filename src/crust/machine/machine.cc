#include "crust/machine/machine.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <set>
#include <thread>
#include <utility>

#include "base/fault.h"
#include "base/ids.h"
#include "base/log.h"
#include "crust/machine/sandbox_network.h"
#include "platform/files/durable_file.h"
#include "platform/processes/marked_processes.h"
#include "rpc/unix_socket.h"

namespace berth::crust {

using base::Error;
using base::Json;
using base::Quote;
using base::Status;
using base::StatusCode;
using base::StatusOr;
using base::ipc::Message;
using std::chrono::steady_clock;
namespace calls = base::ipc::guest;

namespace {

constexpr std::chrono::seconds kKillTime(10);
// QEMU has no event for these: the socket listens, a disk is gone.
constexpr std::chrono::milliseconds kQemuPoll(5);
constexpr size_t kLargestConsole = 64 * 1024;
constexpr size_t kLongestSerial = 20;

// A comma ends a value of QEMU's options, and two stand for one.
std::string Escape(std::string_view value) {
  std::string escaped;
  for (const char c : value) {
    escaped += c;
    if (c == ',') escaped += ',';
  }
  return escaped;
}

std::string MarkOf(const MachineRecord& record) {
  return fmt::format("{}={}", kMachineMark, record.mark);
}

// What a person needs of the console's text: why the kernel or the first program ended, else the
// last line.
std::string FindReason(std::string_view console) {
  constexpr std::array<std::string_view, 3> kReasons = {"Kernel panic", "berth-guest:", "BUG:"};
  for (const std::string_view reason : kReasons) {
    const size_t begin = console.rfind(reason);
    if (begin == std::string_view::npos) continue;
    const std::string_view rest = console.substr(begin);
    return std::string(rest.substr(0, std::min(rest.find_first_of("\r\n"), size_t{256})));
  }
  while (!console.empty() && std::isspace(static_cast<unsigned char>(console.back())) != 0) {
    console.remove_suffix(1);
  }
  const size_t begin = console.find_last_of("\r\n");
  return std::string(begin == std::string_view::npos ? console : console.substr(begin + 1))
      .substr(0, 256);
}

// ": 'TEXT'" for the last words in a log; "": there are none.
std::string ReadLastWords(const std::string& log) {
  const auto text = platform::ReadFile(log, kLargestConsole);
  return text.ok() && !text->empty() ? ": " + Quote(FindReason(*text)) : std::string();
}

std::string DevicePath(const std::string& name) { return "/machine/peripheral/" + name; }

std::string PortId(const std::string& name) { return "port-" + name; }

}  // namespace

std::vector<std::string> MachineArguments(const MachineSettings& settings,
                                          const MachinePaths& paths, const MachineNeeds& needs,
                                          const std::string& mac) {
  const int64_t memory_mib = needs.memory_mib > 0 ? needs.memory_mib : settings.memory_mib;
  const int cpus = needs.cpus > 0 ? needs.cpus : settings.cpus;
  // panic=-1 and reboot=t: a guest that panics resets at once, and QEMU then stops it for good.
  // oops=panic: a kernel whose code failed is not trusted with data.
  std::string command_line = "console=ttyS0 quiet loglevel=4 panic=-1 reboot=t oops=panic edd=off";
  if (settings.accelerator == "tcg" && settings.tsc_khz > 0) {
    command_line += fmt::format(" tsc=reliable tsc_early_khz={}", settings.tsc_khz);
  }
  std::vector<std::string> arguments = {
      "-M", needs.share.has_value() ? "microvm,memory-backend=memory" : "microvm", "-accel",
      settings.accelerator, "-cpu", settings.accelerator == "kvm" ? "host" : "max", "-smp",
      std::to_string(cpus), "-m", fmt::format("{}M", memory_mib), "-nodefaults", "-no-user-config",
      "-display", "none", "-sandbox",
      "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny", "-action",
      "reboot=shutdown,shutdown=pause,panic=pause", "-kernel", settings.kernel, "-initrd",
      settings.image, "-append", command_line,
      // The console is in memory and has a bound, because the guest can write as much as it
      // likes.
      "-chardev", fmt::format("ringbuf,id=console,size={}", kLargestConsole), "-serial",
      "chardev:console", "-chardev",
      fmt::format("socket,id=qmp,path={},server=on,wait=off", Escape(paths.Qmp())), "-mon",
      "chardev=qmp,mode=control", "-device", "virtio-scsi-device,id=scsi0", "-device",
      // One more for the console that each has, and one for the control port.
      fmt::format("virtio-serial-device,id=serial0,max_ports={}", Machine::kMostPorts + 2),
      "-chardev",
      fmt::format("socket,id=control,path={},server=on,wait=off", Escape(paths.Control())),
      "-device", fmt::format("virtserialport,chardev=control,name={}", calls::kControlPort)};
  if (needs.share.has_value()) {
    // virtiofsd reads and writes the guest's memory, so it is shared with it. A file system is no
    // device of virtio's first version, and the transport offers no later one by default.
    arguments.insert(
        arguments.end(),
        {"-object", fmt::format("memory-backend-memfd,id=memory,size={}M,share=on", memory_mib),
         "-global", "virtio-mmio.force-legacy=off", "-chardev",
         fmt::format("socket,id=share,path={}", Escape(paths.Share())), "-device",
         fmt::format("vhost-user-fs-device,chardev=share,tag={}", kShareTag)});
  }
  if (!mac.empty()) {
    arguments.insert(arguments.end(),
                     {"-netdev", fmt::format("tap,id=net0,fd={}", platform::kHeldFd), "-device",
                      fmt::format("virtio-net-device,netdev=net0,mac={}", mac)});
  }
  return arguments;
}

Machine::Machine(const MachineSettings& settings, const MachineRecords& records,
                 std::string sandbox_id, MachinePaths paths)
    : settings_(settings),
      records_(records),
      sandbox_id_(std::move(sandbox_id)),
      paths_(std::move(paths)),
      guest_(paths_.Control()) {}

StatusOr<MachineState> Machine::FindState() {
  if (!record_.has_value()) {
    StatusOr<MachineRecord> read = records_.ReadRecord(sandbox_id_);
    if (read.status().code() == StatusCode::kNotFound) return MachineState::kAbsent;
    RETURN_IF_ERROR(read);
    record_ = *std::move(read);
  }
  if (!records_.IsOfThisBoot(*record_) || record_->daemon.pid == 0) {
    RETURN_IF_ERROR(End());
    return MachineState::kAbsent;
  }
  ASSIGN_OR_RETURN(const base::UniqueFd process, platform::OpenDaemon(record_->daemon));
  if (!process.valid()) return MachineState::kEnded;
  const Status running = CheckRunning();
  if (running.code() == StatusCode::kUnavailable) return MachineState::kEnded;
  // A process that does not answer now may answer later.
  return MachineState::kRunning;
}

Status Machine::Start(const MachineNeeds& needs) {
  ASSIGN_OR_RETURN(const MachineState state, FindState());
  if (state == MachineState::kEnded) return DescribeEnd();
  if (state == MachineState::kRunning) return base::OkStatus();
  RETURN_IF_ERROR(platform::MakeFolders(paths_.folder, 0700));
  MachineRecord record{.mark = base::NewUuid()};
  RETURN_IF_ERROR(records_.WriteRecord(sandbox_id_, record));
  record_ = record;
  Status started = StartProcesses(needs);
  if (started.ok()) started = AwaitBoot();
  if (started.ok()) {
    LOG_INFO("sandbox {} has a virtual machine, process {}", Quote(sandbox_id_),
             record_->daemon.pid);
    return base::OkStatus();
  }
  // Nothing was done in the new machine yet.
  if (const Status ended = End(); !ended.ok()) {
    LOG_WARNING("end the machine of sandbox {}: {}", Quote(sandbox_id_), base::ToString(ended));
  }
  return base::Annotate(started, "start the virtual machine");
}

Status Machine::StartProcesses(const MachineNeeds& needs) {
  RETURN_IF_ERROR(base::FaultPoint<"crust.machine.start">());
  base::UniqueFd tap;
  std::string mac;
  if (!needs.network.empty()) {
    ASSIGN_OR_RETURN(const std::optional<SandboxNetwork> network,
                     ReadSandboxNetwork(needs.network));
    if (network.has_value()) {
      ASSIGN_OR_RETURN(tap, ConnectTap(needs.network, *network));
      mac = network->mac;
      RETURN_IF_ERROR(base::FaultPoint<"crust.machine.connected">());
    }
  }
  if (needs.share.has_value()) {
    ASSIGN_OR_RETURN(record_->share, StartSharing({.program = settings_.virtiofsd,
                                                   .socket = paths_.Share(),
                                                   .mark = MarkOf(*record_),
                                                   .log = paths_.ShareLog()},
                                                  *needs.share));
    RETURN_IF_ERROR(base::FaultPoint<"crust.machine.shared">());
  }
  ASSIGN_OR_RETURN(
      record_->daemon,
      platform::StartDaemon({.program = settings_.qemu,
                             .arguments = MachineArguments(settings_, paths_, needs, mac),
                             .mark = MarkOf(*record_),
                             .log = paths_.Log(),
                             .held = tap.get()}));
  RETURN_IF_ERROR(base::FaultPoint<"crust.machine.started">());
  return records_.WriteRecord(sandbox_id_, *record_);
}

Status Machine::AwaitBoot() {
  const auto deadline = steady_clock::now() + settings_.boot_within;
  while (true) {
    const Status answered =
        CallGuest(Message().Set(base::ipc::kMethod, std::string(calls::kPing)), deadline).status();
    if (answered.ok()) return base::OkStatus();
    ASSIGN_OR_RETURN(const base::UniqueFd process, platform::OpenDaemon(record_->daemon));
    if (!process.valid()) return DescribeEnd();
    if (steady_clock::now() >= deadline || qmp_.has_value()) return answered;
    // QEMU does not listen yet.
    std::this_thread::sleep_for(kQemuPoll);
  }
}

Status Machine::CheckSharing() const {
  if (!record_.has_value() || record_->share.pid == 0) return base::OkStatus();
  ASSIGN_OR_RETURN(const base::UniqueFd process, platform::OpenDaemon(record_->share));
  if (process.valid()) return base::OkStatus();
  return Error(StatusCode::kUnavailable,
               "the process that shares the containers' files with the guest has ended{}",
               ReadLastWords(paths_.ShareLog()));
}

Status Machine::DescribeEnd() {
  // virtiofsd ends with QEMU, so it is the reason only while the guest still runs.
  const auto status = CallQmp("query-status", Json::object());
  if (status.ok() && base::json::String(*status, {"status"}) == "running") {
    RETURN_IF_ERROR(CheckSharing());
  }
  // Reading the console empties it.
  const auto console = CallQmp(
      "ringbuf-read", {{"device", "console"}, {"size", kLargestConsole}, {"format", "utf8"}});
  if (console.ok() && console->is_string() && reason_.empty()) {
    reason_ = FindReason(console->get<std::string>());
  }
  if (!reason_.empty()) {
    return Error(StatusCode::kUnavailable, "the guest has ended; its console's last words: {}",
                 Quote(reason_));
  }
  return Error(StatusCode::kUnavailable,
               "the virtual machine has ended, its process was killed or failed{}{}",
               ReadLastWords(paths_.Log()), ReadLastWords(paths_.ShareLog()));
}

bool Machine::MayRun() const {
  if (!record_.has_value()) return false;
  const auto process = platform::OpenDaemon(record_->daemon);
  return !process.ok() || process->valid();
}

Status Machine::CheckRunning() {
  ASSIGN_OR_RETURN(const Json status, CallQmp("query-status", Json::object()));
  if (base::json::String(status, {"status"}) == "running") return CheckSharing();
  return DescribeEnd();
}

StatusOr<Json> Machine::CallQmp(std::string_view command, Json arguments, int descriptor) {
  const auto deadline = steady_clock::now() + settings_.answer_within;
  if (!qmp_.has_value()) {
    StatusOr<platform::QmpClient> client = platform::QmpClient::Connect(paths_.Qmp(), deadline);
    if (client.status().code() == StatusCode::kUnavailable && MayRun()) {
      // QEMU is starting, or it hangs and takes no connections.
      return Error(StatusCode::kDeadlineExceeded, "QEMU does not answer");
    }
    RETURN_IF_ERROR(client);
    qmp_.emplace(*std::move(client));
  }
  StatusOr<Json> answer = qmp_->Call(command, std::move(arguments), deadline, descriptor);
  const StatusCode code = answer.status().code();
  // After these the answer may still come, or never.
  if (code == StatusCode::kUnavailable || code == StatusCode::kDeadlineExceeded) qmp_.reset();
  return answer;
}

Status Machine::End() {
  if (!record_.has_value()) {
    StatusOr<MachineRecord> read = records_.ReadRecord(sandbox_id_);
    if (read.status().code() == StatusCode::kNotFound) {
      return platform::RemoveTree(paths_.folder);
    }
    RETURN_IF_ERROR(read);
    record_ = *std::move(read);
  }
  qmp_.reset();
  guest_ = GuestClient(paths_.Control());
  reason_.clear();
  if (records_.IsOfThisBoot(*record_)) {
    RETURN_IF_ERROR(base::FaultPoint<"crust.machine.end">());
    RETURN_IF_ERROR(KillProcesses());
    RETURN_IF_ERROR(base::FaultPoint<"crust.machine.ended">());
  }
  RETURN_IF_ERROR(platform::RemoveTree(paths_.folder));
  RETURN_IF_ERROR(records_.RemoveRecord(sandbox_id_));
  record_.reset();
  return base::OkStatus();
}

Status Machine::KillProcesses() {
  if (record_->daemon.pid != 0) {
    RETURN_IF_ERROR_WITH(platform::KillDaemon(record_->daemon, kKillTime),
                         "end the virtual machine");
  }
  if (record_->daemon.pid != 0 && record_->share.pid == 0) return base::OkStatus();
  // virtiofsd has a child process, which only the mark finds.
  if (platform::KillMarkedProcesses(MarkOf(*record_), kKillTime) > 0) {
    return Error(StatusCode::kDeadlineExceeded,
                 "the virtual machine was killed and does not end, because it waits in the kernel");
  }
  platform::ReapDaemon(record_->share);
  return base::OkStatus();
}

Status Machine::KillProcess() {
  ASSIGN_OR_RETURN(const MachineState state, FindState());
  if (state == MachineState::kAbsent) return base::OkStatus();
  qmp_.reset();
  return KillProcesses();
}

StatusOr<Message> Machine::CallGuest(Message request, Deadline deadline,
                                     const std::function<bool()>& cancelled) {
  // QEMU keeps the port's socket open after the guest has ended, so it is asked from time to time.
  constexpr std::chrono::seconds kCheckInterval(1);
  auto next_check = steady_clock::now() + kCheckInterval;
  const auto watch = [&]() -> Status {
    if (cancelled && cancelled()) return Error(StatusCode::kCancelled, "cancelled");
    if (steady_clock::now() < next_check) return base::OkStatus();
    next_check = steady_clock::now() + kCheckInterval;
    const Status running = CheckRunning();
    return running.code() == StatusCode::kUnavailable ? running : base::OkStatus();
  };
  StatusOr<Message> reply = guest_.Call(std::move(request), deadline, watch);
  if (reply.ok() || reply.status().code() != StatusCode::kUnavailable) return reply;
  return MayRun() ? reply.status() : DescribeEnd();
}

Status Machine::Ping() {
  const auto deadline = steady_clock::now() + settings_.answer_within;
  return CallGuest(Message().Set(base::ipc::kMethod, std::string(calls::kPing)), deadline).status();
}

StatusOr<std::string> Machine::AddPort(const std::string& name) {
  const std::string id = PortId(name);
  const auto known = CallQmp("qom-get", {{"path", DevicePath(id)}, {"property", "name"}});
  if (known.ok()) return paths_.Port(name);
  if (known.status().code() != StatusCode::kFailedPrecondition) return known.status();
  const Json backend = {{"type", "socket"},
                        {"data",
                         {{"addr", {{"type", "unix"}, {"data", {{"path", paths_.Port(name)}}}}},
                          {"server", true},
                          {"wait", false}}}};
  // An earlier process may have added the socket alone.
  const Status removed = CallQmp("chardev-remove", {{"id", id}}).status();
  if (!removed.ok() && removed.code() != StatusCode::kFailedPrecondition) return removed;
  RETURN_IF_ERROR(CallQmp("chardev-add", {{"id", id}, {"backend", backend}}));
  RETURN_IF_ERROR(CallQmp("device_add", {{"driver", "virtserialport"},
                                         {"id", id},
                                         {"bus", "serial0.0"},
                                         {"chardev", id},
                                         {"name", name}}));
  return paths_.Port(name);
}

StatusOr<MachinePort> Machine::TakePort(size_t from) {
  ASSIGN_OR_RETURN(const Json known, CallQmp("query-chardev", Json::object()));
  std::set<std::string> taken;
  for (const Json& entry : known) {
    // QEMU's words: "disconnected:unix:PATH,server=on".
    if (base::json::String(entry, {"filename"}).starts_with("disconnected:")) continue;
    taken.insert(base::json::String(entry, {"label"}));
  }
  for (size_t number = from; number < kMostPorts; ++number) {
    MachinePort port{.number = number, .name = fmt::format("p{}", number)};
    if (taken.contains(PortId(port.name))) continue;
    ASSIGN_OR_RETURN(const std::string path, AddPort(port.name));
    ASSIGN_OR_RETURN(port.socket, rpc::ConnectTo(path));
    return port;
  }
  return Error(StatusCode::kResourceExhausted,
               "the guest has {} processes with streams already, and no more are possible",
               kMostPorts);
}

StatusOr<base::UniqueFd> Machine::OpenProcess() {
  ASSIGN_OR_RETURN(const MachineState state, FindState());
  if (state == MachineState::kAbsent) {
    return Error(StatusCode::kNotFound, "the sandbox has no virtual machine");
  }
  ASSIGN_OR_RETURN(base::UniqueFd process, platform::OpenDaemon(record_->daemon));
  if (state == MachineState::kEnded || !process.valid()) return DescribeEnd();
  return process;
}

StatusOr<std::optional<std::string>> Machine::FindDisk(const std::string& name) {
  const auto serial = CallQmp("qom-get", {{"path", DevicePath(name)}, {"property", "serial"}});
  if (serial.status().code() == StatusCode::kFailedPrecondition) {
    return std::optional<std::string>();
  }
  RETURN_IF_ERROR(serial);
  return std::optional(serial->is_string() ? serial->get<std::string>() : std::string());
}

StatusOr<std::string> Machine::PlugDisk(const std::string& name, int device, bool read_only) {
  ASSIGN_OR_RETURN(const std::optional<std::string> plugged, FindDisk(name));
  if (plugged.has_value()) return *plugged;
  // What an earlier process did of it.
  RETURN_IF_ERROR(UnplugDisk(name));
  // QEMU opens the very device that this descriptor holds, whatever its path leads to by now.
  ASSIGN_OR_RETURN(const Json added, CallQmp("add-fd", {{"opaque", name}}, device));
  RETURN_IF_ERROR(base::FaultPoint<"crust.machine.passed">());
  RETURN_IF_ERROR(
      CallQmp("blockdev-add",
              {{"node-name", name},
               {"driver", "host_device"},
               {"filename", fmt::format("/dev/fdset/{}", base::json::Int(added, {"fdset-id"}))},
               {"read-only", read_only},
               {"locking", "off"},
               {"aio", "threads"},
               {"cache", {{"direct", true}}},
               {"discard", "unmap"}}));
  RETURN_IF_ERROR(base::FaultPoint<"crust.machine.opened">());
  // A new number each time, so that the guest takes no earlier disk for this one.
  std::string serial = base::NewUuid();
  std::erase(serial, '-');
  serial.resize(kLongestSerial);
  RETURN_IF_ERROR(CallQmp("device_add", {{"driver", "scsi-hd"},
                                         {"id", name},
                                         {"bus", "scsi0.0"},
                                         {"drive", name},
                                         {"serial", serial},
                                         // The guest's kernel gets the errors, and QEMU does not
                                         // stop the guest.
                                         {"werror", "report"},
                                         {"rerror", "report"}}));
  RETURN_IF_ERROR(base::FaultPoint<"crust.machine.plugged">());
  return serial;
}

Status Machine::CallUntilDone(std::string_view command, const Json& arguments) {
  const auto deadline = steady_clock::now() + settings_.answer_within;
  while (true) {
    const Status done = CallQmp(command, arguments).status();
    if (done.ok() || done.code() != StatusCode::kFailedPrecondition) return done;
    // It was not there, or it is not any more.
    if (base::Message(done).find("find") != std::string_view::npos) return base::OkStatus();
    if (steady_clock::now() >= deadline) return done;
    std::this_thread::sleep_for(kQemuPoll);
  }
}

Status Machine::UnplugDisk(const std::string& name) {
  ASSIGN_OR_RETURN(const std::optional<std::string> plugged, FindDisk(name));
  if (plugged.has_value()) {
    const Status asked = CallQmp("device_del", {{"id", name}}).status();
    // It is refused while an earlier one is under way.
    if (!asked.ok() && asked.code() != StatusCode::kFailedPrecondition) return asked;
    RETURN_IF_ERROR(base::FaultPoint<"crust.machine.unplugged">());
  }
  // QEMU refuses it while the disk uses the node.
  RETURN_IF_ERROR(CallUntilDone("blockdev-del", {{"node-name", name}}));
  return RemoveFdSets(name);
}

Status Machine::RemoveFdSets(const std::string& name) {
  ASSIGN_OR_RETURN(const Json sets, CallQmp("query-fdsets", Json::object()));
  for (const Json& set : sets) {
    for (const Json& fd : base::json::Array(set, {"fds"})) {
      if (base::json::String(fd, {"opaque"}) != name) continue;
      RETURN_IF_ERROR(CallQmp("remove-fd", {{"fdset-id", base::json::Int(set, {"fdset-id"})},
                                            {"fd", base::json::Int(fd, {"fd"})}}));
    }
  }
  return base::OkStatus();
}

Status Machine::ResizeDisk(const std::string& name, int64_t bytes) {
  return CallQmp("block_resize", {{"node-name", name}, {"size", bytes}}).status();
}

}  // namespace berth::crust
