#include "controllers/provisioner/plan.h"

#include <google/protobuf/util/message_differencer.h>

#include <algorithm>
#include <array>

#include "api/migration/translation.h"
#include "api/quantity.h"
#include "controllers/claims.h"
#include "controllers/csi_codec.h"
#include "controllers/well_known_names.h"

namespace berth::controllers::provisioner {

using base::Error;
using base::Json;
using base::Status;
using base::StatusCode;
using base::StatusOr;

namespace {

constexpr std::array<SecretUse, 7> kSecretUses = {
    SecretUse::kProvisioner,     SecretUse::kControllerPublish, SecretUse::kNodeStage,
    SecretUse::kNodePublish,     SecretUse::kControllerExpand,  SecretUse::kNodeExpand,
    SecretUse::kControllerModify};

Json ToJson(const api::SecretReference& secret) {
  return {{"name", secret.name}, {"namespace", secret.ns}};
}

// The request gets one capability for each access mode of the claim.
Status AddCapabilities(const PlanInputs& inputs, Plan& plan) {
  const bool block = inputs.claim.volume_mode() == "Block";
  const bool multi_writer = inputs.driver.Has(DriverInfo::Rpc::SINGLE_NODE_MULTI_WRITER);
  const std::vector<std::string> modes = inputs.claim.access_modes();
  if (modes.empty()) {
    return Error(StatusCode::kInvalidArgument, "the claim asks for no access mode");
  }
  for (const std::string& mode : modes) {
    ASSIGN_OR_RETURN(const auto csi_mode, ToCsiAccessMode({mode}, multi_writer));
    auto* capability = plan.request.add_volume_capabilities();
    capability->mutable_access_mode()->set_mode(csi_mode);
    if (block) {
      capability->mutable_block();
      continue;
    }
    capability->mutable_mount()->set_fs_type(plan.fs_type);
    for (const std::string& option : inputs.storage_class.mount_options()) {
      capability->mutable_mount()->add_mount_flags(option);
    }
  }
  plan.read_only = inputs.options.controller_publish_readonly && modes.size() == 1 &&
                   modes.front() == "ReadOnlyMany";
  return base::OkStatus();
}

const std::string& SourceId(const csi::v1::VolumeContentSource& source) {
  return source.has_snapshot() ? source.snapshot().snapshot_id() : source.volume().volume_id();
}

// Whether no key has different values in the two topologies. One of them may have more keys.
bool TopologiesAgree(const csi::v1::Topology& a, const csi::v1::Topology& b) {
  return std::all_of(a.segments().begin(), a.segments().end(), [&](const auto& segment) {
    const auto other = b.segments().find(segment.first);
    return other == b.segments().end() || other->second == segment.second;
  });
}

// CSI, TopologyRequirement: a volume is accessible from at least one of the requisite topologies.
Status CheckTopology(const csi::v1::TopologyRequirement& required, const csi::v1::Volume& volume) {
  if (required.requisite().empty() || volume.accessible_topology().empty()) return base::OkStatus();
  for (const csi::v1::Topology& place : volume.accessible_topology()) {
    for (const csi::v1::Topology& wanted : required.requisite()) {
      if (TopologiesAgree(place, wanted)) return base::OkStatus();
    }
  }
  return Error(StatusCode::kFailedPrecondition,
               "the driver says that the volume is accessible in {} topologies, none of which was "
               "asked for (requisite)",
               volume.accessible_topology_size());
}

Json CsiSourceOf(const Plan& plan, const PlanInputs& inputs, const csi::v1::Volume& volume,
                 const std::string& identity) {
  Json attributes = {{std::string(kIdentityAttribute), identity}};
  for (const auto& [key, value] : volume.volume_context()) attributes[key] = value;
  Json csi = {{"driver", inputs.driver.name},
              {"volumeHandle", volume.volume_id()},
              {"volumeAttributes", std::move(attributes)}};
  if (!plan.fs_type.empty()) csi["fsType"] = plan.fs_type;
  if (plan.read_only) csi["readOnly"] = true;
  static constexpr std::array<std::pair<SecretUse, const char*>, 5> kReferences = {{
      {SecretUse::kControllerPublish, "controllerPublishSecretRef"},
      {SecretUse::kNodeStage, "nodeStageSecretRef"},
      {SecretUse::kNodePublish, "nodePublishSecretRef"},
      {SecretUse::kControllerExpand, "controllerExpandSecretRef"},
      {SecretUse::kNodeExpand, "nodeExpandSecretRef"},
  }};
  for (const auto& [use, field] : kReferences) {
    if (const api::SecretReference secret = plan.secret(use); !secret.empty()) {
      csi[field] = ToJson(secret);
    }
  }
  return csi;
}

}  // namespace

std::string VolumeName(const Options& options, const api::PersistentVolumeClaim& claim) {
  std::string uid = claim.uid();
  if (options.volume_name_uuid_length >= 0) {
    std::erase(uid, '-');
    uid = uid.substr(0, static_cast<size_t>(options.volume_name_uuid_length));
  }
  return fmt::format("{}-{}", options.volume_name_prefix, uid);
}

api::SecretReference Plan::secret(SecretUse use) const {
  const auto it = secrets.find(use);
  return it == secrets.end() ? api::SecretReference{} : it->second;
}

StatusOr<Plan> MakePlan(const PlanInputs& inputs) {
  const api::PersistentVolumeClaim& claim = inputs.claim;
  if (claim.selector() != nullptr) {
    return Error(StatusCode::kInvalidArgument, "claim Selector is not supported");
  }
  Plan plan;
  plan.volume_name = VolumeName(inputs.options, claim);
  ASSIGN_OR_RETURN(const ClassParameters parameters,
                   ClassParameters::Parse(inputs.storage_class.parameters()));
  if (claim.volume_mode() != "Block") {
    plan.fs_type =
        parameters.fs_type().empty() ? inputs.options.default_fs_type : parameters.fs_type();
  }
  for (const SecretUse use : kSecretUses) {
    ASSIGN_OR_RETURN(const api::SecretReference secret,
                     parameters.Secret(use, plan.volume_name, claim));
    if (!secret.empty()) plan.secrets.emplace(use, secret);
  }
  csi::v1::CreateVolumeRequest& request = plan.request;
  request.set_name(plan.volume_name);
  const StatusOr<int64_t> size = api::ParseBytes(claim.requested_storage());
  RETURN_IF_ERROR_WITH(size, "the claim's storage request");
  request.mutable_capacity_range()->set_required_bytes(*size);
  RETURN_IF_ERROR(AddCapabilities(inputs, plan));
  CopyTo(parameters.driver_parameters(), request.mutable_parameters());
  if (inputs.options.extra_create_metadata) {
    auto& metadata = *request.mutable_parameters();
    metadata["csi.storage.k8s.io/pvc/name"] = claim.name();
    metadata["csi.storage.k8s.io/pvc/namespace"] = claim.ns();
    metadata["csi.storage.k8s.io/pv/name"] = plan.volume_name;
  }
  CopyTo(inputs.mutable_parameters, request.mutable_mutable_parameters());
  if (inputs.source.has_value()) *request.mutable_volume_content_source() = *inputs.source;
  if (inputs.topology.has_value()) {
    *request.mutable_accessibility_requirements() = *inputs.topology;
  }
  return plan;
}

bool IsSameRequest(const Plan& a, const Plan& b) {
  return google::protobuf::util::MessageDifferencer::Equals(a.request, b.request);
}

Status CheckAnswer(const Plan& plan, const csi::v1::Volume& volume) {
  const int64_t required = plan.request.capacity_range().required_bytes();
  if (volume.volume_id().empty()) {
    return Error(StatusCode::kInternal, "the driver gave the volume no id");
  }
  if (volume.capacity_bytes() != 0 && volume.capacity_bytes() < required) {
    return Error(StatusCode::kOutOfRange,
                 "created volume capacity {} less than requested capacity {}",
                 volume.capacity_bytes(), required);
  }
  if (plan.request.has_volume_content_source()) {
    if (!volume.has_content_source()) {
      return Error(
          StatusCode::kFailedPrecondition,
          "volume content source missing: the driver made an empty volume in place of a copy");
    }
    if (SourceId(volume.content_source()) != SourceId(plan.request.volume_content_source())) {
      return Error(StatusCode::kFailedPrecondition,
                   "volume content source is '{}': the driver made a copy of something else",
                   SourceId(volume.content_source()));
    }
  }
  return CheckTopology(plan.request.accessibility_requirements(), volume);
}

StatusOr<api::PersistentVolume> MakeVolumeObject(const Plan& plan, const PlanInputs& inputs,
                                                 const csi::v1::Volume& volume,
                                                 const std::string& identity) {
  const api::PersistentVolumeClaim& claim = inputs.claim;
  const api::StorageClass& storage_class = inputs.storage_class;
  const int64_t bytes = volume.capacity_bytes() != 0
                            ? volume.capacity_bytes()
                            : plan.request.capacity_range().required_bytes();
  const api::SecretReference deletion = plan.secret(SecretUse::kProvisioner);

  api::PersistentVolume out;
  out.Set({"apiVersion"}, "v1");
  out.Set({"kind"}, "PersistentVolume");
  out.set_name(plan.volume_name);
  out.set_annotation(kProvisionedBy, inputs.claim_class.provisioner());
  out.set_annotation(kDeletionSecretName, deletion.name);
  out.set_annotation(kDeletionSecretNamespace, deletion.ns);
  if (const auto modify = plan.secret(SecretUse::kControllerModify); !modify.empty()) {
    out.set_annotation(kModifySecretName, modify.name);
    out.set_annotation(kModifySecretNamespace, modify.ns);
  }
  // The attacher removes its finalizer from a volume of an in-tree plugin until the controller
  // manager has written that the volume is the driver's.
  const bool migrated = inputs.claim_class.provisioner() != inputs.driver.name;
  if (storage_class.reclaim_policy() == "Delete") {
    out.add_finalizer(kVolumeFinalizer);
    if (inputs.options.attacher_beside && !migrated &&
        inputs.driver.Has(DriverInfo::Rpc::PUBLISH_UNPUBLISH_VOLUME)) {
      out.add_finalizer(AttacherFinalizer(inputs.driver.name));
    }
  }
  Json spec = {{"capacity", {{"storage", api::FormatBytes(bytes)}}},
               {"accessModes", claim.access_modes()},
               {"volumeMode", claim.volume_mode()},
               {"persistentVolumeReclaimPolicy", storage_class.reclaim_policy()},
               {"storageClassName", storage_class.name()},
               {"claimRef", ClaimReference(claim)},
               {"csi", CsiSourceOf(plan, inputs, volume, identity)}};
  if (const auto options = storage_class.mount_options(); !options.empty()) {
    spec["mountOptions"] = options;
  }
  if (Json affinity = NodeAffinity(volume.accessible_topology());
      inputs.driver.topology() && !affinity.is_null()) {
    spec["nodeAffinity"] = std::move(affinity);
  }
  if (const auto attributes = claim.volume_attributes_class_name(); !attributes.empty()) {
    spec["volumeAttributesClassName"] = attributes;
  }
  out.Set({"spec"}, std::move(spec));
  if (!migrated) return out;
  return api::migration::TranslateToInTree(out);
}

bool ProvesNoVolume(StatusCode code, Earlier earlier) {
  if (ClassifyFailure(code, OtherNodes::kNone) == FailureState::kInBackground) {
    return false;
  }
  switch (earlier) {
    case Earlier::kNone:
      return true;
    case Earlier::kSameCall:
      return code == StatusCode::kInvalidArgument || code == StatusCode::kNotFound ||
             code == StatusCode::kOutOfRange || code == StatusCode::kUnimplemented;
    case Earlier::kInherited:
      return false;
  }
  return false;
}

FailureState ClassifyFailure(StatusCode code, OtherNodes other_nodes) {
  switch (code) {
    case StatusCode::kCancelled:
    case StatusCode::kDeadlineExceeded:
    case StatusCode::kUnavailable:
    case StatusCode::kAborted:
      return FailureState::kInBackground;
    case StatusCode::kResourceExhausted:
      return other_nodes == OtherNodes::kPossible ? FailureState::kReschedule
                                                  : FailureState::kFinished;
    case StatusCode::kInvalidArgument:
      return FailureState::kInfeasible;
    default:
      return FailureState::kFinished;
  }
}

}  // namespace berth::controllers::provisioner
