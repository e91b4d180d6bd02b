// Pods and what makes them: what a spec gets, what it is refused for, what of it may change.

#include "apiserver/api_fixture.h"

namespace berth::apiserver {
namespace {

using testing::HasSubstr;

constexpr std::string_view kSets = "/apis/apps/v1/namespaces/default/daemonsets";
constexpr std::string_view kRevisions = "/apis/apps/v1/namespaces/default/controllerrevisions";

// A pod of one container, with `change` merged into its spec; a container's change goes into it.
Json PodWith(std::string_view change) {
  Json pod =
      ParseJson(R"({"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"x:1"}]}})");
  Json spec = ParseJson(change);
  if (spec.contains("container")) {
    pod["spec"]["containers"][0].merge_patch(spec["container"]);
    spec.erase("container");
  }
  pod["spec"].merge_patch(spec);
  return pod;
}

Json SetWith(std::string_view change) {
  Json set = ParseJson(R"({"metadata":{"name":"s"},"spec":{
    "selector":{"matchLabels":{"app":"x"}},
    "template":{"metadata":{"labels":{"app":"x"}},
                "spec":{"containers":[{"name":"c","image":"x:1"}]}}}})");
  set["spec"].merge_patch(ParseJson(change));
  return set;
}

TEST_F(ApiTest, APodIsFurnishedAsByKubernetesAdmission) {
  const auto created = Post(kPods, PodWith(R"({
    "hostNetwork":true,"tolerations":[{"key":"node.kubernetes.io/not-ready","operator":"Exists",
                                       "effect":"NoExecute"}],
    "container":{"ports":[{"containerPort":80}],
                 "resources":{"limits":{"cpu":"1","memory":"1Gi"}},
                 "env":[{"name":"A","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}}],
                 "livenessProbe":{"httpGet":{"port":80}}},
    "volumes":[{"name":"p","projected":{"sources":[{"serviceAccountToken":{"path":"t"}}]}},
               {"name":"e","ephemeral":{"volumeClaimTemplate":{"spec":{
                  "accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}}}]})"));
  ASSERT_EQ(created.code, 201) << created.body;
  const Json& spec = created.json["spec"];
  EXPECT_EQ(spec["priority"], 0);
  EXPECT_EQ(spec["preemptionPolicy"], "PreemptLowerPriority");
  EXPECT_EQ(spec["serviceAccount"], "default");
  EXPECT_EQ(spec["enableServiceLinks"], true);
  EXPECT_EQ(spec["tolerations"].size(), 2u);
  EXPECT_EQ(spec["tolerations"][1]["key"], "node.kubernetes.io/unreachable");
  EXPECT_EQ(spec["tolerations"][1]["tolerationSeconds"], 300);
  const Json& container = spec["containers"][0];
  EXPECT_EQ(container["ports"][0]["hostPort"], 80);
  EXPECT_EQ(container["ports"][0]["protocol"], "TCP");
  EXPECT_EQ(container["resources"]["requests"]["cpu"], "1");
  EXPECT_EQ(container["env"][0]["valueFrom"]["fieldRef"]["apiVersion"], "v1");
  EXPECT_EQ(container["livenessProbe"]["httpGet"]["scheme"], "HTTP");
  EXPECT_EQ(container["livenessProbe"]["failureThreshold"], 3);
  EXPECT_EQ(
      spec["volumes"][0]["projected"]["sources"][0]["serviceAccountToken"]["expirationSeconds"],
      3600);
  EXPECT_EQ(spec["volumes"][1]["ephemeral"]["volumeClaimTemplate"]["spec"]["volumeMode"],
            "Filesystem");
  EXPECT_EQ(created.json["status"]["qosClass"], "Guaranteed");
}

TEST_F(ApiTest, APodsClassOfServiceFollowsItsRequests) {
  struct Case {
    std::string_view resources;
    std::string_view qos;
  };
  const Case cases[] = {
      {R"({})", "BestEffort"},
      {R"({"requests":{"cpu":"1"}})", "Burstable"},
      {R"({"limits":{"cpu":"1"}})", "Burstable"},
      {R"({"limits":{"cpu":"1","memory":"1Gi"}})", "Guaranteed"},
      {R"({"limits":{"cpu":"2","memory":"1Gi"},"requests":{"cpu":"1"}})", "Burstable"},
  };
  for (const Case& one : cases) {
    const auto pod =
        Post(std::string(kPods) + "?dryRun=All",
             PodWith(fmt::format(R"({{"container":{{"resources":{}}}}})", one.resources)));
    EXPECT_EQ(pod.json["status"]["qosClass"], Json(std::string(one.qos))) << one.resources;
  }
}

TEST_F(ApiTest, ARuntimeClassSaysWhereItsPodsGo) {
  const auto unknown = Post(kPods, PodWith(R"({"runtimeClassName":"vm"})"));
  EXPECT_EQ(unknown.code, 403);
  EXPECT_THAT(unknown.message(),
              HasSubstr("pods \"p\" is forbidden: pod rejected: RuntimeClass \"vm\" not found"));
  ASSERT_EQ(Post(kRuntimes, ParseJson(R"({"metadata":{"name":"vm"},"handler":"kata",
      "overhead":{"podFixed":{"memory":"100Mi"}},
      "scheduling":{"nodeSelector":{"kvm":"yes"},"tolerations":[{"key":"k","operator":"Exists"}]}})"))
                .code,
            201);
  const auto created = Post(kPods, PodWith(R"({"runtimeClassName":"vm"})"));
  ASSERT_EQ(created.code, 201) << created.body;
  EXPECT_EQ(created.json["spec"]["overhead"]["memory"], "100Mi");
  EXPECT_EQ(created.json["spec"]["nodeSelector"]["kvm"], "yes");
  EXPECT_EQ(created.json["spec"]["tolerations"][0]["key"], "k");
  Json other = PodWith(R"({"runtimeClassName":"vm","nodeSelector":{"kvm":"no"}})");
  other["metadata"]["name"] = "q";
  EXPECT_THAT(Post(kPods, other).message(), HasSubstr("conflict"));
}

TEST_F(ApiTest, ARuntimeClassSaysWhichAccessModesItsPodsClaimsMayHave) {
  const auto runtime = [](const std::string& modes) {
    return Json{
        {"metadata",
         {{"name", "vm"}, {"annotations", {{"storage.berth.dev/sandbox-access-modes", modes}}}}},
        {"handler", "kata"}};
  };
  const auto misspelt = Post(kRuntimes, runtime("ReadWriteOncePod,ReadOnce"));
  EXPECT_EQ(misspelt.code, 422);
  EXPECT_THAT(misspelt.message(), HasSubstr("'ReadOnce' is no access mode"));
  EXPECT_THAT(Post(kRuntimes, runtime(" ")).message(), HasSubstr("at least one access mode"));
  ASSERT_EQ(Post(kRuntimes, runtime("ReadWriteOncePod,ReadOnlyMany")).code, 201);
  ASSERT_EQ(Post(kClaims, ClaimNamed("shared")).code, 201);
  Json alone = ClaimNamed("alone");
  alone["spec"]["accessModes"] = {"ReadWriteOncePod"};
  ASSERT_EQ(Post(kClaims, alone).code, 201);

  const auto pod = [](const std::string& name, const std::string& claim,
                      const std::string& runtime_class = "vm") {
    Json made = PodNamed(name);
    made["spec"]["volumes"] = {
        {{"name", "data"}, {"persistentVolumeClaim", {{"claimName", claim}}}}};
    if (!runtime_class.empty()) made["spec"]["runtimeClassName"] = runtime_class;
    return made;
  };
  const auto refused = Post(kPods, pod("p", "shared"));
  EXPECT_EQ(refused.code, 403);
  EXPECT_THAT(refused.message(),
              HasSubstr("pods \"p\" is forbidden: volume 'data': claim 'shared' has access mode "
                        "ReadWriteOnce, but claims of pods with RuntimeClass 'vm' may only have "
                        "ReadWriteOncePod, ReadOnlyMany"));
  EXPECT_EQ(Post(kPods, pod("p", "shared", "")).code, 201);
  EXPECT_EQ(Post(kPods, pod("q", "alone")).code, 201);
  // The node agent checks a claim that comes later.
  EXPECT_EQ(Post(kPods, pod("r", "later")).code, 201);

  // The claim of an ephemeral volume is made for the pod from the template in its spec.
  Json own = PodWith(R"({"runtimeClassName":"vm","volumes":[{"name":"e","ephemeral":{
      "volumeClaimTemplate":{"spec":{"accessModes":["ReadWriteOnce"],
                                     "resources":{"requests":{"storage":"1Gi"}}}}}}]})");
  own["metadata"]["name"] = "s";
  EXPECT_THAT(Post(kPods, own).message(), HasSubstr("volume 'e': claim 's-e' has access mode"));
  own["spec"]["volumes"][0]["ephemeral"]["volumeClaimTemplate"]["spec"]["accessModes"] = {
      "ReadWriteOncePod"};
  EXPECT_EQ(Post(kPods, own).code, 201);
}

TEST_F(ApiTest, APriorityIsThatOfAClass) {
  const auto critical = Post(kPods, PodWith(R"({"priorityClassName":"system-node-critical"})"));
  EXPECT_EQ(critical.json["spec"]["priority"], 2000001000);
  EXPECT_EQ(Post(kPods, PodWith(R"({"priorityClassName":"mine"})")).code, 403);
  EXPECT_EQ(Post(kPods, PodWith(R"({"priority":7})")).code, 403);
}

TEST_F(ApiTest, AGatedPodIsHeldBack) {
  const auto created = Post(kPods, PodWith(R"({"schedulingGates":[{"name":"example.com/g"}]})"));
  ASSERT_EQ(created.code, 201) << created.body;
  EXPECT_EQ(created.json["status"]["conditions"][0]["reason"], "SchedulingGated");
  const Json binding = {{"metadata", {{"name", "p"}}}, {"target", {{"name", "n"}}}};
  EXPECT_EQ(Post(At(kPods, "p") + "/binding", binding).code, 409);
  const auto added = Patch(At(kPods, "p"), ParseJson(R"({"spec":{"schedulingGates":[
      {"name":"example.com/g"},{"name":"example.com/h"}]}})"));
  EXPECT_THAT(added.message(), HasSubstr("only deletion is allowed"));
  EXPECT_EQ(Patch(At(kPods, "p"), ParseJson(R"({"spec":{"nodeSelector":{"a":"b"}}})")).code, 200);
  EXPECT_EQ(Patch(At(kPods, "p"), ParseJson(R"({"spec":{"nodeSelector":{"a":"c"}}})")).code, 422);
  EXPECT_EQ(Patch(At(kPods, "p"), ParseJson(R"({"spec":{"schedulingGates":null}})")).code, 200);
  EXPECT_EQ(Post(At(kPods, "p") + "/binding", binding).code, 201);
  const Json bound = Get(At(kPods, "p")).json;
  EXPECT_EQ(bound["spec"]["nodeName"], "n");
  EXPECT_EQ(bound["status"]["conditions"][0]["type"], "PodScheduled");
  EXPECT_EQ(bound["status"]["conditions"][0]["status"], "True");
}

TEST_F(ApiTest, EphemeralContainersAreAddedForGood) {
  Json pod = PodWith("{}");
  pod["spec"]["ephemeralContainers"] = Json::array({{{"name", "look"}, {"image", "x:1"}}});
  EXPECT_THAT(Post(kPods, pod).message(), HasSubstr("cannot be set on create"));
  ASSERT_EQ(Post(kPods, PodWith("{}")).code, 201);
  const std::string at = At(kPods, "p") + "/ephemeralcontainers";
  const auto with = [&](Json containers) {
    return Patch(at, {{"spec", {{"ephemeralContainers", std::move(containers)}}}});
  };
  Json look = {{"name", "look"}, {"image", "x:1"}, {"targetContainerName", "c"}};
  const auto added = with(Json::array({look}));
  ASSERT_EQ(added.code, 200) << added.body;
  EXPECT_EQ(added.json["spec"]["ephemeralContainers"][0]["imagePullPolicy"], "IfNotPresent");
  EXPECT_EQ(added.json["metadata"]["generation"], 2);
  EXPECT_EQ(Get(at).json["spec"]["ephemeralContainers"].size(), 1u);

  EXPECT_THAT(with(Json::array()).message(), HasSubstr("\"look\" may not be removed"));
  Json changed = look;
  changed["image"] = "x:2";
  EXPECT_THAT(with(Json::array({changed})).message(), HasSubstr("\"look\" may not be changed"));
  const auto refused = [&](const char* member, Json value) {
    Json two = {{"name", "two"}, {"image", "x:1"}};
    two[member] = std::move(value);
    return with(Json::array({look, two})).message();
  };
  EXPECT_THAT(refused("name", "c"), HasSubstr("Duplicate value"));
  EXPECT_THAT(refused("targetContainerName", "other"), HasSubstr("Not found"));
  EXPECT_THAT(refused("ports", Json::array({{{"containerPort", 80}}})),
              HasSubstr("ports: Forbidden: cannot be set for an Ephemeral Container"));
  EXPECT_THAT(refused("resources", {{"limits", {{"cpu", "1"}}}}), HasSubstr("cannot be set"));
  EXPECT_THAT(refused("restartPolicy", "Always"), HasSubstr("may not be set"));

  // By this way alone, and nothing else by this way.
  Json whole = Get(At(kPods, "p")).json;
  whole["spec"]["ephemeralContainers"].push_back({{"name", "two"}, {"image", "x:1"}});
  EXPECT_EQ(Put(At(kPods, "p"), whole).code, 422);
  whole["metadata"]["labels"] = {{"a", "b"}};
  whole["spec"]["containers"][0]["image"] = "x:9";
  const auto put = Put(at, whole);
  ASSERT_EQ(put.code, 200) << put.body;
  EXPECT_EQ(put.json["spec"]["ephemeralContainers"].size(), 2u);
  EXPECT_EQ(put.json["spec"]["containers"][0]["image"], "x:1");
  EXPECT_FALSE(put.json["metadata"].contains("labels"));
}

TEST_F(ApiTest, TheAddressesOfAPodAgree) {
  ASSERT_EQ(Post(kPods, PodWith("{}")).code, 201);
  const auto status = [&](const char* patch) {
    const Json json = Patch(At(kPods, "p") + "/status", ParseJson(patch)).json["status"];
    return fmt::format("{} {}", json["podIP"].get<std::string>(), json["podIPs"].dump());
  };
  EXPECT_EQ(status(R"({"status":{"podIP":"10.0.0.1"}})"), R"(10.0.0.1 [{"ip":"10.0.0.1"}])");
  EXPECT_EQ(status(R"({"status":{"podIPs":[{"ip":"10.0.0.2"}]}})"),
            R"(10.0.0.1 [{"ip":"10.0.0.1"}])");
  EXPECT_EQ(status(R"({"status":{"podIP":null,"podIPs":[{"ip":"10.0.0.2"},{"ip":"fd00::2"}]}})"),
            R"(10.0.0.2 [{"ip":"10.0.0.2"},{"ip":"fd00::2"}])");
}

TEST_F(ApiTest, AnEvictionDeletes) {
  ASSERT_EQ(Post(kPods, PodWith("{}")).code, 201);
  Json eviction = {
      {"apiVersion", "policy/v1"}, {"kind", "Eviction"}, {"metadata", {{"name", "q"}}}};
  const std::string at = At(kPods, "p") + "/eviction";
  EXPECT_EQ(Post(at, eviction).code, 400);
  eviction["metadata"]["name"] = "p";
  eviction["deleteOptions"] = {{"preconditions", {{"uid", "other"}}}};
  EXPECT_EQ(Post(at, eviction).code, 409);
  eviction.erase("deleteOptions");
  EXPECT_EQ(Post(at + "?dryRun=All", eviction).code, 201);
  EXPECT_EQ(Get(At(kPods, "p")).code, 200);
  const auto evicted = Post(at, eviction);
  EXPECT_EQ(evicted.code, 201);
  EXPECT_EQ(evicted.json["status"], "Success");
  EXPECT_EQ(Get(At(kPods, "p")).code, 404);
  EXPECT_EQ(Post(at, eviction).code, 404);
}

struct BadSpec {
  std::string_view change;  // as for PodWith or SetWith
  std::string_view text;
};

TEST_F(ApiTest, RefusesInvalidPodSpecsAndSaysWhy) {
  const BadSpec cases[] = {
      {R"({"container":{"ports":[{"containerPort":0}]}})",
       "spec.containers[0].ports[0].containerPort: Required value"},
      {R"({"container":{"ports":[{"containerPort":70000}]}})",
       "must be between 1 and 65535, inclusive"},
      {R"({"container":{"ports":[{"containerPort":1,"name":"UP"}]}})",
       "spec.containers[0].ports[0].name: Invalid value: \"UP\""},
      {R"({"container":{"ports":[{"containerPort":1,"hostPort":9},{"containerPort":2,"hostPort":9}]}})",
       "spec.containers[0].ports[1].hostPort: Duplicate value: \"TCP//9\""},
      {R"({"hostNetwork":true,"container":{"ports":[{"containerPort":1,"hostPort":9}]}})",
       "hostPort: Invalid value: 9: must match `containerPort` when `hostNetwork` is true"},
      {R"({"container":{"env":[{"name":"a=b","value":"c"}]}})", "spec.containers[0].env[0].name"},
      {R"({"container":{"env":[{"name":"a","value":"c","valueFrom":{"fieldRef":{"fieldPath":"metadata.name"}}}]}})",
       "may not be specified when `value` is not empty"},
      {R"({"container":{"env":[{"name":"a","valueFrom":{"fieldRef":{"fieldPath":"spec.oops"}}}]}})",
       "env[0].valueFrom.fieldRef.fieldPath: Unsupported value: \"spec.oops\""},
      {R"({"container":{"envFrom":[{}]}})", "must specify one of: `configMapRef` or `secretRef`"},
      {R"({"container":{"resources":{"limits":{"cpu":"1"},"requests":{"cpu":"2"}}}})",
       "spec.containers[0].resources.requests: Invalid value: \"2\": must be less than or equal to "
       "cpu limit of 1"},
      {R"({"container":{"resources":{"limits":{"disk":"1"}}}})",
       "resources.limits[disk]: Invalid value: \"disk\": must be a standard resource for "
       "containers"},
      {R"({"container":{"livenessProbe":{}}})",
       "spec.containers[0].livenessProbe: Required value: must specify a handler type"},
      {R"({"container":{"livenessProbe":{"exec":{"command":["a"]},"successThreshold":2}}})",
       "livenessProbe.successThreshold: Invalid value: 2: must be 1"},
      {R"({"container":{"readinessProbe":{"exec":{"command":["a"]},"tcpSocket":{"port":1}}}})",
       "readinessProbe.tcpSocket: Forbidden: may not specify more than 1 handler type"},
      {R"({"container":{"securityContext":{"privileged":true,"allowPrivilegeEscalation":false}}})",
       "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"},
      {R"({"container":{"securityContext":{"runAsUser":-1}}})",
       "runAsUser: Invalid value: -1: must be between 0 and 2147483647, inclusive"},
      {R"({"container":{"image":" x"}})",
       "image: Invalid value: \" x\": must not have leading or trailing whitespace"},
      {R"({"container":{"restartPolicy":"Always"}})", "may not be set for non-init containers"},
      {R"({"initContainers":[{"name":"i","image":"x","livenessProbe":{"exec":{"command":["a"]}}}]})",
       "spec.initContainers[0].livenessProbe: Forbidden: may not be set for init containers "
       "without "
       "restartPolicy=Always"},
      {R"({"initContainers":[{"name":"c","image":"x"}]})",
       "spec.initContainers[0].name: Duplicate value: \"c\""},
      {R"({"volumes":[{"name":"v","configMap":{"name":"m","items":[{"key":"k","path":"../x"}]}}]})",
       "spec.volumes[0].configMap.items[0].path: Invalid value: \"../x\": must not contain '..'"},
      {R"({"volumes":[{"name":"v","secret":{"secretName":"m","defaultMode":1024}}]})",
       "spec.volumes[0].secret.defaultMode: Invalid value: 1024: must be a number between 0 and "
       "0777 (octal), both inclusive"},
      {R"({"volumes":[{"name":"v","hostPath":{"path":"/x","type":"Odd"}}]})",
       "spec.volumes[0].hostPath.type: Unsupported value: \"Odd\""},
      {R"({"volumes":[{"name":"v","projected":{"sources":[{"serviceAccountToken":{"path":"t","expirationSeconds":60}}]}}]})",
       "may not specify a duration less than 10 minutes"},
      {R"({"volumes":[{"name":"v","csi":{"driver":"bad_name"}}]})",
       "spec.volumes[0].csi.driver: Invalid value: \"bad_name\""},
      {R"({"volumes":[{"name":"v","flexVolume":{"driver":"d","options":{"kubernetes.io/x":"y"}}}]})",
       "kubernetes.io and k8s.io namespaces are reserved"},
      {R"({"volumes":[{"name":"v","ephemeral":{"volumeClaimTemplate":{"metadata":{"name":"n"},"spec":{
           "accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":"1Gi"}}}}}}]})",
       "volumeClaimTemplate.metadata.name: Forbidden: cannot be set"},
      {R"({"volumes":[{"name":"v"}],"container":{"volumeDevices":[{"name":"v","devicePath":"/d"}]}})",
       "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"},
      {R"({"nodeSelector":{"a":"b c"}})", "spec.nodeSelector: Invalid value: \"b c\""},
      {R"({"tolerations":[{"operator":"Equal"}]})",
       "spec.tolerations[0].operator: Invalid value: \"Equal\": operator must be Exists when `key` "
       "is empty"},
      {R"({"tolerations":[{"key":"a","operator":"Exists","effect":"NoSchedule","tolerationSeconds":1}]})",
       "effect must be 'NoExecute' when `tolerationSeconds` is set"},
      {R"({"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{}}}})",
       "nodeSelectorTerms: Required value: must have at least one node selector term"},
      {R"({"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{
           "nodeSelectorTerms":[{"matchExpressions":[{"key":"a","operator":"Is"}]}]}}}})",
       "operator: Invalid value: \"Is\": not a valid selector operator"},
      {R"({"affinity":{"podAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":[{}]}}})",
       "topologyKey: Required value: can not be empty"},
      {R"({"dnsPolicy":"None"})",
       "spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None"},
      {R"({"hostUsers":false,"hostPID":true})",
       "spec.HostPID: Forbidden: when `hostUsers` is false"},
      {R"({"securityContext":{"fsGroupChangePolicy":"Now"}})",
       "spec.securityContext.fsGroupChangePolicy: Unsupported value: \"Now\""},
      {R"({"activeDeadlineSeconds":0})", "must be between 1 and 2147483647, inclusive"},
      {R"({"hostname":"A"})", "spec.hostname: Invalid value: \"A\""},
      {R"({"schedulingGates":[{"name":"g"}],"nodeName":"n"})",
       "spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared"},
  };
  for (const BadSpec& bad : cases) {
    const auto refused = Post(kPods, PodWith(bad.change));
    EXPECT_EQ(refused.code, 422) << bad.change << refused.body;
    EXPECT_THAT(refused.message(), HasSubstr(bad.text)) << bad.change;
  }
}

TEST_F(ApiTest, ADeadlineOnlyComesNearer) {
  ASSERT_EQ(Post(kPods, PodWith("{}")).code, 201);
  const auto set = [&](Json seconds) {
    return Patch(At(kPods, "p"), {{"spec", {{"activeDeadlineSeconds", std::move(seconds)}}}}).code;
  };
  EXPECT_EQ(set(100), 200);
  EXPECT_EQ(set(50), 200);
  EXPECT_EQ(set(60), 422);
  EXPECT_EQ(set(nullptr), 422);
}

// ---- DaemonSet

TEST_F(ApiTest, ADaemonSetGetsItsDefaults) {
  const auto created = Post(kSets, SetWith("{}"));
  ASSERT_EQ(created.code, 201) << created.body;
  const Json& spec = created.json["spec"];
  EXPECT_EQ(spec["updateStrategy"]["type"], "RollingUpdate");
  EXPECT_EQ(spec["updateStrategy"]["rollingUpdate"]["maxUnavailable"], 1);
  EXPECT_EQ(spec["updateStrategy"]["rollingUpdate"]["maxSurge"], 0);
  EXPECT_EQ(spec["revisionHistoryLimit"], 10);
  const Json& pods = spec["template"]["spec"];
  EXPECT_EQ(pods["restartPolicy"], "Always");
  EXPECT_EQ(pods["containers"][0]["imagePullPolicy"], "IfNotPresent");
  EXPECT_FALSE(pods.contains("serviceAccountName"));
  EXPECT_FALSE(pods.contains("tolerations"));
  EXPECT_EQ(created.json["metadata"]["generation"], 1);
  EXPECT_EQ(created.json["status"]["desiredNumberScheduled"], 0);
}

TEST_F(ApiTest, ADaemonSetCountsItsGenerations) {
  constexpr std::string_view kTemplate = "deprecated.daemonset.template.generation";
  ASSERT_EQ(Post(kSets, SetWith("{}")).code, 201);
  const auto generations = [&](const Json& patch) {
    const Json set = Patch(At(kSets, "s"), patch).json;
    return fmt::format("{} {}", set["metadata"]["generation"].get<int>(),
                       set["metadata"]["annotations"][std::string(kTemplate)].get<std::string>());
  };
  EXPECT_EQ(generations({{"metadata", {{"labels", {{"a", "b"}}}}}}), "1 1");
  EXPECT_EQ(generations({{"spec", {{"minReadySeconds", 3}}}}), "2 1");
  EXPECT_EQ(generations(ParseJson(R"({"spec":{"template":{"spec":{"hostPID":true}}}})")), "3 2");
  const auto status =
      Patch(At(kSets, "s") + "/status",
            ParseJson(R"({"spec":{"minReadySeconds":9},"status":{"numberReady":2}})"));
  EXPECT_EQ(status.json["metadata"]["generation"], 3);
  EXPECT_EQ(status.json["spec"]["minReadySeconds"], 3);
  EXPECT_EQ(status.json["status"]["numberReady"], 2);
  EXPECT_EQ(Patch(At(kSets, "s") + "/status", ParseJson(R"({"status":{"numberReady":-1}})")).code,
            422);
  EXPECT_EQ(Delete(At(kSets, "s")).json["kind"], "Status");
}

TEST_F(ApiTest, RefusesInvalidDaemonSetsAndSaysWhy) {
  const BadSpec cases[] = {
      {R"({"selector":null})", "spec.selector: Required value"},
      {R"({"selector":{"matchLabels":null}})", "empty selector is invalid for daemonset"},
      {R"({"selector":{"matchLabels":{"app":"y"}}})",
       "spec.template.metadata.labels: Invalid value: {\"app\":\"x\"}: `selector` does not match "
       "template `labels`"},
      {R"({"template":{"spec":{"restartPolicy":"Never"}}})",
       "spec.template.spec.restartPolicy: Unsupported value: \"Never\": supported values: "
       "\"Always\""},
      {R"({"template":{"spec":{"activeDeadlineSeconds":5}}})",
       "activeDeadlineSeconds in DaemonSet is not Supported"},
      {R"({"template":{"spec":{"containers":[{"name":"c"}]}}})",
       "spec.template.spec.containers[0].image: Required value"},
      {R"({"updateStrategy":{"type":"Sometimes"}})", "spec.updateStrategy: Unsupported value"},
      {R"({"updateStrategy":{"rollingUpdate":{"maxUnavailable":0}}})",
       "maxUnavailable: Required value: cannot be 0 when maxSurge is 0"},
      {R"({"updateStrategy":{"rollingUpdate":{"maxSurge":1}}})",
       "maxSurge: Invalid value: 1: may not be set when maxUnavailable is non-zero"},
      {R"({"updateStrategy":{"rollingUpdate":{"maxUnavailable":"150%"}}})",
       "must not be greater than 100%"},
      {R"({"updateStrategy":{"rollingUpdate":{"maxUnavailable":"ten"}}})",
       "a valid percent string must be a numeric string followed by an ending '%'"},
      {R"({"minReadySeconds":-1})",
       "spec.minReadySeconds: Invalid value: -1: must be greater than or equal to 0"},
  };
  for (const BadSpec& bad : cases) {
    const auto refused = Post(kSets, SetWith(bad.change));
    EXPECT_EQ(refused.code, 422) << bad.change << refused.body;
    EXPECT_THAT(refused.message(), HasSubstr(bad.text)) << bad.change;
  }
  ASSERT_EQ(Post(kSets, SetWith("{}")).code, 201);
  const auto moved =
      Patch(At(kSets, "s"), ParseJson(R"({"spec":{"selector":{"matchLabels":{"app":"y"}},
      "template":{"metadata":{"labels":{"app":"y"}}}}})"));
  EXPECT_THAT(moved.message(), HasSubstr("spec.selector: Invalid value: "
                                         "{\"matchLabels\":{\"app\":\"y\"}}: field is immutable"));
}

TEST_F(ApiTest, ARevisionKeepsItsData) {
  const auto bare = Post(kRevisions, {{"metadata", {{"name", "r"}}}, {"revision", 1}});
  EXPECT_THAT(bare.message(), HasSubstr("data: Required value: data is mandatory"));
  ASSERT_EQ(
      Post(kRevisions, ParseJson(R"({"metadata":{"name":"r"},"revision":1,"data":{"a":1}})")).code,
      201);
  EXPECT_EQ(Patch(At(kRevisions, "r"), {{"revision", 2}}).code, 200);
  EXPECT_EQ(Patch(At(kRevisions, "r"), {{"revision", -2}}).code, 422);
  EXPECT_THAT(Patch(At(kRevisions, "r"), {{"data", {{"a", 2}}}}).message(),
              HasSubstr("data: Invalid value: {\"a\":2}: field is immutable"));
}

}  // namespace
}  // namespace berth::apiserver
