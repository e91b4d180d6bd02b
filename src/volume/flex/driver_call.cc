#include "volume/flex/driver_call.h"

#include <array>

#include "base/fault.h"
#include "base/flight.h"
#include "base/log.h"

namespace berth::volume {
namespace {

using base::Error;
using base::MutexLock;
using base::Status;
using base::StatusCode;
using base::StatusOr;

struct CommandFacts {
  const char* name;
  base::CallPoints points;
};

template <base::FaultName kPoint>
CommandFacts GetFacts(const char* name) {
  return {.name = name, .points = base::CallPointsOf<kPoint>()};
}

// The table is in the order of DriverCommand.
const CommandFacts& GetFacts(DriverCommand command) {
  static const std::array<CommandFacts, 12> facts = {
      GetFacts<"flex.init">("init"),
      GetFacts<"flex.getvolumename">("getvolumename"),
      GetFacts<"flex.attach">("attach"),
      GetFacts<"flex.detach">("detach"),
      GetFacts<"flex.waitforattach">("waitforattach"),
      GetFacts<"flex.isattached">("isattached"),
      GetFacts<"flex.mountdevice">("mountdevice"),
      GetFacts<"flex.unmountdevice">("unmountdevice"),
      GetFacts<"flex.mount">("mount"),
      GetFacts<"flex.unmount">("unmount"),
      GetFacts<"flex.expandvolume">("expandvolume"),
      GetFacts<"flex.expandfs">("expandfs"),
  };
  return facts[static_cast<size_t>(command)];
}

// The error of a driver that could not be run, and so did nothing. Its code must not be one that
// would be a driver's answer about a volume (volume_expansion.h).
Status CannotRunError(const Status& why) {
  switch (why.code()) {
    case StatusCode::kDeadlineExceeded:
    case StatusCode::kCancelled:
    case StatusCode::kUnavailable:
      return why;
    default:
      return Error(StatusCode::kFailedPrecondition, "the driver cannot be run: {}",
                   base::ToString(why));
  }
}

}  // namespace

std::string_view NameOf(DriverCommand command) { return GetFacts(command).name; }

DriverCalls::DriverCalls(platform::Exec& exec, const Deadlines& deadlines)
    : exec_(exec), deadlines_(deadlines) {}

void DriverCalls::CancelCalls() { cancel_.request_stop(); }

std::chrono::milliseconds DriverCalls::DeadlineOf(DriverCommand command) const {
  switch (command) {
    case DriverCommand::kInit:
      return deadlines_.init;
    case DriverCommand::kWaitForAttach:
    case DriverCommand::kMountDevice:
    case DriverCommand::kMount:
    case DriverCommand::kExpandVolume:
    case DriverCommand::kExpandFs:
      return deadlines_.slow;
    default:
      return deadlines_.plain;
  }
}

bool DriverCalls::IsUnsupported(const DriverVersion& version, DriverCommand command) const {
  MutexLock lock(mutex_);
  return unsupported_.contains({version.id, command});
}

StatusOr<DriverReply> DriverCalls::RunDriver(const DriverVersion& version, DriverCommand command,
                                             std::vector<std::string> arguments,
                                             const SecretWords& secrets) {
  platform::Command run{
      .argv = {version.executable, std::string(NameOf(command))},
      .timeout = DeadlineOf(command),
      // One byte more than a reply may have, to notice that a reply is too long.
      .max_output = kMaxDriverReply + 1,
      .leaves_daemon = command == DriverCommand::kMount || command == DriverCommand::kMountDevice,
      .ending = cancel_.get_token()};
  for (std::string& argument : arguments) run.argv.push_back(std::move(argument));
  base::FlightSpan span(base::FlightKind::kCall, NameOf(command), version.driver);
  const auto result = exec_.Run(run);
  auto reply = result.ok() ? ReadDriverReply(NameOf(command), *result, secrets)
                           : StatusOr<DriverReply>(CannotRunError(result.status()));
  span.End(reply.status());
  return reply;
}

StatusOr<DriverReply> DriverCalls::CallDriver(const DriverVersion& version, DriverCommand command,
                                              std::vector<std::string> arguments,
                                              const SecretWords& secrets) {
  const std::string what =
      fmt::format("Flexvolume driver '{}': {}", version.driver, NameOf(command));
  if (cancel_.stop_requested())
    return Error(StatusCode::kCancelled, "{} is not called any more", what);
  if (IsUnsupported(version, command)) {
    return Error(StatusCode::kUnimplemented, "{} is not supported", what);
  }
  const base::CallPoints& points = GetFacts(command).points;
  RETURN_IF_ERROR_WITH(points.before->PassPoint(), what);
  LOG_DEBUG("{}: version {}", what, version.id);
  auto reply = RunDriver(version, command, std::move(arguments), secrets);
  if (reply.status().code() == StatusCode::kUnimplemented) {
    MutexLock lock(mutex_);
    unsupported_.insert({version.id, command});
  }
  RETURN_IF_ERROR_WITH(reply, what);
  RETURN_IF_ERROR_WITH(points.after->PassPoint(), what);
  return reply;
}

StatusOr<DriverCapabilities> DriverCalls::Init(const DriverVersion& version) {
  {
    MutexLock lock(mutex_);
    unsupported_.clear();
  }
  const auto reply = CallDriver(version, DriverCommand::kInit, {});
  if (reply.status().code() == StatusCode::kUnimplemented) {
    return Error(StatusCode::kInternal, "{}, but every driver must support it",
                 base::Message(reply.status()));
  }
  RETURN_IF_ERROR(reply);
  return reply->capabilities;
}

StatusOr<std::string> DriverCalls::GetVolumeName(const DriverVersion& version,
                                                 const DriverOptions& options) {
  ASSIGN_OR_RETURN(DriverReply reply, CallDriver(version, DriverCommand::kGetVolumeName,
                                                 {options.RenderJson()}, options.secrets));
  return std::move(reply.volume_name);
}

Status DriverCalls::CheckVolumeName(const DriverVersion& version, const DriverOptions& options) {
  const auto named = GetVolumeName(version, options);
  if (named.status().code() == StatusCode::kUnimplemented) return base::OkStatus();
  return named.status();
}

StatusOr<std::string> DriverCalls::Attach(const DriverVersion& version,
                                          const DriverOptions& options, const api::NodeName& node) {
  ASSIGN_OR_RETURN(DriverReply reply,
                   CallDriver(version, DriverCommand::kAttach, {options.RenderJson(), node.text()},
                              options.secrets));
  return std::move(reply.device);
}

Status DriverCalls::Detach(const DriverVersion& version, const api::VolumeName& volume,
                           const api::NodeName& node) {
  return CallDriver(version, DriverCommand::kDetach, {volume.text(), node.text()}).status();
}

StatusOr<std::string> DriverCalls::WaitForAttach(const DriverVersion& version,
                                                 const std::string& device,
                                                 const DriverOptions& options) {
  ASSIGN_OR_RETURN(DriverReply reply, CallDriver(version, DriverCommand::kWaitForAttach,
                                                 {device, options.RenderJson()}, options.secrets));
  // Success without a device means the device that was asked for.
  if (reply.device.empty()) return device;
  return std::move(reply.device);
}

StatusOr<bool> DriverCalls::IsAttached(const DriverVersion& version, const DriverOptions& options,
                                       const api::NodeName& node) {
  ASSIGN_OR_RETURN(const DriverReply reply,
                   CallDriver(version, DriverCommand::kIsAttached,
                              {options.RenderJson(), node.text()}, options.secrets));
  return reply.attached;
}

Status DriverCalls::MountDevice(const DriverVersion& version, const platform::StagingPath& folder,
                                const std::string& device, const DriverOptions& options) {
  return CallDriver(version, DriverCommand::kMountDevice,
                    {folder.text(), device, options.RenderJson()}, options.secrets)
      .status();
}

Status DriverCalls::UnmountDevice(const DriverVersion& version,
                                  const platform::StagingPath& folder) {
  return CallDriver(version, DriverCommand::kUnmountDevice, {folder.text()}).status();
}

Status DriverCalls::Mount(const DriverVersion& version, const platform::TargetPath& folder,
                          const DriverOptions& options) {
  return CallDriver(version, DriverCommand::kMount, {folder.text(), options.RenderJson()},
                    options.secrets)
      .status();
}

Status DriverCalls::Unmount(const DriverVersion& version, const platform::TargetPath& folder) {
  return CallDriver(version, DriverCommand::kUnmount, {folder.text()}).status();
}

Status DriverCalls::ExpandVolume(const DriverVersion& version, const DriverOptions& options,
                                 const Growth& growth) {
  return CallDriver(version, DriverCommand::kExpandVolume,
                    {options.RenderJson(), growth.folder, std::to_string(growth.new_bytes),
                     std::to_string(growth.old_bytes)},
                    options.secrets)
      .status();
}

Status DriverCalls::ExpandFs(const DriverVersion& version, const DriverOptions& options,
                             const std::string& device, const Growth& growth) {
  return CallDriver(version, DriverCommand::kExpandFs,
                    {options.RenderJson(), device, growth.folder, std::to_string(growth.new_bytes),
                     std::to_string(growth.old_bytes)},
                    options.secrets)
      .status();
}

}  // namespace berth::volume
