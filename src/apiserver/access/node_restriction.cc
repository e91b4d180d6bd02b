#include "apiserver/access/node_restriction.h"

#include <set>

#include "apiserver/formats/kube_status.h"

namespace berth::apiserver {

using base::Json;
using base::Status;
using base::json::Array;
using base::json::Find;
using base::json::Map;
using base::json::String;

namespace {

constexpr std::string_view kNodeRestriction = "node-restriction.kubernetes.io";

// Kubernetes' own labels that a kubelet sets on its node.
constexpr std::string_view kKubeletLabels[] = {"kubernetes.io/hostname",
                                               "topology.kubernetes.io/zone",
                                               "topology.kubernetes.io/region",
                                               "failure-domain.beta.kubernetes.io/zone",
                                               "failure-domain.beta.kubernetes.io/region",
                                               "beta.kubernetes.io/instance-type",
                                               "node.kubernetes.io/instance-type",
                                               "node.kubernetes.io/windows-build",
                                               "kubernetes.io/os",
                                               "beta.kubernetes.io/os",
                                               "kubernetes.io/arch",
                                               "beta.kubernetes.io/arch"};
constexpr std::string_view kKubeletDomains[] = {"kubelet.kubernetes.io", "node.kubernetes.io"};

bool InDomain(std::string_view name, std::string_view domain) {
  return name == domain || (name.ends_with(domain) && name[name.size() - domain.size() - 1] == '.');
}

bool MayLabel(std::string_view key) {
  const size_t slash = key.find('/');
  const std::string_view domain = slash == std::string_view::npos ? "" : key.substr(0, slash);
  if (InDomain(domain, kNodeRestriction)) return false;
  if (!InDomain(domain, "kubernetes.io") && !InDomain(domain, "k8s.io")) return true;
  return std::find(std::begin(kKubeletLabels), std::end(kKubeletLabels), key) !=
             std::end(kKubeletLabels) ||
         std::any_of(std::begin(kKubeletDomains), std::end(kKubeletDomains),
                     [&](std::string_view own) { return InDomain(domain, own); });
}

// The changed labels that a node may not change, as "a, b".
std::string ForbiddenLabels(const Json& before, const Json& after) {
  const Json& old_labels = Map(before, {"metadata", "labels"});
  const Json& new_labels = Map(after, {"metadata", "labels"});
  std::set<std::string> keys;
  for (const auto& [key, value] : old_labels.items()) keys.insert(key);
  for (const auto& [key, value] : new_labels.items()) keys.insert(key);
  std::string found;
  for (const std::string& key : keys) {
    const auto was = old_labels.find(key);
    const auto is = new_labels.find(key);
    const bool same = was != old_labels.end() && is != new_labels.end() && *was == *is;
    if (!same && !MayLabel(key)) found += fmt::format("{}{}", found.empty() ? "" : ", ", key);
  }
  return found;
}

// A copy of the object without the metadata that the server itself sets.
Json WithoutBookkeeping(Json object) {
  for (const std::string_view field : {"resourceVersion", "managedFields", "generation"}) {
    base::json::Remove(object, {"metadata", field});
  }
  return object;
}

class NodeWriteCheck {
 public:
  explicit NodeWriteCheck(const NodeWrite& write)
      : write_(write),
        before_(write.before != nullptr ? *write.before : kNone),
        after_(write.after != nullptr ? *write.after : kNone),
        name_(String(write.before != nullptr ? before_ : after_, {"metadata", "name"})) {}

  Status CheckNode() const {
    if (name_ != write_.node) {
      return RefuseWrite(
          fmt::format("node \"{}\" is not allowed to modify node \"{}\"", write_.node, name_));
    }
    const std::string labels = ForbiddenLabels(before_, after_);
    if (write_.before == nullptr) {
      if (labels.empty()) return base::OkStatus();
      return RefuseWrite(fmt::format("node \"{}\" is not allowed to set the following labels: {}",
                                     write_.node, labels));
    }
    if (Array(before_, {"spec", "taints"}) != Array(after_, {"spec", "taints"})) {
      return RefuseWrite(fmt::format("node \"{}\" is not allowed to modify taints", write_.node));
    }
    // A node may not change owners, because an object is deleted together with its owner.
    if (Array(before_, {"metadata", "ownerReferences"}) !=
        Array(after_, {"metadata", "ownerReferences"})) {
      return RefuseWrite(
          fmt::format("node \"{}\" is not allowed to modify ownerReferences", write_.node));
    }
    if (labels.empty()) return base::OkStatus();
    return RefuseWrite(fmt::format("is not allowed to modify labels: {}", labels));
  }

  Status CheckPod() const {
    if (write_.before == nullptr) {
      return RefuseWrite(fmt::format("node \"{}\" can not create pods", write_.node));
    }
    const bool own = String(before_, {"spec", "nodeName"}) == write_.node;
    if (write_.deletes && write_.subresource == "eviction") {
      return own ? base::OkStatus()
                 : RefuseWrite(
                       fmt::format("node {} can only evict pods with spec.nodeName set to itself",
                                   write_.node));
    }
    if (write_.deletes) {
      return own ? base::OkStatus()
                 : RefuseWrite(fmt::format(
                       "node \"{}\" can only delete pods with spec.nodeName set to itself",
                       write_.node));
    }
    if (write_.subresource != "status") {
      return RefuseWrite(fmt::format(
          "unexpected operation \"UPDATE\", node \"{}\" can only delete pods", write_.node));
    }
    if (!own) {
      return RefuseWrite(fmt::format(
          "node \"{}\" can only update pod status for pods with spec.nodeName set to itself",
          write_.node));
    }
    if (Map(before_, {"metadata", "labels"}) != Map(after_, {"metadata", "labels"})) {
      return RefuseWrite(
          fmt::format("node \"{}\" cannot update labels through pod status", write_.node));
    }
    return base::OkStatus();
  }

  Status CheckClaimStatus() const {
    if (write_.subresource != "status" || write_.before == nullptr || write_.deletes) {
      return RefuseWrite("may only update PVC status");
    }
    const auto rest = [](const Json& claim) {
      Json out = WithoutBookkeeping(claim);
      for (const std::string_view field :
           {"capacity", "conditions", "allocatedResources", "allocatedResourceStatuses"}) {
        base::json::Remove(out, {"status", field});
      }
      return out;
    };
    if (rest(before_) == rest(after_)) return base::OkStatus();
    return RefuseWrite(
        fmt::format("node \"{}\" is not allowed to update fields other than "
                    "status.capacity, status.conditions and status.allocatedResources",
                    write_.node));
  }

  Status CheckLease() const {
    if (String(write_.before != nullptr ? before_ : after_, {"metadata", "namespace"}) !=
        "kube-node-lease") {
      return RefuseWrite(R"(can only access leases in the "kube-node-lease" system namespace)");
    }
    return CheckOwnName("can only access node lease with the same name as the requesting node");
  }

  Status CheckCsiNode() const {
    return CheckOwnName("can only access CSINode with the same name as the requesting node");
  }

  // The node agent of a host mount writes its status, and keeps a finalizer on it until it is
  // unmounted.
  Status CheckHostMount() const {
    if (write_.before == nullptr || write_.deletes ||
        String(before_, {"spec", "nodeName"}) != write_.node) {
      return RefuseWrite(fmt::format(
          "node \"{}\" can only update hostmounts with spec.nodeName set to itself", write_.node));
    }
    const auto rest = [](const Json& mount) {
      Json out = WithoutBookkeeping(mount);
      out.erase("status");
      base::json::Remove(out, {"metadata", "finalizers"});
      return out;
    };
    if (rest(before_) == rest(after_)) return base::OkStatus();
    return RefuseWrite(
        fmt::format("node \"{}\" is not allowed to update fields other than finalizers and status",
                    write_.node));
  }

 private:
  static inline const Json kNone = Json::object();

  Status RefuseWrite(std::string_view why) const { return ForbiddenError(write_.info, name_, why); }
  Status CheckOwnName(std::string_view why) const {
    return name_ == write_.node ? base::OkStatus() : RefuseWrite(why);
  }

  const NodeWrite& write_;
  const Json& before_;
  const Json& after_;
  const std::string name_;
};

// An object that is missing is an empty one.
base::StatusOr<Json> FindObject(Lookup& lookup, const api::KindInfo& kind, std::string_view ns,
                                std::string_view name) {
  if (name.empty()) return Json::object();
  auto object = lookup.Get(kind, ns, name);
  if (object.status().code() == base::StatusCode::kNotFound) return Json::object();
  return object;
}

// The CSI driver of a pod's volume; empty: it has none.
base::StatusOr<std::string> FindDriver(const Json& pod, const Json& volume, Lookup& lookup) {
  if (const std::string driver = String(volume, {"csi", "driver"}); !driver.empty()) return driver;
  const std::string claim =
      Find(volume, {"ephemeral", "volumeClaimTemplate"}) != nullptr
          ? fmt::format("{}-{}", String(pod, {"metadata", "name"}), String(volume, {"name"}))
          : String(volume, {"persistentVolumeClaim", "claimName"});
  ASSIGN_OR_RETURN(const Json found, FindObject(lookup, api::kinds::kPersistentVolumeClaim,
                                                String(pod, {"metadata", "namespace"}), claim));
  ASSIGN_OR_RETURN(const Json bound, FindObject(lookup, api::kinds::kPersistentVolume, "",
                                                String(found, {"spec", "volumeName"})));
  return String(bound, {"spec", "csi", "driver"});
}

base::StatusOr<bool> NamesAudience(const Json& pod, std::string_view audience, Lookup& lookup) {
  for (const Json& volume : Array(pod, {"spec", "volumes"})) {
    for (const Json& source : Array(volume, {"projected", "sources"})) {
      const Json* token = Find(source, {"serviceAccountToken"});
      if (token != nullptr && String(*token, {"audience"}) == audience) return true;
    }
    ASSIGN_OR_RETURN(const std::string name, FindDriver(pod, volume, lookup));
    ASSIGN_OR_RETURN(const Json driver, FindObject(lookup, api::kinds::kCsiDriver, "", name));
    for (const Json& request : Array(driver, {"spec", "tokenRequests"})) {
      if (String(request, {"audience"}) == audience) return true;
    }
  }
  return false;
}

}  // namespace

Status CheckNodeWrite(const NodeWrite& write) {
  const NodeWriteCheck check(write);
  const api::KindInfo* info = &write.info;
  if (info == &api::kinds::kNode) return check.CheckNode();
  if (info == &api::kinds::kPod) return check.CheckPod();
  if (info == &api::kinds::kPersistentVolumeClaim) return check.CheckClaimStatus();
  if (info == &api::kinds::kLease) return check.CheckLease();
  if (info == &api::kinds::kCsiNode) return check.CheckCsiNode();
  if (info == &api::kinds::kHostMount) return check.CheckHostMount();
  return base::OkStatus();
}

Status CheckNodeTokenRequest(const api::NodeName& node, std::string_view account,
                             const Json& bound_object, const Json* pod) {
  const auto refuse = [&](std::string_view why) {
    return ForbiddenError(api::kinds::kServiceAccount, account, why);
  };
  if (String(bound_object, {"kind"}) != "Pod" || String(bound_object, {"name"}).empty()) {
    return refuse("node requested token not bound to a pod");
  }
  if (String(bound_object, {"uid"}).empty()) {
    return refuse("node requested token with a pod binding without a uid");
  }
  if (pod == nullptr) return NotFoundError(api::kinds::kPod, String(bound_object, {"name"}));
  if (String(*pod, {"spec", "nodeName"}) != node.text()) {
    return refuse("node requested token bound to a pod scheduled on a different node");
  }
  return base::OkStatus();
}

Status CheckNodeTokenAudience(const api::NodeName& node, std::string_view account,
                              const Json& audiences, const Json& pod, Lookup& lookup) {
  const auto refuse = [&](std::string_view why) {
    return ForbiddenError(api::kinds::kServiceAccount, account, why);
  };
  if (audiences.size() > 1) return refuse("node may only request 0 or 1 audiences");
  const std::string audience = audiences.empty() ? "" : audiences[0].get<std::string>();
  ASSIGN_OR_RETURN(const bool named, NamesAudience(pod, audience, lookup));
  if (named) return base::OkStatus();
  return refuse(
      fmt::format("audience \"{}\" not found in pod spec volume, system:node:{} is not authorized "
                  "to request tokens for this audience",
                  audience, node.text()));
}

}  // namespace berth::apiserver
