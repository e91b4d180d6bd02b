// The kinds that FakeClient serves, and its discovery documents.

#include <map>

#include "kube/fake_client.h"

namespace berth::kube {

using api::KindInfo;
using base::MutexLock;

void FakeClient::Serve(const KindInfo& kind) {
  MutexLock lock(mutex_);
  std::erase(unserved_, &kind);
  custom_.push_back(&kind);
}

void FakeClient::StopServing(const KindInfo& kind) {
  MutexLock lock(mutex_);
  std::erase(custom_, &kind);
  unserved_.push_back(&kind);
  objects_.erase(&kind);
  ++watch_generation_;
  changed_.NotifyAll();
}

const KindInfo& FakeClient::FindServedKind(const KindInfo& kind) const {
  for (const KindInfo* custom : custom_) {
    if (custom->group == kind.group && custom->plural == kind.plural) return *custom;
  }
  return kind;
}

std::vector<const KindInfo*> FakeClient::FindServedLocked() const {
  std::vector<const KindInfo*> served(api::BuiltInKinds().begin(), api::BuiltInKinds().end());
  served.insert(served.end(), custom_.begin(), custom_.end());
  for (const KindInfo* kind : unserved_) std::erase(served, kind);
  return served;
}

std::string FakeClient::MakeDiscoveryLocked(bool core) const {
  std::map<std::string, std::map<std::string, Json>> groups;  // group, version, resources
  for (const KindInfo* kind : FindServedLocked()) {
    if (kind->group.empty() != core) continue;
    Json& resources = groups[std::string(kind->group)][std::string(kind->version)];
    Json resource = {
        {"resource", std::string(kind->plural)},
        {"responseKind",
         {{"group", std::string(kind->group)},
          {"version", std::string(kind->version)},
          {"kind", std::string(kind->kind)}}},
        {"scope", kind->namespaced ? "Namespaced" : "Cluster"},
        {"singularResource", std::string(kind->singular)},
        {"verbs",
         {"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}}};
    for (const std::string_view name : kind->short_names) {
      resource["shortNames"].push_back(std::string(name));
    }
    if (kind->review) resource["verbs"] = {"create"};
    if (kind->read_only) resource["verbs"] = {"get", "list", "watch"};
    resources.push_back(std::move(resource));
  }
  Json items = Json::array();
  for (auto& [group, versions] : groups) {
    Json list = Json::array();
    for (auto& [version, resources] : versions) {
      list.push_back({{"version", version}, {"resources", std::move(resources)}});
    }
    items.push_back({{"metadata", {{"name", group}}}, {"versions", std::move(list)}});
  }
  return base::json::Dump({{"kind", "APIGroupDiscoveryList"},
                           {"apiVersion", "apidiscovery.k8s.io/v2"},
                           {"items", std::move(items)}});
}

}  // namespace berth::kube
