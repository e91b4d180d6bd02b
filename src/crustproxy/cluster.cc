#include "crustproxy/cluster.h"

#include <algorithm>
#include <map>

#include "api/kinds/pod_claims.h"
#include "api/kinds/runtime_mount.h"
#include "base/log.h"
#include "node/volumes/crust_decision.h"

namespace berth::crustproxy {
namespace {

using base::Error;
using base::Json;
using base::StatusCode;
using base::StatusOr;

// Whether the pod has a CSI volume of its own with that name, without a claim.
bool HasInlineVolume(const api::Pod& pod, const api::VolumeName& name) {
  return std::ranges::any_of(pod.volumes(), [&](const api::PodVolume& volume) {
    return volume.name() == name.text() && volume.source_type() == "csi";
  });
}

}  // namespace

StatusOr<std::vector<api::Pod>> Cluster::ListPods() {
  std::vector<api::Pod> pods;
  kube::ListOptions options{.field_selector = "spec.nodeName=" + node_, .limit = 500};
  do {
    StatusOr<kube::ListResult> page = client_.List(api::kinds::kPod, "", options);
    RETURN_IF_ERROR_WITH(page, fmt::format("list the pods of node {}", base::Quote(node_)));
    for (Json& pod : page->items) pods.emplace_back(std::move(pod));
    options.continue_token = page->continue_token;
  } while (!options.continue_token.empty());
  return pods;
}

StatusOr<std::string> Cluster::FindHandle(const std::string& ns, const std::string& name) {
  const auto claim = kube::Get<api::PersistentVolumeClaim>(client_, ns, name);
  if (claim.status().code() == StatusCode::kNotFound) return std::string();
  RETURN_IF_ERROR(claim);
  if (claim->volume_name().empty()) return std::string();
  const auto pv = kube::Get<api::PersistentVolume>(client_, "", claim->volume_name());
  if (pv.status().code() == StatusCode::kNotFound) return std::string();
  RETURN_IF_ERROR(pv);
  return pv->has_csi() ? pv->csi().volume_handle() : std::string();
}

StatusOr<bool> Cluster::HasPodWithHandler(const std::string& volume_handle) {
  ASSIGN_OR_RETURN(const std::vector<api::Pod> pods, ListPods());
  std::map<std::string, bool> has_handler;  // by RuntimeClass
  for (const api::Pod& pod : pods) {
    if (!node::MayDefer(pod) || pod.terminated()) continue;
    const std::string name = pod.String({"spec", "runtimeClassName"});
    if (!has_handler.contains(name)) {
      const auto found = client_.Get(api::kinds::kRuntimeClass, "", name);
      if (!found.ok() && found.status().code() != StatusCode::kNotFound) {
        return base::Annotate(found.status(),
                              fmt::format("read RuntimeClass {}", base::Quote(name)));
      }
      has_handler[name] = found.ok() && !api::FindHandlerSocket(*found).empty();
    }
    if (!has_handler[name]) continue;
    for (const api::PodVolume& volume : pod.volumes()) {
      const std::string claim = api::FindClaimName(pod, volume);
      if (claim.empty()) continue;
      ASSIGN_OR_RETURN(const std::string handle, FindHandle(pod.ns(), claim));
      if (handle == volume_handle) return true;
    }
  }
  return false;
}

StatusOr<std::optional<PodVolume>> Cluster::FindPodVolume(const api::PodUid& uid,
                                                          const api::VolumeName& name,
                                                          const std::string& volume_handle) {
  ASSIGN_OR_RETURN(std::vector<api::Pod> pods, ListPods());
  for (api::Pod& pod : pods) {
    if (pod.uid() != uid.text()) continue;
    if (!node::MayDefer(pod)) return std::optional<PodVolume>();
    auto read = kube::Get<api::PersistentVolume>(client_, "", name.text());
    if (read.status().code() == StatusCode::kNotFound && HasInlineVolume(pod, name)) {
      return std::optional<PodVolume>();
    }
    ASSIGN_OR_RETURN(api::PersistentVolume pv, std::move(read));
    if (!pv.has_csi() || pv.csi().volume_handle() != volume_handle) {
      return std::optional<PodVolume>();
    }
    PodVolume found{.pod = std::move(pod), .names = {}, .spec = {}, .driver = {}};
    for (const api::PodVolume& volume : found.pod.volumes()) {
      if (found.pod.ns() != pv.claim_namespace()) break;
      if (api::FindClaimName(found.pod, volume) != pv.claim_name()) continue;
      found.names.push_back(volume.name());
      found.spec.name = volume.name();
      found.spec.pod_volume = volume;
    }
    if (found.names.empty()) return std::optional<PodVolume>();
    ASSIGN_OR_RETURN(auto claim, kube::Get<api::PersistentVolumeClaim>(
                                     client_, pv.claim_namespace(), pv.claim_name()));
    const auto driver = kube::Get<api::CsiDriver>(client_, "", pv.csi().driver());
    if (!driver.ok() && driver.status().code() != StatusCode::kNotFound) return driver.status();
    if (driver.ok()) found.driver = *driver;
    found.spec.pod_ns = found.pod.ns();
    found.spec.claim = std::make_shared<api::PersistentVolumeClaim>(std::move(claim));
    found.spec.pv = std::make_shared<api::PersistentVolume>(std::move(pv));
    return std::optional(std::move(found));
  }
  return Error(StatusCode::kUnavailable, "the API knows no pod with the uid {} on node {}", uid,
               base::Quote(node_));
}

}  // namespace berth::crustproxy
