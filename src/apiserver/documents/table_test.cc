// What `kubectl get` shows of each kind.

#include "apiserver/documents/table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/time.h"

namespace berth::apiserver {
namespace {

using base::Json;

// The cells at noon, with commas as the separator.
std::string Cells(const api::KindInfo& info, std::string_view object) {
  Json parsed = base::json::Parse(object).value();
  if (!parsed.contains("metadata")) parsed["metadata"] = Json::object();
  parsed["metadata"]["name"] = "x";
  parsed["metadata"]["creationTimestamp"] = "2026-01-01T11:00:00Z";
  const Json cells = TableCells(info, parsed, api::ParseTime("2026-01-01T12:00:00Z").value());
  EXPECT_EQ(cells.size(), TableColumns(info).size());
  std::string out;
  for (const Json& cell : cells) {
    out += fmt::format("{}{}", out.empty() ? "" : " | ",
                       cell.is_string() ? cell.get<std::string>() : base::json::Dump(cell));
  }
  return out;
}

TEST(TableTest, ShowsTheCellsOfEachKind) {
  using namespace api::kinds;
  struct Case {
    const api::KindInfo& info;
    std::string_view object;
    std::string_view cells;
  };
  const Case cases[] = {
      {kDaemonSet,
       R"({"spec":{"selector":{"matchLabels":{"a":"b"},"matchExpressions":[
             {"key":"c","operator":"In","values":["d","e"]},{"key":"f","operator":"Exists"}]},
           "template":{"spec":{"nodeSelector":{"disk":"ssd"},
             "containers":[{"name":"c1","image":"i1"},{"name":"c2","image":"i2"}]}}},
           "status":{"desiredNumberScheduled":5,"currentNumberScheduled":4,"numberReady":3,
                     "updatedNumberScheduled":2,"numberAvailable":1}})",
       "x | 5 | 4 | 3 | 2 | 1 | disk=ssd | 60m | c1,c2 | i1,i2 | a=b,c in (d,e),f"},
      {kDaemonSet, R"({})", "x | 0 | 0 | 0 | 0 | 0 | <none> | 60m |  |  | <none>"},
      {kControllerRevision,
       R"({"revision":3,"metadata":{"ownerReferences":[
             {"apiVersion":"apps/v1","kind":"DaemonSet","name":"set","controller":true}]}})",
       "x | daemonset.apps/set | 3 | 60m"},
      {kPersistentVolume,
       R"({"spec":{"capacity":{"storage":"1Gi"},"accessModes":["ReadWriteMany","ReadWriteOnce"],
                   "persistentVolumeReclaimPolicy":"Retain","storageClassName":"c",
                   "claimRef":{"namespace":"n","name":"p"},"volumeMode":"Block"},
           "status":{"phase":"Bound"}})",
       "x | 1Gi | RWO,RWX | Retain | Bound | n/p | c | <unset> |  | 60m | Block"},
      {kPersistentVolumeClaim,
       R"({"spec":{"accessModes":["ReadWriteOnce"],"volumeAttributesClassName":"fast"},
           "status":{"phase":"Pending","capacity":{"storage":"1Gi"}}})",
       "x | Pending |  |  |  |  | fast | 60m | <unset>"},
      {kPersistentVolumeClaim,
       R"({"spec":{"volumeName":"v"},"metadata":{"deletionTimestamp":"2026-01-01T11:59:00Z"},
           "status":{"phase":"Bound","capacity":{"storage":"1Gi"},"accessModes":["ReadWriteOnce"]}})",
       "x | Terminating | v | 1Gi | RWO |  | <unset> | 60m | <unset>"},
      {kStorageClass,
       R"({"provisioner":"d","allowVolumeExpansion":true,
           "metadata":{"annotations":{"storageclass.kubernetes.io/is-default-class":"true"}}})",
       "x (default) | d | Delete | Immediate | true | 60m"},
      {kVolumeAttributesClass, R"({"driverName":"d"})", "x | d | 60m"},
      {kVolumeAttachment,
       R"({"spec":{"attacher":"d","nodeName":"n","source":{"persistentVolumeName":"v"}},
           "status":{"attached":true}})",
       "x | d | v | n | true | 60m"},
      {kCsiNode, R"({"spec":{"drivers":[{},{}]}})", "x | 2 | 60m"},
      {kCsiDriver,
       R"({"spec":{"attachRequired":false,"podInfoOnMount":true,"tokenRequests":[
             {"audience":"a"},{"audience":"b"}],"volumeLifecycleModes":["Persistent"]}})",
       "x | false | true | false | a,b | false | Persistent | 60m"},
      {kCsiStorageCapacity, R"({"storageClassName":"c"})", "x | 2026-01-01T11:00:00Z"},
      {kRuntimeClass, R"({"handler":"kata"})", "x | kata | 60m"},
      {kLease, R"({"spec":{"holderIdentity":"me"}})", "x | me | 60m"},
      {kNamespace, R"({"status":{"phase":"Active"}})", "x | Active | 60m"},
      {kServiceAccount, R"({"secrets":[{"name":"s"}]})", "x | 60m"},
      {kEndpoints,
       R"({"subsets":[{"addresses":[{"ip":"10.0.0.7"},{"ip":"fd00::7"}],
                       "ports":[{"port":1},{"port":2}]}]})",
       "x | 10.0.0.7:1,10.0.0.7:2,[fd00::7]:1 + 1 more... | 60m"},
      {kEndpoints, R"({"subsets":[{"addresses":[{"ip":"10.0.0.7"}]}]})", "x | 10.0.0.7 | 60m"},
      {kEndpoints, R"({"subsets":[{"notReadyAddresses":[{"ip":"10.0.0.7"}]}]})",
       "x | <none> | 60m"},
      {kSecret, R"({"type":"Opaque","data":{"a":"","b":""}})", "x | Opaque | 2 | 60m"},
      {kConfigMap, R"({"data":{"a":""},"binaryData":{"b":""}})", "x | 2 | 60m"},
      {kCustomResourceDefinition, R"({})", "x | 2026-01-01T11:00:00Z"},
      {kApiService, R"({"status":{"conditions":[{"type":"Available","status":"True"}]}})",
       "x | Local | True | 60m"},
      {kNode,
       R"({"metadata":{"labels":{"node-role.kubernetes.io/worker":"",
                                 "node-role.kubernetes.io/control-plane":""}},
           "spec":{"unschedulable":true},
           "status":{"conditions":[{"type":"Ready","status":"Unknown"}],
                     "addresses":[{"type":"InternalIP","address":"10.0.0.1"}],
                     "nodeInfo":{"kubeletVersion":"v1"}}})",
       "x | NotReady,SchedulingDisabled | control-plane,worker | 60m | v1 | 10.0.0.1 | <none> | "
       "<unknown> | <unknown> | <unknown>"},
      {kEvent,
       R"({"type":"Warning","reason":"r","message":" m \n","firstTimestamp":"2026-01-01T11:50:00Z",
           "lastTimestamp":"2026-01-01T11:59:00Z","count":4,"source":{"component":"c","host":"h"},
           "involvedObject":{"kind":"Pod","name":"p","fieldPath":"spec.containers{c}"}})",
       "60s | Warning | r | pod/p | spec.containers{c} | c, h | m | 10m | 4 | x"},
      {kEvent,
       R"({"eventTime":"2026-01-01T11:50:00.000000Z","reportingComponent":"c",
           "involvedObject":{"kind":"Pod"}})",
       "10m |  |  | pod |  | c |  | 10m | 1 | x"},
      {kEventsEvent,
       R"({"eventTime":"2026-01-01T11:00:00.000000Z","involvedObject":{"kind":"Pod","name":"p"},
           "series":{"count":7,"lastObservedTime":"2026-01-01T11:59:30.000000Z"}})",
       "30s |  |  | pod/p |  |  |  | 60m | 7 | x"},
  };
  for (const Case& one : cases) EXPECT_EQ(Cells(one.info, one.object), one.cells) << one.info.kind;
}

TEST(TableTest, APodsRowTellsHowItGoes) {
  struct Case {
    std::string_view pod;
    std::string_view cells;  // ready, status, restarts
  };
  const Case cases[] = {
      // Restarts tell when the last was.
      {R"({"spec":{"containers":[{"name":"c"}]},"status":{"phase":"Running","containerStatuses":[
            {"name":"c","ready":true,"restartCount":3,"state":{"running":{}},
             "lastState":{"terminated":{"finishedAt":"2026-01-01T11:55:00Z"}}}]}})",
       "1/1 | Running | 3 (5m ago)"},
      // An init container that goes on counts as a container.
      {R"({"spec":{"initContainers":[{"name":"s","restartPolicy":"Always"}],"containers":[{"name":"c"}]},
           "status":{"phase":"Running",
             "initContainerStatuses":[{"name":"s","started":true,"ready":true,"restartCount":2,"state":{"running":{}}}],
             "containerStatuses":[{"name":"c","ready":true,"state":{"running":{}}}]}})",
       "2/2 | Running | 2"},
      {R"({"spec":{"initContainers":[{"name":"i"},{"name":"j"}],"containers":[{"name":"c"}]},
           "status":{"phase":"Pending","initContainerStatuses":[
             {"name":"i","state":{"terminated":{"exitCode":0}}},{"name":"j","state":{"running":{}}}]}})",
       "0/1 | Init:1/2 | 0"},
      {R"({"spec":{"initContainers":[{"name":"i"}],"containers":[{"name":"c"}]},
           "status":{"phase":"Pending","initContainerStatuses":[
             {"name":"i","restartCount":4,"state":{"terminated":{"exitCode":2}}}]}})",
       "0/1 | Init:ExitCode:2 | 4"},
      {R"({"spec":{"containers":[{"name":"c"},{"name":"d"}]},"status":{"phase":"Running",
             "conditions":[{"type":"Ready","status":"False"}],"containerStatuses":[
             {"name":"c","state":{"terminated":{"exitCode":0,"reason":"Completed"}}},
             {"name":"d","ready":true,"state":{"running":{}}}]}})",
       "1/2 | NotReady | 0"},
      {R"({"metadata":{"deletionTimestamp":"2026-01-01T11:59:00Z"},"status":{"phase":"Running"}})",
       "0/0 | Terminating | 0"},
      {R"({"metadata":{"deletionTimestamp":"2026-01-01T11:59:00Z"},"status":{"phase":"Failed"}})",
       "0/0 | Failed | 0"},
      {R"({"status":{"phase":"Pending","conditions":[
             {"type":"PodScheduled","status":"False","reason":"SchedulingGated"}]}})",
       "0/0 | SchedulingGated | 0"},
  };
  for (const Case& one : cases) {
    const std::string cells = Cells(api::kinds::kPod, one.pod);
    EXPECT_THAT(cells, testing::StartsWith(fmt::format("x | {} | ", one.cells))) << one.pod;
  }
  EXPECT_THAT(Cells(api::kinds::kPod,
                    R"({"spec":{"nodeName":"n","readinessGates":[{"conditionType":"a"},
                        {"conditionType":"b"}]},"status":{"podIPs":[{"ip":"10.0.0.1"}],
                        "conditions":[{"type":"a","status":"True"}]}})"),
              testing::EndsWith("60m | 10.0.0.1 | n | <none> | 1/2"));
}

TEST(TableTest, WideColumnsAreMarked) {
  const Json columns = TableColumns(api::kinds::kDaemonSet);
  EXPECT_EQ(columns[0]["format"], "name");
  EXPECT_EQ(columns[1]["type"], "integer");
  EXPECT_EQ(columns[7]["priority"], 0);
  EXPECT_EQ(columns[8]["priority"], 1);
  EXPECT_EQ(columns[8]["name"], "Containers");
}

}  // namespace
}  // namespace berth::apiserver
