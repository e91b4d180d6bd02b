// Defaults, admission, validation and immutability of each kind, over HTTP.

#include "apiserver/api_fixture.h"

namespace berth::apiserver {
namespace {

using testing::HasSubstr;

constexpr std::string_view kClasses = "/apis/storage.k8s.io/v1/storageclasses";
constexpr std::string_view kDrivers = "/apis/storage.k8s.io/v1/csidrivers";
constexpr std::string_view kCsiNodes = "/apis/storage.k8s.io/v1/csinodes";
constexpr std::string_view kCapacities =
    "/apis/storage.k8s.io/v1/namespaces/default/csistoragecapacities";
constexpr std::string_view kVolumes = "/api/v1/persistentvolumes";
constexpr std::string_view kSecrets = "/api/v1/namespaces/default/secrets";
constexpr std::string_view kEndpoints = "/api/v1/namespaces/default/endpoints";
constexpr std::string_view kAttributes = "/apis/storage.k8s.io/v1/volumeattributesclasses";
constexpr std::string_view kNodes = "/api/v1/nodes";
constexpr std::string_view kEvents = "/api/v1/namespaces/default/events";
constexpr std::string_view kHostMounts =
    "/apis/storage.berth.dev/v1alpha1/namespaces/default/hostmounts";

Json ClassNamed(std::string_view name) {
  return {{"metadata", {{"name", std::string(name)}}}, {"provisioner", "d"}};
}

Json VolumeNamed(std::string_view name) {
  Json volume = ParseJson(R"({"spec":{"capacity":{"storage":"1Gi"},"accessModes":["ReadWriteOnce"],
                          "csi":{"driver":"d","volumeHandle":"v"}}})");
  volume["metadata"]["name"] = std::string(name);
  return volume;
}

TEST_F(ApiTest, PodGetsItsDefaults) {
  const Json pod = ParseJson(R"({"metadata":{"name":"a"},"spec":{
    "containers":[{"name":"c1","image":"busybox"},{"name":"c2","image":"reg:5000/x:1"},
                  {"name":"c3","image":"x@sha256:0"},{"name":"c4","image":"x:latest","imagePullPolicy":"Never"}],
    "volumes":[{"name":"e"},{"name":"s","secret":{"secretName":"x"}}]}})");
  const auto created = Post(kPods, pod);
  ASSERT_EQ(created.code, 201) << created.body;
  const Json& spec = created.json["spec"];
  EXPECT_EQ(spec["restartPolicy"], "Always");
  EXPECT_EQ(spec["dnsPolicy"], "ClusterFirst");
  EXPECT_EQ(spec["terminationGracePeriodSeconds"], 30);
  EXPECT_EQ(spec["schedulerName"], "default-scheduler");
  EXPECT_EQ(spec["serviceAccountName"], "default");
  EXPECT_EQ(spec["containers"][0]["imagePullPolicy"], "Always");
  EXPECT_EQ(spec["containers"][1]["imagePullPolicy"], "IfNotPresent");
  EXPECT_EQ(spec["containers"][2]["imagePullPolicy"], "IfNotPresent");
  EXPECT_EQ(spec["containers"][3]["imagePullPolicy"], "Never");
  EXPECT_EQ(spec["volumes"][0]["emptyDir"], Json::object());
  EXPECT_EQ(spec["volumes"][1]["secret"]["defaultMode"], 420);
  EXPECT_EQ(created.json["status"]["phase"], "Pending");
}

TEST_F(ApiTest, ClaimGetsFinalizerAndTheNewestDefaultClass) {
  const auto before = Post(kClaims, ClaimNamed("before"));
  ASSERT_EQ(before.code, 201) << before.body;
  EXPECT_FALSE(before.json["spec"].contains("storageClassName"));
  EXPECT_EQ(before.json["metadata"]["finalizers"], Json::array({"kubernetes.io/pvc-protection"}));
  EXPECT_EQ(before.json["spec"]["volumeMode"], "Filesystem");
  EXPECT_EQ(before.json["status"]["phase"], "Pending");

  for (const char* name : {"z-older", "a-newer", "not-default"}) {
    Json one = ClassNamed(name);
    if (name != std::string("not-default")) {
      one["metadata"]["annotations"] = {{"storageclass.kubernetes.io/is-default-class", "true"}};
    }
    ASSERT_EQ(Post(kClasses, one).code, 201);
    clock_.Advance(std::chrono::seconds(1));
  }
  EXPECT_EQ(Post(kClaims, ClaimNamed("after")).json["spec"]["storageClassName"], "a-newer");
  Json none = ClaimNamed("none");
  none["spec"]["storageClassName"] = "";
  EXPECT_EQ(Post(kClaims, none).json["spec"]["storageClassName"], "");
}

TEST_F(ApiTest, ClaimGrowsOnlyWhenBoundAndTheClassAllows) {
  Json growing = ClassNamed("growing");
  growing["allowVolumeExpansion"] = true;
  ASSERT_EQ(Post(kClasses, growing).code, 201);
  ASSERT_EQ(Post(kClasses, ClassNamed("fixed")).code, 201);
  const Json bigger = {{"spec", {{"resources", {{"requests", {{"storage", "2Gi"}}}}}}}};
  const Json bound = {{"status", {{"phase", "Bound"}, {"capacity", {{"storage", "1Gi"}}}}}};
  for (const std::string name : {"growing", "fixed"}) {
    Json claim = ClaimNamed(name);
    claim["spec"]["storageClassName"] = name;
    ASSERT_EQ(Post(kClaims, claim).code, 201);
    const auto early = Patch(At(kClaims, name), bigger);
    EXPECT_EQ(early.code, 422) << name;
    EXPECT_THAT(early.message(),
                HasSubstr("spec: Forbidden: spec is immutable after creation except "
                          "resources.requests and volumeAttributesClassName for bound "
                          "claims"));
    ASSERT_EQ(Patch(At(kClaims, name), {{"spec", {{"volumeName", "v"}}}}).code, 200);
    ASSERT_EQ(Patch(At(kClaims, name) + "/status", bound).code, 200);
    EXPECT_EQ(Patch(At(kClaims, name), {{"spec", {{"volumeName", "w"}}}}).code, 422) << name;
  }
  EXPECT_EQ(Patch(At(kClaims, "growing"), bigger).code, 200);
  const auto refused = Patch(At(kClaims, "fixed"), bigger);
  EXPECT_EQ(refused.code, 403);
  EXPECT_EQ(
      refused.message(),
      "persistentvolumeclaims \"fixed\" is forbidden: only dynamically provisioned pvc can be "
      "resized and the storageclass that provisions the pvc must support resize");
  // Back to less than it has: no.
  const auto shrink = Patch(At(kClaims, "growing"),
                            {{"spec", {{"resources", {{"requests", {{"storage", "1Gi"}}}}}}}});
  EXPECT_THAT(shrink.message(), HasSubstr("field can not be less than status.capacity"));
}

TEST_F(ApiTest, VolumeGetsDefaultsFinalizerAndPhaseTimes) {
  const auto created = Post(kVolumes, VolumeNamed("v"));
  ASSERT_EQ(created.code, 201) << created.body;
  EXPECT_EQ(created.json["spec"]["persistentVolumeReclaimPolicy"], "Retain");
  EXPECT_EQ(created.json["spec"]["volumeMode"], "Filesystem");
  EXPECT_EQ(created.json["metadata"]["finalizers"], Json::array({"kubernetes.io/pv-protection"}));
  clock_.Advance(std::chrono::seconds(5));
  EXPECT_EQ(Patch(At(kVolumes, "v") + "/status", {{"status", {{"phase", "Available"}}}})
                .json["status"]["lastPhaseTransitionTime"],
            "2026-01-01T00:00:05Z");
}

TEST_F(ApiTest, DisksOfANetworkGetKubernetesDefaults) {
  Json rbd = VolumeNamed("rbd"), iscsi = VolumeNamed("iscsi");
  for (Json* volume : {&rbd, &iscsi}) (*volume)["spec"].erase("csi");
  rbd["spec"]["rbd"] = {{"monitors", Json::array({"m"})}, {"image", "i"}, {"user", "shop"}};
  iscsi["spec"]["iscsi"] = {{"targetPortal", "p"}, {"iqn", "iqn.2026-01.x:y"}, {"lun", 0}};
  const auto of_rbd = Post(kVolumes, rbd), of_iscsi = Post(kVolumes, iscsi);
  ASSERT_EQ(of_rbd.code, 201) << of_rbd.body;
  ASSERT_EQ(of_iscsi.code, 201) << of_iscsi.body;
  EXPECT_EQ(of_rbd.json["spec"]["rbd"]["pool"], "rbd");
  EXPECT_EQ(of_rbd.json["spec"]["rbd"]["user"], "shop");
  EXPECT_EQ(of_rbd.json["spec"]["rbd"]["keyring"], "/etc/ceph/keyring");
  EXPECT_EQ(of_iscsi.json["spec"]["iscsi"]["iscsiInterface"], "default");
}

TEST_F(ApiTest, SecretTakesStringDataAndSaysNothingOfItsValues) {
  const auto created =
      Post(kSecrets, ParseJson(R"({"metadata":{"name":"s"},"stringData":{"a":"hello"}})"));
  ASSERT_EQ(created.code, 201) << created.body;
  EXPECT_EQ(created.json["data"]["a"], "aGVsbG8=");
  EXPECT_FALSE(created.json.contains("stringData"));
  EXPECT_EQ(created.json["type"], "Opaque");
  const auto bad = Post(kSecrets, ParseJson(R"({"metadata":{"name":"t"},"data":{"a":"s3cret!"}})"));
  EXPECT_EQ(bad.code, 400);
  EXPECT_THAT(bad.message(), HasSubstr("illegal base64 data"));
  EXPECT_THAT(bad.body, testing::Not(HasSubstr("s3cret")));
}

TEST_F(ApiTest, StorageKindsGetTheirDefaults) {
  const auto storage_class = Post(kClasses, ClassNamed("c"));
  EXPECT_EQ(storage_class.json["reclaimPolicy"], "Delete");
  EXPECT_EQ(storage_class.json["volumeBindingMode"], "Immediate");
  const auto driver = Post(kDrivers, ParseJson(R"({"metadata":{"name":"d"},"spec":{}})"));
  EXPECT_EQ(driver.json["spec"]["attachRequired"], true);
  EXPECT_EQ(driver.json["spec"]["fsGroupPolicy"], "ReadWriteOnceWithFSType");
  EXPECT_EQ(driver.json["spec"]["volumeLifecycleModes"], Json::array({"Persistent"}));
}

struct BadObject {
  std::string_view collection;
  std::string_view json;  // without a name
  int code;
  std::string_view text;
};

TEST_F(ApiTest, RefusesInvalidObjectsAndSaysWhy) {
  const BadObject cases[] = {
      {kPods, R"({"spec":{"containers":[]}})", 422,
       "Pod \"bad\" is invalid: spec.containers: Required value"},
      {kPods, R"({"spec":{"containers":[{"name":"C","image":"x"}]}})", 422,
       "spec.containers[0].name: Invalid value: \"C\": a lowercase RFC 1123 label"},
      {kPods, R"({"spec":{"containers":[{"name":"c"}]}})", 422,
       "spec.containers[0].image: Required value"},
      {kPods, R"({"spec":{"containers":[{"name":"c","image":"x"},{"name":"c","image":"x"}]}})", 422,
       "spec.containers[1].name: Duplicate value: \"c\""},
      {kPods, R"({"spec":{"restartPolicy":"Sometimes","containers":[{"name":"c","image":"x"}]}})",
       422,
       "spec.restartPolicy: Unsupported value: \"Sometimes\": supported values: \"Always\", "
       "\"OnFailure\", "
       "\"Never\""},
      {kPods,
       R"({"spec":{"containers":[{"name":"c","image":"x","volumeMounts":[{"name":"v","mountPath":"/v"}]}]}})",
       422, "spec.containers[0].volumeMounts[0].name: Not found: \"v\""},
      {kPods,
       R"({"spec":{"volumes":[{"name":"v"}],"containers":[{"name":"c","image":"x","volumeMounts":[
           {"name":"v","mountPath":"/v","subPath":"../x"}]}]}})",
       422,
       "spec.containers[0].volumeMounts.subPath: Invalid value: \"../x\": must not contain '..'"},
      {kPods,
       R"({"spec":{"volumes":[{"name":"v"}],"containers":[{"name":"c","image":"x","volumeMounts":[
           {"name":"v","mountPath":"/v","mountPropagation":"Bidirectional"}]}]}})",
       422, "Bidirectional mount propagation is available only to privileged containers"},
      {kPods, R"({"spec":{"volumes":[{"name":"v","emptyDir":{},"hostPath":{"path":"/x"}}],
                  "containers":[{"name":"c","image":"x"}]}})",
       422, "spec.volumes[0].hostPath: Forbidden: may not specify more than 1 volume type"},
      {kPods,
       R"({"spec":{"containers":[{"name":"c","image":"x","volumeMounts":[{"name":"v","readOnly":"yes"}]}]}})",
       400,
       "cannot unmarshal string into Go struct field "
       "VolumeMount.spec.containers.volumeMounts.readOnly of type bool"},
      {kPods, R"({"spec":{"containers":{}}})", 400,
       "cannot unmarshal object into Go struct field PodSpec.spec.containers of type "
       "[]v1.Container"},
      {kClaims, R"({"spec":{"resources":{"requests":{"storage":"1Gi"}}}})", 422,
       "spec.accessModes: Required value"},
      {kClaims, R"({"spec":{"accessModes":["Nope"],"resources":{"requests":{"storage":"1Gi"}}}})",
       422, "spec.accessModes: Unsupported value: \"Nope\""},
      {kClaims, R"({"spec":{"accessModes":["ReadWriteOnce"]}})", 422,
       "spec.resources[storage]: Required value"},
      {kClaims,
       R"({"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"big"}}}})",
       400, "quantities must match the regular expression"},
      {kClaims,
       R"({"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"0"}}}})",
       422, "must be greater than zero"},
      {kVolumes, R"({"spec":{"capacity":{"storage":"1Gi"},"accessModes":["ReadWriteOnce"]}})", 422,
       "spec: Required value: must specify a volume type"},
      {kVolumes, R"({"spec":{"capacity":{"storage":"1Gi"},"accessModes":["ReadWriteOnce"],
                     "csi":{"driver":"d","volumeHandle":"v"},"hostPath":{"path":"/x"}}})",
       422, "may not specify more than 1 volume type"},
      {kVolumes, R"({"spec":{"capacity":{"storage":"1Gi"},"accessModes":["ReadWriteOnce"],
                     "local":{"path":"/x"}}})",
       422, "spec.nodeAffinity: Required value: Local volume requires node affinity"},
      {kVolumes,
       R"({"spec":{"capacity":{"storage":"1Gi"},"accessModes":["ReadWriteMany"],
                     "glusterfs":{"endpoints":"e"}}})",
       422, "spec.glusterfs.path: Required value"},
      {kVolumes,
       R"({"spec":{"capacity":{"storage":"1Gi"},"accessModes":["ReadWriteMany"],
                     "glusterfs":{"endpoints":"e","path":"v","endpointsNamespace":"No"}}})",
       422, "spec.glusterfs.endpointsNamespace: Invalid value: \"No\""},
      {kVolumes,
       R"({"spec":{"capacity":{"storage":"1Gi"},"accessModes":["ReadWriteMany"],
                     "cephfs":{"path":"/"}}})",
       422, "spec.cephfs.monitors: Required value"},
      {kVolumes,
       R"({"spec":{"capacity":{"storage":"1Gi"},"accessModes":["ReadWriteMany"],
                     "nfs":{"server":"s","path":"/a"},"glusterfs":{"endpoints":"e","path":"v"}}})",
       422, "spec.glusterfs: Forbidden: may not specify more than 1 volume type"},
      {kPods,
       R"({"spec":{"containers":[{"name":"c","image":"x"}],"volumes":[
             {"name":"v","nfs":{"server":"s","path":"a"}}]}})",
       422, "spec.volumes[0].nfs.path: Invalid value: \"a\": must be an absolute path"},
      {kPods,
       R"({"spec":{"containers":[{"name":"c","image":"x"}],"volumes":[
             {"name":"v","rbd":{"monitors":[],"image":"i"}}]}})",
       422, "spec.volumes[0].rbd.monitors: Required value"},
      {kPods,
       R"({"spec":{"containers":[{"name":"c","image":"x"}],"volumes":[
             {"name":"v","iscsi":{"targetPortal":"p","iqn":"q","lun":0}}]}})",
       422,
       "spec.volumes[0].iscsi.iqn: Invalid value: \"q\": must be valid format starting with iqn, "
       "eui, or naa"},
      {kPods,
       R"({"spec":{"containers":[{"name":"c","image":"x"}],"volumes":[
             {"name":"v","iscsi":{"targetPortal":"p","iqn":"iqn.2026-01.x","lun":0}}]}})",
       422, "spec.volumes[0].iscsi.iqn: Invalid value: \"iqn.2026-01.x\": must be valid format"},
      {kPods,
       R"({"spec":{"containers":[{"name":"c","image":"x"}],"volumes":[
             {"name":"v","iscsi":{"targetPortal":"p","iqn":"iqn.2026-01.x:y","lun":256}}]}})",
       422, "spec.volumes[0].iscsi.lun: Invalid value: 256: must be between 0 and 255, inclusive"},
      {kPods,
       R"({"spec":{"containers":[{"name":"c","image":"x"}],"volumes":[
             {"name":"v","iscsi":{"targetPortal":"p","iqn":"iqn.2026-01.x:y","lun":1,
                                  "chapAuthSession":true}}]}})",
       422, "spec.volumes[0].iscsi.secretRef: Required value"},
      {kVolumes,
       R"({"metadata":{"name":"a-volume"},"spec":{"capacity":{"storage":"1Gi"},
           "accessModes":["ReadWriteOnce"],
           "iscsi":{"targetPortal":"1234567890123456789012345678901234567890123456789.example.com:3260",
                    "iqn":"iqn.2026-01.x:y","lun":1,"initiatorName":"iqn.2026-01.n:1"}}})",
       422, "spec.iscsi.targetportal: Invalid value: "},
      {kVolumes,
       R"({"spec":{"capacity":{"storage":"1Gi"},"accessModes":["ReadWriteOnce"],
           "iscsi":{"targetPortal":"p","iqn":"eui.0123456789abcdef","lun":1,
                    "initiatorName":"naa.1"}}})",
       422, "spec.iscsi.initiatorname: Invalid value: \"naa.1\": must be valid format"},
      {kVolumes, R"({"spec":{"capacity":{"storage":"1Gi"},"accessModes":["ReadWriteOnce"],
                     "fc":{"lun":1}}})",
       422,
       "spec.fc.targetWWNs: Required value: must specify either targetWWNs or wwids, but not "
       "both"},
      {kVolumes, R"({"spec":{"capacity":{"storage":"1Gi"},"accessModes":["ReadWriteOnce"],
                     "fc":{"targetWWNs":["a"]}}})",
       422, "spec.fc.lun: Required value: lun is required if targetWWNs is specified"},
      {kVolumes, R"({"spec":{"capacity":{"storage":"1Gi"},"accessModes":["ReadWriteOnce"],
                     "fc":{"targetWWNs":["a"],"wwids":["b"],"lun":0}}})",
       422, "targetWWNs and wwids can not be specified simultaneously"},
      {kVolumes, R"({"spec":{"capacity":{"storage":"1Gi"},"accessModes":["ReadWriteOnce"],
                     "csi":{"driver":"d"}}})",
       422, "spec.csi.volumeHandle: Required value"},
      {kClasses, R"({})", 422, "provisioner: Required value"},
      {kClasses, R"({"provisioner":"d","volumeBindingMode":"Later"})", 422,
       "volumeBindingMode: Unsupported value"},
      {kAttachments, R"({"spec":{"attacher":"d","nodeName":"n"}})", 422,
       "spec.source: Required value"},
      {kCsiNodes, R"({"spec":{"drivers":[{"name":"d","nodeID":"n"},{"name":"d","nodeID":"n"}]}})",
       422, "spec.drivers[1].name: Duplicate value: \"d\""},
      {kDrivers, R"({"spec":{"fsGroupPolicy":"Maybe"}})", 422,
       "spec.fsGroupPolicy: Unsupported value"},
      {kCapacities, R"({})", 422,
       "storageClassName: Invalid value: \"\": a lowercase RFC 1123 subdomain"},
      {kClasses, R"({"provisioner":"a b"})", 422, "provisioner: Invalid value: \"a b\""},
      {kClasses, R"({"provisioner":"d","parameters":{"":"x"}})", 422,
       "parameters: Invalid value: \"\": field can not be empty."},
      {kClasses,
       R"({"provisioner":"d","allowedTopologies":[{"matchLabelExpressions":[{"key":"z","values":["a","a"]}]}]})",
       422, "allowedTopologies[0].matchLabelExpressions[0].values[1]: Duplicate value: \"a\""},
      {kAttributes, R"({"driverName":"d"})", 422,
       "parameters: Required value: must contain at least one key/value pair"},
      {kAttributes, R"({"parameters":{"a":"b"}})", 422, "driverName: Required value"},
      {kAttachments, R"({"spec":{"attacher":"d","source":{"persistentVolumeName":"v"}}})", 422,
       "spec.nodeName: Invalid value: \"\": a lowercase RFC 1123 subdomain"},
      {kAttachments,
       R"({"spec":{"attacher":"d","nodeName":"n","source":{"inlineVolumeSpec":{
            "accessModes":["ReadWriteOnce"],"hostPath":{"path":"/x"}}}}})",
       422,
       "spec.source.inlineVolumeSpec.csi: Required value: has to be specified in the context of "
       "inline volumes"},
      {kCsiNodes, R"({"spec":{"drivers":[{"name":"d","nodeID":"n","topologyKeys":["k","k"]}]}})",
       422, "spec.drivers[0]: Duplicate value: \"k\""},
      {kDrivers, R"({"spec":{"tokenRequests":[{"audience":"a"},{"audience":"a"}]}})", 422,
       "spec.tokenRequests[1].audience: Duplicate value: \"a\""},
      {kDrivers, R"({"spec":{"tokenRequests":[{"audience":"a","expirationSeconds":5}]}})", 422,
       "may not specify a duration less than 10 minutes"},
      {kVolumes,
       R"({"spec":{"capacity":{"storage":"1Gi","other":"1"},"accessModes":["ReadWriteOnce"],
                     "csi":{"driver":"d","volumeHandle":"v"}}})",
       422, "spec.capacity: Unsupported value"},
      {kVolumes,
       R"({"spec":{"capacity":{"storage":"1Gi"},"accessModes":["ReadWriteOnce"],
                     "csi":{"driver":"d","volumeHandle":"v","nodeStageSecretRef":{"name":"s"},
                            "nodePublishSecretRef":{"name":"s"}}}})",
       422, "spec.csi.nodePublishSecretRef.namespace: Required value"},
      {kVolumes,
       R"({"spec":{"capacity":{"storage":"1Gi"},"accessModes":["ReadWriteOnce"],
                     "volumeAttributesClassName":"a","hostPath":{"path":"/x"}}})",
       422, "spec.csi: Required value: has to be specified when using volumeAttributesClassName"},
      {kClaims,
       R"({"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}},
                    "dataSource":{"kind":"Odd","name":"x"}}})",
       422, "must be 'PersistentVolumeClaim' when referencing the default apiGroup"},
      {kClaims,
       R"({"spec":{"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}},
                    "dataSource":{"kind":"PersistentVolumeClaim","name":"x"},
                    "dataSourceRef":{"kind":"PersistentVolumeClaim","name":"y"}}})",
       422, "spec: Invalid value: \"dataSource\": must match dataSourceRef"},
      {kRuntimes, R"({})", 422, "handler: Invalid value: \"\": a lowercase RFC 1123 label"},
      {kRuntimes, R"({"handler":"h","fsMgmtSocket":"run/x.sock"})", 422,
       "fsMgmtSocket: Invalid value: \"run/x.sock\": must be an absolute path"},
      {kRuntimes, R"({"handler":"h","scheduling":{"tolerations":[{"operator":"Odd","key":"a"}]}})",
       422, "scheduling.tolerations[0].operator: Unsupported value: \"Odd\""},
      {kNodes,
       R"({"spec":{"taints":[{"key":"a","effect":"NoSchedule"},{"key":"a","effect":"NoSchedule","value":"b"}]}})",
       422, "spec.taints[1]: Duplicate value"},
      {kNodes, R"({"spec":{"taints":[{"key":"a"}]}})", 422,
       "spec.taints[0].effect: Required value"},
      {kLeases, R"({"spec":{"leaseDurationSeconds":0}})", 422,
       "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0"},
      {kLeases, R"({"spec":{"preferredHolder":"x"}})", 422,
       "may only be specified if `strategy` is defined"},
      {kSecrets, R"({"type":"kubernetes.io/tls","data":{"tls.crt":"YQ=="}})", 422,
       "data[tls.key]: Required value"},
      {kSecrets, R"({"type":"kubernetes.io/dockerconfigjson","data":{".dockerconfigjson":"YQ=="}})",
       422, "data[.dockerconfigjson]: Invalid value: \"<secret contents redacted>\": invalid JSON"},
      {kSecrets, R"({"type":"kubernetes.io/basic-auth"})", 422, "data[username]: Required value"},
      {kSecrets, R"({"type":"kubernetes.io/service-account-token"})", 422,
       "metadata.annotations[kubernetes.io/service-account.name]: Required value"},
      {kSecrets, R"({"data":{"bad key":"YQ=="}})", 422, "data[bad key]: Invalid value"},
      {kEndpoints, R"({"subsets":[{}]})", 422,
       "subsets[0]: Required value: must specify `addresses` or `notReadyAddresses`"},
      {kEndpoints, R"({"subsets":[{"addresses":[{"ip":"storage.example.com"}]}]})", 422,
       "subsets[0].addresses[0].ip: Invalid value: \"storage.example.com\": must be a valid IP"},
      {kEndpoints, R"({"subsets":[{"addresses":[{"ip":"127.1.2.3"}]}]})", 422,
       "may not be in the loopback range (127.0.0.0/8, ::1/128)"},
      {kEndpoints, R"({"subsets":[{"addresses":[{"ip":"::ffff:127.0.0.1"}]}]})", 422,
       "may not be in the loopback range (127.0.0.0/8, ::1/128)"},
      {kEndpoints, R"({"subsets":[{"addresses":[{"ip":"::1"}]}]})", 422,
       "may not be in the loopback range (127.0.0.0/8, ::1/128)"},
      {kEndpoints, R"({"subsets":[{"notReadyAddresses":[{"ip":"0.0.0.0"}]}]})", 422,
       "subsets[0].notReadyAddresses[0].ip: Invalid value: \"0.0.0.0\": may not be unspecified"},
      {kEndpoints, R"({"subsets":[{"addresses":[{"ip":"::"}]}]})", 422, "may not be unspecified"},
      {kEndpoints, R"({"subsets":[{"addresses":[{"ip":"169.254.1.1"}]}]})", 422,
       "may not be in the link-local range (169.254.0.0/16, fe80::/10)"},
      {kEndpoints, R"({"subsets":[{"addresses":[{"ip":"fe80::1"}]}]})", 422,
       "may not be in the link-local range (169.254.0.0/16, fe80::/10)"},
      {kEndpoints, R"({"subsets":[{"addresses":[{"ip":"224.0.0.9"}]}]})", 422,
       "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"},
      {kEndpoints, R"({"subsets":[{"addresses":[{"ip":"ff02::9"}]}]})", 422,
       "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)"},
      {kEndpoints, R"({"subsets":[{"addresses":[{"ip":"10.0.0.7"}],"ports":[{"port":0}]}]})", 422,
       "subsets[0].ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive"},
      {kEndpoints,
       R"({"subsets":[{"addresses":[{"ip":"10.0.0.7"}],"ports":[{"port":1},{"port":2,"name":"b"}]}]})",
       422, "subsets[0].ports[0].name: Required value"},
      {kConfigMaps, R"({"data":{"a":"1"},"binaryData":{"a":"YQ=="}})", 422,
       "data[a]: Invalid value: \"a\": duplicate of key present in binaryData"},
      {kEvents, R"({"involvedObject":{"namespace":"other","name":"x"}})", 422,
       "involvedObject.namespace: Invalid value: \"other\": does not match event.namespace"},
      {kHostMounts, R"({"spec":{"nodeName":"n","claimName":"c","path":"relative"}})", 422,
       "spec.path: Invalid value: \"relative\""},
      {kHostMounts, R"({"spec":{"nodeName":"n","claimName":"c","path":"/a/../b"}})", 422,
       "spec.path"},
      {kHostMounts, R"({"spec":{"nodeName":"n","claimName":"c","path":"/"}})", 422, "spec.path"},
      {kHostMounts, R"({"spec":{"nodeName":false,"claimName":"c","path":"/a"}})", 400,
       "HostMountSpec.spec.nodeName of type string"},
      {"/api/v1/namespaces", R"({"metadata":{"labels":{"a":1}}})", 400,
       "ObjectMeta.metadata.labels.a of type string"},
  };
  for (const BadObject& bad : cases) {
    Json object = ParseJson(bad.json);
    object["metadata"]["name"] = "bad";
    const auto refused = Post(bad.collection, object);
    EXPECT_EQ(refused.code, bad.code) << bad.json << refused.body;
    EXPECT_THAT(refused.message(), HasSubstr(bad.text)) << bad.json;
    EXPECT_EQ(Get(At(bad.collection, "bad")).code, 404) << bad.json;
  }
}

struct Immutable {
  std::string_view collection;
  std::string_view json;
  std::string_view patch;
  std::string_view text;  // empty: allowed
};

TEST_F(ApiTest, KeepsWhatIsImmutable) {
  const Immutable cases[] = {
      {kPods, R"({"spec":{"containers":[{"name":"c","image":"x:1"}]}})",
       R"({"spec":{"hostNetwork":true}})",
       "spec: Forbidden: pod updates may not change fields other than"},
      {kPods, R"({"spec":{"containers":[{"name":"c","image":"x:1"}]}})",
       R"({"spec":{"containers":[{"name":"c","image":"x:1","command":["y"]}]}})", "may not change"},
      {kVolumes,
       R"({"spec":{"capacity":{"storage":"1Gi"},"accessModes":["ReadWriteOnce"],"csi":{"driver":"d","volumeHandle":"v"}}})",
       R"({"spec":{"csi":{"volumeHandle":"w"}}})",
       "spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after "
       "creation"},
      {kVolumes,
       R"({"spec":{"capacity":{"storage":"1Gi"},"accessModes":["ReadWriteOnce"],"csi":{"driver":"d","volumeHandle":"v"}}})",
       R"({"spec":{"csi":{"controllerExpandSecretRef":{"name":"s","namespace":"n"}}}})", ""},
      {kVolumes,
       R"({"spec":{"capacity":{"storage":"1Gi"},"accessModes":["ReadWriteOnce"],"csi":{"driver":"d","volumeHandle":"v"}}})",
       R"({"spec":{"volumeMode":"Block"}})",
       "volumeMode: Invalid value: \"Block\": field is immutable"},
      {kVolumes,
       R"({"spec":{"capacity":{"storage":"1Gi"},"accessModes":["ReadWriteOnce"],"csi":{"driver":"d","volumeHandle":"v"}}})",
       R"({"spec":{"claimRef":{"name":"c","namespace":"default"},"capacity":{"storage":"2Gi"}}})",
       ""},
      {kClasses, R"({"provisioner":"d"})", R"({"parameters":{"a":"b"}})",
       "parameters: Forbidden: updates to parameters are forbidden."},
      {kClasses, R"({"provisioner":"d"})", R"({"volumeBindingMode":"WaitForFirstConsumer"})",
       "volumeBindingMode: Invalid value: \"WaitForFirstConsumer\": field is immutable"},
      {kClasses, R"({"provisioner":"d"})", R"({"allowVolumeExpansion":true})", ""},
      {kAttachments,
       R"({"spec":{"attacher":"d","nodeName":"n","source":{"persistentVolumeName":"v"}}})",
       R"({"spec":{"nodeName":"m"}})", "field is immutable"},
      {kCsiNodes, R"({"spec":{"drivers":[{"name":"d","nodeID":"n"}]}})",
       R"({"spec":{"drivers":[{"name":"d","nodeID":"m"}]}})", "field is immutable"},
      {kCsiNodes, R"({"spec":{"drivers":[{"name":"d","nodeID":"n"}]}})",
       R"({"spec":{"drivers":[{"name":"d","nodeID":"n","allocatable":{"count":3}},{"name":"e","nodeID":"n"}]}})",
       ""},
      {kDrivers, R"({"spec":{}})", R"({"spec":{"attachRequired":false}})",
       "spec.attachedRequired: Invalid value: false: field is immutable"},
      {kCapacities, R"({"storageClassName":"c"})", R"({"storageClassName":"d"})",
       "field is immutable"},
      {kCapacities, R"({"storageClassName":"c"})", R"({"capacity":"5Gi"})", ""},
      {kConfigMaps, R"({"immutable":true,"data":{"a":"1"}})", R"({"data":{"a":"2"}})",
       "data: Forbidden: field is immutable when `immutable` is set"},
      {kSecrets, R"({})", R"({"type":"other"})",
       "type: Invalid value: \"other\": field is immutable"},
      {kConfigMaps, R"({"immutable":true,"data":{"a":"1"}})", R"({"immutable":false})",
       "immutable: Forbidden: field is immutable when `immutable` is set"},
      {kConfigMaps, R"({"immutable":true})", R"({"metadata":{"labels":{"a":"b"}}})", ""},
      {kAttributes, R"({"driverName":"d","parameters":{"a":"b"}})", R"({"parameters":{"a":"c"}})",
       "parameters: Forbidden: updates to parameters are forbidden."},
      {kRuntimes, R"({"handler":"h"})", R"({"handler":"i"})",
       "handler: Invalid value: \"i\": field is immutable"},
      {kNodes, R"({"spec":{"providerID":"a"}})", R"({"spec":{"providerID":"b"}})",
       "node updates may not change providerID except from \"\" to valid"},
      {kNodes, R"({"spec":{}})",
       R"({"spec":{"providerID":"b","unschedulable":true,"taints":[{"key":"a","effect":"NoExecute"}]}})",
       ""},
      {kHostMounts, R"({"spec":{"nodeName":"n","claimName":"c","path":"/a"}})",
       R"({"spec":{"path":"/b"}})", "field is immutable"},
  };
  int i = 0;
  for (const Immutable& one : cases) {
    const std::string name = fmt::format("x{}", i++);
    Json object = ParseJson(one.json);
    object["metadata"]["name"] = name;
    const auto created = Post(one.collection, object);
    ASSERT_EQ(created.code, 201) << one.json << created.body;
    const auto patched = Patch(At(one.collection, name), ParseJson(one.patch));
    if (one.text.empty()) {
      EXPECT_EQ(patched.code, 200) << one.patch << patched.body;
    } else {
      EXPECT_EQ(patched.code, 422) << one.patch << patched.body;
      EXPECT_THAT(patched.message(), HasSubstr(one.text)) << one.patch;
      EXPECT_EQ(Get(At(one.collection, name)).json, created.json);
    }
  }
}

TEST_F(ApiTest, ANodeRegistersWithItsStatus) {
  const auto created =
      Post(kNodes, ParseJson(R"({"metadata":{"name":"n"},"status":{"capacity":{"cpu":"2"}}})"));
  ASSERT_EQ(created.code, 201) << created.body;
  EXPECT_EQ(created.json["status"]["capacity"]["cpu"], "2");
  EXPECT_EQ(Patch(At(kNodes, "n"), ParseJson(R"({"status":{"capacity":{"cpu":"3"}}})"))
                .json["status"]["capacity"]["cpu"],
            "2");
  EXPECT_EQ(Patch(At(kNodes, "n") + "/status", ParseJson(R"({"status":{"capacity":{"cpu":"3"}}})"))
                .json["status"]["capacity"]["cpu"],
            "3");
}

TEST_F(ApiTest, ADriversGenerationCountsWhatItsNodesActOn) {
  ASSERT_EQ(Post(kDrivers, ParseJson(R"({"metadata":{"name":"d"},"spec":{}})")).code, 201);
  EXPECT_FALSE(Patch(At(kDrivers, "d"), ParseJson(R"({"spec":{"podInfoOnMount":true}})"))
                   .json["metadata"]
                   .contains("generation"));
  EXPECT_EQ(Patch(At(kDrivers, "d"), ParseJson(R"({"spec":{"requiresRepublish":true}})"))
                .json["metadata"]["generation"],
            1);
}

TEST_F(ApiTest, AClaimsStatusIsChecked) {
  ASSERT_EQ(Post(kClaims, ClaimNamed("c")).code, 201);
  const auto refused =
      Patch(At(kClaims, "c") + "/status",
            ParseJson(R"({"status":{"allocatedResourceStatuses":{"storage":"Later"}}})"));
  EXPECT_EQ(refused.code, 422);
  EXPECT_THAT(refused.message(),
              HasSubstr("status.allocatedResourceStatuses: Unsupported value: \"Later\""));
  EXPECT_EQ(
      Patch(
          At(kClaims, "c") + "/status",
          ParseJson(R"({"status":{"allocatedResourceStatuses":{"storage":"NodeResizePending"}}})"))
          .code,
      200);
}

TEST_F(ApiTest, PodImageMayChange) {
  const auto created = Post(kPods, PodNamed("a"));
  Json pod = created.json;
  pod["spec"]["containers"][0]["image"] = "busybox:1.37";
  pod["spec"]["tolerations"] = {{{"key", "k"}, {"operator", "Exists"}}};
  const auto updated = Put(At(kPods, "a"), pod);
  EXPECT_EQ(updated.code, 200) << updated.body;
  EXPECT_EQ(updated.json["metadata"]["generation"], 2);
}

}  // namespace
}  // namespace berth::apiserver
