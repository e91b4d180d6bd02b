#include "apiserver/access/block_agent_restriction.h"

#include <algorithm>
#include <vector>

#include "apiserver/formats/kube_status.h"

namespace berth::apiserver {

using base::Json;
using base::Status;
using base::json::Array;
using base::json::Map;
using base::json::String;

namespace {

constexpr std::string_view kOutOfServiceTaint = "node.kubernetes.io/out-of-service";

bool Contains(const Json& list, const Json& item) {
  return std::find(list.begin(), list.end(), item) != list.end();
}

// The items of `list` whose member `node` is another node.
Json FindOthers(const Json& list, std::string_view node) {
  Json others = Json::array();
  for (const Json& item : list) {
    if (String(item, {"node"}) != node) others.push_back(item);
  }
  return others;
}

bool NamesNode(const Json& list, std::string_view node) {
  return std::any_of(list.begin(), list.end(),
                     [&](const Json& item) { return String(item, {"node"}) == node; });
}

bool IsOutOfService(const Json& node) {
  const Json& taints = Array(node, {"spec", "taints"});
  return std::any_of(taints.begin(), taints.end(), [](const Json& taint) {
    return String(taint, {"key"}) == kOutOfServiceTaint;
  });
}

class BlockAgentWriteCheck {
 public:
  explicit BlockAgentWriteCheck(const BlockAgentWrite& write)
      : write_(write),
        before_(write.before != nullptr ? *write.before : kNone),
        after_(write.after != nullptr ? *write.after : kNone),
        name_(String(write.before != nullptr ? before_ : after_, {"metadata", "name"})) {}

  Status CheckFence() const {
    RETURN_IF_ERROR(CheckLife());
    const Json before = FindOthers(Array(before_, {"attachments"}), write_.node);
    const Json after = FindOthers(Array(after_, {"attachments"}), write_.node);
    if (before != after) RETURN_IF_ERROR(CheckTakeOver(before, after));
    return write_.after == nullptr ? base::OkStatus() : CheckDevices(before);
  }

  Status CheckCleanup() const {
    RETURN_IF_ERROR(CheckLife());
    const bool own = name_ == write_.node;
    if (!own && (write_.after == nullptr || write_.subresource == "status")) {
      return RefuseWrite(
          fmt::format("the agent of node \"{}\" removes and reports only what its own node has to "
                      "do",
                      write_.node));
    }
    const Json& before = Array(before_, {"entries"});
    const Json& after = Array(after_, {"entries"});
    for (const Json& entry : after) {
      if (String(entry, {"attachment", "node"}) != name_ && !Contains(before, entry)) {
        return RefuseWrite("an entry must name the node of its NodeCleanup");
      }
    }
    const bool all_there = std::all_of(before.begin(), before.end(),
                                       [&](const Json& old) { return Contains(after, old); });
    if (own || all_there) return base::OkStatus();
    return RefuseWrite(
        fmt::format("the agent of node \"{}\" may not remove or change what another node has to do",
                    write_.node));
  }

  Status CheckCluster() const {
    const auto rest = [&](const Json& cluster) {
      Json out = Map(cluster, {"status"});
      base::json::Remove(out, {"nodes", write_.node});
      if (Map(out, {"nodes"}).empty()) out.erase("nodes");
      return out;
    };
    if (rest(before_) == rest(after_)) return base::OkStatus();
    return RefuseWrite(fmt::format("the agent of node \"{}\" may write only status.nodes[\"{}\"]",
                                   write_.node, write_.node));
  }

 private:
  static inline const Json kNone = Json::object();

  Status RefuseWrite(std::string_view why) const { return ForbiddenError(write_.info, name_, why); }

  // A finalizer would keep an object for ever, and an owner could end it. Annotations are for the
  // people and controllers that agents are told by.
  Status CheckLife() const {
    if (write_.after == nullptr) return base::OkStatus();
    for (const std::string_view field : {"finalizers", "ownerReferences"}) {
      if (Array(before_, {"metadata", field}) != Array(after_, {"metadata", field})) {
        return RefuseWrite(
            fmt::format("the agent of node \"{}\" may not write {}", write_.node, field));
      }
    }
    if (Map(before_, {"metadata", "annotations"}) != Map(after_, {"metadata", "annotations"})) {
      return RefuseWrite(
          fmt::format("the agent of node \"{}\" may not write annotations", write_.node));
    }
    return base::OkStatus();
  }

  // `before` and `after` are the entries of other nodes.
  Status CheckTakeOver(const Json& before, const Json& after) const {
    for (const Json& entry : after) {
      if (!Contains(before, entry)) {
        return RefuseWrite(fmt::format(
            "the agent of node \"{}\" may write only entries of its own node", write_.node));
      }
    }
    if (!NamesNode(Array(after_, {"attachments"}), write_.node)) {
      return RefuseWrite(
          fmt::format("the agent of node \"{}\" may take the entry of another node "
                      "out only for an entry of its own",
                      write_.node));
    }
    for (const Json& entry : before) {
      if (Contains(after, entry)) continue;
      const std::string other = String(entry, {"node"});
      ASSIGN_OR_RETURN(const std::optional<Json> node, write_.find_node(other));
      if (!node.has_value() || IsOutOfService(*node)) continue;
      return RefuseWrite(fmt::format(
          "the entry of node \"{}\" may be taken out only if that Node is deleted or has the "
          "taint {}",
          other, kOutOfServiceTaint));
    }
    return base::OkStatus();
  }

  // `others` are the entries of other nodes.
  Status CheckDevices(const Json& others) const {
    const Json before = FindOthers(Array(before_, {"status", "devices"}), write_.node);
    const Json after = FindOthers(Array(after_, {"status", "devices"}), write_.node);
    const bool own =
        std::all_of(after.begin(), after.end(),
                    [&](const Json& device) { return Contains(before, device); }) &&
        std::all_of(before.begin(), before.end(), [&](const Json& device) {
          return Contains(after, device) || !NamesNode(others, String(device, {"node"}));
        });
    if (own) return base::OkStatus();
    return RefuseWrite(fmt::format(
        "the agent of node \"{}\" may report only on the device of its own node", write_.node));
  }

  const BlockAgentWrite& write_;
  const Json& before_;
  const Json& after_;
  const std::string name_;
};

}  // namespace

// The kinds are those that CustomResourceDefinitions make, so they are known by their names.
Status CheckBlockAgentWrite(const BlockAgentWrite& write) {
  if (write.info.group != "storage.berth.dev") return base::OkStatus();
  const BlockAgentWriteCheck check(write);
  if (write.info.plural == "volumefences") return check.CheckFence();
  if (write.info.plural == "nodecleanups") return check.CheckCleanup();
  if (write.info.plural == "storageclusters") return check.CheckCluster();
  return base::OkStatus();
}

}  // namespace berth::apiserver
