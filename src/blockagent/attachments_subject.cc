// The part of Attachments that reads what the API says about a volume that is to be mounted.
#include <algorithm>

#include "api/kinds/pod_claims.h"
#include "base/log.h"
#include "blockagent/attachments.h"

namespace berth::blockagent {
namespace {

using base::Error;
using base::Quote;
using base::Status;
using base::StatusCode;
using base::StatusOr;

enum class ClaimUse { kNone, kByName, kByTemplate };

// How the pod names a claim of its namespace in its volumes.
ClaimUse FindClaimUse(const api::Pod& pod, const std::string& claim) {
  for (const api::PodVolume& volume : pod.volumes()) {
    if (volume.claim_name() == claim) return ClaimUse::kByName;
    if (api::FindClaimName(pod, volume) == claim) return ClaimUse::kByTemplate;
  }
  return ClaimUse::kNone;
}

// Fails unless the pod is on `node` and uses the claim that `volume` is bound to. Names alone prove
// nothing, because a claim may be deleted and another one get its name.
Status CheckUsesClaim(const api::Pod& pod, const std::string& node,
                      const api::PersistentVolume& volume, const api::PersistentVolumeClaim& claim,
                      ClaimUse use) {
  const auto refuse = [&](std::string_view why) {
    return Error(StatusCode::kPermissionDenied,
                 "pod {} does not use the claim {} of PersistentVolume {}: {}", Quote(pod.key()),
                 Quote(volume.claim_namespace() + "/" + volume.claim_name()), Quote(volume.name()),
                 why);
  };
  if (pod.node_name() != node) {
    return refuse(fmt::format("the pod is on node {}", Quote(pod.node_name())));
  }
  if (claim.phase() != "Bound") return refuse(fmt::format("the claim is {}", claim.phase()));
  if (volume.claim_uid() != claim.uid()) return refuse("the volume is bound to an older claim");
  if (claim.volume_name() != volume.name()) {
    return refuse(fmt::format("the claim is bound to volume {}", Quote(claim.volume_name())));
  }
  if (use != ClaimUse::kByTemplate) return base::OkStatus();
  const auto owners = claim.owner_references();
  const bool owned = std::any_of(owners.begin(), owners.end(), [&](const auto& owner) {
    return owner.controller && owner.uid == pod.uid();
  });
  return owned ? base::OkStatus() : refuse("the claim was not made from the pod's template");
}

// Turns NOT_FOUND into FAILED_PRECONDITION, because a retry at once does not help if an API object
// is missing.
template <typename T>
StatusOr<T> RequireFound(StatusOr<T> found, const std::string& object) {
  if (found.status().code() == StatusCode::kNotFound) {
    return Error(StatusCode::kFailedPrecondition, "{} does not exist", object);
  }
  RETURN_IF_ERROR_WITH(found, fmt::format("read {}", object));
  return found;
}

}  // namespace

StatusOr<Attachments::Subject> Attachments::FindSubject(const MountCall& call) {
  Subject subject;
  ASSIGN_OR_RETURN(
      subject.volume,
      RequireFound(kube::Get<api::PersistentVolume>(parts_.client, "", call.volume),
                   fmt::format("PersistentVolume {} (volumes inline in a pod are not served)",
                               Quote(call.volume))));
  const api::PersistentVolume& pv = subject.volume;
  if (const std::string driver = pv.String({"spec", "flexVolume", "driver"});
      driver != call.driver) {
    return Error(StatusCode::kFailedPrecondition,
                 "PersistentVolume {} is of driver {}, but driver {} was called",
                 Quote(call.volume), Quote(driver), Quote(call.driver));
  }
  subject.cluster = pv.String({"spec", "flexVolume", "options", api::kClusterOption});
  subject.image = pv.String({"spec", "flexVolume", "options", api::kImageOption});
  subject.fs_type = pv.String({"spec", "flexVolume", "fsType"});
  if (subject.cluster.empty() || subject.image.empty()) {
    return Error(StatusCode::kFailedPrecondition,
                 "PersistentVolume {} lacks '{}' or '{}' in flexVolume.options", Quote(call.volume),
                 api::kClusterOption, api::kImageOption);
  }
  ASSIGN_OR_RETURN(subject.pod,
                   RequireFound(kube::Get<api::Pod>(parts_.client, call.pod_namespace, call.pod),
                                fmt::format("pod {}", Quote(call.pod_namespace + "/" + call.pod))));
  if (subject.pod.uid() != call.pod_uid) {
    return Error(StatusCode::kFailedPrecondition, "pod {} now has uid {}, and not {}",
                 Quote(subject.pod.key()), subject.pod.uid(), call.pod_uid);
  }
  // This check is needed because an inline volume of the pod may have a PersistentVolume's name,
  // and the pod would then get a volume that is not its own.
  const std::string claim_key = pv.claim_namespace() + "/" + pv.claim_name();
  const ClaimUse use = FindClaimUse(subject.pod, pv.claim_name());
  if (subject.pod.ns() != pv.claim_namespace() || use == ClaimUse::kNone) {
    return Error(StatusCode::kPermissionDenied,
                 "pod {} does not use the claim {} of PersistentVolume {}",
                 Quote(subject.pod.key()), Quote(claim_key), Quote(call.volume));
  }
  ASSIGN_OR_RETURN(const api::PersistentVolumeClaim claim,
                   RequireFound(kube::Get<api::PersistentVolumeClaim>(
                                    parts_.client, pv.claim_namespace(), pv.claim_name()),
                                fmt::format("claim {}", Quote(claim_key))));
  RETURN_IF_ERROR(CheckUsesClaim(subject.pod, options_.node, pv, claim, use));
  ASSIGN_OR_RETURN(const api::StorageCluster cluster, ReadUsableCluster(subject.cluster));
  subject.backend = *cluster.backend();
  subject.cluster_uid = cluster.uid();
  subject.read_only = call.read_only || pv.Bool({"spec", "flexVolume", "readOnly"});
  subject.sharing = SharingOf(pv.access_modes(), subject.fs_type);
  // If a volume may have many writers, its device is mapped for writing even if a reader comes
  // first.
  subject.map_read_only = subject.read_only && subject.sharing != Sharing::kOneNode &&
                          subject.sharing != Sharing::kAllNodes;
  return subject;
}

StatusOr<api::StorageCluster> Attachments::ReadUsableCluster(const std::string& name) {
  std::shared_ptr<ClusterRead> read;
  {
    base::MutexLock lock(mutex_);
    auto& known = cluster_reads_[name];
    if (known == nullptr) known = std::make_shared<ClusterRead>();
    read = known;
  }
  const auto cluster =
      read->Get([&] { return kube::Get<api::StorageCluster>(parts_.client, "", name); });
  ASSIGN_OR_RETURN(api::StorageCluster usable,
                   RequireFound(*cluster, fmt::format("StorageCluster {}", Quote(name))));
  if (usable.deleting()) {
    return Error(StatusCode::kFailedPrecondition, "StorageCluster {} is being deleted",
                 Quote(name));
  }
  if (usable.backend() == nullptr) {
    return Error(StatusCode::kFailedPrecondition, "StorageCluster {} has no back end", Quote(name));
  }
  return usable;
}

}  // namespace berth::blockagent
