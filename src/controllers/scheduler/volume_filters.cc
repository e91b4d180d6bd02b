// Decides on which nodes a pod may run because of its volumes (scheduler.h).
#include <algorithm>

#include "api/kinds/csi_names.h"
#include "api/quantity.h"
#include "api/selector.h"
#include "base/log.h"
#include "controllers/claims.h"
#include "controllers/indexes.h"
#include "controllers/scheduler/scheduler.h"
#include "controllers/well_known_names.h"
#include "controllers/writes.h"

namespace berth::controllers::scheduler {

using base::Error;
using base::Json;
using base::Status;
using base::StatusCode;
using base::StatusOr;

namespace {

constexpr char kNoVolume[] = "node(s) didn't find available persistent volumes to bind";

// Whether one of the class's terms holds for the node's labels, or the class has no terms.
bool TopologyAllowed(const api::StorageClass& storage_class, const api::Node& node) {
  const Json& terms = storage_class.allowed_topologies();
  if (terms.empty()) return true;
  const api::Labels labels = node.labels();
  return std::any_of(terms.begin(), terms.end(), [&](const Json& term) {
    const Json& expressions = base::json::Array(term, {"matchLabelExpressions"});
    return std::all_of(expressions.begin(), expressions.end(), [&](const Json& expression) {
      const auto it = labels.find(base::json::String(expression, {"key"}));
      const Json& values = base::json::Array(expression, {"values"});
      return it != labels.end() &&
             std::find(values.begin(), values.end(), it->second) != values.end();
    });
  });
}

}  // namespace

StatusOr<Scheduler::PodClaims> Scheduler::ClaimsOf(const api::Pod& pod) const {
  const auto refuse = [](const std::string& why) {
    return Error(StatusCode::kFailedPrecondition, "{}", why);
  };
  PodClaims out;
  for (const std::string& name : ClaimNames(pod)) {
    const auto claim = claims_.Get(pod.ns(), name);
    if (claim == nullptr)
      return refuse(fmt::format("persistentvolumeclaim \"{}\" not found", name));
    if (claim->phase() == "Lost") {
      return refuse(
          fmt::format("persistentvolumeclaim \"{}\" bound to non-existent persistentvolume \"{}\"",
                      name, claim->volume_name()));
    }
    if (claim->deleting()) {
      return refuse(fmt::format("persistentvolumeclaim \"{}\" is being deleted", name));
    }
    const std::vector<std::string> modes = claim->access_modes();
    if (std::find(modes.begin(), modes.end(), "ReadWriteOncePod") != modes.end() &&
        UsedByAnotherPod(*claim, pod)) {
      return refuse(
          "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access "
          "mode");
    }
    if (IsBound(*claim)) {
      VolumePtr volume = volumes_.Get(claim->volume_name());
      if (volume == nullptr) {
        return refuse(fmt::format("persistentvolume \"{}\" not found", claim->volume_name()));
      }
      out.bound.push_back(std::move(volume));
      continue;
    }
    const auto storage_class = classes_.Get(ClassName(*claim, classes_));
    // A person binds this claim, or the binder binds it at once, so the scheduler only waits.
    if (!claim->volume_name().empty() || storage_class == nullptr ||
        !storage_class->wait_for_first_consumer()) {
      return refuse("pod has unbound immediate PersistentVolumeClaims");
    }
    out.unbound.push_back(claim);
    out.sources[claim->key()] = ReadSource(*claim);
  }
  return out;
}

bool Scheduler::UsedByAnotherPod(const Claim& claim, const api::Pod& pod) const {
  for (const auto& other : pods_.ByIndex(kPodsByClaim, claim.key())) {
    if (other->uid() == pod.uid() || other->terminated()) continue;
    if (!other->node_name().empty() || !ProgressOf(other->uid()).node.empty()) return true;
  }
  return false;
}

std::optional<std::string> Scheduler::RefuseVolumes(const api::Pod& pod, const PodClaims& claims,
                                                    const api::Node& node,
                                                    Placement& placement) const {
  for (const VolumePtr& volume : claims.bound) {
    if (!VolumeReachableFrom(*volume, node)) return "node(s) had volume node affinity conflict";
  }
  std::vector<std::string> taken;
  for (const ClaimPtr& claim : claims.unbound) {
    if (const std::string selected = claim->annotation(kSelectedNode); !selected.empty()) {
      // Its provisioner works on it for that node.
      if (selected != node.name()) return kNoVolume;
      placement.emplace_back(claim, nullptr);
      continue;
    }
    const std::string class_name = ClassName(*claim, classes_);
    const VolumePtr volume = FindVolume(
        volumes_, *claim,
        {.class_name = class_name, .pre_bound_only = false, .node = &node, .exclude = taken});
    if (volume != nullptr) {
      taken.push_back(volume->name());
    } else {
      const auto storage_class = classes_.Get(class_name);
      if (storage_class == nullptr) return kNoVolume;
      if (auto refusal = RefuseProvisioning(*claim, *storage_class, node)) return refusal;
      const auto source = claims.sources.find(claim->key());
      if (source != claims.sources.end() && !ReachesSource(source->second, node)) {
        return "node(s) cannot reach what the volume is to be filled from";
      }
    }
    placement.emplace_back(claim, volume);
  }
  if (auto refusal = RefuseWithoutDriver(claims, placement, node)) return refusal;
  if (ExceedsAttachLimit(claims, placement, node)) return "node(s) exceed max volume count";
  return std::nullopt;
}

std::optional<std::string> Scheduler::RefuseProvisioning(const Claim& claim,
                                                         const api::StorageClass& storage_class,
                                                         const api::Node& node) const {
  if (storage_class.provisioner() == api::kNoProvisioner) return kNoVolume;
  if (!TopologyAllowed(storage_class, node)) return kNoVolume;
  if (!HasCapacity(claim, storage_class, node)) {
    return "node(s) did not have enough free storage";
  }
  return std::nullopt;
}

bool Scheduler::HasCapacity(const Claim& claim, const api::StorageClass& storage_class,
                            const api::Node& node) const {
  const auto driver = drivers_.Get(storage_class.provisioner());
  if (driver == nullptr || !driver->storage_capacity()) return true;
  const api::Labels labels = node.labels();
  for (const auto& capacity : capacities_.List()) {
    if (capacity->storage_class_name() != storage_class.name()) continue;
    const std::string available = capacity->maximum_volume_size().empty()
                                      ? capacity->capacity()
                                      : capacity->maximum_volume_size();
    if (available.empty() || capacity->node_topology() == nullptr) continue;
    const auto compared = api::CompareQuantities(available, claim.requested_storage());
    if (!compared.ok() || *compared < 0) continue;
    const auto topology = api::LabelSelector::FromJson(*capacity->node_topology());
    if (topology.ok() && topology->Matches(labels)) return true;
  }
  return false;
}

std::string Scheduler::CountedAs(const Claim& claim, const std::string& driver) const {
  if (!claim.volume_name().empty()) {
    const auto volume = volumes_.Get(claim.volume_name());
    if (volume == nullptr || !volume->has_csi() || volume->csi().driver() != driver) return "";
    return api::UniqueVolumeName(driver, api::VolumeHandle(volume->csi().volume_handle()));
  }
  const auto storage_class = classes_.Get(ClassName(claim, classes_));
  if (storage_class == nullptr || storage_class->provisioner() != driver) return "";
  return fmt::format("claim {}", claim.key());
}

std::set<std::string> Scheduler::VolumesOn(const api::NodeName& node,
                                           const std::string& driver) const {
  std::set<std::string> volumes;
  const auto add_pod = [&](const api::Pod& pod) {
    if (pod.terminated()) return;
    for (const std::string& name : ClaimNames(pod)) {
      const auto claim = claims_.Get(pod.ns(), name);
      if (claim != nullptr) volumes.insert(CountedAs(*claim, driver));
    }
  };
  for (const auto& pod : pods_.ByIndex(kPodsByNode, node.text())) add_pod(*pod);
  for (const auto& pod : pods_.ByIndex(kPodsByNode, "")) {
    if (ProgressOf(pod->uid()).node == node.text()) add_pod(*pod);
  }
  for (const auto& attachment : attachments_.ByIndex(kAttachmentsByNode, node.text())) {
    if (attachment->attacher() != driver) continue;
    const auto volume = volumes_.Get(attachment->pv_name());
    volumes.insert(
        volume != nullptr && volume->has_csi()
            ? api::UniqueVolumeName(driver, api::VolumeHandle(volume->csi().volume_handle()))
            : attachment->name());
  }
  volumes.erase("");
  return volumes;
}

std::string Scheduler::DriverOf(const Claim& claim) const {
  const auto storage_class = classes_.Get(ClassName(claim, classes_));
  return storage_class == nullptr ? "" : storage_class->provisioner();
}

std::optional<std::string> Scheduler::RefuseWithoutDriver(const PodClaims& claims,
                                                          const Placement& placement,
                                                          const api::Node& node) const {
  std::set<std::string> drivers;
  for (const VolumePtr& volume : claims.bound) {
    if (volume->has_csi()) drivers.insert(volume->csi().driver());
  }
  for (const auto& [claim, volume] : placement) {
    if (volume == nullptr) {
      drivers.insert(DriverOf(*claim));
    } else if (volume->has_csi()) {
      drivers.insert(volume->csi().driver());
    }
  }
  const auto csi_node = csi_nodes_.Get(node.name());
  for (const std::string& driver : drivers) {
    const auto object = drivers_.Get(driver);
    if (object == nullptr || !object->Bool({"spec", "preventPodSchedulingIfMissing"})) continue;
    if (csi_node != nullptr && csi_node->driver(driver).has_value()) continue;
    return fmt::format("node(s) did not have CSI driver {}", driver);
  }
  return std::nullopt;
}

bool Scheduler::ExceedsAttachLimit(const PodClaims& claims, const Placement& placement,
                                   const api::Node& node) const {
  const auto csi_node = csi_nodes_.Get(node.name());
  if (csi_node == nullptr) return false;
  for (const api::CsiNode::Driver& driver : csi_node->drivers()) {
    if (!driver.allocatable_count.has_value()) continue;
    std::set<std::string> wanted;
    for (const VolumePtr& volume : claims.bound) {
      if (volume->has_csi() && volume->csi().driver() == driver.name) {
        wanted.insert(
            api::UniqueVolumeName(driver.name, api::VolumeHandle(volume->csi().volume_handle())));
      }
    }
    for (const auto& [claim, volume] : placement) {
      if (volume == nullptr) {
        wanted.insert(CountedAs(*claim, driver.name));
      } else if (volume->has_csi() && volume->csi().driver() == driver.name) {
        wanted.insert(
            api::UniqueVolumeName(driver.name, api::VolumeHandle(volume->csi().volume_handle())));
      }
    }
    wanted.erase("");
    // A pod without a volume of the driver is not refused, even if the node exceeds the limit.
    if (wanted.empty()) continue;
    std::set<std::string> all = VolumesOn(api::NodeName(node.name()), driver.name);
    const size_t present = all.size();
    all.insert(wanted.begin(), wanted.end());
    if (all.size() > present && static_cast<int64_t>(all.size()) > *driver.allocatable_count) {
      return true;
    }
  }
  return false;
}

Status Scheduler::PlaceClaim(const Claim& claim, const Volume* volume, const std::string& node) {
  if (volume != nullptr) {
    if (volume->claim_uid() == claim.uid()) return base::OkStatus();  // the binder binds it
    Json patch = {{"spec", {{"claimRef", ClaimReference(claim)}}}};
    if (!volume->has_claim_ref()) {
      patch["metadata"]["annotations"][std::string(kBoundByController)] = "yes";
    }
    RETURN_IF_ERROR(PatchAt(context_.client, volumes_, *volume, std::move(patch)));
    LOG_INFO("volume {} is reserved for claim {} on node {}", base::Quote(volume->name()),
             base::Quote(claim.key()), base::Quote(node));
    return base::OkStatus();
  }
  if (claim.annotation(kSelectedNode) == node) return base::OkStatus();
  RETURN_IF_ERROR(PatchAt(context_.client, claims_, claim,
                          {{"metadata", {{"annotations", {{std::string(kSelectedNode), node}}}}}}));
  LOG_INFO("node {} is selected for claim {}, whose volume is to be made there", base::Quote(node),
           base::Quote(claim.key()));
  return base::OkStatus();
}

}  // namespace berth::controllers::scheduler
