#include "apiserver/kinds/served_resources.h"

namespace berth::apiserver {

std::vector<std::string_view> VerbsOf(const api::KindInfo& info) {
  if (info.read_only) return {"get", "list", "watch"};
  if (&info == &api::kinds::kNamespace) {
    return {"create", "delete", "get", "list", "patch", "update", "watch"};
  }
  if (info.review) return {"create"};
  return {"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"};
}

std::vector<Subresource> SubresourcesOf(const api::KindInfo& info) {
  std::vector<Subresource> all;
  if (info.has_status) {
    all.push_back({"status", info.kind, info.group, info.version, {"get"}});
    if (!info.read_only) all.back().verbs = {"get", "patch", "update"};
  }
  if (&info == &api::kinds::kPod) {
    all.push_back({"attach", "PodAttachOptions", "", "v1", {"create", "get"}});
    all.push_back({"binding", "Binding", "", "v1", {"create"}});
    all.push_back({"ephemeralcontainers", "Pod", "", "v1", {"get", "patch", "update"}});
    all.push_back({"eviction", "Eviction", "policy", "v1", {"create"}});
    all.push_back({"exec", "PodExecOptions", "", "v1", {"create", "get"}});
    all.push_back({"log", "Pod", "", "v1", {"get"}});
    all.push_back({"portforward", "PodPortForwardOptions", "", "v1", {"create", "get"}});
  }
  if (&info == &api::kinds::kNamespace) {
    all.push_back({"finalize", "Namespace", "", "v1", {"update"}});
  }
  if (&info == &api::kinds::kServiceAccount) {
    all.push_back({"token", "TokenRequest", "authentication.k8s.io", "v1", {"create"}});
  }
  return all;
}

}  // namespace berth::apiserver
