#include "controllers/driver_connection.h"

#include <algorithm>

#include "api/kinds/csi_names.h"
#include "api/migration/translation.h"
#include "base/flight.h"
#include "base/log.h"
#include "controllers/call_metrics.h"

namespace berth::controllers {

using base::Error;
using base::MutexLock;
using base::StatusCode;
using base::StatusOr;
using std::chrono::milliseconds;

namespace {
constexpr char kReading[] = "read";  // the only key
}  // namespace

StatusOr<std::unique_ptr<DriverConnection>> DriverConnection::New(const std::string& socket,
                                                                  Options options) {
  ASSIGN_OR_RETURN(std::unique_ptr<rpc::CsiClient> client, rpc::CsiClient::New(socket));
  return std::unique_ptr<DriverConnection>(
      new DriverConnection(std::move(client), std::move(options)));
}

StatusOr<std::unique_ptr<DriverConnection>> DriverConnection::New(const std::string& socket) {
  return New(socket, Options());
}

DriverConnection::DriverConnection(std::unique_ptr<rpc::CsiClient> client, Options options)
    : client_(std::move(client)),
      options_(std::move(options)),
      backoff_(options_.retry_start),
      name_(options_.driver),
      reader_({.name = "driver", .workers = 1},
              [this](const std::string& /*key*/) { return UpdateDriver(); }) {}

DriverConnection::~DriverConnection() { Stop(); }

void DriverConnection::OnReady(std::function<void()> ready) { ready_.push_back(std::move(ready)); }

void DriverConnection::Start() {
  reader_.Start();
  reader_.Add(kReading);
}

void DriverConnection::Stop() { reader_.Stop(); }

std::shared_ptr<const DriverInfo> DriverConnection::info() const {
  MutexLock lock(mutex_);
  return info_;
}

void DriverConnection::NoteUnavailable(const base::Status& why) {
  {
    MutexLock lock(mutex_);
    ++unavailable_;
    if (rpc::WasNotSent(why)) was_away_ = true;
    // The driver is being read, or waits for that, and a failed call does not cut the wait short.
    if (!std::exchange(connected_, false)) return;
  }
  reader_.Add(kReading);
}

bool DriverConnection::LabelsMigrated(const std::string& name) const {
  return options_.label_migrated && !api::migration::PluginOf(name).empty();
}

void DriverConnection::RecordCall(const google::protobuf::Descriptor& request,
                                  const base::Status& status, std::chrono::nanoseconds took,
                                  VolumeOrigin origin) {
  if (options_.metrics == nullptr) return;
  std::string name;
  {
    MutexLock lock(mutex_);
    if (name_.empty()) {
      unnamed_.push_back({request, status, took});
      return;
    }
    name = name_;
  }
  std::optional<bool> migrated;
  if (LabelsMigrated(name)) migrated = origin == VolumeOrigin::kInTree;
  ObserveCall(
      *options_.metrics,
      {.driver = name, .request = request, .status = status, .took = took, .migrated = migrated});
}

void DriverConnection::CountUnnamedCalls() {
  std::vector<UnnamedCall> calls;
  {
    MutexLock lock(mutex_);
    calls.swap(unnamed_);
  }
  const std::string unknown = "unknown-driver";
  for (const UnnamedCall& call : calls) {
    ObserveCall(
        *options_.metrics,
        {.driver = unknown, .request = call.request, .status = call.status, .took = call.took});
  }
}

void DriverConnection::SetName(const std::string& name) {
  MutexLock lock(mutex_);
  // The Go programs begin to count anew once they know that the driver replaces a plugin.
  if (LabelsMigrated(name)) unnamed_.clear();
  name_ = name;
}

base::Status DriverConnection::ProbeDriver() {
  ASSIGN_OR_RETURN(
      const csi::v1::ProbeResponse probe,
      CallAndMeasure(&rpc::CsiClient::Probe, csi::v1::ProbeRequest(), options_.timeout));
  if (probe.has_ready() && !probe.ready().value()) {
    return Error(StatusCode::kUnavailable, "the driver says that it is not ready yet");
  }
  return base::OkStatus();
}

StatusOr<csi::v1::GetPluginInfoResponse> DriverConnection::ReadPlugin() {
  ASSIGN_OR_RETURN(csi::v1::GetPluginInfoResponse plugin,
                   CallAndMeasure(&rpc::CsiClient::GetPluginInfo, csi::v1::GetPluginInfoRequest(),
                                  options_.timeout));
  if (plugin.name().empty()) {
    return Error(StatusCode::kInternal, "the driver gave no name");
  }
  if (!api::IsCsiDriverName(plugin.name())) {
    return Error(StatusCode::kInvalidArgument, "{} is not the name of a CSI driver",
                 base::Quote(plugin.name()));
  }
  // A driver that replaces a plugin has its name from here on in each of the Go programs.
  if (options_.first_calls != FirstCalls::kNamedAfterCapabilities ||
      LabelsMigrated(plugin.name())) {
    SetName(plugin.name());
  }
  return plugin;
}

// The identity calls are made without being the leader, because they change nothing.
StatusOr<DriverInfo> DriverConnection::ReadDriver() {
  const bool name_first = options_.first_calls == FirstCalls::kNamedBeforeProbe;
  if (!name_first) RETURN_IF_ERROR(ProbeDriver());
  ASSIGN_OR_RETURN(const csi::v1::GetPluginInfoResponse plugin, ReadPlugin());
  if (name_first) RETURN_IF_ERROR(ProbeDriver());
  DriverInfo info{
      .name = plugin.name(), .vendor_version = plugin.vendor_version(), .services = {}, .rpcs = {}};
  ASSIGN_OR_RETURN(const csi::v1::GetPluginCapabilitiesResponse capabilities,
                   CallAndMeasure(&rpc::CsiClient::GetPluginCapabilities,
                                  csi::v1::GetPluginCapabilitiesRequest(), options_.timeout));
  for (const auto& capability : capabilities.capabilities()) {
    if (capability.has_service()) info.services.insert(capability.service().type());
  }
  if (options_.ignore_topology) {
    info.services.erase(DriverInfo::Service::VOLUME_ACCESSIBILITY_CONSTRAINTS);
  }
  if (info.services.contains(DriverInfo::Service::CONTROLLER_SERVICE)) {
    ASSIGN_OR_RETURN(const csi::v1::ControllerGetCapabilitiesResponse rpcs,
                     CallAndMeasure(&rpc::CsiClient::ControllerGetCapabilities,
                                    csi::v1::ControllerGetCapabilitiesRequest(), options_.timeout));
    for (const auto& capability : rpcs.capabilities()) {
      if (capability.has_rpc()) info.rpcs.insert(capability.rpc().type());
    }
  }
  SetName(plugin.name());
  return info;
}

base::KeyedWorkers::Outcome DriverConnection::UpdateDriver() {
  using Outcome = base::KeyedWorkers::Outcome;
  const base::FlightScope scope(options_.flight, fmt::format("driver {}", socket()));
  uint64_t unavailable = 0;
  {
    MutexLock lock(mutex_);
    unavailable = unavailable_;
  }
  StatusOr<DriverInfo> read = ReadDriver();
  CountUnnamedCalls();
  const std::shared_ptr<const DriverInfo> known = info();
  const std::string& expected = known != nullptr ? known->name : options_.driver;
  if (read.ok() && !expected.empty() && read->name != expected) {
    read = Error(StatusCode::kFailedPrecondition, "driver '{}' answers in place of '{}'",
                 read->name, expected);
  }
  if (!read.ok()) {
    MutexLock lock(mutex_);
    if (!std::exchange(complained_, true)) {
      LOG_WARNING("driver at {} is not ready, waiting for it: {}", base::Quote(socket()),
                  base::ToString(read.status()));
    }
    was_away_ = true;
    const milliseconds delay = backoff_;
    backoff_ = std::min(backoff_ * 2, options_.retry_max);
    return Outcome::After(delay);
  }
  bool back = known == nullptr || *known != *read;
  {
    MutexLock lock(mutex_);
    back |= std::exchange(was_away_, false);
    info_ = std::make_shared<const DriverInfo>(*std::move(read));
    backoff_ = options_.retry_start;
    complained_ = false;
  }
  if (back) {
    const auto now = info();
    LOG_INFO("driver {} {} is ready at {}", base::Quote(now->name),
             base::Quote(now->vendor_version), base::Quote(socket()));
    for (const auto& ready : ready_) ready();
  }
  MutexLock lock(mutex_);
  // After a call that failed meanwhile the driver may be another one.
  connected_ = unavailable_ == unavailable;
  return connected_ ? Outcome::Done() : Outcome::After(milliseconds(0));
}

}  // namespace berth::controllers
