#include "controllers/blockoperator/claim_plan.h"

#include <algorithm>
#include <array>

#include "api/quantity.h"
#include "block/sizes.h"
#include "controllers/blockoperator/block_volume.h"
#include "controllers/claims.h"
#include "controllers/data_source.h"
#include "controllers/well_known_names.h"

namespace berth::controllers::blockoperator {

using base::Error;
using base::Json;
using base::Status;
using base::StatusCode;
using base::StatusOr;

namespace {

constexpr std::string_view kFsType = "fsType";
constexpr std::string_view kPrefixedFsType = "csi.storage.k8s.io/fstype";
constexpr std::string_view kDefaultFsType = "ext4";
constexpr size_t kMaxFsTypeBytes = 16;
constexpr std::array kAccessModes = {"ReadWriteOnce", "ReadWriteOncePod", "ReadOnlyMany",
                                     "ReadWriteMany"};

bool IsFsType(std::string_view text) {
  return !text.empty() && text.size() <= kMaxFsTypeBytes &&
         std::all_of(text.begin(), text.end(),
                     [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); });
}

Status CheckClaim(const api::PersistentVolumeClaim& claim) {
  const auto refuse = [](std::string_view why) {
    return Error(StatusCode::kInvalidArgument, "{}", why);
  };
  if (const Json* selector = claim.selector(); selector != nullptr && !selector->empty()) {
    return refuse("a claim with a selector gets no new volume: take spec.selector out");
  }
  if (claim.volume_mode() != "Filesystem") {
    return Error(StatusCode::kInvalidArgument,
                 "volumeMode {} is not possible: a Flexvolume driver mounts file systems; ask for "
                 "Filesystem",
                 claim.volume_mode());
  }
  const std::vector<std::string> modes = claim.access_modes();
  if (modes.empty()) return refuse("the claim asks for no access mode");
  for (const std::string& mode : modes) {
    if (std::find(kAccessModes.begin(), kAccessModes.end(), mode) == kAccessModes.end()) {
      return Error(StatusCode::kInvalidArgument, "access mode '{}' is not known", mode);
    }
    if (mode == "ReadWriteOncePod" && modes.size() > 1) {
      return refuse("ReadWriteOncePod cannot be asked for together with another access mode");
    }
  }
  if (modes == std::vector<std::string>{"ReadOnlyMany"} && CloneSourceName(claim).empty() &&
      BlockSnapshotSourceName(claim).empty()) {
    return refuse(
        "ReadOnlyMany alone makes a volume that nobody could ever fill: ask for a way to write as "
        "well, or for a copy of another claim or snapshot (spec.dataSource, spec.dataSourceRef)");
  }
  return base::OkStatus();
}

// Selects the nodes that the class allows and that use the cluster, too.
StatusOr<Json> Affinity(const api::StorageClass& storage_class,
                        const api::StorageCluster& cluster) {
  Json of_cluster = Json::array();
  for (const auto& [key, value] : cluster.StringMap({"spec", "nodeSelector"})) {
    of_cluster.push_back({{"key", key}, {"operator", "In"}, {"values", {value}}});
  }
  Json terms = Json::array();
  for (const Json& topology : storage_class.allowed_topologies()) {
    Json expressions = of_cluster;
    for (const Json& expression : base::json::Array(topology, {"matchLabelExpressions"})) {
      const std::string key = base::json::String(expression, {"key"});
      const Json& values = base::json::Array(expression, {"values"});
      if (key.empty() || values.empty()) {
        return Error(StatusCode::kInvalidArgument,
                     "allowedTopologies of the class has a term without key or values");
      }
      expressions.push_back({{"key", key}, {"operator", "In"}, {"values", values}});
    }
    if (!expressions.empty()) terms.push_back({{"matchExpressions", std::move(expressions)}});
  }
  if (terms.empty() && !of_cluster.empty()) terms.push_back({{"matchExpressions", of_cluster}});
  if (terms.empty()) return Json(nullptr);
  return Json{{"nodeSelectorTerms", std::move(terms)}};
}

}  // namespace

std::string VolumeName(const api::PersistentVolumeClaim& claim) { return "pvc-" + claim.uid(); }

StatusOr<ClassSettings> ReadClass(const api::StorageClass& storage_class) {
  ClassSettings out;
  int fs_types = 0;
  for (const auto& [key, value] : storage_class.parameters()) {
    if (key == api::kClusterOption) {
      out.cluster = value;
    } else if (key == kFsType || key == kPrefixedFsType) {
      ++fs_types;
      out.fs_type = value;
    } else {
      return Error(StatusCode::kInvalidArgument,
                   "class parameter '{}' is not known; the known ones are {}, {} and {}", key,
                   api::kClusterOption, kPrefixedFsType, kFsType);
    }
  }
  if (out.cluster.empty()) {
    return Error(StatusCode::kInvalidArgument,
                 "the class names no StorageCluster: give it the parameter '{}'",
                 api::kClusterOption);
  }
  if (fs_types > 1) {
    return Error(StatusCode::kInvalidArgument, "the class gives the file system type twice");
  }
  if (fs_types == 0) out.fs_type = kDefaultFsType;
  if (!IsFsType(out.fs_type)) {
    return Error(StatusCode::kInvalidArgument, "'{}' is no type of a file system", out.fs_type);
  }
  if (!storage_class.mount_options().empty()) {
    return Error(
        StatusCode::kInvalidArgument,
        "the class gives mountOptions, of which a Flexvolume driver is not told: take them "
        "out");
  }
  return out;
}

StatusOr<Plan> MakePlan(const api::PersistentVolumeClaim& claim,
                        const api::StorageClass& storage_class,
                        const api::StorageCluster& cluster) {
  Plan plan;
  ASSIGN_OR_RETURN(plan.settings, ReadClass(storage_class));
  RETURN_IF_ERROR(CheckClaim(claim));
  plan.image.name = VolumeName(claim);
  const StatusOr<int64_t> asked = api::ParseBytes(claim.requested_storage());
  RETURN_IF_ERROR_WITH(asked, "the claim's storage request");
  ASSIGN_OR_RETURN(
      plan.image.size_bytes,
      block::ChooseSize({.required = *asked}, block::MinimumSize(plan.settings.fs_type)));
  ASSIGN_OR_RETURN(plan.affinity, Affinity(storage_class, cluster));
  return plan;
}

api::PersistentVolume VolumeObject(const Plan& plan, const api::PersistentVolumeClaim& claim,
                                   const api::StorageClass& storage_class,
                                   const block::ImageInfo& image) {
  api::PersistentVolume out;
  out.Set({"apiVersion"}, "v1");
  out.Set({"kind"}, "PersistentVolume");
  out.set_name(plan.image.name);
  out.set_annotation(kProvisionedBy, api::kBlockProvisioner);
  if (storage_class.reclaim_policy() == "Delete") out.add_finalizer(kImageFinalizer);
  Json spec = {{"capacity", {{"storage", api::FormatBytes(image.size_bytes)}}},
               {"accessModes", claim.access_modes()},
               {"volumeMode", "Filesystem"},
               {"persistentVolumeReclaimPolicy", storage_class.reclaim_policy()},
               {"storageClassName", storage_class.name()},
               {"claimRef", ClaimReference(claim)},
               {"flexVolume",
                {{"driver", api::kBlockDriver},
                 {"fsType", plan.settings.fs_type},
                 {"options",
                  {{std::string(api::kClusterOption), plan.settings.cluster},
                   {std::string(api::kImageOption), image.name}}}}}};
  if (!plan.affinity.is_null()) spec["nodeAffinity"]["required"] = plan.affinity;
  out.Set({"spec"}, std::move(spec));
  return out;
}

}  // namespace berth::controllers::blockoperator
