#include "cli/explain/evidence.h"

#include <algorithm>

#include "api/quantity.h"
#include "api/time.h"

namespace berth::cli::explain {

using base::FlightKind;
using base::FlightRecord;
using base::StatusCode;
using platform::ProcessInfo;

std::string DescribeAge(const State& state, base::WallTime since) {
  return api::FormatAge(
      std::max(std::chrono::seconds(0),
               std::chrono::duration_cast<std::chrono::seconds>(state.now - since)));
}

std::string GetProgramName(const ProcessInfo& process) {
  return process.program.empty() ? process.name : process.program;
}

std::string DescribeProcess(const ProcessInfo& process) {
  if (process.unreadable) {
    return fmt::format(
        "{} {} '{}' waits in execve (state {}): it closes a file of a file system whose server "
        "does not answer, and meanwhile the kernel shows its other details to nobody",
        process.thread ? "thread" : "process", process.pid, GetProgramName(process), process.state);
  }
  const std::string activity = process.stopped() ? "is stopped"
                               : process.wait_channel.empty()
                                   ? "runs"
                                   : fmt::format("waits in '{}'", process.wait_channel);
  return fmt::format("{} {} '{}' {} (state {}), started {} ago",
                     process.thread ? "thread" : "process", process.pid, GetProgramName(process),
                     activity, process.state, api::FormatAge(process.age));
}

std::string SuggestWaitCommand(const ProcessInfo& process) {
  constexpr std::string_view kConnections = "ls /sys/fs/fuse/connections";
  if (process.unreadable) {  // its stack would keep the person waiting, too
    return fmt::format("cat /proc/{}/status; {}", process.pid, kConnections);
  }
  return fmt::format("cat /proc/{}/stack; {}", process.pid, kConnections);
}

std::string DescribeRecord(const State& state, const FlightRecord& record) {
  std::string text = record.what;
  if (!record.target.empty()) {
    text += fmt::format("{}{}", record.kind == FlightKind::kStep ? " for " : " at ", record.target);
  }
  if (record.running)
    return fmt::format("{} has run for {}", text, DescribeAge(state, record.start));
  if (record.interrupted) {
    return fmt::format("{} was cut off {} ago, when its caller ended; its outcome is unknown", text,
                       DescribeAge(state, record.start));
  }
  const std::string ago = DescribeAge(state, record.end);
  if (record.code == StatusCode::kOk) return fmt::format("{} succeeded {} ago", text, ago);
  std::string times;
  if (record.count > 1) {
    times = fmt::format(" {} times in {}, last", record.count, DescribeAge(state, record.first));
  }
  return fmt::format("{} failed{} {} ago: {}: {}", text, times, ago, base::CodeName(record.code),
                     record.message);
}

const FlightRecord* FindBadCall(const State& state, const std::string& key,
                                std::vector<std::string_view> only) {
  const FlightRecord* hanging = nullptr;
  const FlightRecord* last = nullptr;    // the last call that has ended
  const FlightRecord* waited = nullptr;  // the last failed call before the newest retry
  bool retrying = false;                 // a call has ended since the newest retry
  for (const FlightRecord* record : FindRecords(state, key)) {
    if (record->kind == FlightKind::kRetry) {
      waited = last;
      retrying = false;
    }
    if (record->kind != FlightKind::kCall) continue;
    if (!only.empty() && std::find(only.begin(), only.end(), record->what) == only.end()) continue;
    if (record->running) {
      if (Hangs(state, *record)) hanging = record;
      continue;
    }
    last = record;
    retrying = true;
    if (waited != nullptr && waited->what == record->what) waited = nullptr;
  }
  if (hanging != nullptr) return hanging;
  const auto fails = [](const FlightRecord* call) {
    return call != nullptr && !call->interrupted && call->code != StatusCode::kOk;
  };
  if (fails(last)) return last;
  // The call that failed counts until the work has got to it again. Until then the other calls of
  // the next try say nothing.
  return retrying && fails(waited) && !last->interrupted ? waited : nullptr;
}

bool Hangs(const State& state, const FlightRecord& call) {
  return (call.running && state.now - call.start >= kHangTime) ||
         (!call.running && !call.interrupted && call.code == StatusCode::kDeadlineExceeded);
}

const ProcessInfo* FindStuckProcess(const State& state, const std::string& socket) {
  const auto server = state.servers.find(socket);
  if (server == state.servers.end()) return nullptr;
  // Returns the deepest process, because a parent only waits for its child.
  const ProcessInfo* stuck = nullptr;
  for (const ProcessInfo& process : server->second.processes) {
    if (process.in_kernel()) stuck = &process;
  }
  return stuck;
}

const ProcessInfo* FindStoppedServer(const State& state, const std::string& socket) {
  const auto server = state.servers.find(socket);
  if (server == state.servers.end() || server->second.processes.empty()) return nullptr;
  const ProcessInfo& process = server->second.processes.front();
  return process.stopped() ? &process : nullptr;
}

const ProcessInfo* FindStuckChild(const State& state, const std::string& key) {
  for (const FlightRecord* record : FindRecords(state, key)) {
    if (record->kind == FlightKind::kRetry) continue;
    const auto found = state.processes.find(record->pid);
    if (found != state.processes.end() && found->second.in_kernel()) return &found->second;
  }
  return nullptr;
}

void AddStoppedProcess(const ProcessInfo& process, Cause& cause) {
  cause.owner = Owner::kDriver;
  cause.proof.push_back(DescribeProcess(process));
  cause.step = "a signal stopped the driver's process: let it continue (SIGCONT)";
  cause.command = fmt::format("kill -CONT {}", process.pid);
}

const KnownError& FindKnownError(std::span<const KnownError> known, std::string_view message) {
  return *std::ranges::find_if(known, [&](const KnownError& error) {
    return message.find(error.says) != std::string_view::npos;
  });
}

bool AsksForMore(const api::PersistentVolumeClaim& claim) {
  const auto wanted = api::Quantity::Parse(claim.requested_storage());
  const auto has = api::Quantity::Parse(claim.capacity());
  return wanted.ok() && has.ok() && *has < *wanted;
}

bool IsReady(const State& state) {
  if (state.host_mount) return state.host_mount->phase() == "Mounted";
  return state.pod &&
         (state.pod->ready() || state.pod->phase() == "Running" || state.pod->terminated());
}

namespace {

// The blocked process behind a hanging call. If the driver keeps flight records for the volume,
// they name it. Otherwise it is any blocked process of the driver, which may work for another
// volume, but there is no better evidence.
const ProcessInfo* FindStuckBehind(const State& state, const FlightRecord& call) {
  bool recorded = false;
  for (const std::string& key : DriverKeys(state)) {
    if (const ProcessInfo* child = FindStuckChild(state, key)) return child;
    recorded = recorded || !FindRecords(state, key).empty();
  }
  return recorded ? nullptr : FindStuckProcess(state, call.target);
}

Cause MakeHangCause(const State& state, Link link, const FlightRecord& call) {
  Cause cause{.link = link, .proof = {DescribeRecord(state, call)}};
  if (const ProcessInfo* stuck = FindStuckBehind(state, call)) {
    cause.id = "mount-hung";
    cause.summary =
        fmt::format("{} hangs: {} {} '{}' is blocked in the kernel", call.what,
                    stuck->thread ? "thread" : "process", stuck->pid, GetProgramName(*stuck));
    cause.proof.push_back(DescribeProcess(*stuck));
    cause.owner = Owner::kKernel;
    cause.step =
        "no signal can end it. Restore what it waits for (a file system's server, a disk), or "
        "abort the wait ('umount --force', or the file 'abort' of the FUSE connection); Berth then "
        "repeats the call";
    cause.command = SuggestWaitCommand(*stuck);
    return cause;
  }
  cause.id = "driver-hung";
  cause.summary = fmt::format("the driver '{}' does not answer {}", state.driver, call.what);
  cause.owner = Owner::kDriver;
  cause.step =
      "read the driver's log for this call; if it says nothing, restart the driver. Berth repeats "
      "the call, because its outcome is unknown";
  const auto server = state.servers.find(call.target);
  if (server == state.servers.end() || server->second.processes.empty()) return cause;
  if (const ProcessInfo* stopped = FindStoppedServer(state, call.target)) {
    AddStoppedProcess(*stopped, cause);
  } else {
    cause.proof.push_back(DescribeProcess(server->second.processes.front()));
  }
  return cause;
}

// Whether the driver listens but does not answer. A stopped process answers nothing, whatever its
// last answer was. Otherwise the kernel accepts the connection for the driver, no data follows, and
// gRPC reports that the driver is unavailable.
bool IsMute(const State& state, const FlightRecord& call) {
  if (FindStoppedServer(state, call.target) != nullptr) return true;
  return call.code == StatusCode::kUnavailable && state.servers.contains(call.target) &&
         (FindStuckProcess(state, call.target) != nullptr ||
          call.message.find("before receiving SETTINGS") != std::string::npos);
}

// The file system type that the volume or its class names; empty: none.
std::string FindFileSystemType(const State& state) {
  if (state.volume && state.volume->has_csi() && !state.volume->csi().fs_type().empty()) {
    return state.volume->csi().fs_type();
  }
  if (!state.storage_class) return "";
  for (const auto& [name, value] : state.storage_class->parameters()) {
    if (name == "csi.storage.k8s.io/fstype" || name == "fstype") return value;
  }
  return "";
}

// Whether an error is about the file system type, and not about one volume.
bool RefusesType(const std::string& error, const std::string& type) {
  const auto says = [&error](std::string_view text) {
    return error.find(text) != std::string::npos;
  };
  if (type.empty() || !says(type)) return false;
  return says("is not supported") || says("unknown filesystem type") || says("unsupported file") ||
         says("executable file not found") || says("mkfs." + type + "': ") ||
         says("unknown file system");
}

Cause MakeCallCause(const State& state, Link link, const FlightRecord& call) {
  if (Hangs(state, call) || IsMute(state, call)) return MakeHangCause(state, link, call);
  Cause cause{.link = link, .proof = {DescribeRecord(state, call)}, .owner = Owner::kDriver};
  const auto server = state.servers.find(call.target);
  switch (call.code) {
    case StatusCode::kUnavailable:
      cause.id = "driver-absent";
      cause.summary = fmt::format("no process serves the driver '{}'", state.driver);
      if (server != state.servers.end() && server->second.listening.ok()) {
        cause.id = "driver-error";
        cause.summary = fmt::format("the driver '{}' says that it is not available", state.driver);
      } else if (server != state.servers.end()) {
        cause.proof.emplace_back(base::Message(server->second.listening));
      }
      cause.step =
          "start the driver, or find out why it ends; Berth repeats the call as soon as the driver "
          "listens";
      break;
    case StatusCode::kResourceExhausted:
    case StatusCode::kOutOfRange:
      cause.id = "no-capacity";
      cause.summary =
          fmt::format("the driver '{}' has no room for what {} asks", state.driver, call.what);
      cause.owner = Owner::kPerson;
      cause.step =
          "free space behind the driver, or ask for less (a claim's request can only be "
          "made smaller by a new claim)";
      break;
    case StatusCode::kDataLoss:
      cause.id = "data-lost";
      cause.summary =
          fmt::format("the storage of volume '{}' is missing or was replaced: {}",
                      state.handle.empty() ? state.claim_key : state.handle, call.message);
      cause.owner = Owner::kPerson;
      cause.step =
          "put the original back, or restore it from a backup; Berth repeats the call by itself";
      break;
    default:
      if (const std::string type = FindFileSystemType(state); RefusesType(call.message, type)) {
        cause.id = "wrong-file-system";
        cause.summary = fmt::format(
            "{} asks for file system type '{}', which driver '{}' cannot "
            "make: {}",
            state.storage_class && !state.class_name.empty()
                ? fmt::format("class '{}'", state.class_name)
                : "the volume",
            type, state.driver, call.message);
        cause.owner = Owner::kPerson;
        cause.step =
            "create the class again with a type that the driver supports (a class cannot be "
            "changed), and then the claim; or install what the node lacks for this type";
        if (!state.class_name.empty()) {
          cause.command = fmt::format("berth get storageclass {} -o yaml", state.class_name);
        }
        break;
      }
      cause.id = "driver-error";
      cause.summary =
          fmt::format("the driver '{}' refuses {}: {}", state.driver, call.what, call.message);
      cause.step = "correct the problem that the driver names; Berth repeats the call by itself";
      // What such a call asks for stands in the claim and its class.
      if (call.code == StatusCode::kInvalidArgument && call.what.starts_with("Create")) {
        cause.id = "request-refused";
        cause.owner = Owner::kPerson;
        cause.step =
            "correct in the claim or its class what the message names: both have to be created "
            "again, because these fields cannot be changed";
      }
  }
  return cause;
}

}  // namespace

std::string DescribeRetry(const State& state, const std::string& key) {
  const FlightRecord* last = nullptr;
  for (const FlightRecord* record : FindRecords(state, key)) {
    if (record->kind == FlightKind::kRetry) last = record;
  }
  if (last == nullptr) return "";
  if (last->end <= state.now) return "the next try is due now";
  return fmt::format("the next try is in {}",
                     DescribeAge(state, state.now - (last->end - state.now)));
}

Cause ExplainCall(const State& state, Link link, const FlightRecord& call) {
  Cause cause = MakeCallCause(state, link, call);
  const std::string retry = call.running ? "" : DescribeRetry(state, call.key);
  if (!retry.empty()) cause.proof.push_back(retry);
  return cause;
}

Cause ExplainAttachment(const State& state, Link link, std::string_view operation,
                        const std::string& what, const std::string& error) {
  const auto says = [&](std::string_view text) { return error.find(text) != std::string::npos; };
  Cause cause{
      .id = "driver-error",
      .link = link,
      .summary = fmt::format("{}: {}", what, error),
      .proof = {fmt::format("VolumeAttachment '{}': status.{}Error",
                            state.attachment ? state.attachment->name() : state.object.name(),
                            operation)},
      .owner = Owner::kDriver,
      .step = fmt::format(
          "correct the problem that the driver names; Berth tries the {}ing again by itself",
          operation)};
  if (error.starts_with("rpc error")) {
    // gRPC says so of a driver that nobody serves; a driver that says it of itself names another
    // reason.
    if (says("code = Unavailable") && (says("onnection refused") || says("o such file"))) {
      cause.id = "driver-absent";
      cause.step = fmt::format(
          "start the driver beside its attacher, or find out why it ends; Berth tries the {}ing "
          "again by itself",
          operation);
    }
    return cause;
  }
  cause.owner = Owner::kPerson;
  if (IsApiRefusal(error)) {
    cause.id = "api-refuses";
    cause.step = AdviseOnApiRefusal(error);
  } else if (says("csinode") || says("CSINode")) {
    cause.id = "driver-absent";
    cause.owner = Owner::kDriver;
    cause.step =
        "start the driver on that node: the CSINode then names the node's id, and attaching "
        "continues at once";
    cause.command = "berth get csinodes -o yaml";
  } else if (says("read secret")) {
    cause.id = "secret-missing";
    cause.step = fmt::format(
        "create the secret that the volume names; Berth tries the {}ing again by itself",
        operation);
    cause.command = "berth get pv -o yaml";
  } else if (says("is marked for deletion")) {
    cause.id = "volume-deleted";
    cause.step = "give the pod another claim, because this volume is being deleted";
  } else if (says("not found")) {
    cause.id = "volume-lost";
    cause.step =
        "restore the PersistentVolume object from a backup ('berth restore'); the data behind it "
        "may still exist";
  } else if (says("no CSI volume") || says("translate in tree") || says("is of driver") ||
             says("spec.source") || says("access mode") || says("volumeHandle")) {
    cause.id = "volume-refused";
    cause.step = "correct the PersistentVolume or VolumeAttachment that was made by hand";
  }
  return cause;
}

std::optional<Cause> ExplainAbsentDriver(const State& state, const AwaitedDriver& awaited) {
  std::vector<std::string> proof;
  for (const base::FlightLog& log : state.logs) {
    for (const base::FlightRecord& record : log.records) {
      if (record.key != "driver " + record.target) continue;
      if (FindBadCall(state, record.key) == &record) proof.push_back(DescribeRecord(state, record));
    }
  }
  const bool registered = std::ranges::any_of(state.csi_nodes, [&](const api::CsiNode& node) {
    return node.driver(awaited.driver).has_value();
  });
  if (registered && proof.empty()) return std::nullopt;
  if (!registered) {
    proof.insert(proof.begin(),
                 fmt::format("no node's CSINode lists the driver '{}', which {} names",
                             awaited.driver, awaited.named_by));
  }
  return Cause{
      .id = "driver-absent",
      .link = awaited.link,
      .summary = awaited.summary,
      .proof = std::move(proof),
      .owner = Owner::kDriver,
      .step = fmt::format("start the driver; {}. A driver other than the shipped one needs "
                          "'berth up --csi-driver SOCKET' for its controllers",
                          awaited.then),
      .command = "berth get csinodes -o yaml"};
}

bool IsApiRefusal(std::string_view error) {
  return error.find(" is forbidden") != std::string_view::npos ||
         error.find("admission webhook") != std::string_view::npos;
}

std::string AdviseOnApiRefusal(std::string_view error) {
  return error.find("admission webhook") != std::string_view::npos
             ? "change what the webhook refuses, or the webhook; Berth tries again by itself"
             : "grant the role's service account what the message names (deploy/csi has the rules "
               "of each role); Berth tries again by itself";
}

const api::Event* FindEvent(const State& state, std::string_view kind, std::string_view reason) {
  const api::Event* newest = nullptr;
  for (const api::Event& event : state.events) {
    if (event.String({"reason"}) != reason || event.String({"involvedObject", "kind"}) != kind) {
      continue;
    }
    if (newest == nullptr || newest->String({"lastTimestamp"}) <= event.String({"lastTimestamp"})) {
      newest = &event;
    }
  }
  return newest;
}

bool IsImageReason(std::string_view reason) {
  constexpr std::string_view kReasons[] = {"ErrImagePull",      "ImagePullBackOff",
                                           "ErrImageNeverPull", "InvalidImageName",
                                           "ImageInspectError", "RegistryUnavailable"};
  return std::find(std::begin(kReasons), std::end(kReasons), reason) != std::end(kReasons);
}

// Whether a container of the pod has come so far that its volumes must be there.
bool HasBegunContainer(const api::Pod& pod) {
  for (const char* list : {"initContainerStatuses", "containerStatuses"}) {
    for (const base::Json& status : base::json::Array(pod.json(), {"status", list})) {
      if (base::json::Find(status, {"state", "running"}) != nullptr ||
          base::json::Find(status, {"state", "terminated"}) != nullptr ||
          IsImageReason(base::json::String(status, {"state", "waiting", "reason"}))) {
        return true;
      }
    }
  }
  return false;
}

bool IsRecent(const State& state, const api::Event& event, std::chrono::seconds within) {
  const auto last = api::ParseTime(event.String({"lastTimestamp"}));
  return !last.ok() || state.now - *last <= within;
}

const api::Event* FindMountEvent(const State& state) {
  // The node agent and the kubelet try again, and say so again, at least every two minutes.
  constexpr std::chrono::minutes kStillTrue{3};
  if (!state.pod || IsReady(state) || state.pod->node_name().empty() ||
      HasBegunContainer(*state.pod)) {
    return nullptr;
  }
  constexpr std::string_view kReasons[] = {"FailedMount", "FailedMapVolume", "FailedAttachVolume"};
  // The kubelet also says from time to time that the pod waits for volumes. That tells less than
  // the event of the operation that failed.
  constexpr std::string_view kOnlyWaits = "timed out waiting for the condition";
  const auto rank = [&](const api::Event& event) {
    const bool waits = event.String({"message"}).find(kOnlyWaits) != std::string::npos;
    return std::pair(!waits, event.String({"lastTimestamp"}));
  };
  const api::Event* best = nullptr;
  for (const api::Event& event : state.events) {
    if (event.String({"involvedObject", "kind"}) != "Pod" ||
        std::ranges::find(kReasons, event.String({"reason"})) == std::end(kReasons) ||
        !IsRecent(state, event, kStillTrue)) {
      continue;
    }
    if (best == nullptr || rank(*best) <= rank(event)) best = &event;
  }
  return best;
}

}  // namespace berth::cli::explain
