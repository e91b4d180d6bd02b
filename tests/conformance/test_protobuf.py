"""The documented rules of protobuf: the envelope, and the numbers of fields, as typed Go clients use them."""
import base64
import struct

import pytest
from kinds import CLAIM, CONFIG_MAP, DRIVER, LEASE, NODE, NOWHERE, POD, SECRET, of
from lib import kube, protobuf
from lib.protobuf import at, decode, encode, entries, envelope, unwrap


def quantity(text):
    return {1: text}


POD_FIELDS = {
    1: [{1: "data", 2: {10: {1: "claim", 2: True}}}, {1: "scratch", 2: {2: {}}},
        {1: "files", 2: {19: {1: {1: "settings"}}}}, {1: "keys", 2: {6: {1: "hush"}}},
        {1: "host", 2: {1: {1: "/x"}}}, {1: "flex", 2: {12: {1: "example.com/flex", 2: "ext4"}}},
        {1: "inline", 2: {28: {1: DRIVER, 2: True, 3: "ext4", 4: entries({"a": "b"}), 5: {1: "secret"}}}}],
    2: [{1: "main", 2: "conformance.example.com/none:1", 3: ["sh"], 4: ["-c", "true"], 5: "/work",
         6: [{1: "web", 3: 80}], 7: [{1: "A", 2: "b"}], 8: {1: entries({"cpu": quantity("1")})},
         9: [{1: "scratch", 2: True, 3: "/data", 4: "sub"}], 15: {4: 1000},
         21: [{1: "data", 2: "/dev/x"}]}],
    3: "Never", 4: 7, 7: entries(NOWHERE), 11: True, 14: {5: 99},
    19: DRIVER, 20: [{1: "init", 2: "conformance.example.com/none:1"}], 22: [{1: "k", 2: "Exists"}],
}
POD_JSON = {
    ("spec", "volumes", 0): {"name": "data", "persistentVolumeClaim": {"claimName": "claim", "readOnly": True}},
    ("spec", "volumes", 1): {"name": "scratch", "emptyDir": {}},
    ("spec", "volumes", 2, "configMap", "name"): "settings",
    ("spec", "volumes", 3, "secret", "secretName"): "hush",
    ("spec", "volumes", 4, "hostPath", "path"): "/x",
    ("spec", "volumes", 5, "flexVolume"): {"driver": "example.com/flex", "fsType": "ext4"},
    ("spec", "volumes", 6, "csi"): {"driver": DRIVER, "readOnly": True, "fsType": "ext4",
                                    "volumeAttributes": {"a": "b"}, "nodePublishSecretRef": {"name": "secret"}},
    ("spec", "containers", 0, "command"): ["sh"], ("spec", "containers", 0, "args"): ["-c", "true"],
    ("spec", "containers", 0, "workingDir"): "/work", ("spec", "containers", 0, "env"): [{"name": "A", "value": "b"}],
    ("spec", "containers", 0, "ports", 0, "containerPort"): 80,
    ("spec", "containers", 0, "resources", "limits"): {"cpu": "1"},
    ("spec", "containers", 0, "volumeMounts", 0): {"name": "scratch", "readOnly": True, "mountPath": "/data",
                                                   "subPath": "sub"},
    ("spec", "containers", 0, "securityContext", "runAsUser"): 1000,
    ("spec", "containers", 0, "volumeDevices", 0): {"name": "data", "devicePath": "/dev/x"},
    ("spec", "restartPolicy"): "Never", ("spec", "terminationGracePeriodSeconds"): 7,
    ("spec", "nodeSelector"): NOWHERE, ("spec", "hostNetwork"): True,
    ("spec", "securityContext", "fsGroup"): 99, ("spec", "schedulerName"): DRIVER,
    ("spec", "initContainers", 0, "name"): "init", ("spec", "tolerations", 0, "key"): "k",
}

# Kind, its fields besides metadata (1), and what JSON then shows.
OBJECTS = {
    "ConfigMap": (CONFIG_MAP, {2: entries({"key": "value"}), 3: entries({"bin": b"\x00\xff"}), 4: True},
                  {("data", "key"): "value", ("binaryData", "bin"): "AP8=", ("immutable",): True}),
    "Secret": (SECRET, {2: entries({"key": b"value"}), 3: "example.com/type", 4: entries({"text": "plain"})},
               {("data", "key"): "dmFsdWU=", ("data", "text"): base64.b64encode(b"plain").decode(),
                ("type",): "example.com/type"}),
    "Pod": (POD, {2: POD_FIELDS}, POD_JSON),
    "PersistentVolumeClaim": (
        CLAIM, {2: {1: ["ReadWriteOnce"], 2: {2: entries({"storage": quantity("1Gi")})},
                    4: {1: entries({"a": "b"})}, 5: DRIVER, 6: "Block"}},
        {("spec", "accessModes"): ["ReadWriteOnce"], ("spec", "resources", "requests", "storage"): "1Gi",
         ("spec", "selector", "matchLabels"): {"a": "b"}, ("spec", "storageClassName"): DRIVER,
         ("spec", "volumeMode"): "Block"}),
    "PersistentVolume-csi": (
        of("PersistentVolume"),
        {2: {1: entries({"storage": quantity("1Gi")}),
             2: {22: {1: DRIVER, 2: "handle", 3: True, 4: "ext4", 5: entries({"a": "b"}), 6: {1: "s1", 2: "n"},
                      7: {1: "s2", 2: "n"}, 8: {1: "s3", 2: "n"}, 9: {1: "s4", 2: "n"}, 10: {1: "s5", 2: "n"}}},
             3: ["ReadWriteOnce", "ReadOnlyMany"], 5: "Retain", 6: DRIVER, 7: ["noatime"], 8: "Filesystem"}},
        {("spec", "capacity", "storage"): "1Gi", ("spec", "csi"): {
            "driver": DRIVER, "volumeHandle": "handle", "readOnly": True, "fsType": "ext4",
            "volumeAttributes": {"a": "b"}, "controllerPublishSecretRef": {"name": "s1", "namespace": "n"},
            "nodeStageSecretRef": {"name": "s2", "namespace": "n"},
            "nodePublishSecretRef": {"name": "s3", "namespace": "n"},
            "controllerExpandSecretRef": {"name": "s4", "namespace": "n"},
            "nodeExpandSecretRef": {"name": "s5", "namespace": "n"}},
         ("spec", "accessModes"): ["ReadWriteOnce", "ReadOnlyMany"], ("spec", "mountOptions"): ["noatime"],
         ("spec", "persistentVolumeReclaimPolicy"): "Retain", ("spec", "storageClassName"): DRIVER,
         ("spec", "volumeMode"): "Filesystem"}),
    "PersistentVolume-flex": (
        of("PersistentVolume"),
        {2: {1: entries({"storage": quantity("1Gi")}),
             2: {12: {1: "example.com/flex", 2: "ext4", 3: {1: "s", 2: "n"}, 4: True, 5: entries({"a": "b"})}},
             3: ["ReadWriteOnce"], 5: "Retain"}},
        {("spec", "flexVolume"): {"driver": "example.com/flex", "fsType": "ext4", "readOnly": True,
                                  "secretRef": {"name": "s", "namespace": "n"}, "options": {"a": "b"}}}),
    "Node": (NODE, {2: {4: True, 5: [{1: "key", 2: "value", 3: "NoSchedule"}]}},
             {("spec", "unschedulable"): True}),
    "Namespace": (of("Namespace"), {}, {("status", "phase"): "Active"}),
    "ServiceAccount": (of("ServiceAccount"), {}, {}),
    "Endpoints": (of("Endpoints"),
                  {2: [{1: [{1: "10.0.0.7", 2: {1: "Pod", 2: "n", 3: "p"}, 3: "host", 4: "node"}],
                        2: [{1: "10.0.0.8"}], 3: [{1: "one", 2: 24007, 3: "TCP", 4: "example.com/x"}]}]},
                  {("subsets", 0): {
                      "addresses": [{"ip": "10.0.0.7", "hostname": "host", "nodeName": "node",
                                     "targetRef": {"kind": "Pod", "namespace": "n", "name": "p"}}],
                      "notReadyAddresses": [{"ip": "10.0.0.8"}],
                      "ports": [{"name": "one", "port": 24007, "protocol": "TCP",
                                 "appProtocol": "example.com/x"}]}}),
    "Event": (of("Event"), {2: {1: "Pod", 2: "NS", 3: "some-pod"}, 3: "Tested", 4: "a test", 5: {1: "conformance"},
                            6: {1: 1704067200}, 7: {1: 1704067200}, 8: 3, 9: "Normal", 12: "Act",
                            14: "reporter", 15: "instance"},
              {("involvedObject", "kind"): "Pod", ("reason",): "Tested", ("message",): "a test",
               ("source", "component"): "conformance", ("firstTimestamp",): "2024-01-01T00:00:00Z", ("count",): 3,
               ("type",): "Normal", ("action",): "Act", ("reportingComponent",): "reporter",
               ("reportingInstance",): "instance"}),
    "Lease": (LEASE, {2: {1: "me", 2: 40, 3: {1: 1704067200, 2: 120000000}, 4: {1: 1704067201}, 5: 6}},
              {("spec",): {"holderIdentity": "me", "leaseDurationSeconds": 40,
                           "acquireTime": "2024-01-01T00:00:00.120000Z",
                           "renewTime": "2024-01-01T00:00:01.000000Z", "leaseTransitions": 6}}),
    "StorageClass": (of("StorageClass"),
                     {2: DRIVER, 3: entries({"a": "b"}), 4: "Retain", 5: ["noatime"], 6: True,
                      7: "WaitForFirstConsumer", 8: [{1: [{1: "zone", 2: ["a", "b"]}]}]},
                     {("provisioner",): DRIVER, ("parameters",): {"a": "b"}, ("reclaimPolicy",): "Retain",
                      ("mountOptions",): ["noatime"], ("allowVolumeExpansion",): True,
                      ("volumeBindingMode",): "WaitForFirstConsumer",
                      ("allowedTopologies", 0, "matchLabelExpressions", 0): {"key": "zone", "values": ["a", "b"]}}),
    "VolumeAttachment": (of("VolumeAttachment"), {2: {1: DRIVER, 2: {1: "volume"}, 3: "conformance-nowhere"}},
                         {("spec",): {"attacher": DRIVER, "source": {"persistentVolumeName": "volume"},
                                      "nodeName": "conformance-nowhere"}}),
    "CSINode": (of("CSINode"), {2: {1: [{1: DRIVER, 2: "node", 3: ["zone"], 4: {1: 5}}]}},
                {("spec", "drivers", 0): {"name": DRIVER, "nodeID": "node", "topologyKeys": ["zone"],
                                          "allocatable": {"count": 5}}}),
    "CSIDriver": (of("CSIDriver"),
                  {2: {1: False, 2: True, 3: ["Ephemeral"], 4: True, 5: "File", 6: [{1: "audience", 2: 3600}],
                       7: True, 8: True}},
                  {("spec", "attachRequired"): False, ("spec", "podInfoOnMount"): True,
                   ("spec", "volumeLifecycleModes"): ["Ephemeral"], ("spec", "storageCapacity"): True,
                   ("spec", "fsGroupPolicy"): "File", ("spec", "requiresRepublish"): True,
                   ("spec", "tokenRequests", 0): {"audience": "audience", "expirationSeconds": 3600},
                   ("spec", "seLinuxMount"): True}),
    "CSIStorageCapacity": (of("CSIStorageCapacity"),
                           {2: {1: entries({"zone": "a"})}, 3: DRIVER, 4: quantity("5Gi"), 5: quantity("1Gi")},
                           {("nodeTopology", "matchLabels"): {"zone": "a"}, ("storageClassName",): DRIVER,
                            ("capacity",): "5Gi", ("maximumVolumeSize",): "1Gi"}),
    "VolumeAttributesClass": (of("VolumeAttributesClass"), {2: DRIVER, 3: entries({"iops": "1"})},
                              {("driverName",): DRIVER, ("parameters",): {"iops": "1"}}),
    "RuntimeClass": (of("RuntimeClass"), {2: "runc", 3: {1: entries({"cpu": quantity("10m")})},
                                          4: {1: entries({"a": "b"})}},
                     {("handler",): "runc", ("overhead", "podFixed"): {"cpu": "10m"},
                      ("scheduling", "nodeSelector"): {"a": "b"}}),
}
EACH = pytest.mark.parametrize("kind,fields,shown", OBJECTS.values(), ids=OBJECTS)


def message(make, kind, fields):
    """Gives a new object's name and message, in which its own namespace replaces NS."""
    name = make.name(kind.singular)
    text = dict(fields)
    if kind.kind == "Event":
        text[2] = {**fields[2], 2: make.ns}
    return name, {1: {1: name, **({3: make.ns} if kind.namespaced else {}), 11: entries({"app": "x"})}, **text}


def post(api, make, kind, fields, **options):
    name, body = message(make, kind, fields)
    reply = api.post(kind.path(make.ns), envelope(kind.api_version, kind.kind, body), content_type=kube.PROTOBUF,
                     **options)
    make.clean_later(kind.path(make.ns, name))
    return name, reply


def find(item, path):
    for step in path:
        item = item[step]
    return item


@EACH
def test_an_object_is_read_from_protobuf(api, make, kind, fields, shown):
    name, reply = post(api, make, kind, fields)
    assert reply.code == 201, reply
    item = api.get(kind.path(make.ns, name)).json
    assert item["metadata"]["name"] == name and item["metadata"]["labels"]["app"] == "x"
    for path, value in shown.items():
        assert find(item, path) == value, path


@EACH
def test_an_object_is_written_as_protobuf(api, make, kind, fields, shown):
    """The object in the reply has the same values at its field numbers as the object that was sent."""
    name, reply = post(api, make, kind, fields, accept=kube.PROTOBUF)
    assert reply.code == 201 and reply.type.startswith(kube.PROTOBUF), reply
    version, word, raw = unwrap(reply.body)
    assert (version, word) == (kind.api_version, kind.kind)
    assert at(raw, 1, 1) == name.encode() and at(raw, 1, 5) and at(raw, 1, 6).isdigit() and at(raw, 1, 8)
    if kind.kind == "Secret":
        fields = {number: value for number, value in fields.items() if number != 4}  # goes into data
    if kind.kind == "Event":
        fields = {**fields, 2: {**fields[2], 2: make.ns}}
    contains(raw, fields, ())


# Items that the server adds to a list, and further entries of a map, are allowed.
def contains(raw, fields, path):
    found = decode(raw)
    for number, wanted in fields.items():
        here = (*path, number)
        values = found.get(number, [])
        for one in wanted if isinstance(wanted, list) else [wanted]:
            if isinstance(one, dict):
                assert any(matches(value, one) for value in values), (here, one, values)
            elif isinstance(one, int):
                assert int(one) in values or (not one and not values), (here, one, values)
            else:
                assert (one.encode() if isinstance(one, str) else one) in values, (here, one, values)


def matches(raw, fields):
    try:
        contains(raw, fields, ())
        return True
    except (AssertionError, IndexError, TypeError):
        return False


@EACH
def test_what_is_read_as_protobuf_can_be_put_back(api, make, kind, fields, shown):
    name, reply = post(api, make, kind, fields)
    assert reply.code == 201, reply
    path = kind.path(make.ns, name)
    for _ in range(5):  # controllers may write meanwhile, and the first update may store what a read fills in
        read = api.get(path, accept=kube.PROTOBUF)
        reply = api.put(path, read.body, content_type=kube.PROTOBUF, accept=kube.PROTOBUF)
        assert reply.code in (200, 409), reply
        if reply.code == 200 and at(unwrap(reply.body)[2], 1, 6) == at(unwrap(read.body)[2], 1, 6):
            return  # nothing changed
    raise AssertionError(f"each update changes it: {reply}")


@EACH
def test_a_list_as_protobuf(api, make, kind, fields, shown):
    name, _ = post(api, make, kind, fields)
    reply = api.get(kind.path(make.ns), accept=kube.PROTOBUF, fieldSelector=f"metadata.name={name}")
    assert reply.code == 200 and reply.type.startswith(kube.PROTOBUF), reply
    version, word, raw = unwrap(reply.body)
    assert (version, word) == (kind.api_version, f"{kind.kind}List")
    assert at(raw, 1, 2).isdigit()  # metadata.resourceVersion
    assert at(raw, 2, 1, 1) == name.encode()  # items[].metadata.name


def test_the_accept_of_typed_clients(api, make):
    """These clients prefer protobuf and also accept JSON."""
    made = make(CONFIG_MAP)
    reply = api.get(make.path(CONFIG_MAP, made), accept=f"{kube.PROTOBUF},application/json")
    assert reply.type.startswith(kube.PROTOBUF)
    reply = api.get(make.path(CONFIG_MAP, made), accept=f"application/json,{kube.PROTOBUF}")
    assert reply.type.startswith("application/json")


def test_an_error_as_protobuf(api, make):
    reply = api.get(CONFIG_MAP.path(make.ns, "no-such"), accept=kube.PROTOBUF)
    assert reply.code == 404 and reply.type.startswith(kube.PROTOBUF), reply
    version, word, raw = unwrap(reply.body)
    assert (version, word) == ("v1", "Status")
    assert at(raw, 2) == b"Failure" and at(raw, 3) == b'configmaps "no-such" not found'
    assert at(raw, 4) == b"NotFound" and at(raw, 6) == 404
    assert at(raw, 5, 1) == b"no-such" and at(raw, 5, 3) == b"configmaps"


def test_a_watch_as_protobuf(api, make):
    made = make(CONFIG_MAP)
    name = made["metadata"]["name"]
    with api.watch(CONFIG_MAP.path(make.ns), f"{kube.PROTOBUF};stream=watch",
                   fieldSelector=f"metadata.name={name}") as watch:
        assert watch.response.headers["Content-Type"].replace(" ", "").startswith(f"{kube.PROTOBUF};stream=watch")
        types = []
        for change in ("patch", "delete", None):
            (size,) = struct.unpack(">I", watch.bytes(4))
            event = watch.bytes(size)
            types.append(at(event, 1).decode())
            version, word, raw = unwrap(at(event, 2, 1))
            assert (version, word) == ("v1", "ConfigMap") and at(raw, 1, 1) == name.encode()
            if change == "patch":
                api.patch(make.path(CONFIG_MAP, made), {"data": {"a": "b"}})
            elif change == "delete":
                api.delete(make.path(CONFIG_MAP, made))
    assert types == ["ADDED", "MODIFIED", "DELETED"]


def test_delete_options_as_protobuf(api, make):
    made = make(CONFIG_MAP)
    path = make.path(CONFIG_MAP, made)
    wrong = envelope("v1", "DeleteOptions", {2: {1: "11111111-2222-3333-4444-555555555555"}})
    assert api.delete(path, wrong, content_type=kube.PROTOBUF).code == 409
    right = envelope("v1", "DeleteOptions", {1: 0, 2: {1: made["metadata"]["uid"]}, 4: "Background"})
    assert api.delete(path, right, content_type=kube.PROTOBUF).code == 200
    assert api.get(path).code == 404


def test_reviews_and_tokens_as_protobuf(api, make):
    review = envelope("authorization.k8s.io/v1", "SelfSubjectAccessReview",
                      {2: {1: {1: make.ns, 2: "get", 5: "pods"}}})
    reply = api.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review, content_type=kube.PROTOBUF,
                     accept=kube.PROTOBUF)
    assert reply.code == 201 and at(unwrap(reply.body)[2], 3, 1) == 1, reply
    account = make(of("ServiceAccount"))
    request = envelope("authentication.k8s.io/v1", "TokenRequest", {2: {1: ["audience"], 4: 3600}})
    reply = api.post(make.path(of("ServiceAccount"), account) + "/token", request, content_type=kube.PROTOBUF,
                     accept=kube.PROTOBUF)
    assert reply.code == 201 and at(unwrap(reply.body)[2], 3, 1).count(b".") == 2, reply


BAD_BODIES = {
    "no-magic": encode({1: {1: "v1", 2: "ConfigMap"}, 2: b""}),
    "cut-off": envelope("v1", "ConfigMap", {1: {1: "name"}})[:-2],
    "lying-length": protobuf.MAGIC + b"\x0a\xff\xff\xff\xff\x7f",
    "another-kind": envelope("v1", "Secret", {1: {1: "name"}}),
    "no-bytes": b"",
    "wrong-wire-type": envelope("v1", "ConfigMap", {1: 5}),
}


@pytest.mark.parametrize("body", BAD_BODIES.values(), ids=BAD_BODIES)
def test_a_broken_body_is_a_bad_request(api, make, body):
    reply = api.post(CONFIG_MAP.path(make.ns), body, content_type=kube.PROTOBUF)
    assert reply.code == 400 and reply.json["reason"] == "BadRequest", reply


def test_unknown_numbers_are_skipped(api, make):
    name, reply = post(api, make, CONFIG_MAP, {2: entries({"a": "b"}), 1000: "from the future"},
                       fieldValidation="Strict")
    assert reply.code == 201 and reply.json["data"] == {"a": "b"}, reply


def test_a_custom_resource_is_no_protobuf(api, make):
    """Definitions are served as protobuf, and the objects that they define are not."""
    reply = api.get("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", accept=kube.PROTOBUF)
    assert reply.code == 200 and unwrap(reply.body)[1] == "CustomResourceDefinitionList", reply
