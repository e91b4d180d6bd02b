#include "apiserver/access/node_reach.h"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "api/kind_info.h"
#include "api/kinds/block_kinds.h"
#include "apiserver/formats/object_text.h"
#include "apiserver/kinds/pod_references.h"
#include "base/log.h"

namespace berth::apiserver {

using base::Json;
using base::MutexLock;
using base::json::String;

namespace {

constexpr size_t kReachPage = 500;
// How long a call waits until the writes that were acknowledged before it have been delivered. The
// store's delivery takes milliseconds.
constexpr std::chrono::seconds kMaxDeliveryWait{2};

// Whether an object may be bound to a node. The others are skipped without parsing.
bool MayBeBound(std::string_view text) {
  return text.find(R"("nodeName":)") != std::string_view::npos;
}

std::vector<std::string> ReferencesOf(const api::KindInfo& kind, const Json& object) {
  if (&kind == &api::kinds::kPod) return FindPodReferences(object);
  const std::string claim = String(object, {"spec", "claimName"});
  if (claim.empty()) return {};
  return {ReferenceTo("persistentvolumeclaims", String(object, {"metadata", "namespace"}), claim)};
}

}  // namespace

// The references of those objects of one kind that are bound to nodes.
class NodeReach::References : public store::Watcher {
 public:
  explicit References(const api::KindInfo& kind) : kind_(kind) {}

  base::Status LoadAndWatch(store::Store& store, const std::shared_ptr<References>& self) {
    const std::string prefix = KeyPrefix(kind_, "");
    std::string after;
    store::Revision at = 0;
    for (bool more = true; more;) {
      ASSIGN_OR_RETURN(const store::Page page, store.List(prefix, after, kReachPage, at));
      at = page.revision;
      more = page.more;
      for (const store::Record& record : page.records) {
        after = record.key;
        PutObject(record);
      }
    }
    ASSIGN_OR_RETURN(subscription_, store.Watch(prefix, at, self));
    return base::OkStatus();
  }

  void Unsubscribe() { subscription_.reset(); }

  void OnChange(const store::Change& change) override {
    if (change.type == store::Change::Type::kDeleted) {
      MutexLock lock(mutex_);
      RemoveObject(change.record.key);
    } else {
      PutObject(change.record);
    }
    OnProgress(change.record.revision);
  }

  void OnProgress(store::Revision revision) override {
    MutexLock lock(mutex_);
    known_ = std::max(known_, revision);
    progressed_.NotifyAll();
  }

  void OnLost(const base::Status&) override {
    MutexLock lock(mutex_);
    lost_ = true;
    progressed_.NotifyAll();
  }

  // Whether changes are missing, so that the references must be loaded anew.
  bool lost() {
    MutexLock lock(mutex_);
    return lost_;
  }

  bool Has(const api::NodeName& node, std::string_view reference) {
    MutexLock lock(mutex_);
    const auto it = by_node_.find(node);
    return it != by_node_.end() && it->second.contains(std::string(reference));
  }

  std::vector<std::string> FindReferences(const api::NodeName& node, std::string_view prefix) {
    MutexLock lock(mutex_);
    std::vector<std::string> out;
    const auto it = by_node_.find(node);
    if (it == by_node_.end()) return out;
    for (auto at = it->second.lower_bound(std::string(prefix));
         at != it->second.end() && at->first.starts_with(prefix); ++at) {
      out.push_back(at->first);
    }
    return out;
  }

  void WaitFor(store::Revision revision) {
    const auto deadline = std::chrono::steady_clock::now() + kMaxDeliveryWait;
    MutexLock lock(mutex_);
    while (!lost_ && known_ < revision && progressed_.WaitUntil(mutex_, deadline)) {
    }
  }

 private:
  struct Bound {
    api::NodeName node;
    std::vector<std::string> references;
  };

  void PutObject(const store::Record& record) {
    Bound bound;
    if (MayBeBound(*record.value)) {
      const Json object = DecodeStored(*record.value).value_or(Json());
      bound.node = api::NodeName(String(object, {"spec", "nodeName"}));
      if (!bound.node.empty()) bound.references = ReferencesOf(kind_, object);
    }
    MutexLock lock(mutex_);
    RemoveObject(record.key);
    if (bound.node.empty()) return;
    auto& counts = by_node_[bound.node];
    for (const std::string& reference : bound.references) ++counts[reference];
    bound_[record.key] = std::move(bound);
  }

  void RemoveObject(const std::string& key) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    const auto it = bound_.find(key);
    if (it == bound_.end()) return;
    const auto node = by_node_.find(it->second.node);
    for (const std::string& reference : it->second.references) {
      const auto count = node->second.find(reference);
      if (--count->second == 0) node->second.erase(count);
    }
    if (node->second.empty()) by_node_.erase(node);
    bound_.erase(it);
  }

  const api::KindInfo& kind_;
  std::shared_ptr<void> subscription_;  // used only by the callers of LoadAndWatch and Unsubscribe
  base::Mutex mutex_;
  base::CondVar progressed_;
  store::Revision known_ ABSL_GUARDED_BY(mutex_) = 0;
  bool lost_ ABSL_GUARDED_BY(mutex_) = false;
  std::unordered_map<std::string, Bound> bound_ ABSL_GUARDED_BY(mutex_);  // by store key
  // For each node, how many of its objects hold each reference.
  std::unordered_map<api::NodeName, std::map<std::string, int>> by_node_ ABSL_GUARDED_BY(mutex_);
};

NodeReach::NodeReach(store::Store& store) : store_(store) {}

NodeReach::~NodeReach() {
  MutexLock lock(mutex_);
  for (const auto& references : {pods_, host_mounts_}) {
    if (references != nullptr) references->Unsubscribe();
  }
}

base::Status NodeReach::LoadReferences() {
  MutexLock lock(mutex_);
  const auto load = [this](std::shared_ptr<References>& into,
                           const api::KindInfo& kind) -> base::Status {
    if (into != nullptr && !into->lost()) return base::OkStatus();
    auto made = std::make_shared<References>(kind);
    RETURN_IF_ERROR(made->LoadAndWatch(store_, made));
    if (into != nullptr) into->Unsubscribe();
    into = std::move(made);
    return base::OkStatus();
  };
  RETURN_IF_ERROR(load(pods_, api::kinds::kPod));
  return load(host_mounts_, api::kinds::kHostMount);
}

bool NodeReach::Refers(const api::NodeName& node, std::string_view reference) {
  if (const auto loaded = LoadReferences(); !loaded.ok()) {
    LOG_ERROR("api: cannot read what the pods and host mounts of nodes refer to: {}",
              base::ToString(loaded));
    return false;
  }
  std::shared_ptr<References> all[2];
  {
    MutexLock lock(mutex_);
    all[0] = pods_;
    all[1] = host_mounts_;
  }
  const store::Revision now = store_.current();
  for (const auto& references : all) {
    if (references->Has(node, reference)) return true;
  }
  for (const auto& references : all) {
    references->WaitFor(now);
    if (references->Has(node, reference)) return true;
  }
  return false;
}

bool NodeReach::IsBound(const api::KindInfo& kind, const api::NodeName& node, std::string_view ns,
                        std::string_view name) {
  const auto record = store_.Get(ObjectStoreKey(kind, ns, name));
  if (!record.ok()) return false;
  return String(DecodeStored(*record->value).value_or(Json()), {"spec", "nodeName"}) == node.text();
}

bool NodeReach::ReachesVolume(const api::NodeName& node, std::string_view name) {
  const auto record = store_.Get(ObjectStoreKey(api::kinds::kPersistentVolume, "", name));
  if (!record.ok()) return false;
  const Json volume = DecodeStored(*record->value).value_or(Json());
  const std::string claim = String(volume, {"spec", "claimRef", "name"});
  return !claim.empty() &&
         Refers(node, ReferenceTo("persistentvolumeclaims",
                                  String(volume, {"spec", "claimRef", "namespace"}), claim));
}

bool NodeReach::FindVolume(const api::NodeName& node, bool settled,
                           const std::function<bool(const Json&)>& visit) {
  std::shared_ptr<References> all[2];
  {
    MutexLock lock(mutex_);
    all[0] = pods_;
    all[1] = host_mounts_;
  }
  const std::string prefix = "persistentvolumeclaims/";
  const store::Revision now = store_.current();
  for (const auto& references : all) {
    if (references == nullptr) continue;
    if (settled) references->WaitFor(now);
    for (const std::string& claim : references->FindReferences(node, prefix)) {
      const auto claim_record = store_.Get(KeyPrefix(api::kinds::kPersistentVolumeClaim, "") +
                                           claim.substr(prefix.size()));
      if (!claim_record.ok()) continue;
      const Json object = DecodeStored(*claim_record->value).value_or(Json());
      const auto volume = store_.Get(ObjectStoreKey(api::kinds::kPersistentVolume, "",
                                                    String(object, {"spec", "volumeName"})));
      if (!volume.ok()) continue;
      const Json pv = DecodeStored(*volume->value).value_or(Json());
      // The volume must refer back to the claim, because a claim may name any volume.
      if (String(pv, {"spec", "claimRef", "uid"}) != String(object, {"metadata", "uid"})) continue;
      if (visit(pv)) return true;
    }
  }
  return false;
}

bool NodeReach::ReachesByVolume(const api::NodeName& node, std::string_view resource,
                                std::string_view ns, std::string_view name) {
  return FindVolume(node, /*settled=*/false,
                    [&](const Json& volume) { return VolumeRefersTo(volume, resource, ns, name); });
}

bool NodeReach::Reaches(const api::NodeName& node, std::string_view group,
                        std::string_view resource, std::string_view ns, std::string_view name) {
  if (group == "storage.k8s.io" && resource == "volumeattachments") {
    return IsBound(api::kinds::kVolumeAttachment, node, "", name);
  }
  if (group == "storage.berth.dev" && resource == "hostmounts") {
    return IsBound(api::kinds::kHostMount, node, ns, name);
  }
  if (!group.empty()) return false;
  if (resource == "pods") return IsBound(api::kinds::kPod, node, ns, name);
  if (resource == "persistentvolumes") return ReachesVolume(node, name);
  if (Refers(node, ReferenceTo(resource, ns, name))) return true;
  return (resource == "secrets" || resource == "endpoints") &&
         ReachesByVolume(node, resource, ns, name);
}

bool NodeReach::FindObject(const api::KindInfo& kind, std::string_view part,
                           const std::function<bool(const Json&)>& visit) {
  const std::string prefix = KeyPrefix(kind, "");
  std::string after;
  store::Revision at = 0;
  for (bool more = true; more;) {
    const auto page = store_.List(prefix, after, kReachPage, at);
    if (!page.ok()) {
      LOG_WARNING("api: which Secrets a block agent may read is not known: {}",
                  base::ToString(page.status()));
      return false;
    }
    at = page->revision;
    more = page->more;
    for (const store::Record& record : page->records) {
      after = record.key;
      // The others are skipped without parsing.
      if (record.value->find(part) == std::string::npos) continue;
      if (visit(DecodeStored(*record.value).value_or(Json()))) return true;
    }
  }
  return false;
}

// There are few StorageClusters, and an agent asks seldom, so they are read each time.
std::set<std::string> NodeReach::FindClustersOf(std::string_view ns, std::string_view name) {
  std::set<std::string> clusters;
  if (ns.empty() || name.empty()) return clusters;
  FindObject(api::kinds::kStorageCluster, name, [&](const Json& object) {
    for (const auto& [type, backend] : base::json::Map(object, {"spec", "backend"}).items()) {
      for (const char* member : {"secretRef", "chapSecretRef"}) {
        if (String(backend, {member, "namespace"}) == ns &&
            String(backend, {member, "name"}) == name) {
          clusters.insert(String(object, {"metadata", "name"}));
        }
      }
    }
    return false;
  });
  return clusters;
}

bool NodeReach::HasEntryOf(const api::NodeName& node, const std::set<std::string>& clusters) {
  const auto is_of_node = [&](const api::FenceEntry& entry) {
    return entry.node == node.text() && clusters.contains(entry.cluster_name);
  };
  const bool fenced = FindObject(api::kinds::kVolumeFence, node.text(), [&](const Json& object) {
    return std::ranges::any_of(api::VolumeFence(object).entries(), is_of_node);
  });
  if (fenced) return true;
  const auto record = store_.Get(ObjectStoreKey(api::kinds::kNodeCleanup, "", node.text()));
  if (!record.ok()) return false;
  const api::NodeCleanup cleanup(DecodeStored(*record->value).value_or(Json::object()));
  return std::ranges::any_of(cleanup.entries(), [&](const api::CleanupEntry& entry) {
    return clusters.contains(entry.cluster_name);
  });
}

bool NodeReach::IsSecretOfCluster(const api::NodeName& node, std::string_view ns,
                                  std::string_view name) {
  const std::set<std::string> clusters = FindClustersOf(ns, name);
  if (clusters.empty()) return false;
  if (const auto loaded = LoadReferences(); !loaded.ok()) {
    LOG_ERROR("api: cannot read what the pods and host mounts of nodes refer to: {}",
              base::ToString(loaded));
    return false;
  }
  const auto is_of_cluster = [&](const Json& volume) {
    return clusters.contains(
        String(volume, {"spec", "flexVolume", "options", api::kClusterOption}));
  };
  return FindVolume(node, /*settled=*/false, is_of_cluster) || HasEntryOf(node, clusters) ||
         FindVolume(node, /*settled=*/true, is_of_cluster);
}

}  // namespace berth::apiserver
