#include "controllers/resizer/resizer.h"

#include <algorithm>
#include <array>

#include "api/quantity.h"
#include "api/time.h"
#include "base/log.h"
#include "controllers/claims.h"
#include "controllers/csi_codec.h"
#include "controllers/names.h"
#include "controllers/writes.h"

namespace berth::controllers::resizer {

using base::Error;
using base::EventType;
using base::Json;
using base::MutexLock;
using base::Status;
using base::StatusCode;
using base::StatusOr;

namespace {

constexpr std::string_view kInProgress = "ControllerResizeInProgress";
constexpr std::string_view kInfeasible = "ControllerResizeInfeasible";
constexpr std::string_view kNodePending = "NodeResizePending";
constexpr char kPreResizeCapacity[] = "volume.alpha.kubernetes.io/pre-resize-capacity";

// A missing or malformed quantity counts as zero.
int64_t Bytes(const std::string& quantity) { return api::ParseBytes(quantity).value_or(0); }

Json Condition(std::string_view type, std::string_view message, const base::Clock& clock) {
  return {{"type", std::string(type)},
          {"status", "True"},
          {"lastProbeTime", nullptr},
          {"lastTransitionTime", api::FormatTime(clock.Now())},
          {"message", std::string(message)}};
}

// The claim's conditions without those of a resize's progress, and `add` behind them.
Json Conditions(const api::PersistentVolumeClaim& claim, Json add) {
  static constexpr std::array<std::string_view, 4> kOurs = {
      "Resizing", "FileSystemResizePending", "ControllerResizeError", "NodeResizeError"};
  Json out = Json::array();
  for (const Json& condition : claim.conditions()) {
    const std::string type = base::json::String(condition, {"type"});
    if (std::find(kOurs.begin(), kOurs.end(), type) == kOurs.end()) out.push_back(condition);
  }
  if (!add.is_null()) out.push_back(std::move(add));
  return out;
}

bool IsInfeasible(StatusCode code) {
  return code == StatusCode::kInvalidArgument || code == StatusCode::kOutOfRange ||
         code == StatusCode::kNotFound;
}

}  // namespace

Resizer::Resizer(Context context, DriverConnection& driver, Options options)
    : context_(context),
      driver_(driver),
      options_(options),
      claims_(context.informers.Of<Claim>()),
      volumes_(context.informers.Of<Volume>()),
      pods_(context.informers.Of<api::Pod>()),
      workers_({.name = "resize",
                .workers = options_.workers,
                .retry_start = options_.retry_start,
                .retry_max = options_.retry_max,
                .flight = context.flight},
               [this](const std::string& key) { return SyncClaim(key); }) {
  AddPodIndexes(pods_);
  Watch();
}

Resizer::~Resizer() { Stop(); }

void Resizer::Watch() {
  claims_.AddHandler([this](const auto& change) {
    if (change.after == nullptr) {
      MutexLock lock(mutex_);
      waiting_for_end_of_use_.erase(change.key);
      return;
    }
    if (!IsBound(*change.after)) return;
    if (change.before != nullptr &&
        change.before->requested_storage() != change.after->requested_storage()) {
      workers_.AddNow(change.key);
    } else {
      workers_.Add(change.key);
    }
  });
  pods_.AddHandler([this](const auto& change) {
    if (change.after != nullptr && !change.after->terminated()) return;
    for (const std::string& claim : ClaimNames(change.latest())) {
      const std::string key = api::ObjectKey(change.latest().ns(), claim);
      MutexLock lock(mutex_);
      if (waiting_for_end_of_use_.contains(key)) workers_.AddNow(key);
    }
  });
  driver_.OnReady([this] {
    for (const auto& claim : claims_.List()) {
      if (IsBound(*claim)) workers_.AddNow(claim->key());
    }
  });
}

void Resizer::Start() { workers_.Start(); }

void Resizer::Stop() { workers_.Stop(); }

bool Resizer::InUse(const Claim& claim) const {
  const auto pods = pods_.ByIndex(kPodsByClaim, claim.key());
  return std::any_of(pods.begin(), pods.end(), [](const auto& pod) {
    return !pod->node_name().empty() && !pod->terminated();
  });
}

std::optional<int64_t> Resizer::Target(const Claim& claim, const Volume& volume) const {
  const int64_t requested = Bytes(claim.requested_storage());
  const std::string status = claim.resize_status();
  // Begun with a target that the driver may have reached in part: it is finished first.
  if (status == kInProgress && !claim.allocated_storage().empty()) {
    return Bytes(claim.allocated_storage());
  }
  const bool volume_too_small = requested > Bytes(volume.capacity());
  const bool claim_behind = requested > Bytes(claim.capacity()) && !claim.capacity().empty();
  if (!volume_too_small && !claim_behind) return std::nullopt;
  // The volume is large enough, and the node's part goes on.
  if (!volume_too_small && !status.empty() && status != kInfeasible) return std::nullopt;
  return requested;
}

Resizer::Outcome Resizer::SyncClaim(const std::string& key) {
  const auto driver = driver_.info();
  const auto claim = claims_.Get(key);
  if (driver == nullptr || claim == nullptr || claim->deleting() || !IsBound(*claim) ||
      claim->phase() != "Bound") {
    return Outcome::Done();
  }
  const auto volume = volumes_.Get(claim->volume_name());
  if (volume == nullptr || !volume->has_csi() || volume->csi().driver() != driver->name ||
      volume->claim_uid() != claim->uid()) {
    return Outcome::Done();
  }
  const std::optional<int64_t> target = Target(*claim, *volume);
  if (!target.has_value()) return Outcome::Done();
  {
    MutexLock lock(mutex_);
    if (waiting_for_end_of_use_.contains(key) && InUse(*claim)) return Outcome::Done();
    waiting_for_end_of_use_.erase(key);
  }
  if (!driver->Has(DriverInfo::Rpc::EXPAND_VOLUME) && driver->expansions.empty()) {
    context_.events.Record(claim->reference(), EventType::kWarning, "VolumeResizeFailed",
                           fmt::format("driver \"{}\" cannot expand volumes", driver->name));
    return Outcome::Done();
  }
  return Expand(*claim, *volume, *driver, *target);
}

Resizer::Outcome Resizer::Expand(const Claim& claim, const Volume& volume, const DriverInfo& driver,
                                 int64_t target) {
  Claim current = claim;
  if (claim.resize_status() != kInProgress || Bytes(claim.allocated_storage()) != target) {
    // The target is on record before the driver hears of it.
    const StatusOr<Claim> begun =
        PatchAt(context_.client, claims_, claim,
                {{"status",
                  {{"allocatedResources", {{"storage", api::FormatBytes(target)}}},
                   {"allocatedResourceStatuses", {{"storage", std::string(kInProgress)}}},
                   {"conditions", Conditions(claim, Condition("Resizing", "", context_.clock))}}}},
                "status");
    if (!begun.ok()) return AfterApi(begun.status());
    current = *begun;
    context_.events.Record(claim.reference(), EventType::kNormal, "Resizing",
                           fmt::format("External resizer is resizing volume {}", volume.name()));
  }
  StatusOr<Expanded> expanded = CallDriver(volume, driver, target);
  if (!expanded.ok()) return ExpandFailed(current, expanded.status());
  if (const Status written = WriteVolume(volume, current, *expanded); !written.ok()) {
    return AfterApi(written);
  }
  return Finish(current, *expanded);
}

StatusOr<Resizer::Expanded> Resizer::CallDriver(const Volume& volume, const DriverInfo& driver,
                                                int64_t target) {
  if (!driver.Has(DriverInfo::Rpc::EXPAND_VOLUME)) {
    return Expanded{.bytes = target, .node_part = true};
  }
  const api::CsiSource csi = volume.csi();
  csi::v1::ControllerExpandVolumeRequest request;
  request.set_volume_id(csi.volume_handle());
  request.mutable_capacity_range()->set_required_bytes(target);
  ASSIGN_OR_RETURN(
      *request.mutable_volume_capability(),
      ToCsiCapability(volume, driver.Has(DriverInfo::Rpc::SINGLE_NODE_MULTI_WRITER), ""));
  ASSIGN_OR_RETURN(const auto secrets,
                   ReadSecret(context_.client, csi.secret_ref("controllerExpandSecretRef")));
  CopyTo(secrets, request.mutable_secrets());
  ASSIGN_OR_RETURN(
      const csi::v1::ControllerExpandVolumeResponse response,
      driver_.Call(&rpc::CsiClient::ControllerExpandVolume, request, options_.timeout));
  // An answer below what was asked is no growth to rely on.
  if (response.capacity_bytes() != 0 && response.capacity_bytes() < target) {
    return Error(StatusCode::kInternal, "the driver says that the volume has {} bytes, not {}",
                 response.capacity_bytes(), target);
  }
  return Expanded{.bytes = std::max(response.capacity_bytes(), target),
                  .node_part = response.node_expansion_required()};
}

Resizer::Outcome Resizer::ExpandFailed(const Claim& claim, const Status& status) {
  const std::string message = DriverError(status);
  context_.events.Record(claim.reference(), EventType::kWarning, "VolumeResizeFailed",
                         fmt::format("resize volume {} failed: {}", claim.volume_name(), message));
  const bool infeasible = IsInfeasible(status.code());
  Json change = {{"conditions",
                  Conditions(claim, Condition("ControllerResizeError", message, context_.clock))}};
  if (infeasible) change["allocatedResourceStatuses"]["storage"] = std::string(kInfeasible);
  bool known = false;
  for (const Json& condition : claim.conditions()) {
    known |= base::json::String(condition, {"type"}) == "ControllerResizeError" &&
             base::json::String(condition, {"message"}) == message;
  }
  if (!known || infeasible) {
    const Status written =
        PatchAt(context_.client, claims_, claim, {{"status", std::move(change)}}, "status")
            .status();
    if (!written.ok() && infeasible) return AfterApi(written);
  }
  if (status.code() == StatusCode::kFailedPrecondition && options_.handle_volume_inuse_error) {
    MutexLock lock(mutex_);
    if (InUse(claim)) {
      waiting_for_end_of_use_.insert(claim.key());
      return Outcome::Done();  // the end of a pod brings the claim here again
    }
  }
  if (infeasible) {
    LOG_WARNING("resize claim {}: infeasible: {}", base::Quote(claim.key()), message);
    return Outcome::After(options_.retry_max);
  }
  return Outcome::Retry(status);
}

Status Resizer::WriteVolume(const Volume& volume, const Claim& claim, const Expanded& expanded) {
  if (Bytes(volume.capacity()) >= expanded.bytes) return base::OkStatus();
  Json patch = {{"spec", {{"capacity", {{"storage", api::FormatBytes(expanded.bytes)}}}}}};
  if (expanded.node_part && !claim.capacity().empty()) {
    patch["metadata"]["annotations"][kPreResizeCapacity] = claim.capacity();
  }
  return Patch(context_.client, volumes_, volume, patch).status();
}

Resizer::Outcome Resizer::Finish(const Claim& claim, const Expanded& expanded) {
  Json change;
  if (expanded.node_part) {
    change = {{"allocatedResourceStatuses", {{"storage", std::string(kNodePending)}}},
              {"conditions",
               Conditions(
                   claim,
                   Condition("FileSystemResizePending",
                             "Waiting for user to (re-)start a pod to finish file system resize of "
                             "volume on node.",
                             context_.clock))}};
  } else {
    change = {{"capacity", {{"storage", api::FormatBytes(expanded.bytes)}}},
              {"allocatedResourceStatuses", nullptr},
              {"conditions", Conditions(claim, nullptr)}};
  }
  const Status written =
      PatchAt(context_.client, claims_, claim, {{"status", std::move(change)}}, "status").status();
  if (!written.ok()) return AfterApi(written);
  context_.events.Record(claim.reference(), EventType::kNormal,
                         expanded.node_part ? "FileSystemResizeRequired" : "VolumeResizeSuccessful",
                         expanded.node_part ? "Require file system resize of volume on node"
                                            : "Resize volume succeeded");
  return Outcome::Done();
}

}  // namespace berth::controllers::resizer
