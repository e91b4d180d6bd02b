#include "crust/machine/vm_containers.h"

#include <sys/sysmacros.h>

#include <algorithm>
#include <utility>

#include "base/fault.h"
#include "base/ipc/container_call.h"
#include "base/ipc/guest_call.h"
#include "base/log.h"
#include "crust/machine/guest_device.h"
#include "crust/machine/sandbox_network.h"
#include "crust/mount_namespace.h"
#include "platform/files/durable_file.h"

namespace berth::crust {

using base::Error;
using base::Json;
using base::Quote;
using base::Status;
using base::StatusCode;
using base::StatusOr;
using base::ipc::Message;
using base::ipc::Reply;
using std::chrono::steady_clock;
namespace calls = base::ipc::guest;
namespace container = base::ipc::container;

namespace {

// The guest may take a little longer for a call than it allows runc.
constexpr std::chrono::seconds kGuestCallTime = container::kRuncTime + std::chrono::seconds(10);

Message MakeCall(std::string_view method) {
  return Message().Set(base::ipc::kMethod, std::string(method));
}

// The guest's kernel and its page tables need memory beside the pod's; 0: the handler's setting.
int64_t MemoryOf(const PodSetup& setup) {
  constexpr int64_t kKernelMib = 128, kMib = int64_t{1} << 20;
  return setup.memory_bytes == 0 ? 0 : (setup.memory_bytes + kMib - 1) / kMib + kKernelMib;
}

int CpusOf(const PodSetup& setup) {
  constexpr int64_t kMostCpus = 64;
  return static_cast<int>(std::min((setup.cpu_percent + 99) / 100, kMostCpus));
}

std::string TextOf(const Message& message, std::string_view field) {
  const std::string* text = message.FindText(field);
  return text == nullptr ? "" : *text;
}

}  // namespace

StatusOr<Message> VmContainers::CallGuest(Message request) {
  return machine_.CallGuest(std::move(request), steady_clock::now() + kGuestCallTime);
}

StatusOr<const SharedFolder*> VmContainers::OpenShare() {
  if (!share_.has_value()) {
    RETURN_IF_ERROR(platform::MakeFolders(paths_.files, 0700));
    ASSIGN_OR_RETURN(share_, SharedFolder::Open(mounter_, paths_.pin, paths_.files));
  }
  return &*share_;
}

Status VmContainers::Begin(const PodSetup& setup) {
  ASSIGN_OR_RETURN(const SharedFolder* share, OpenShare());
  RETURN_IF_ERROR(base::FaultPoint<"crust.guest.shared">());
  RETURN_IF_ERROR(
      machine_.Start({.memory_mib = MemoryOf(setup),
                      .cpus = CpusOf(setup),
                      .share = MachineShare{.space = share->space().get(), .folder = paths_.files},
                      .network = setup.network}));
  RETURN_IF_ERROR(CallGuest(MakeCall(calls::kBegin)
                                .Set(calls::kHostname, setup.hostname)
                                .Set(calls::kSysctls, base::ipc::Strings(setup.sysctls))
                                .Set(calls::kShare, std::string(kShareTag))));
  if (setup.network.empty()) return base::OkStatus();
  ASSIGN_OR_RETURN(const std::optional<SandboxNetwork> network, ReadSandboxNetwork(setup.network));
  if (!network.has_value()) return base::OkStatus();
  return CallGuest(NetworkRequest(*network)).status();
}

StatusOr<std::string> VmContainers::FindVolume(const MountPlan& plan, const std::string& sub_path) {
  ASSIGN_OR_RETURN(const Message reply, CallGuest(MakeCall(calls::kGraft)
                                                      .Set(calls::kName, std::string(plan.name()))
                                                      .Set(calls::kPath, sub_path)));
  return TextOf(reply, calls::kPlace);
}

StatusOr<std::string> VmContainers::Share(const std::string& container, const std::string& name,
                                          const std::string& source) {
  ASSIGN_OR_RETURN(const SharedFolder* share, OpenShare());
  RETURN_IF_ERROR(share->Add(container, name, source));
  return fmt::format("{}/{}/{}", calls::kShareFolder, container, name);
}

StatusOr<GuestDevice> VmContainers::PlugDevice(const std::string& path, const Device& device) {
  const std::string name = fmt::format("b{}-{}", major(device.number), minor(device.number));
  ASSIGN_OR_RETURN(std::optional<std::string> serial, machine_.FindDisk(name));
  if (!serial.has_value()) {
    ASSIGN_OR_RETURN(const base::UniqueFd opened, OpenForGuest(device, false, Claim::kShared));
    ASSIGN_OR_RETURN(serial, machine_.PlugDisk(name, opened.get(), false));
  }
  ASSIGN_OR_RETURN(const Message reply,
                   CallGuest(MakeCall(calls::kDisk)
                                 .Set(calls::kSerial, *serial)
                                 .Set(calls::kMilliseconds, Machine::kPlugTime.count())));
  return GuestDevice{.path = path,
                     .major = reply.FindNumber(calls::kMajor).value_or(0),
                     .minor = reply.FindNumber(calls::kMinor).value_or(0)};
}

StatusOr<Reply> VmContainers::CallWithStream(const Message& request) {
  for (size_t from = 0;;) {
    ASSIGN_OR_RETURN(MachinePort port, machine_.TakePort(from));
    const StatusOr<Message> reply = CallGuest(Message(request).Set(container::kPort, port.name));
    // The guest still has the port open for a process whose stand-in has ended.
    if (reply.status().code() == StatusCode::kAborted) {
      from = port.number + 1;
      continue;
    }
    RETURN_IF_ERROR(reply);
    Reply answer{Message()};
    answer.descriptors.push_back(std::move(port.socket));
    return answer;
  }
}

StatusOr<base::UniqueFd> VmContainers::Create(const std::string& name, bool terminal,
                                              const Json& config) {
  const Message create = MakeCall(container::kCreate)
                             .Set(container::kContainer, name)
                             .Set(container::kTerminal, terminal ? int64_t{1} : int64_t{0})
                             .Set(container::kConfig, base::json::Dump(config));
  StatusOr<Reply> reply = CallWithStream(create);
  if (reply.status().code() == StatusCode::kAlreadyExists) {
    // An earlier handler was killed before it could answer, and nobody has that one's stream.
    RETURN_IF_ERROR(CallGuest(ForceDelete(name)));
    reply = CallWithStream(create);
  }
  RETURN_IF_ERROR(reply);
  return std::move(reply->descriptors.front());
}

Status VmContainers::Delete(const Message& request) {
  ASSIGN_OR_RETURN(const MachineState state, machine_.FindState());
  if (state == MachineState::kRunning) {
    const Status deleted = CallGuest(request).status();
    if (!deleted.ok() && deleted.code() != StatusCode::kNotFound) return deleted;
  }
  ASSIGN_OR_RETURN(const SharedFolder* share, OpenShare());
  return share->Remove(TextOf(request, container::kContainer));
}

StatusOr<Reply> VmContainers::Call(const Message& request) {
  const std::string method = TextOf(request, base::ipc::kMethod);
  if (method == container::kDelete) {
    RETURN_IF_ERROR(Delete(request));
    return Message();
  }
  if (method == container::kExec) {
    ASSIGN_OR_RETURN(const Json process, base::json::Parse(TextOf(request, container::kSpec)));
    ASSIGN_OR_RETURN(const Json translated, TranslateProcessForGuest(process));
    return CallWithStream(Message(request).Set(container::kSpec, base::json::Dump(translated)));
  }
  ASSIGN_OR_RETURN(Message reply, CallGuest(request));
  return reply;
}

Status VmContainers::Remove() {
  share_.reset();
  return UnpinNamespace(mounter_, paths_.pin);
}

}  // namespace berth::crust
