"""The documented rules of patches of each type, and of how lists merge."""
import json

import pytest
from kinds import CLAIM, CONFIG_MAP, DAEMON_SET, NAMESPACE, NODE, POD, SERVICE_ACCOUNT, of
from lib import kube


def data(reply):
    assert reply.code == 200, reply
    return reply.json.get("data")


# -- JSON patch

JSON_PATCHES = {
    "add": ([{"op": "add", "path": "/data/b", "value": "2"}], {"a": "1", "b": "2"}),
    "add-replaces": ([{"op": "add", "path": "/data/a", "value": "2"}], {"a": "2"}),
    "remove": ([{"op": "add", "path": "/data/b", "value": "2"}, {"op": "remove", "path": "/data/a"}], {"b": "2"}),
    "replace": ([{"op": "replace", "path": "/data/a", "value": "9"}], {"a": "9"}),
    "replace-of-a-missing-key-adds": ([{"op": "replace", "path": "/data/new", "value": "9"}],
                                      {"a": "1", "new": "9"}),
    "move": ([{"op": "move", "from": "/data/a", "path": "/data/b"}], {"b": "1"}),
    "copy": ([{"op": "copy", "from": "/data/a", "path": "/data/b"}], {"a": "1", "b": "1"}),
    "test-passes": ([{"op": "test", "path": "/data/a", "value": "1"}], {"a": "1"}),
    "test-null-passes-when-missing": ([{"op": "test", "path": "/data/none", "value": None}], {"a": "1"}),
    "escapes": ([{"op": "add", "path": "/metadata/annotations", "value": {}},
                 {"op": "add", "path": "/metadata/annotations/a.b~1c", "value": "x"}], {"a": "1"}),
}


@pytest.mark.parametrize("patch,wanted", JSON_PATCHES.values(), ids=JSON_PATCHES)
def test_json_patch(api, make, patch, wanted):
    path = make.path(CONFIG_MAP, make(CONFIG_MAP, data={"a": "1"}))
    assert data(api.patch(path, patch, kube.JSON_PATCH)) == wanted
    assert api.get(path).json["data"] == wanted


BAD_JSON_PATCHES = {
    "test-fails": ([{"op": "test", "path": "/data/a", "value": "2"}], (422,)),
    "remove-of-a-missing-key": ([{"op": "remove", "path": "/data/none"}], (422,)),
    "no-list": ({"op": "add", "path": "/data/a", "value": "1"}, (400, 422)),
    "no-such-operation": ([{"op": "frob", "path": "/data/a"}], (400, 422)),
    "no-json": ("[{", (400,)),
    "too-many-operations": ([{"op": "test", "path": "/data/a", "value": "1"}] * 10001, (413,)),
    "makes-it-invalid": ([{"op": "add", "path": "/data/bad key", "value": "1"}], (422,)),
    "makes-it-ill-typed": ([{"op": "replace", "path": "/data", "value": "x"}], (400, 422, 500)),
}


@pytest.mark.parametrize("patch,codes", BAD_JSON_PATCHES.values(), ids=BAD_JSON_PATCHES)
def test_bad_json_patch(api, make, patch, codes):
    made = make(CONFIG_MAP, data={"a": "1"})
    reply = api.patch(make.path(CONFIG_MAP, made), patch, kube.JSON_PATCH)
    assert reply.code in codes and reply.json["kind"] == "Status", reply
    assert api.get(make.path(CONFIG_MAP, made)).json == made


def test_ten_thousand_operations_are_fine(api, make):
    path = make.path(CONFIG_MAP, make(CONFIG_MAP, data={"a": "1"}))
    assert api.patch(path, [{"op": "test", "path": "/data/a", "value": "1"}] * 10000, kube.JSON_PATCH).code == 200


# -- merge patch

MERGE_PATCHES = {
    "adds-and-replaces": ({"data": {"a": "2", "b": "3"}}, {"a": "2", "b": "3", "c": "3"}),
    "null-deletes": ({"data": {"a": None}}, {"c": "3"}),
    "null-of-a-missing-key": ({"data": {"none": None}}, {"a": "1", "c": "3"}),
    "null-deletes-all": ({"data": None}, None),
    "empty": ({}, {"a": "1", "c": "3"}),
}


@pytest.mark.parametrize("patch,wanted", MERGE_PATCHES.values(), ids=MERGE_PATCHES)
def test_merge_patch(api, make, patch, wanted):
    path = make.path(CONFIG_MAP, make(CONFIG_MAP, data={"a": "1", "c": "3"}))
    assert data(api.patch(path, patch)) == wanted


def test_a_merge_patch_replaces_lists(api, make):
    path = make.path(DAEMON_SET, make(DAEMON_SET))
    other = {"name": "other", "image": "conformance.example.com/none:1"}
    reply = api.patch(path, {"spec": {"template": {"spec": {"containers": [other]}}}})
    assert reply.code == 200, reply
    assert [c["name"] for c in reply.json["spec"]["template"]["spec"]["containers"]] == ["other"]


@pytest.mark.parametrize("content_type", [kube.MERGE, kube.STRATEGIC])
@pytest.mark.parametrize("patch,codes", [("{", (400,)), ("[]", (400, 422, 500)), ({"data": 5}, (400, 422, 500))],
                         ids=["no-json", "no-object", "ill-typed"])
def test_bad_merge_patch(api, make, content_type, patch, codes):
    made = make(CONFIG_MAP)
    reply = api.patch(make.path(CONFIG_MAP, made), patch, content_type)
    assert reply.code in codes and reply.json["kind"] == "Status", reply
    assert api.get(make.path(CONFIG_MAP, made)).json == made


@pytest.mark.parametrize("content_type", ["application/json", "text/plain", "application/patch"])
def test_another_type_is_unsupported(api, make, content_type):
    reply = api.patch(make.path(CONFIG_MAP, make(CONFIG_MAP)), {}, content_type)
    assert reply.code == 415 and reply.json["reason"] == "UnsupportedMediaType", reply
    assert reply.message == "415: Unsupported Media Type"


PRECONDITIONS = {
    "merge": (kube.MERGE, lambda version: {"metadata": {"resourceVersion": version}, "data": {"key": "x"}}),
    "strategic": (kube.STRATEGIC, lambda version: {"metadata": {"resourceVersion": version}, "data": {"key": "x"}}),
    "json": (kube.JSON_PATCH, lambda version: [
        {"op": "replace", "path": "/metadata/resourceVersion", "value": version},
        {"op": "replace", "path": "/data/key", "value": "x"}]),
}


@pytest.mark.parametrize("content_type,patch", PRECONDITIONS.values(), ids=PRECONDITIONS)
def test_a_version_in_a_patch_is_a_precondition(api, make, content_type, patch):
    made = make(CONFIG_MAP)
    path, version = make.path(CONFIG_MAP, made), made["metadata"]["resourceVersion"]
    assert api.patch(path, patch(version), content_type).json["data"]["key"] == "x"
    reply = api.patch(path, patch(version), content_type)
    assert reply.code == 409 and reply.json["reason"] == "Conflict", reply


def test_a_patch_cannot_rename(api, make):
    made = make(CONFIG_MAP)
    reply = api.patch(make.path(CONFIG_MAP, made), {"metadata": {"name": "other"}})
    assert reply.code in (400, 422), reply


def test_a_uid_in_a_patch_is_a_precondition(api, make):
    made = make(CONFIG_MAP)
    reply = api.patch(make.path(CONFIG_MAP, made), {"metadata": {"uid": "11111111-2222-3333-4444-555555555555"}})
    assert reply.code in (409, 422), reply


# -- strategic merge: the pod template of a DaemonSet, which may be changed freely

def template(api, make, spec):
    body = json.loads(json.dumps(DAEMON_SET.body["spec"]))
    body["template"]["spec"].update(spec)
    return make.path(DAEMON_SET, make(DAEMON_SET, spec=body))


def merged(api, path, patch):
    reply = api.patch(path, {"spec": {"template": {"spec": patch}}}, kube.STRATEGIC)
    assert reply.code == 200, reply
    return reply.json["spec"]["template"]["spec"]


IMAGE = "conformance.example.com/none:1"


def container(**fields):
    return {"name": "main", "image": IMAGE, **fields}


def pick(items, *fields):
    return [tuple(item.get(field) for field in fields) for item in items]


LISTS = {
    "containers-by-name": (
        {"containers": [container(), {"name": "side", "image": IMAGE}]},
        {"containers": [{"name": "side", "image": IMAGE + "2"}, {"name": "new", "image": IMAGE}]},
        lambda s: sorted(pick(s["containers"], "name", "image")),
        [("main", IMAGE), ("new", IMAGE), ("side", IMAGE + "2")]),
    "init-containers-by-name": (
        {"initContainers": [{"name": "one", "image": IMAGE}]},
        {"initContainers": [{"name": "one", "command": ["x"]}]},
        lambda s: pick(s["initContainers"], "name", "image", "command"), [("one", IMAGE, ["x"])]),
    "volumes-by-name": (
        {"volumes": [{"name": "a", "emptyDir": {}}]}, {"volumes": [{"name": "b", "emptyDir": {}}]},
        lambda s: sorted(pick(s["volumes"], "name")), [("a",), ("b",)]),
    "volumes-retain-keys": (
        {"volumes": [{"name": "a", "emptyDir": {}}]},
        {"volumes": [{"name": "a", "$retainKeys": ["name", "hostPath"], "hostPath": {"path": "/x"}}]},
        lambda s: [sorted(v) for v in s["volumes"]], [["hostPath", "name"]]),
    "env-by-name": (
        {"containers": [container(env=[{"name": "A", "value": "1"}, {"name": "B", "value": "2"}])]},
        {"containers": [{"name": "main", "env": [{"name": "B", "value": "3"}, {"name": "C", "value": "4"}]}]},
        lambda s: sorted(pick(s["containers"][0]["env"], "name", "value")), [("A", "1"), ("B", "3"), ("C", "4")]),
    "ports-by-container-port": (
        {"containers": [container(ports=[{"containerPort": 80, "name": "web"}])]},
        {"containers": [{"name": "main", "ports": [{"containerPort": 80, "name": "http"}, {"containerPort": 81}]}]},
        lambda s: sorted(pick(s["containers"][0]["ports"], "containerPort", "name")), [(80, "http"), (81, None)]),
    "volume-mounts-by-mount-path": (
        {"volumes": [{"name": "a", "emptyDir": {}}],
         "containers": [container(volumeMounts=[{"name": "a", "mountPath": "/a"}])]},
        {"containers": [{"name": "main", "volumeMounts": [{"name": "a", "mountPath": "/a", "readOnly": True},
                                                          {"name": "a", "mountPath": "/b"}]}]},
        lambda s: sorted(pick(s["containers"][0]["volumeMounts"], "mountPath", "readOnly"), key=str),
        [("/a", True), ("/b", None)]),
    "volume-devices-by-device-path": (
        {"volumes": [{"name": "a", "persistentVolumeClaim": {"claimName": "c"}}],
         "containers": [container(volumeDevices=[{"name": "a", "devicePath": "/dev/a"}])]},
        {"containers": [{"name": "main", "volumeDevices": [{"name": "a", "devicePath": "/dev/a"}]}]},
        lambda s: pick(s["containers"][0]["volumeDevices"], "devicePath"), [("/dev/a",)]),
    "image-pull-secrets-by-name": (
        {"imagePullSecrets": [{"name": "a"}]}, {"imagePullSecrets": [{"name": "b"}]},
        lambda s: sorted(pick(s["imagePullSecrets"], "name")), [("a",), ("b",)]),
    "host-aliases-by-ip": (
        {"hostAliases": [{"ip": "10.0.0.1", "hostnames": ["a"]}]},
        {"hostAliases": [{"ip": "10.0.0.1", "hostnames": ["b"]}, {"ip": "10.0.0.2", "hostnames": ["c"]}]},
        lambda s: sorted(pick(s["hostAliases"], "ip", "hostnames")), [("10.0.0.1", ["b"]), ("10.0.0.2", ["c"])]),
    "topology-spread-by-key": (
        {"topologySpreadConstraints": [{"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}]},
        {"topologySpreadConstraints": [{"topologyKey": "zone", "maxSkew": 2, "whenUnsatisfiable": "DoNotSchedule"},
                                       {"topologyKey": "rack", "maxSkew": 1,
                                        "whenUnsatisfiable": "ScheduleAnyway"}]},
        lambda s: sorted(pick(s["topologySpreadConstraints"], "topologyKey", "maxSkew")),
        [("rack", 1), ("zone", 2)]),
    "tolerations-replaced": (
        {"tolerations": [{"key": "a", "operator": "Exists"}]}, {"tolerations": [{"key": "b", "operator": "Exists"}]},
        lambda s: pick(s["tolerations"], "key"), [("b",)]),
    "command-replaced": (
        {"containers": [container(command=["a", "b"])]}, {"containers": [{"name": "main", "command": ["c"]}]},
        lambda s: s["containers"][0]["command"], ["c"]),
    "patch-delete-of-an-item": (
        {"containers": [container(), {"name": "side", "image": IMAGE}]},
        {"containers": [{"name": "side", "$patch": "delete"}]},
        lambda s: pick(s["containers"], "name"), [("main",)]),
    "patch-replace-of-a-list": (
        {"containers": [container(), {"name": "side", "image": IMAGE}]},
        {"containers": [{"name": "only", "image": IMAGE}, {"$patch": "replace"}]},
        lambda s: pick(s["containers"], "name"), [("only",)]),
    "patch-replace-of-an-object": (
        {"securityContext": {"runAsUser": 5, "fsGroup": 6}},
        {"securityContext": {"$patch": "replace", "runAsGroup": 7}},
        lambda s: s["securityContext"], {"runAsGroup": 7}),
    "patch-delete-of-an-object": (
        {"securityContext": {"runAsUser": 5}}, {"securityContext": {"$patch": "delete"}},
        lambda s: s.get("securityContext") or {}, {}),
    "set-element-order": (
        {"containers": [container(), {"name": "side", "image": IMAGE}]},
        {"$setElementOrder/containers": [{"name": "side"}, {"name": "main"}],
         "containers": [{"name": "main", "image": IMAGE + "3"}]},
        lambda s: pick(s["containers"], "name", "image"), [("side", IMAGE), ("main", IMAGE + "3")]),
    "null-deletes-a-field": (
        {"containers": [container(command=["a"])]}, {"containers": [{"name": "main", "command": None}]},
        lambda s: "command" in s["containers"][0], False),
    "retain-keys-of-an-object": (
        {"securityContext": {"runAsUser": 5, "fsGroup": 6}}, {"nodeSelector": {"more": "yes"}},
        lambda s: s["nodeSelector"]["more"], "yes"),
}


@pytest.mark.parametrize("spec,patch,see,wanted", LISTS.values(), ids=LISTS)
def test_strategic_merge_of_a_pod_template(api, make, spec, patch, see, wanted):
    path = template(api, make, spec)
    assert see(merged(api, path, patch)) == wanted
    # The merged object is what the server stores.
    assert see(api.get(path).json["spec"]["template"]["spec"]) == wanted


BAD_DIRECTIVES = {
    "merge-of-an-object": ({"securityContext": {"$patch": "merge", "fsGroup": 6}},
                           "unknown patch type: merge in map: map[$patch:merge fsGroup:6]"),
    "merge-of-an-item": ({"containers": [{"name": "main", "$patch": "merge"}]},
                         "merging lists cannot yet be specified in the patch"),
    "unknown": ({"containers": [{"name": "main", "$patch": "frob", "args": ["a", "b"]}]},
                "unknown patch type: frob in map: map[$patch:frob args:[a b] name:main]"),
    "no-key": ({"containers": [{"image": IMAGE}]},
               f"map: map[image:{IMAGE}] does not contain declared merge key: name"),
}


@pytest.mark.parametrize("patch,words", BAD_DIRECTIVES.values(), ids=BAD_DIRECTIVES)
def test_a_directive_that_does_not_exist(api, make, patch, words):
    """These errors have no reason."""
    path = template(api, make, {"securityContext": {"runAsUser": 5}})
    reply = api.patch(path, {"spec": {"template": {"spec": patch}}}, kube.STRATEGIC)
    assert reply.code == 500 and reply.message == words and not reply.json.get("reason"), reply


ORDERS = {
    "new-items-come-first": ("abc", "xy", None, "xyabc"),
    "known-items-take-the-order-of-the-patch": ("abcd", "da", None, "bcda"),
    "new-and-known-items": ("abc", "cxa", None, "bcxa"),
    "an-order-without-a-patch": ("abc", "", "cb", "acb"),
    "an-order-with-a-patch": ("abc", "x", "xc", "xabc"),
}


@pytest.mark.parametrize("before,patch,order,after", ORDERS.values(), ids=ORDERS)
def test_strategic_merge_sorts_what_it_merges(api, make, before, patch, order, after):
    def items(names):
        return [{"name": name, "image": IMAGE} for name in names]
    path = template(api, make, {"containers": items(before)})
    spec = {"containers": items(patch)} if patch else {}
    if order:
        spec["$setElementOrder/containers"] = [{"name": name} for name in order]
    assert "".join(one["name"] for one in merged(api, path, spec)["containers"]) == after


def test_retain_keys_of_the_update_strategy(api, make):
    body = {**DAEMON_SET.body["spec"], "updateStrategy": {"type": "RollingUpdate",
                                                          "rollingUpdate": {"maxUnavailable": 2}}}
    path = make.path(DAEMON_SET, make(DAEMON_SET, spec=body))
    reply = api.patch(path, {"spec": {"updateStrategy": {"type": "OnDelete", "rollingUpdate": None}}}, kube.STRATEGIC)
    assert reply.json["spec"]["updateStrategy"] == {"type": "OnDelete"}, reply


CONDITION = {"status": "True", "lastTransitionTime": "2024-01-01T00:00:00Z", "reason": "R", "message": "m"}


@pytest.mark.parametrize("kind", [POD, NODE, CLAIM, NAMESPACE], ids=str)
def test_conditions_merge_by_type(api, make, kind):
    path = make.path(kind, make(kind)) + "/status"
    for one in ("First", "Second"):
        reply = api.patch(path, {"status": {"conditions": [{"type": one, **CONDITION}]}}, kube.STRATEGIC)
        assert reply.code == 200, reply
    reply = api.patch(path, {"status": {"conditions": [{"type": "First", "status": "False"}]}}, kube.STRATEGIC)
    found = {c["type"]: c["status"] for c in reply.json["status"]["conditions"]}
    assert found["First"] == "False" and found["Second"] == "True"


def status_list(api, make, kind, field, first, second):
    path = make.path(kind, make(kind)) + "/status"
    assert api.patch(path, {"status": {field: first}}, kube.STRATEGIC).code == 200
    reply = api.patch(path, {"status": {field: second}}, kube.STRATEGIC)
    assert reply.code == 200, reply
    return reply.json["status"][field]


def test_node_addresses_merge_by_type(api, make):
    found = status_list(api, make, NODE, "addresses", [{"type": "InternalIP", "address": "10.0.0.1"}],
                        [{"type": "Hostname", "address": "a"}, {"type": "InternalIP", "address": "10.0.0.2"}])
    assert sorted(pick(found, "type", "address")) == [("Hostname", "a"), ("InternalIP", "10.0.0.2")]


def test_volumes_attached_are_replaced(api, make):
    found = status_list(api, make, NODE, "volumesAttached", [{"name": "a", "devicePath": "/a"}],
                        [{"name": "b", "devicePath": "/b"}])
    assert pick(found, "name") == [("b",)]


def test_taints_are_replaced(api, make):
    made = make(NODE, spec={"taints": [{"key": "a", "effect": "NoSchedule"}]})
    reply = api.patch(make.path(NODE, made), {"spec": {"taints": [{"key": "b", "effect": "NoSchedule"}]}},
                      kube.STRATEGIC)
    # A cluster adds its own taints to a node that does not report.
    keys = {t["key"] for t in reply.json["spec"]["taints"] if not t["key"].startswith("node.")}
    assert keys == {"b"}


def test_pod_ips_merge_by_ip(api, make):
    path = make.path(POD, make(POD)) + "/status"
    first = api.patch(path, {"status": {"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}]}}, kube.STRATEGIC)
    assert first.code == 200, first
    reply = api.patch(path, {"status": {"podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]}}, kube.STRATEGIC)
    assert pick(reply.json["status"]["podIPs"], "ip") == [("10.0.0.1",), ("fd00::1",)]
    # A new address comes first, and then podIP, which does not agree with it, is the only one.
    reply = api.patch(path, {"status": {"podIPs": [{"ip": "fd00::2"}]}}, kube.STRATEGIC)
    assert pick(reply.json["status"]["podIPs"], "ip") == [("10.0.0.1",)]


def test_one_pod_ip_sets_the_other(api, make):
    path = make.path(POD, make(POD)) + "/status"
    status = api.patch(path, {"status": {"podIP": "10.0.0.1"}}).json["status"]
    assert status["podIPs"] == [{"ip": "10.0.0.1"}]
    both = [{"ip": "10.0.0.2"}, {"ip": "fd00::1"}]
    status = api.patch(path, {"status": {"podIP": None, "podIPs": both}}).json["status"]
    assert status["podIP"] == "10.0.0.2" and status["podIPs"] == both


def test_secrets_of_an_account_merge_by_name(api, make):
    made = make(SERVICE_ACCOUNT, secrets=[{"name": "a"}])
    reply = api.patch(make.path(SERVICE_ACCOUNT, made), {"secrets": [{"name": "b"}]}, kube.STRATEGIC)
    assert {"a", "b"} <= {one["name"] for one in reply.json["secrets"]}, reply


def test_drivers_of_a_csi_node_merge_by_name(api, make):
    kind = of("CSINode")
    path = make.path(kind, make(kind))
    reply = api.patch(path, {"spec": {"drivers": [{"name": "two.example.com", "nodeID": "n", "topologyKeys": None}]}},
                      kube.STRATEGIC)
    assert len(reply.json["spec"]["drivers"]) == 2, reply
    reply = api.patch(path, {"spec": {"drivers": [{"name": "two.example.com", "$patch": "delete"}]}}, kube.STRATEGIC)
    assert len(reply.json["spec"]["drivers"]) == 1, reply


def owner(uid, name="a"):
    return {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid}


def test_owner_references_merge_by_uid(api, make):
    made = make(CONFIG_MAP)
    owners = [make(CONFIG_MAP)["metadata"] for _ in range(2)]
    path = make.path(CONFIG_MAP, made)
    for one in owners:
        reply = api.patch(path, {"metadata": {"ownerReferences": [owner(one["uid"], one["name"])]}}, kube.STRATEGIC)
    assert len(reply.json["metadata"]["ownerReferences"]) == 2, reply
    reply = api.patch(path, {"metadata": {"ownerReferences": [{"uid": owners[0]["uid"], "$patch": "delete"}]}},
                      kube.STRATEGIC)
    assert pick(reply.json["metadata"]["ownerReferences"], "uid") == [(owners[1]["uid"],)]


def test_finalizers_merge_as_a_set(api, make):
    made = make(CONFIG_MAP)
    path = make.path(CONFIG_MAP, made)
    for names in (["a.example.com/x"], ["a.example.com/y", "a.example.com/x"]):
        reply = api.patch(path, {"metadata": {"finalizers": names}}, kube.STRATEGIC)
    assert sorted(reply.json["metadata"]["finalizers"]) == ["a.example.com/x", "a.example.com/y"], reply
    reply = api.patch(path, {"metadata": {"$deleteFromPrimitiveList/finalizers": ["a.example.com/x"]}},
                      kube.STRATEGIC)
    assert reply.json["metadata"]["finalizers"] == ["a.example.com/y"], reply


def test_access_modes_are_replaced(api, make):
    volume = of("PersistentVolume")
    path = make.path(volume, make(volume))
    reply = api.patch(path, {"spec": {"accessModes": ["ReadWriteMany"]}}, kube.STRATEGIC)
    assert reply.json["spec"]["accessModes"] == ["ReadWriteMany"], reply


def test_directives_are_not_stored(api, make):
    path = make.path(CONFIG_MAP, make(CONFIG_MAP))
    reply = api.patch(path, {"data": {"$patch": "replace", "only": "x"}}, kube.STRATEGIC)
    assert reply.json["data"] == {"only": "x"}, reply
