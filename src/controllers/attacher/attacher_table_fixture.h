// For tests of every transition of an attachment: a row has the objects that go in, and the writes,
// CSI calls and events that come out. A row is a parameter of AttacherTableTest.
#pragma once

#include <gmock/gmock.h>

#include <functional>
#include <string>
#include <vector>

#include "controllers/attacher/attacher.h"
#include "controllers/fake_cluster.h"

namespace berth::controllers::attacher {

inline constexpr char kAttacherFinalizer[] = "external-attacher/fake-csi-example-com";
inline constexpr char kNodeIdKey[] = "csi.alpha.kubernetes.io/node-id";

// "va" of volume pv-1 to node-a; `more` is merged over it.
inline base::Json AttachmentOfVolume1(const base::Json& more = nullptr) {
  return Merged({{"apiVersion", "storage.k8s.io/v1"},
                 {"kind", "VolumeAttachment"},
                 {"metadata", {{"name", "va"}, {"uid", "uid-va"}}},
                 {"spec",
                  {{"attacher", "fake.csi.example.com"},
                   {"nodeName", "node-a"},
                   {"source", {{"persistentVolumeName", "pv-1"}}}}}},
                more);
}
inline base::Json Held(const std::string& node_id = "id-of-node-a") {
  return {{"metadata",
           {{"finalizers", {kAttacherFinalizer}}, {"annotations", {{kNodeIdKey, node_id}}}}}};
}
inline base::Json Deleting(base::Json more = base::Json::object()) {
  more["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z";
  return more;
}
inline base::Json Attached(base::Json more) {
  more["status"] = {{"attached", true}, {"attachmentMetadata", {{"device", "/dev/vol-1"}}}};
  return more;
}
inline base::Json Source(base::Json source) { return {{"spec", {{"source", std::move(source)}}}}; }
inline base::Json Inline() {
  return Source({{"persistentVolumeName", nullptr},
                 {"inlineVolumeSpec",
                  {{"accessModes", {"ReadWriteOnce"}},
                   {"capacity", {{"storage", "1Gi"}}},
                   {"csi", {{"driver", "fake.csi.example.com"}, {"volumeHandle", "vol-1"}}}}}});
}
inline base::Json Both(base::Json a, const base::Json& b) {
  a.merge_patch(b);
  return a;
}
inline base::Json HeldVolume(base::Json more = base::Json::object()) {
  more["metadata"]["finalizers"] = {"kubernetes.io/pv-protection", kAttacherFinalizer};
  return more;
}
inline base::Json InTree(const base::Json& more = base::Json::object()) {
  return Both({{"spec", {{"csi", nullptr}, {"gcePersistentDisk", {{"pdName", "x"}}}}}}, more);
}

// A write: its name, and parts that its body holds.
struct Write {
  std::string name;
  std::vector<std::string> parts;
};
inline const Write kHoldVolume{"patch persistentvolumes/pv-1",
                               {kAttacherFinalizer, "resourceVersion"}};
inline const Write kHold{
    "patch volumeattachments/va",
    {kAttacherFinalizer, R"("csi.alpha.kubernetes.io/node-id":"id-of-node-a")"}};
inline const Write kSayAttached{
    "patch volumeattachments/va/status",
    {R"("attached":true)", R"("attachError":null)", R"("device":"/dev/vol-1")"}};
inline const Write kFree{"patch volumeattachments/va", {R"("finalizers":[])", "resourceVersion"}};
inline const Write kSayDetached{
    "patch volumeattachments/va/status",
    {R"("attached":false)", R"("attachmentMetadata":null)", R"("detachError":null)"}};
inline Write Says(const std::string& field, const std::string& message,
                  std::vector<std::string> more = {}) {
  more.push_back(fmt::format(R"("{}":{{)", field));
  more.push_back(message);
  return {"patch volumeattachments/va/status", std::move(more)};
}
inline Write AttachError(const std::string& message) {
  return Says("attachError", message, {R"("attached":false)"});
}

inline const std::string kPublish = "ControllerPublishVolume vol-1 id-of-node-a";
inline const std::string kUnpublish = "ControllerUnpublishVolume vol-1 id-of-node-a";

struct Case {
  std::string name;
  base::Json attachment;  // null: none
  base::Json volume;      // over pv-1
  std::vector<Write> writes;
  std::vector<std::string> calls;
  std::vector<std::string> events;
  std::function<void(FakeCluster&)> given;  // further setup, before the attacher starts
};

inline void PrintTo(const Case& test, std::ostream* out) { *out << test.name; }

inline std::function<void(FakeCluster&)> Fails(const char* method, base::StatusCode code,
                                               const std::string& message) {
  return [=](FakeCluster& cluster) {
    cluster.driver->script().Fail(method, base::Error(code, "{}", message),
                                  rpc::CallScript::kAlways);
  };
}

inline std::function<void(FakeCluster&)> RefusesPatch(const char* resource, base::StatusCode code,
                                                      const std::string& message) {
  return [=](FakeCluster& cluster) {
    cluster.client.FailNext("patch", resource, base::Error(code, "{}", message));
  };
}

class AttacherTableTest : public ::testing::TestWithParam<Case> {
 protected:
  static Options OnceOnly() {
    Options options;
    options.workers = 1;  // the sentinel comes after what is queued
    options.retry_start = options.retry_max = std::chrono::minutes(10);
    return options;
  }

  static bool IsOfSentinel(const std::string& text) {
    return text.find("sentinel") != std::string::npos;
  }

  std::vector<std::string> Writes() {
    std::vector<std::string> names = cluster_.client.ActionNames();
    std::erase_if(names, IsOfSentinel);
    return names;
  }

  std::vector<std::string> Calls() const {
    std::vector<std::string> calls;
    rpc::CallScript& script = cluster_.driver->script();
    size_t published = 0;
    size_t unpublished = 0;
    const auto publish =
        script.Requests<csi::v1::ControllerPublishVolumeRequest>("ControllerPublishVolume");
    const auto unpublish =
        script.Requests<csi::v1::ControllerUnpublishVolumeRequest>("ControllerUnpublishVolume");
    for (const std::string& method : script.Methods()) {
      std::string call;
      if (method == "ControllerPublishVolume") {
        const auto& request = publish[published++];
        call = fmt::format("{} {} {}", method, request.volume_id(), request.node_id());
      } else if (method == "ControllerUnpublishVolume") {
        const auto& request = unpublish[unpublished++];
        call = fmt::format("{} {} {}", method, request.volume_id(), request.node_id());
      }
      if (!call.empty() && call.find("sentinel") == std::string::npos) calls.push_back(call);
    }
    return calls;
  }

  // Waits until the attacher has worked through its queue.
  void WaitForSentinel() {
    cluster_.Put(MakeCsiNode("sentinel"));
    cluster_.Put(AttachmentOfVolume1(
        {{"metadata", {{"name", "sentinel"}, {"uid", "uid-sentinel"}}},
         {"spec",
          {{"nodeName", "sentinel"}, {"source", {{"persistentVolumeName", "pv-sentinel"}}}}}}));
    ASSERT_TRUE(cluster_.WaitUntil([&] {
      const auto sentinel = cluster_.Get<api::VolumeAttachment>("", "sentinel");
      return sentinel.attached() || !sentinel.attach_error().empty();
    }));
  }

  FakeCluster cluster_;
};

inline std::string NameOf(const ::testing::TestParamInfo<Case>& info) { return info.param.name; }

}  // namespace berth::controllers::attacher
