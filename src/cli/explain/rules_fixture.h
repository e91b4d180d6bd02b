// A gathered state for the tests of rules.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <string_view>
#include <vector>

#include "api/kinds/csi_names.h"
#include "api/time.h"
#include "cli/explain/rules.h"

namespace berth::cli::explain {

inline constexpr std::string_view kDriver = "fake.csi.example.com";
inline constexpr std::string_view kSocket = "/run/fake.sock";

// A state, with functions that change it and functions that return its causes.
class RulesCase : public testing::Test {
 protected:
  base::FlightRecord& Call(const std::string& key, const std::string& what, base::StatusCode code,
                           const std::string& message) {
    if (state_.logs.empty()) state_.logs.push_back({.role = "node", .pid = 1, .alive = true});
    state_.logs[0].records.push_back({.key = key,
                                      .kind = base::FlightKind::kCall,
                                      .what = what,
                                      .target = std::string(kSocket),
                                      .first = state_.now - std::chrono::seconds(60),
                                      .start = state_.now - std::chrono::seconds(31),
                                      .end = state_.now - std::chrono::seconds(30),
                                      .code = code,
                                      .message = message});
    return state_.logs[0].records.back();
  }
  base::FlightRecord& Running(const std::string& key, const std::string& what) {
    base::FlightRecord& record = Call(key, what, base::StatusCode::kOk, "");
    record.running = true;
    return record;
  }

  // The first cause, or one with id "".
  Cause First() const {
    const std::vector<Cause> causes = FindCauses(state_);
    return causes.empty() ? Cause{.id = ""} : causes.front();
  }
  std::vector<std::string> Ids() const {
    std::vector<std::string> ids;
    for (const Cause& cause : FindCauses(state_)) ids.emplace_back(cause.id);
    return ids;
  }
  static bool Proves(const Cause& cause, std::string_view text) {
    for (const std::string& proof : cause.proof) {
      if (proof.find(text) != std::string::npos) return true;
    }
    return false;
  }

  State state_{.now = *api::ParseTime("2026-01-01T01:00:00Z")};
};

// A pod "web" on node-a with claim "data", bound to pv-1 and attached, and its driver there: each
// test breaks one link or two.
class RulesTest : public RulesCase {
 protected:
  RulesTest() {
    state_.subject = "pod/web";
    state_.pod =
        api::Pod({{"kind", "Pod"},
                  {"metadata", {{"name", "web"}, {"namespace", "default"}, {"uid", "pod-uid"}}},
                  {"spec", {{"nodeName", "node-a"}}},
                  {"status", {{"phase", "Pending"}}}});
    state_.object = *state_.pod;
    state_.claim_key = "default/data";
    state_.claim = api::PersistentVolumeClaim(
        {{"metadata", {{"name", "data"}, {"namespace", "default"}, {"uid", "claim-uid"}}},
         {"spec",
          {{"storageClassName", "fast"},
           {"volumeName", "pv-1"},
           {"accessModes", {"ReadWriteOnce"}},
           {"resources", {{"requests", {{"storage", "1Gi"}}}}}}},
         {"status", {{"phase", "Bound"}}}});
    state_.class_name = "fast";
    state_.storage_class =
        api::StorageClass({{"metadata", {{"name", "fast"}}}, {"provisioner", kDriver}});
    state_.classes = {*state_.storage_class};
    state_.volume =
        api::PersistentVolume({{"metadata", {{"name", "pv-1"}}},
                               {"spec",
                                {{"accessModes", {"ReadWriteOnce"}},
                                 {"csi", {{"driver", kDriver}, {"volumeHandle", "vol-1"}}}}},
                               {"status", {{"phase", "Bound"}}}});
    state_.driver = kDriver;
    state_.handle = "vol-1";
    state_.node_name = "node-a";
    state_.nodes = {Node("node-a", "a"), Node("node-b", "b")};
    state_.node = state_.nodes[0];
    state_.csi_node =
        api::CsiNode({{"metadata", {{"name", "node-a"}}},
                      {"spec", {{"drivers", {{{"name", kDriver}, {"nodeID", "node-a"}}}}}}});
    state_.csi_nodes = {*state_.csi_node};
    state_.attachment = Attachment("va-1", "node-a", true);
    state_.attachments = {*state_.attachment};
  }

  static api::Node Node(const std::string& name, const std::string& zone) {
    return api::Node({{"metadata", {{"name", name}, {"labels", {{"zone", zone}}}}},
                      {"status", {{"conditions", {{{"type", "Ready"}, {"status", "True"}}}}}}});
  }
  static api::VolumeAttachment Attachment(const std::string& name, const std::string& node,
                                          bool attached) {
    return api::VolumeAttachment(
        {{"metadata", {{"name", name}}},
         {"spec", {{"nodeName", node}, {"source", {{"persistentVolumeName", "pv-1"}}}}},
         {"status", {{"attached", attached}}}});
  }

  // The claim still waits for a volume.
  void Unbind() {
    state_.claim->Set({"status", "phase"}, "Pending");
    state_.claim->Set({"spec", "volumeName"}, "");
    state_.volume.reset();
    state_.handle.clear();
    state_.attachment.reset();
    state_.attachments.clear();
  }
  void Unschedule(const std::string& message) {
    state_.node_name.clear();
    state_.node.reset();
    state_.csi_node.reset();
    state_.pod->Set({"spec", "nodeName"}, "");
    state_.pod->Set({"status", "conditions"},
                    {{{"type", "PodScheduled"}, {"status", "False"}, {"message", message}}});
    state_.object = *state_.pod;
  }
  void NotReady(const std::string& status, const std::string& reason) {
    state_.nodes[0].Set(
        {"status", "conditions"},
        {{{"type", "Ready"}, {"status", status}, {"reason", reason}, {"message", "as it says"}}});
    if (state_.node) state_.node = state_.nodes[0];
  }

  static platform::ProcessInfo Process(pid_t pid, char state, const std::string& channel) {
    return {.pid = pid, .name = "mount", .state = state, .wait_channel = channel};
  }
  static std::string OnNode() {
    return "volumes " + api::UniqueVolumeName(kDriver, api::VolumeHandle("vol-1"));
  }
};

}  // namespace berth::cli::explain
