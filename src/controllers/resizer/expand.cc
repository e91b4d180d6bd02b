// Expands one volume until the node takes over (resizer.h).
#include <algorithm>
#include <array>

#include "api/migration/translation.h"
#include "base/log.h"
#include "controllers/claim_conditions.h"
#include "controllers/csi_codec.h"
#include "controllers/resizer/claim_status.h"
#include "controllers/resizer/resizer.h"
#include "controllers/resizer/sizes.h"
#include "controllers/writes.h"
#include "rpc/outcome.h"

namespace berth::controllers::resizer {

using base::Error;
using base::EventType;
using base::Json;
using base::MutexLock;
using base::Status;
using base::StatusCode;
using base::StatusOr;

namespace {

// This annotation of a claim says that nodes have nothing to do for the size in its status.
constexpr char kNodeExpansionNotRequired[] = "volume.kubernetes.io/node-expansion-not-required";

constexpr std::array kResizeConditions = {kResizing, kFileSystemResizePending,
                                          kControllerResizeError, kNodeResizeError};

// The text of a target, which is the claim's last one or its request: as the claim has it, as with
// Go's resizer, because people compare it as text.
std::string TextOf(const api::PersistentVolumeClaim& claim, int64_t target) {
  return BytesOf(claim.allocated_storage()) == target ? claim.allocated_storage()
                                                      : claim.requested_storage();
}

bool IsInfeasible(const Status& status) {
  return IsOfDriver(status) &&
         (status.code() == StatusCode::kInvalidArgument ||
          status.code() == StatusCode::kOutOfRange || status.code() == StatusCode::kNotFound);
}

}  // namespace

StatusOr<Resizer::Grower> Resizer::FindGrower(const DriverInfo& driver) {
  if (driver.Has(DriverInfo::Rpc::EXPAND_VOLUME)) return Grower::kController;
  const StatusOr<csi::v1::NodeGetCapabilitiesResponse> node =
      driver_.Call(&rpc::CsiClient::NodeGetCapabilities, {}, options_.timeout);
  // A driver's controller part may run without a node part beside it, so UNIMPLEMENTED is no error.
  if (node.status().code() == StatusCode::kUnimplemented) return Grower::kNobody;
  if (!node.ok()) return OfDriver(node.status());
  const auto& capabilities = node->capabilities();
  const bool expands =
      std::any_of(capabilities.begin(), capabilities.end(), [](const auto& capability) {
        return capability.rpc().type() == csi::v1::NodeServiceCapability::RPC::EXPAND_VOLUME;
      });
  return expands ? Grower::kNode : Grower::kNobody;
}

StatusOr<csi::v1::ControllerExpandVolumeRequest> Resizer::MakeRequest(const Volume& volume,
                                                                      const DriverInfo& driver,
                                                                      int64_t target) const {
  const StatusOr<Volume> csi_volume = api::migration::AsCsiVolume(volume);
  RETURN_IF_ERROR_WITH(csi_volume, "failed to translate persistent volume");
  const api::CsiSource csi = csi_volume->csi();
  csi::v1::ControllerExpandVolumeRequest request;
  request.set_volume_id(csi.volume_handle());
  request.mutable_capacity_range()->set_required_bytes(target);
  ASSIGN_OR_RETURN(
      *request.mutable_volume_capability(),
      ToCsiCapability(*csi_volume, driver.Has(DriverInfo::Rpc::SINGLE_NODE_MULTI_WRITER), ""));
  ASSIGN_OR_RETURN(const auto secrets,
                   ReadSecret(context_.client, csi.secret_ref("controllerExpandSecretRef")));
  CopyTo(secrets, request.mutable_secrets());
  return request;
}

StatusOr<Resizer::Claim> Resizer::WriteTarget(const Claim& claim, int64_t target) {
  const bool same_size = BytesOf(claim.allocated_storage()) == target;
  const bool says_not_required = claim.has_annotation(kNodeExpansionNotRequired);
  if (same_size && claim.resize_status() == kControllerInProgress && !says_not_required) {
    return claim;
  }
  // The conditions of an expansion to another size say nothing of this one.
  const std::span<const std::string_view> outdated =
      same_size ? std::span<const std::string_view>{} : kResizeConditions;
  Json patch = {
      {"status",
       {{"allocatedResources", {{"storage", TextOf(claim, target)}}},
        {"allocatedResourceStatuses", {{"storage", std::string(kControllerInProgress)}}},
        {"conditions",
         ReplaceConditions(claim, outdated, MakeCondition(kResizing, "", context_.clock))}}}};
  if (says_not_required) patch["metadata"]["annotations"][kNodeExpansionNotRequired] = nullptr;
  return PatchAt(context_.client, claims_, claim, std::move(patch), "status");
}

Resizer::Outcome Resizer::Expand(const Claim& claim, const Volume& volume, const DriverInfo& driver,
                                 int64_t target) {
  const StatusOr<Grower> grower = FindGrower(driver);
  if (!grower.ok()) return HandleFailure(claim, driver, grower.status());
  if (*grower == Grower::kNobody) return TellThatNobodyExpands(claim, driver);
  // Errors that need no driver are found here, before the record says that the driver may have
  // begun.
  csi::v1::ControllerExpandVolumeRequest request;
  if (*grower == Grower::kController) {
    StatusOr<csi::v1::ControllerExpandVolumeRequest> made = MakeRequest(volume, driver, target);
    if (!made.ok()) return HandleFailure(claim, driver, made.status());
    request = *std::move(made);
  }
  const StatusOr<Claim> begun = WriteTarget(claim, target);
  if (!begun.ok()) {
    return HandleFailure(claim, driver,
                         base::Annotate(begun.status(), "write the target to the claim"));
  }
  if (MustEndUse(*begun)) return TellUse(*begun, driver);
  context_.events.Record(claim.reference(), EventType::kNormal, "Resizing",
                         fmt::format("External resizer is resizing volume {}", volume.name()));
  const StatusOr<Expanded> expanded =
      *grower == Grower::kController
          ? CallDriver(request, volume)
          : StatusOr<Expanded>(Expanded{.size = TextOf(claim, target), .node_part = true});
  if (!expanded.ok()) return HandleFailure(*begun, driver, expanded.status());
  if (const Status written = WriteVolume(volume, *begun, *expanded); !written.ok()) {
    return HandleFailure(*begun, driver, base::Annotate(written, "write the PersistentVolume"));
  }
  return FinishExpansion(*begun, *expanded);
}

Resizer::Outcome Resizer::TellThatNobodyExpands(const Claim& claim, const DriverInfo& driver) {
  context_.events.Record(
      claim.reference(), EventType::kWarning, "VolumeResizeFailed",
      fmt::format("driver \"{}\" cannot expand volumes, neither in the controller nor on nodes",
                  driver.name));
  return Outcome::Done();  // a driver that says something else of itself queues the claim again
}

bool Resizer::MustEndUse(const Claim& claim) {
  MutexLock lock(mutex_);
  bool& refused = states_[claim.key()].refused_in_use;
  refused = refused && IsInUse(claim.key());
  return refused;
}

Resizer::Outcome Resizer::TellUse(const Claim& claim, const DriverInfo& driver) {
  const Status in_use = Error(StatusCode::kFailedPrecondition,
                              "Unable to expand {} because CSI driver {} only supports offline "
                              "expansion and volume is currently in-use",
                              claim.key(), driver.name);
  context_.events.Record(claim.reference(), EventType::kWarning, "VolumeResizeFailed",
                         base::Message(in_use));
  return Outcome::Retry(in_use);
}

StatusOr<Resizer::Expanded> Resizer::CallDriver(
    const csi::v1::ControllerExpandVolumeRequest& request, const Volume& volume) {
  const int64_t target = request.capacity_range().required_bytes();
  const StatusOr<csi::v1::ControllerExpandVolumeResponse> response =
      driver_.Call(&rpc::CsiClient::ControllerExpandVolume, request, options_.timeout,
                   OriginIf(!volume.has_csi()));
  if (!response.ok()) return OfDriver(response.status());
  // A driver that does not say the size has not said that the volume is smaller than before.
  const int64_t has = response->capacity_bytes() != 0
                          ? response->capacity_bytes()
                          : std::max(target, BytesOf(volume.capacity()));
  if (has < target) {
    return OfDriver(
        Error(StatusCode::kInternal,
              "the driver says that the volume has {} bytes, fewer than the {} that were asked for",
              has, target));
  }
  return Expanded{.size = api::FormatBytes(has), .node_part = response->node_expansion_required()};
}

Resizer::Outcome Resizer::HandleFailure(const Claim& claim, const DriverInfo& driver,
                                        const Status& status) {
  if (IsOfApi(status)) return AfterApi(status);
  const std::string message = FailureText(status);
  const bool infeasible = IsInfeasible(status);
  context_.events.Record(claim.reference(), EventType::kWarning, "VolumeResizeFailed",
                         fmt::format("resize volume \"{}\" by resizer \"{}\" failed: {}",
                                     claim.volume_name(), driver.name, message));
  // After a call with an unknown outcome the expansion still is in progress, as with Go's resizer.
  if (!IsOfDriver(status) || rpc::IsFinal(status)) {
    const Status written =
        WriteFailure(claim, fmt::format("failed to expand pvc with {}", message), infeasible);
    if (!written.ok() && infeasible) return AfterApi(written);
  }
  MutexLock lock(mutex_);
  ClaimState& state = states_[claim.key()];
  if (IsOfDriver(status)) {
    state.failed_finally = rpc::IsFinal(status);
    state.refused_in_use = status.code() == StatusCode::kFailedPrecondition;
  }
  if (!infeasible) return Outcome::Retry(status);
  LOG_WARNING("claim {} cannot grow to the size that it asks for: {}", base::Quote(claim.key()),
              message);
  state.not_before = std::chrono::steady_clock::now() + options_.retry_max;
  state.request = claim.requested_storage();
  return Outcome::After(options_.retry_max);
}

Status Resizer::WriteFailure(const Claim& claim, const std::string& message, bool infeasible) {
  if (!infeasible && ConditionMessage(claim, kControllerResizeError) == message) {
    return base::OkStatus();
  }
  const auto make = [&](const Claim& current) {
    Json change = {{"conditions", ReplaceConditions(current, {},
                                                    MakeCondition(kControllerResizeError, message,
                                                                  context_.clock))}};
    if (infeasible) {
      change["allocatedResourceStatuses"]["storage"] = std::string(kControllerInfeasible);
    }
    return change;
  };
  return PatchStatusAfterCall(context_.client, claims_, claim, make).status();
}

Status Resizer::WriteVolume(const Volume& volume, const Claim& claim, const Expanded& expanded) {
  Json patch = Json::object();
  if (BytesOf(volume.capacity()) != BytesOf(expanded.size)) {
    patch["spec"]["capacity"]["storage"] = expanded.size;
  }
  // The annotation tells a claim that is bound to the volume later which size the file system
  // really has.
  if (expanded.node_part && !claim.capacity().empty() &&
      !volume.has_annotation(kPreResizeCapacity)) {
    patch["metadata"]["annotations"][std::string(kPreResizeCapacity)] = claim.capacity();
  }
  if (patch.empty()) return base::OkStatus();
  return Patch(context_.client, volumes_, volume, patch).status();
}

bool Resizer::HasEndedExpansion(const Claim& claim, const Volume& volume) {
  return volume.has_annotation(kPreResizeCapacity) &&
         BytesOf(claim.capacity()) >= BytesOf(volume.capacity());
}

Status Resizer::ForgetOldCapacity(const Volume& volume) {
  return Patch(context_.client, volumes_, volume,
               {{"metadata", {{"annotations", {{std::string(kPreResizeCapacity), nullptr}}}}}})
      .status();
}

Resizer::Outcome Resizer::FinishExpansion(const Claim& claim, const Expanded& expanded) {
  Json patch;
  if (expanded.node_part) {
    // The condition Resizing stays until the node has done its part.
    patch["status"] = {
        {"allocatedResourceStatuses", {{"storage", std::string(kNodePending)}}},
        {"conditions",
         ReplaceConditions(
             claim, {},
             MakeCondition(kFileSystemResizePending,
                           "Waiting for user to (re-)start a pod to finish file system resize "
                           "of volume on node.",
                           context_.clock))}};
    if (claim.has_annotation(kNodeExpansionNotRequired)) {
      patch["metadata"]["annotations"][kNodeExpansionNotRequired] = nullptr;
    }
  } else {
    patch["status"] = {{"capacity", {{"storage", expanded.size}}},
                       {"allocatedResourceStatuses", {{"storage", nullptr}}},
                       {"conditions", ReplaceConditions(claim, kResizeConditions, nullptr)}};
    patch["metadata"]["annotations"][kNodeExpansionNotRequired] = "true";
  }
  const Status written =
      PatchAt(context_.client, claims_, claim, std::move(patch), "status").status();
  if (!written.ok()) return AfterApi(written);
  {
    MutexLock lock(mutex_);
    states_.erase(claim.key());
  }
  LOG_INFO("volume {} of claim {} has grown to {}{}", base::Quote(claim.volume_name()),
           base::Quote(claim.key()), expanded.size,
           expanded.node_part ? ": its file system is left to the node" : "");
  context_.events.Record(claim.reference(), EventType::kNormal,
                         expanded.node_part ? "FileSystemResizeRequired" : "VolumeResizeSuccessful",
                         expanded.node_part ? "Require file system resize of volume on node"
                                            : "Resize volume succeeded");
  return Outcome::Done();
}

}  // namespace berth::controllers::resizer
