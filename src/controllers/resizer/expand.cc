// Expands one volume until the node takes over (resizer.h).
#include <algorithm>
#include <array>

#include "api/migration/translation.h"
#include "base/log.h"
#include "controllers/claim_conditions.h"
#include "controllers/csi_codec.h"
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

bool IsInfeasible(const Status& status) {
  return IsOfDriver(status) &&
         (status.code() == StatusCode::kInvalidArgument ||
          status.code() == StatusCode::kOutOfRange || status.code() == StatusCode::kNotFound);
}

}  // namespace

StatusOr<bool> Resizer::NeedsCall(const DriverInfo& driver) {
  if (driver.Has(DriverInfo::Rpc::EXPAND_VOLUME)) return true;
  if (!driver.expansions.empty()) return false;
  const StatusOr<csi::v1::NodeGetCapabilitiesResponse> node =
      driver_.Call(&rpc::CsiClient::NodeGetCapabilities, {}, options_.timeout);
  // A driver's controller part may run without a node part beside it, so UNIMPLEMENTED is no error.
  if (!node.ok() && node.status().code() != StatusCode::kUnimplemented) {
    return OfDriver(node.status());
  }
  if (node.ok()) {
    for (const auto& capability : node->capabilities()) {
      if (capability.rpc().type() == csi::v1::NodeServiceCapability::RPC::EXPAND_VOLUME) {
        return false;
      }
    }
  }
  return Error(StatusCode::kFailedPrecondition,
               "driver \"{}\" cannot expand volumes, neither in the controller nor on nodes",
               driver.name);
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

StatusOr<Resizer::Claim> Resizer::WriteTarget(const Claim& claim, const Volume& volume,
                                              int64_t target) {
  if (claim.resize_status() == kControllerInProgress &&
      BytesOf(claim.allocated_storage()) == target) {
    return claim;
  }
  // The conditions of an expansion to another size say nothing of this one.
  const std::span<const std::string_view> outdated = BytesOf(claim.allocated_storage()) == target
                                                         ? std::span<const std::string_view>{}
                                                         : kResizeConditions;
  ASSIGN_OR_RETURN(
      Claim begun,
      PatchAt(context_.client, claims_, claim,
              {{"status",
                {{"allocatedResources", {{"storage", api::FormatBytes(target)}}},
                 {"allocatedResourceStatuses", {{"storage", std::string(kControllerInProgress)}}},
                 {"conditions", ReplaceConditions(claim, outdated,
                                                  MakeCondition(kResizing, "", context_.clock))}}}},
              "status"));
  context_.events.Record(claim.reference(), EventType::kNormal, "Resizing",
                         fmt::format("External resizer is resizing volume {}", volume.name()));
  return begun;
}

Resizer::Outcome Resizer::Expand(const Claim& claim, const Volume& volume, const DriverInfo& driver,
                                 int64_t target) {
  const StatusOr<bool> needs_call = NeedsCall(driver);
  if (!needs_call.ok()) return HandleFailure(claim, driver, needs_call.status());
  // Errors that need no driver are found here, before the record says that the driver may have
  // begun.
  csi::v1::ControllerExpandVolumeRequest request;
  if (*needs_call) {
    StatusOr<csi::v1::ControllerExpandVolumeRequest> made = MakeRequest(volume, driver, target);
    if (!made.ok()) return HandleFailure(claim, driver, made.status());
    request = *std::move(made);
  }
  const StatusOr<Claim> begun = WriteTarget(claim, volume, target);
  if (!begun.ok()) {
    return HandleFailure(claim, driver,
                         base::Annotate(begun.status(), "write the target to the claim"));
  }
  const StatusOr<Expanded> expanded =
      *needs_call ? CallDriver(request, OriginIf(!volume.has_csi()))
                  : StatusOr<Expanded>(Expanded{.bytes = target, .node_part = true});
  if (!expanded.ok()) return HandleFailure(*begun, driver, expanded.status());
  if (const Status written = WriteVolume(volume, *begun, *expanded); !written.ok()) {
    return HandleFailure(*begun, driver, base::Annotate(written, "write the PersistentVolume"));
  }
  return FinishExpansion(*begun, *expanded);
}

StatusOr<Resizer::Expanded> Resizer::CallDriver(
    const csi::v1::ControllerExpandVolumeRequest& request, VolumeOrigin origin) {
  const int64_t target = request.capacity_range().required_bytes();
  const StatusOr<csi::v1::ControllerExpandVolumeResponse> response =
      driver_.Call(&rpc::CsiClient::ControllerExpandVolume, request, options_.timeout, origin);
  if (!response.ok()) return OfDriver(response.status());
  // An answer with less than the requested size counts as a failure.
  if (response->capacity_bytes() != 0 && response->capacity_bytes() < target) {
    return OfDriver(
        Error(StatusCode::kInternal,
              "the driver says that the volume has {} bytes, fewer than the {} that were asked for",
              response->capacity_bytes(), target));
  }
  return Expanded{.bytes = std::max(response->capacity_bytes(), target),
                  .node_part = response->node_expansion_required()};
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
  if (IsOfDriver(status)) state.failed_finally = rpc::IsFinal(status);
  if (IsOfDriver(status) && status.code() == StatusCode::kFailedPrecondition && IsInUse(claim)) {
    state.waits_for_end_of_use = true;
    return Outcome::Done();  // the end of a pod queues the claim again
  }
  const bool cannot_succeed =
      !IsOfDriver(status) && status.code() == StatusCode::kFailedPrecondition;
  if (!infeasible && !cannot_succeed) return Outcome::Retry(status);
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
  Json change = {{"conditions",
                  ReplaceConditions(
                      claim, {}, MakeCondition(kControllerResizeError, message, context_.clock))}};
  if (infeasible) {
    change["allocatedResourceStatuses"]["storage"] = std::string(kControllerInfeasible);
  }
  return PatchAt(context_.client, claims_, claim, {{"status", std::move(change)}}, "status")
      .status();
}

Status Resizer::WriteVolume(const Volume& volume, const Claim& claim, const Expanded& expanded) {
  if (BytesOf(volume.capacity()) >= expanded.bytes) return base::OkStatus();
  Json patch = {{"spec", {{"capacity", {{"storage", api::FormatBytes(expanded.bytes)}}}}}};
  // The annotation tells a claim that is bound to the volume later which size the file system
  // really has.
  if (expanded.node_part && !claim.capacity().empty() &&
      !volume.has_annotation(kPreResizeCapacity)) {
    patch["metadata"]["annotations"][std::string(kPreResizeCapacity)] = claim.capacity();
  }
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
    patch["status"] = {{"capacity", {{"storage", api::FormatBytes(expanded.bytes)}}},
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
  LOG_INFO("volume {} of claim {} has grown to {} bytes{}", base::Quote(claim.volume_name()),
           base::Quote(claim.key()), expanded.bytes,
           expanded.node_part ? ": its file system is left to the node" : "");
  context_.events.Record(claim.reference(), EventType::kNormal,
                         expanded.node_part ? "FileSystemResizeRequired" : "VolumeResizeSuccessful",
                         expanded.node_part ? "Require file system resize of volume on node"
                                            : "Resize volume succeeded");
  return Outcome::Done();
}

}  // namespace berth::controllers::resizer
