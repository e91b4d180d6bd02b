// The writes of a block agent to the kinds of block_kinds.h that must be allowed, and those that
// must be refused. Two guards are held to this one table: the policies of deploy/block-agent, which
// kube-apiserver evaluates, and the restriction of Berth's own API server.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/json.h"

namespace berth::api {

// A write of the agent of node "a". The cluster has the Nodes "a", "b" and "off", of which "off"
// has the taint node.kubernetes.io/out-of-service; the Node "gone" was deleted.
struct BlockWrite {
  std::string what;
  std::string resource;     // "volumefences"
  std::string subresource;  // "" or "status"
  base::Json before;        // null: a create
  base::Json after;         // null: a delete
  bool allowed;
};

inline base::Json BlockWriteNodes() {
  return base::Json::array(
      {{{"metadata", {{"name", "a"}}}},
       {{"metadata", {{"name", "b"}}}, {"spec", {{"taints", {{{"key", "other"}}}}}}},
       {{"metadata", {{"name", "off"}}},
        {"spec", {{"taints", {{{"key", "node.kubernetes.io/out-of-service"}}}}}}}});
}

namespace block_writes {

using base::Json;

inline Json Named(std::string_view kind, std::string_view name) {
  return {
      {"apiVersion", "storage.berth.dev/v1alpha1"}, {"kind", kind}, {"metadata", {{"name", name}}}};
}
inline Json Use(const std::string& node, const std::string& uid = "1") {
  return {{"node", node}, {"podUID", uid}, {"mountDir", "/pods/" + uid}};
}
inline Json Fence(Json uses, Json devices = Json()) {
  Json fence = Named("VolumeFence", "pv");
  fence["attachments"] = std::move(uses);
  if (!devices.is_null()) fence["status"]["devices"] = std::move(devices);
  return fence;
}
inline Json Device(const std::string& node, const std::string& state = "Attached") {
  return {{"node", node}, {"state", state}};
}
inline Json Entry(const std::string& node, const std::string& uid, const std::string& why = "") {
  return {{"volume", "pv"}, {"attachment", Use(node, uid)}, {"reason", why}};
}
inline Json Cleanup(const std::string& node, Json entries, const std::string& message = "") {
  Json cleanup = Named("NodeCleanup", node);
  cleanup["entries"] = std::move(entries);
  if (!message.empty()) cleanup["status"]["message"] = message;
  return cleanup;
}
inline Json Cluster(Json nodes, const std::string& phase = "Deleting") {
  Json cluster = Named("StorageCluster", "main");
  cluster["status"] = {{"phase", phase}};
  if (!nodes.is_null()) cluster["status"]["nodes"] = std::move(nodes);
  return cluster;
}
inline Json With(Json object, const std::string& field, Json value) {
  object["metadata"][field] = std::move(value);
  return object;
}
inline Json List(std::vector<Json> items) { return Json(std::move(items)); }

inline void AddFenceWrites(std::vector<BlockWrite>& writes) {
  const auto add = [&](const char* what, Json before, Json after, bool allowed) {
    writes.push_back({what, "volumefences", "", std::move(before), std::move(after), allowed});
  };
  const auto report = [&](const char* what, const Json& uses, Json before, Json after,
                          bool allowed) {
    writes.push_back({what, "volumefences", "status", Fence(uses, std::move(before)),
                      Fence(uses, std::move(after)), allowed});
  };
  const Json none;
  const Json a = Use("a");
  const Json b = Use("b", "2");
  const Json off = Use("off", "3");
  const Json gone = Use("gone", "4");
  const Json owner = List({{{"kind", "Pod"}, {"name", "p"}, {"uid", "u"}}});

  add("makes a fence for itself", none, Fence(List({a})), true);
  add("makes a fence for another", none, Fence(List({b})), false);
  add("makes a fence for itself and another", none, Fence(List({a, b})), false);
  add("makes a fence that cannot be deleted", none,
      With(Fence(List({a})), "finalizers", List({"x/y"})), false);
  add("makes a fence that ends with an owner", none,
      With(Fence(List({a})), "ownerReferences", owner), false);
  add("joins another", Fence(List({b})), Fence(List({b, a})), true);
  add("joins others in another order", Fence(List({b, off})), Fence(List({off, a, b})), true);
  add("leaves another alone", Fence(List({b, a})), Fence(List({b})), true);
  add("changes its own entry", Fence(List({a, b})), Fence(List({b, Use("a", "9")})), true);
  add("adds an entry for another", Fence(List({a})), Fence(List({a, b})), false);
  add("changes the entry of another", Fence(List({b})), Fence(List({Use("b", "9"), a})), false);
  add("takes the volume from a node that is there", Fence(List({b})), Fence(List({a})), false);
  add("takes the volume from a node that is off", Fence(List({off})), Fence(List({a})), true);
  add("takes the volume from a deleted node", Fence(List({gone})), Fence(List({a})), true);
  add("takes the volume from one that is off and one that is there", Fence(List({off, b})),
      Fence(List({a})), false);
  add("takes the place of one that is off beside one that is there", Fence(List({off, b})),
      Fence(List({b, a})), true);
  add("takes a deleted node out for nobody", Fence(List({gone, b})), Fence(List({b})), false);
  add("empties the fence of a deleted node", Fence(List({gone})), Fence(List({})), false);
  add("removes its own fence", Fence(List({a})), none, true);
  add("removes a fence of nobody", Fence(List({})), none, true);
  add("removes a fence with another", Fence(List({a, b})), none, false);
  add("removes the fence of a deleted node", Fence(List({gone})), none, false);
  add("gives another's fence an owner", Fence(List({b})),
      With(Fence(List({b})), "ownerReferences", owner), false);
  add("annotates another's fence", Fence(List({b})),
      With(Fence(List({b, a})), "annotations", {{"x", "y"}}), false);
  add("makes a fence with an annotation", none, With(Fence(List({a})), "annotations", {{"x", "y"}}),
      false);
  add("keeps an annotation", With(Fence(List({b})), "annotations", {{"x", "y"}}),
      With(Fence(List({b, a})), "annotations", {{"x", "y"}}), true);
  add("keeps a finalizer", With(Fence(List({b})), "finalizers", List({"x/y"})),
      With(Fence(List({b, a})), "finalizers", List({"x/y"})), true);
  add("removes a finalizer", With(Fence(List({a})), "finalizers", List({"x/y"})), Fence(List({a})),
      false);

  const Json ab = List({a, b});
  report("reports on its device", ab, List({Device("b")}), List({Device("b"), Device("a")}), true);
  report("reports again on its device", ab, List({Device("a"), Device("b")}),
         List({Device("b"), Device("a", "Quarantined")}), true);
  report("reports on the device of another", ab, List({Device("b")}),
         List({Device("b", "Quarantined")}), false);
  report("adds the device of another", ab, none, List({Device("b")}), false);
  report("drops the device of a node in the fence", ab, List({Device("b")}), List({Device("a")}),
         false);
  report("drops the device of a node that has left", List({a}), List({Device("b")}),
         List({Device("a")}), true);
}

inline void AddCleanupWrites(std::vector<BlockWrite>& writes) {
  const auto add = [&](const char* what, Json before, Json after, bool allowed,
                       const char* subresource = "") {
    writes.push_back(
        {what, "nodecleanups", subresource, std::move(before), std::move(after), allowed});
  };
  const Json none;
  const Json old = Entry("b", "2");
  add("has another node take a volume off", none, Cleanup("b", List({old})), true);
  add("names its own node in another's cleanup", none, Cleanup("b", List({Entry("a", "1")})),
      false);
  add("adds to another's cleanup", Cleanup("b", List({old})),
      Cleanup("b", List({old, Entry("b", "3")})), true);
  add("says another reason in another's cleanup", Cleanup("b", List({old})),
      Cleanup("b", List({Entry("b", "2", "for me")})), false);
  Json elsewhere = old;
  elsewhere["attachment"]["mountDir"] = "/elsewhere";
  add("changes the folder in another's cleanup", Cleanup("b", List({old})),
      Cleanup("b", List({elsewhere})), false);
  add("adds the same use with another folder", Cleanup("b", List({old})),
      Cleanup("b", List({old, elsewhere})), true);
  add("changes its own cleanup", Cleanup("a", List({Entry("a", "1")})),
      Cleanup("a", List({Entry("a", "1", "again")})), true);
  add("removes what another has to do", Cleanup("b", List({old, Entry("b", "3")})),
      Cleanup("b", List({old})), false);
  add("puts one entry for another's", Cleanup("b", List({old})),
      Cleanup("b", List({Entry("b", "3")})), false);
  add("removes another's cleanup", Cleanup("b", List({old})), none, false);
  add("removes another's cleanup without entries", Cleanup("b", List({})), none, false);
  add("has done a part", Cleanup("a", List({Entry("a", "1"), Entry("a", "3")})),
      Cleanup("a", List({Entry("a", "3")})), true);
  add("has done all", Cleanup("a", List({Entry("a", "1")})), none, true);
  add("gives itself something to do", Cleanup("a", List({Entry("a", "1")})),
      Cleanup("a", List({Entry("a", "1"), Entry("a", "3")})), true);
  add("names another node in its own cleanup", none, Cleanup("a", List({old})), false);
  add("makes a cleanup that cannot be deleted", none,
      With(Cleanup("b", List({old})), "finalizers", List({"x/y"})), false);
  add("reports what is left", Cleanup("a", List({Entry("a", "1")})),
      Cleanup("a", List({Entry("a", "1")}), "1 left"), true, "status");
  add("reports for another", Cleanup("b", List({old})), Cleanup("b", List({old}), "1 left"), false,
      "status");
}

inline void AddClusterWrites(std::vector<BlockWrite>& writes) {
  const auto add = [&](const char* what, Json before, Json after, bool allowed) {
    writes.push_back(
        {what, "storageclusters", "status", std::move(before), std::move(after), allowed});
  };
  const Json clean = {{"state", "Clean"}};
  const Json cleaning = {{"state", "Cleaning"}};
  add("reports that it is clean", Cluster({{"a", cleaning}, {"b", cleaning}}),
      Cluster({{"a", clean}, {"b", cleaning}}), true);
  add("reports first", Cluster(Json()), Cluster({{"a", cleaning}}), true);
  add("reports that another is clean", Cluster({{"b", cleaning}}), Cluster({{"b", clean}}), false);
  add("reports before another does", Cluster(Json()), Cluster({{"b", clean}}), false);
  add("drops what another said", Cluster({{"a", clean}, {"b", cleaning}}), Cluster({{"a", clean}}),
      false);
  add("writes the phase", Cluster(Json()), Cluster(Json(), "Ready"), false);
  const auto with = [](const char* member, Json value) {
    Json cluster = Cluster(Json());
    cluster["status"][member] = std::move(value);
    return cluster;
  };
  add("writes which clients are fenced", Cluster(Json()),
      with("fenced", Json::array({{{"node", "a"}, {"clients", {"10.0.0.5:0/1"}}}})), false);
  add("takes a condition away",
      with("conditions", Json::array({{{"type", "FencesLeft"}, {"status", "True"}}})),
      Cluster(Json()), false);
}

}  // namespace block_writes

inline std::vector<BlockWrite> BlockWrites() {
  std::vector<BlockWrite> writes;
  block_writes::AddFenceWrites(writes);
  block_writes::AddCleanupWrites(writes);
  block_writes::AddClusterWrites(writes);
  return writes;
}

}  // namespace berth::api
