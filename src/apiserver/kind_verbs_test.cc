// How each kind's verbs behave: one row a kind, one test a rule, over HTTP.

#include "apiserver/api_fixture.h"

namespace berth::apiserver {
namespace {

using base::json::Map;
using testing::HasSubstr;
using testing::StartsWith;

enum Behaviour : int {
  kPlain = 0,
  kNeedsVersion = 1,   // PUT without resourceVersion is refused
  kCreatedByPut = 2,   // PUT of a missing object creates it
  kReturnsObject = 4,  // DELETE answers with the object
  kCounts = 8,         // it begins with generation 1
  kHeld = 16,          // a finalizer of the server's keeps it after DELETE
};

struct Row {
  const api::KindInfo& info;
  std::string_view body;
  int behaviour;
};

const std::vector<Row>& Rows() {
  using namespace api::kinds;
  static const std::vector<Row> rows = {
      {kNamespace, R"({})", kReturnsObject | kHeld},
      {kNode, R"({})", kPlain},
      {kPod, R"({"spec":{"containers":[{"name":"c","image":"x"}]}})", kReturnsObject | kCounts},
      {kPersistentVolume,
       R"({"spec":{"capacity":{"storage":"1Gi"},"accessModes":["ReadWriteOnce"],
                   "csi":{"driver":"d","volumeHandle":"v"}}})",
       kReturnsObject | kHeld},
      {kPersistentVolumeClaim,
       R"({"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}})",
       kReturnsObject | kHeld},
      {kSecret, R"({})", kPlain},
      {kConfigMap, R"({})", kPlain},
      {kServiceAccount, R"({})", kReturnsObject},
      {kEndpoints, R"({"subsets":[{"addresses":[{"ip":"10.0.0.7"}],"ports":[{"port":1}]}]})",
       kCreatedByPut},
      {kEvent, R"({"involvedObject":{"namespace":"default"}})", kCreatedByPut},
      {kEventsEvent,
       R"({"eventTime":"2026-01-01T00:00:00.000000Z","reportingController":"c","action":"a",
           "reportingInstance":"i","reason":"r","type":"Normal",
           "regarding":{"namespace":"default"}})",
       kCreatedByPut},
      {kLease, R"({"spec":{}})", kNeedsVersion | kCreatedByPut},
      {kStorageClass, R"({"provisioner":"d"})", kReturnsObject},
      {kVolumeAttachment,
       R"({"spec":{"attacher":"d","nodeName":"n","source":{"persistentVolumeName":"v"}}})",
       kNeedsVersion | kReturnsObject},
      {kCsiNode, R"({"spec":{"drivers":[]}})", kNeedsVersion | kReturnsObject},
      {kCsiDriver, R"({"spec":{}})", kNeedsVersion | kReturnsObject},
      {kCsiStorageCapacity, R"({"storageClassName":"c"})", kNeedsVersion},
      {kVolumeAttributesClass, R"({"driverName":"d","parameters":{"a":"b"}})", kReturnsObject},
      {kRuntimeClass, R"({"handler":"h"})", kNeedsVersion | kCreatedByPut},
      {kDaemonSet,
       R"({"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{
            "metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"x"}]}}}})",
       kCounts},
      {kControllerRevision, R"({"data":{"a":1},"revision":1})", kPlain},
      {kHostMount, R"({"spec":{"nodeName":"n","claimName":"c","path":"/a"}})",
       kNeedsVersion | kReturnsObject | kCounts},
  };
  return rows;
}

class KindVerbsTest : public ApiTest {
 protected:
  static std::string Collection(const Row& row) {
    return row.info.url(row.info.namespaced ? "default" : "");
  }
  // Kinds that are stored as one have different names.
  static std::string NameIn(const Row& row, std::string_view name) {
    return fmt::format("{}{}", name, row.info.stored_as != nullptr ? "2" : "");
  }
  static std::string One(const Row& row, std::string_view name) {
    return At(Collection(row), NameIn(row, name));
  }
  static Json Named(const Row& row, std::string_view name) {
    Json object = base::json::Parse(row.body).value();
    object["metadata"]["name"] = NameIn(row, name);
    return object;
  }
  bool Has(const Row& row, Behaviour behaviour) { return (row.behaviour & behaviour) != 0; }
};

TEST_F(KindVerbsTest, EveryKindThatCanBeWrittenHasARow) {
  for (const api::KindInfo* info : api::BuiltInKinds()) {
    // These have tests of their own.
    if (info->read_only || info->review || info == &api::kinds::kCustomResourceDefinition) continue;
    EXPECT_TRUE(std::any_of(Rows().begin(), Rows().end(), [&](const Row& row) {
      return &row.info == info;
    })) << info->plural;
  }
}

TEST_F(KindVerbsTest, CreateStampsMetadata) {
  for (const Row& row : Rows()) {
    Json body = Named(row, "a");
    body["metadata"]["uid"] = "mine";
    body["metadata"]["generation"] = 7;
    body["metadata"]["creationTimestamp"] = "2000-01-01T00:00:00Z";
    body["metadata"]["deletionTimestamp"] = "2000-01-01T00:00:00Z";
    const auto created = Post(Collection(row), body);
    ASSERT_EQ(created.code, 201) << row.info.kind << created.body;
    const Json& metadata = created.json["metadata"];
    EXPECT_NE(metadata["uid"], "mine") << row.info.kind;
    EXPECT_EQ(metadata["creationTimestamp"], "2026-01-01T00:00:00Z") << row.info.kind;
    EXPECT_FALSE(metadata.contains("deletionTimestamp")) << row.info.kind;
    EXPECT_EQ(metadata.value("generation", 0), Has(row, kCounts) ? 1 : 7) << row.info.kind;
    EXPECT_EQ(created.json["kind"], Json(std::string(row.info.kind)));
    EXPECT_EQ(created.json["apiVersion"], Json(row.info.api_version()));

    body["metadata"]["resourceVersion"] = "1";
    EXPECT_EQ(Post(Collection(row), body).code, 500) << row.info.kind;
    body["metadata"].erase("resourceVersion");
    const auto again = Post(Collection(row), body);
    EXPECT_EQ(again.code, 409) << row.info.kind;
    EXPECT_EQ(again.message(),
              fmt::format("{} \"{}\" already exists", row.info.group_resource(), NameIn(row, "a")));
  }
}

TEST_F(KindVerbsTest, ADryRunAnswersAndStoresNothing) {
  for (const Row& row : Rows()) {
    const std::string at = One(row, "dry");
    EXPECT_EQ(Post(Collection(row) + "?dryRun=All", Named(row, "dry")).code, 201) << row.info.kind;
    EXPECT_EQ(Get(at).code, 404) << row.info.kind;
    ASSERT_EQ(Post(Collection(row), Named(row, "dry")).code, 201) << row.info.kind;
    const Json before = Get(at).json;
    const Json label = {{"metadata", {{"labels", {{"a", "b"}}}}}};
    EXPECT_EQ(Patch(at + "?dryRun=All", label).json["metadata"]["labels"]["a"], "b");
    EXPECT_EQ(Delete(at + "?dryRun=All").code, 200) << row.info.kind;
    EXPECT_EQ(Get(at).json, before) << row.info.kind;
    EXPECT_EQ(Post(Collection(row) + "?dryRun=Some", Named(row, "x")).code, 422) << row.info.kind;
  }
}

TEST_F(KindVerbsTest, AGeneratedNameFollowsItsPrefix) {
  for (const Row& row : Rows()) {
    Json body = Named(row, "");
    body["metadata"] = {{"generateName", "made-"}};
    const auto created = Post(Collection(row), body);
    ASSERT_EQ(created.code, 201) << row.info.kind << created.body;
    const auto name = created.json["metadata"]["name"].get<std::string>();
    EXPECT_THAT(name, StartsWith("made-"));
    EXPECT_EQ(name.size(), 10u);
    body["metadata"] = {{"generateName", "Bad-"}};
    EXPECT_EQ(Post(Collection(row), body).code, 422) << row.info.kind;
  }
}

TEST_F(KindVerbsTest, PutNeedsAVersionWhereKubernetesAsksForIt) {
  for (const Row& row : Rows()) {
    const std::string at = One(row, "a");
    const auto created = Post(Collection(row), Named(row, "a"));
    Json body = created.json;
    body["metadata"].erase("resourceVersion");
    body["metadata"]["labels"]["x"] = "y";
    const auto put = Put(at, body);
    EXPECT_EQ(put.code, Has(row, kNeedsVersion) ? 422 : 200) << row.info.kind << put.body;
    if (Has(row, kNeedsVersion)) {
      EXPECT_THAT(put.message(), HasSubstr("metadata.resourceVersion: Invalid value: 0x0: must be "
                                           "specified for an update"));
    }
    body["metadata"]["resourceVersion"] = Get(at).version();
    body["metadata"]["labels"]["x"] = "z";
    EXPECT_EQ(Put(at, body).code, 200) << row.info.kind;
    EXPECT_EQ(Put(at, body).code, 409) << row.info.kind;  // stale by now
    body = Get(at).json;
    const auto same = Put(at, body);
    EXPECT_EQ(Json(same.version()), body["metadata"]["resourceVersion"]) << row.info.kind;
    body["metadata"]["uid"] = "other";
    EXPECT_EQ(Put(at, body).code, 409) << row.info.kind;
  }
}

TEST_F(KindVerbsTest, PutCreatesWhereKubernetesDoes) {
  for (const Row& row : Rows()) {
    const auto put = Put(One(row, "new"), Named(row, "new"));
    EXPECT_EQ(put.code, Has(row, kCreatedByPut) ? 201 : 404) << row.info.kind << put.body;
  }
}

TEST_F(KindVerbsTest, AStatusIsWrittenApart) {
  for (const Row& row : Rows()) {
    if (!row.info.has_status) continue;
    const std::string at = One(row, "a");
    const auto created = Post(Collection(row), Named(row, "a"));
    Json body = created.json;
    body["status"] = {{"conditions", Json::array()}, {"message", "m"}, {"numberReady", 3}};
    body["metadata"]["labels"]["x"] = "y";
    const auto main = Put(at, body);
    EXPECT_EQ(main.code, 200) << row.info.kind << main.body;
    EXPECT_EQ(Map(main.json, {"status"}), Map(created.json, {"status"})) << row.info.kind;
    EXPECT_EQ(main.json["metadata"]["labels"]["x"], "y") << row.info.kind;

    body = main.json;
    body["spec"]["nonsense"] = true;
    const auto status = Put(at + "/status", body);
    EXPECT_EQ(status.code, 200) << row.info.kind << status.body;
    EXPECT_EQ(Map(status.json, {"spec"}), Map(main.json, {"spec"})) << row.info.kind;
    EXPECT_EQ(Get(at + "/status").code, 200) << row.info.kind;
    EXPECT_EQ(Delete(at + "/status").code, 405) << row.info.kind;
  }
  EXPECT_EQ(Get(At(kConfigMaps, "a") + "/status").code, 404);
}

TEST_F(KindVerbsTest, DeleteAnswersAsKubernetesDoes) {
  for (const Row& row : Rows()) {
    const std::string at = One(row, "a");
    const auto created = Post(Collection(row), Named(row, "a"));
    const std::string uid = created.json["metadata"]["uid"];
    const auto missed = Call("DELETE", at, R"({"preconditions":{"uid":"other"}})",
                             "Content-Type: application/json\r\n");
    EXPECT_EQ(missed.code, 409) << row.info.kind;
    const auto stale = Call("DELETE", at, R"({"preconditions":{"resourceVersion":"1"}})",
                            "Content-Type: application/json\r\n");
    EXPECT_EQ(stale.code, 409) << row.info.kind;
    const auto gone = Delete(at);
    EXPECT_EQ(gone.code, 200) << row.info.kind;
    if (Has(row, kReturnsObject) || Has(row, kHeld)) {
      EXPECT_EQ(gone.json["kind"], Json(std::string(row.info.kind)));
      EXPECT_EQ(gone.json["metadata"]["uid"], Json(uid));
    } else {
      EXPECT_EQ(gone.json["kind"], "Status") << row.info.kind;
      EXPECT_EQ(gone.json["status"], "Success");
      EXPECT_EQ(gone.json["details"]["kind"], Json(std::string(row.info.plural)));
      EXPECT_EQ(gone.json["details"]["uid"], Json(uid));
    }
    EXPECT_EQ(Get(at).code, Has(row, kHeld) ? 200 : 404) << row.info.kind;
    if (Has(row, kHeld)) {
      EXPECT_TRUE(Get(at).json["metadata"].contains("deletionTimestamp")) << row.info.kind;
    } else {
      EXPECT_EQ(Delete(at).code, 404) << row.info.kind;
    }
  }
}

TEST_F(KindVerbsTest, ACollectionIsDeletedBySelector) {
  for (const Row& row : Rows()) {
    const std::string collection = Collection(row);
    for (const char* name : {"keep", "drop"}) {
      Json body = Named(row, name);
      body["metadata"]["labels"] = {{"which", name}};
      ASSERT_EQ(Post(collection, body).code, 201) << row.info.kind;
    }
    const auto deleted = Delete(collection + "?labelSelector=which%3Ddrop");
    if (&row.info == &api::kinds::kNamespace) {
      EXPECT_EQ(deleted.code, 405);
      continue;
    }
    ASSERT_EQ(deleted.code, 200) << row.info.kind << deleted.body;
    EXPECT_EQ(deleted.json["items"].size(), 1u) << row.info.kind;
    EXPECT_EQ(deleted.json["kind"], Json(fmt::format("{}List", row.info.kind)));
    EXPECT_EQ(Get(One(row, "keep")).code, 200) << row.info.kind;
    EXPECT_EQ(Get(One(row, "drop")).code, Has(row, kHeld) ? 200 : 404) << row.info.kind;
    EXPECT_EQ(Delete(collection + "?fieldSelector=metadata.name%3D" + NameIn(row, "keep"))
                  .json["items"]
                  .size(),
              1u);
  }
}

TEST_F(KindVerbsTest, FieldsSelectAsKubernetesDocuments) {
  struct Fields {
    const api::KindInfo& info;
    std::vector<std::string_view> names;
  };
  using namespace api::kinds;
  const Fields documented[] = {
      {kPod,
       {"spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName",
        "spec.hostNetwork", "status.phase", "status.podIP", "status.podIPs",
        "status.nominatedNodeName"}},
      {kNode, {"spec.unschedulable"}},
      {kNamespace, {"status.phase"}},
      {kSecret, {"type"}},
      {kEvent,
       {"involvedObject.kind", "involvedObject.namespace", "involvedObject.name",
        "involvedObject.uid", "involvedObject.apiVersion", "involvedObject.resourceVersion",
        "involvedObject.fieldPath", "reason", "reportingComponent", "source", "type"}},
      {kEventsEvent,
       {"regarding.kind", "regarding.namespace", "regarding.name", "reason", "reportingController",
        "type"}},
  };
  for (const Row& row : Rows()) {
    std::vector<std::string_view> names = {"metadata.name", "metadata.namespace"};
    for (const Fields& one : documented) {
      if (&one.info == &row.info) names.insert(names.end(), one.names.begin(), one.names.end());
    }
    for (const std::string_view name : names) {
      EXPECT_EQ(Get(fmt::format("{}?fieldSelector={}%3Dx", row.info.url(""), name)).code, 200)
          << row.info.kind << " " << name;
    }
    const auto other = Get(row.info.url("") + "?fieldSelector=spec.other%3Dx");
    EXPECT_EQ(other.code, 400) << row.info.kind;
    EXPECT_THAT(other.message(), HasSubstr("field label not supported: spec.other"));
  }
}

}  // namespace
}  // namespace berth::apiserver
