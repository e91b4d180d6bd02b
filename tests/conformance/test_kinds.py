"""The documented rules of each kind: its defaults, what it refuses, and its immutable fields."""
import base64
import time

import kinds
import pytest
from kinds import (ATTACHMENT, CLAIM, CONFIG_MAP, DAEMON_SET, DRIVER, EVENT, LEASE, NAMESPACE, POD, SECRET,
                   SERVICE_ACCOUNT, STORAGE_CLASS, VOLUME, of)

CSI_DRIVER, CSI_NODE, CAPACITY = of("CSIDriver"), of("CSINode"), of("CSIStorageCapacity")
ATTRIBUTES, RUNTIME, REVISION = of("VolumeAttributesClass"), of("RuntimeClass"), of("ControllerRevision")
NEW_EVENT = of("Event", "events.k8s.io")


def find(item, path):
    for step in path.split("."):
        item = item[int(step)] if step.isdecimal() else item[step]
    return item


DEFAULTS = {
    "class-reclaim": (STORAGE_CLASS, {}, "reclaimPolicy", "Delete"),
    "class-binding": (STORAGE_CLASS, {}, "volumeBindingMode", "Immediate"),
    "driver-attach": (CSI_DRIVER, {}, "spec.attachRequired", True),
    "driver-pod-info": (CSI_DRIVER, {}, "spec.podInfoOnMount", False),
    "driver-capacity": (CSI_DRIVER, {}, "spec.storageCapacity", False),
    "driver-republish": (CSI_DRIVER, {}, "spec.requiresRepublish", False),
    "driver-selinux": (CSI_DRIVER, {}, "spec.seLinuxMount", False),
    "driver-fs-group": (CSI_DRIVER, {}, "spec.fsGroupPolicy", "ReadWriteOnceWithFSType"),
    "driver-modes": (CSI_DRIVER, {}, "spec.volumeLifecycleModes", ["Persistent"]),
    "volume-phase": (VOLUME, {}, "status.phase", "Pending"),
    "volume-mode": (VOLUME, {}, "spec.volumeMode", "Filesystem"),
    "volume-reclaim": (VOLUME, {"spec": {k: v for k, v in kinds.VOLUME_SPEC.items()
                                         if k != "persistentVolumeReclaimPolicy"}},
                       "spec.persistentVolumeReclaimPolicy", "Retain"),
    "claim-phase": (CLAIM, {}, "status.phase", "Pending"),
    "claim-mode": (CLAIM, {}, "spec.volumeMode", "Filesystem"),
    "claim-protection": (CLAIM, {}, "metadata.finalizers", ["kubernetes.io/pvc-protection"]),
    "pod-restart": (POD, {}, "spec.restartPolicy", "Always"),
    "pod-dns": (POD, {}, "spec.dnsPolicy", "ClusterFirst"),
    "pod-grace": (POD, {}, "spec.terminationGracePeriodSeconds", 30),
    "pod-scheduler": (POD, {"spec": {k: v for k, v in kinds.POD_SPEC.items() if k != "schedulerName"}},
                      "spec.schedulerName", "default-scheduler"),
    "pod-account": (POD, {}, "spec.serviceAccountName", "default"),
    "pod-security-context": (POD, {}, "spec.securityContext", {}),
    "pod-phase": (POD, {}, "status.phase", "Pending"),
    "pod-pull-policy": (POD, {}, "spec.containers.0.imagePullPolicy", "IfNotPresent"),
    "pod-pull-policy-of-latest": (POD, {"spec": {**kinds.POD_SPEC, "containers": [
        {"name": "main", "image": "conformance.example.com/none"}]}}, "spec.containers.0.imagePullPolicy", "Always"),
    "pod-termination-path": (POD, {}, "spec.containers.0.terminationMessagePath", "/dev/termination-log"),
    "pod-termination-policy": (POD, {}, "spec.containers.0.terminationMessagePolicy", "File"),
    "pod-requests-from-limits": (POD, {"spec": {**kinds.POD_SPEC, "containers": [
        {**kinds.POD_SPEC["containers"][0], "resources": {"limits": {"cpu": "1"}}}]}},
        "spec.containers.0.resources.requests.cpu", "1"),
    "secret-type": (SECRET, {}, "type", "Opaque"),
    "secret-string-data": (SECRET, {"stringData": {"text": "plain"}}, "data.text",
                           base64.b64encode(b"plain").decode()),
    "namespace-phase": (NAMESPACE, {}, "status.phase", "Active"),
    "namespace-finalizer": (NAMESPACE, {}, "spec.finalizers", ["kubernetes"]),
    "daemon-set-strategy": (DAEMON_SET, {}, "spec.updateStrategy.type", "RollingUpdate"),
    "daemon-set-unavailable": (DAEMON_SET, {}, "spec.updateStrategy.rollingUpdate.maxUnavailable", 1),
    "daemon-set-surge": (DAEMON_SET, {}, "spec.updateStrategy.rollingUpdate.maxSurge", 0),
    "daemon-set-history": (DAEMON_SET, {}, "spec.revisionHistoryLimit", 10),
    "daemon-set-template": (DAEMON_SET, {}, "spec.template.spec.restartPolicy", "Always"),
    "attachment-status": (ATTACHMENT, {}, "status.attached", False),
}


@pytest.mark.parametrize("kind,fields,path,wanted", DEFAULTS.values(), ids=DEFAULTS)
def test_default(api, make, kind, fields, path, wanted):
    assert find(make(kind, **fields), path) == wanted


def test_string_data_is_not_given_back(make):
    assert "stringData" not in make(SECRET, stringData={"a": "b"})


def test_a_namespace_is_labelled_with_its_name(make):
    made = make(NAMESPACE)
    assert made["metadata"]["labels"]["kubernetes.io/metadata.name"] == made["metadata"]["name"]


def test_a_namespace_gets_its_default_account(api, make):
    space = make(NAMESPACE)["metadata"]["name"]
    deadline = time.monotonic() + 15
    while api.get(SERVICE_ACCOUNT.path(space, "default")).code != 200:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_volume_gets_its_protection(api, make):
    path = make.path(VOLUME, make(VOLUME))
    deadline = time.monotonic() + 15
    while "kubernetes.io/pv-protection" not in api.get(path).json["metadata"].get("finalizers", []):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_quantities_are_kept_canonical(api, make):
    made = make(VOLUME, spec={**kinds.VOLUME_SPEC, "capacity": {"storage": "1024Mi"}})
    assert made["spec"]["capacity"]["storage"] == "1Gi"
    made = make(VOLUME, spec={**kinds.VOLUME_SPEC, "capacity": {"storage": 1000000}})
    assert made["spec"]["capacity"]["storage"] in ("1M", "1000000")


def test_both_event_kinds_share_a_store(api, make):
    made = make(EVENT)
    name = made["metadata"]["name"]
    other = api.get(NEW_EVENT.path(make.ns, name)).json
    assert other["apiVersion"] == "events.k8s.io/v1" and other["metadata"]["uid"] == made["metadata"]["uid"]
    assert other["note"] == "a test" and other["regarding"]["name"] == "some-pod"
    assert other["deprecatedCount"] == 3 and other["deprecatedSource"] == {"component": "conformance"}
    assert other["deprecatedLastTimestamp"] == "2024-01-01T00:00:00Z"
    made = make(NEW_EVENT)
    other = api.get(EVENT.path(make.ns, made["metadata"]["name"])).json
    assert other["apiVersion"] == "v1" and other["message"] == "a test"
    assert other["involvedObject"]["name"] == "some-pod" and other["action"] == "Testing"
    assert other["reportingComponent"] == "conformance.example.com/test"
    assert other["eventTime"] == "2024-01-01T00:00:00.000000Z"


# -- what never changes: the object's fields, the change, and the field that the refusal names

def pv(**changes):
    return {"spec": {**kinds.VOLUME_SPEC, **changes}}


AFFINITY = {"required": {"nodeSelectorTerms": [{"matchExpressions": [
    {"key": "a", "operator": "In", "values": ["b"]}]}]}}
OTHER_AFFINITY = {"required": {"nodeSelectorTerms": [{"matchExpressions": [
    {"key": "a", "operator": "In", "values": ["c"]}]}]}}
IMMUTABLE = {
    "claim-class": (CLAIM, {}, {"spec": {"storageClassName": "other"}}, "spec"),
    "claim-modes": (CLAIM, {}, {"spec": {"accessModes": ["ReadOnlyMany"]}}, "spec"),
    "claim-size-unbound": (CLAIM, {}, {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}, "spec"),
    "claim-volume-mode": (CLAIM, {}, {"spec": {"volumeMode": "Block"}}, "spec"),
    "claim-volume-twice": (CLAIM, {"spec": {**kinds.CLAIM_SPEC, "volumeName": "conformance-none"}},
                           {"spec": {"volumeName": "other"}}, "spec"),
    "volume-source": (VOLUME, {}, {"spec": {"csi": {"volumeHandle": "other"}}}, "spec.persistentvolumesource"),
    "volume-mode": (VOLUME, {}, {"spec": {"volumeMode": "Block"}}, "volumeMode"),
    "volume-affinity-once-set": (VOLUME, pv(nodeAffinity=AFFINITY), {"spec": {"nodeAffinity": OTHER_AFFINITY}},
                                 "nodeAffinity"),
    "class-provisioner": (STORAGE_CLASS, {}, {"provisioner": "other.example.com"}, "provisioner"),
    "class-parameters": (STORAGE_CLASS, {}, {"parameters": {"a": "b"}}, "parameters"),
    "class-reclaim": (STORAGE_CLASS, {}, {"reclaimPolicy": "Retain"}, "reclaimPolicy"),
    "class-binding": (STORAGE_CLASS, {}, {"volumeBindingMode": "WaitForFirstConsumer"}, "volumeBindingMode"),
    "attachment-spec": (ATTACHMENT, {}, {"spec": {"nodeName": "other"}}, "spec"),
    "attributes-parameters": (ATTRIBUTES, {}, {"parameters": {"iops": "200"}}, "parameters"),
    "attributes-driver": (ATTRIBUTES, {}, {"driverName": "other.example.com"}, "driverName"),
    "capacity-class": (CAPACITY, {}, {"storageClassName": "other"}, "storageClassName"),
    "capacity-topology": (CAPACITY, {"nodeTopology": {"matchLabels": {"a": "b"}}},
                          {"nodeTopology": {"matchLabels": {"a": "c"}}}, "nodeTopology"),
    "driver-attach": (CSI_DRIVER, {}, {"spec": {"attachRequired": False}}, "spec.attach"),
    "driver-modes": (CSI_DRIVER, {}, {"spec": {"volumeLifecycleModes": ["Ephemeral"]}}, "spec.volumeLifecycleModes"),
    "node-driver-entry": (CSI_NODE, {}, {"spec": {"drivers": [
        {"name": DRIVER, "nodeID": "other", "topologyKeys": []}]}}, "spec.drivers"),
    "secret-type": (SECRET, {}, {"type": "example.com/other"}, "type"),
    "secret-immutable": (SECRET, {"immutable": True}, {"data": {"key": "b3RoZXI="}}, "data"),
    "secret-immutable-for-ever": (SECRET, {"immutable": True}, {"immutable": False}, "immutable"),
    "config-map-immutable": (CONFIG_MAP, {"immutable": True}, {"data": {"key": "other"}}, "data"),
    "pod-node": (POD, {}, {"spec": {"nodeName": "other"}}, "spec"),
    "pod-command": (POD, {}, {"spec": {"containers": [{**kinds.POD_SPEC["containers"][0], "command": ["x"]}]}},
                    "spec"),
    "pod-container-added": (POD, {}, {"spec": {"containers": [
        *kinds.POD_SPEC["containers"], {"name": "more", "image": "x"}]}}, "spec"),
    "runtime-handler": (RUNTIME, {}, {"handler": "other"}, "handler"),
    "daemon-set-selector": (DAEMON_SET, {}, {"spec": {
        "selector": {"matchLabels": {"app": "conformance", "more": "x"}},
        "template": {"metadata": {"labels": {"app": "conformance", "more": "x"}}}}}, "spec.selector"),
    "revision-data": (REVISION, {}, {"data": {"other": 1}}, "data"),
}


@pytest.mark.parametrize("kind,fields,change,field", IMMUTABLE.values(), ids=IMMUTABLE)
def test_immutable(api, make, kind, fields, change, field):
    made = make(kind, **fields)
    reply = api.patch(make.path(kind, made), change)
    assert reply.code == 422 and reply.json["reason"] == "Invalid", reply
    named = [cause["field"] for cause in reply.json["details"]["causes"]]
    assert any(one.startswith(field) for one in named), reply


MUTABLE = {
    "volume-expand-secret": (VOLUME, {}, {"spec": {"csi": {"controllerExpandSecretRef": {
        "name": "a", "namespace": "b"}}}}, "spec.csi.controllerExpandSecretRef.name", "a"),
    "volume-reclaim": (VOLUME, {}, {"spec": {"persistentVolumeReclaimPolicy": "Delete"}},
                       "spec.persistentVolumeReclaimPolicy", "Delete"),
    "volume-size": (VOLUME, {}, {"spec": {"capacity": {"storage": "2Gi"}}}, "spec.capacity.storage", "2Gi"),
    "volume-affinity-first": (VOLUME, {}, {"spec": {"nodeAffinity": AFFINITY}},
                              "spec.nodeAffinity.required.nodeSelectorTerms.0.matchExpressions.0.key", "a"),
    "claim-volume-once": (CLAIM, {}, {"spec": {"volumeName": "conformance-none"}}, "spec.volumeName",
                          "conformance-none"),
    "class-expansion": (STORAGE_CLASS, {}, {"allowVolumeExpansion": True}, "allowVolumeExpansion", True),
    "class-mount-options": (STORAGE_CLASS, {}, {"metadata": {"annotations": {"a": "b"}}},
                            "metadata.annotations.a", "b"),
    "driver-pod-info": (CSI_DRIVER, {}, {"spec": {"podInfoOnMount": True}}, "spec.podInfoOnMount", True),
    "driver-capacity": (CSI_DRIVER, {}, {"spec": {"storageCapacity": True}}, "spec.storageCapacity", True),
    "driver-republish": (CSI_DRIVER, {}, {"spec": {"requiresRepublish": True}}, "spec.requiresRepublish", True),
    "driver-selinux": (CSI_DRIVER, {}, {"spec": {"seLinuxMount": True}}, "spec.seLinuxMount", True),
    "capacity-size": (CAPACITY, {}, {"capacity": "9Gi"}, "capacity", "9Gi"),
    "node-count": (CSI_NODE, {"spec": {"drivers": [{"name": DRIVER, "nodeID": "node", "topologyKeys": [],
                                                    "allocatable": {"count": 1}}]}},
                   {"spec": {"drivers": [{"name": DRIVER, "nodeID": "node", "topologyKeys": [],
                                          "allocatable": {"count": 2}}]}}, "spec.drivers.0.allocatable.count", 2),
    "node-driver-added": (CSI_NODE, {}, {"spec": {"drivers": [
        {"name": DRIVER, "nodeID": "node", "topologyKeys": []},
        {"name": "two.example.com", "nodeID": "node", "topologyKeys": []}]}}, "spec.drivers.1.name",
        "two.example.com"),
    # The containers have no mounts of a token, because this patch replaces them.
    "pod-image": (POD, {"spec": {**kinds.POD_SPEC, "automountServiceAccountToken": False}},
                  {"spec": {"containers": [{**kinds.POD_SPEC["containers"][0], "image": "new:1"}]}},
                  "spec.containers.0.image", "new:1"),
    "pod-deadline": (POD, {}, {"spec": {"activeDeadlineSeconds": 60}}, "spec.activeDeadlineSeconds", 60),
    "lease": (LEASE, {}, {"spec": {"holderIdentity": "other"}}, "spec.holderIdentity", "other"),
    "config-map-metadata-when-immutable": (CONFIG_MAP, {"immutable": True}, {"metadata": {"labels": {"a": "b"}}},
                                           "metadata.labels.a", "b"),
    "revision-number": (REVISION, {}, {"revision": 8}, "revision", 8),
    "daemon-set-template": (DAEMON_SET, {}, {"spec": {"template": {"metadata": {"annotations": {"a": "b"}}}}},
                            "spec.template.metadata.annotations.a", "b"),
}


@pytest.mark.parametrize("kind,fields,change,path,wanted", MUTABLE.values(), ids=MUTABLE)
def test_mutable(api, make, kind, fields, change, path, wanted):
    made = make(kind, **fields)
    reply = api.patch(make.path(kind, made), change)
    assert reply.code == 200, reply
    assert find(reply.json, path) == wanted


def bound_claim(api, make, capacity="2Gi", asked="2Gi"):
    """Makes a claim that is bound to an existing volume, with a class that allows growth."""
    cls = make(STORAGE_CLASS, allowVolumeExpansion=True)["metadata"]["name"]
    volume, claim = make.new(VOLUME), make.new(CLAIM)
    spec = {**kinds.CLAIM_SPEC, "storageClassName": cls, "resources": {"requests": {"storage": asked}},
            "volumeName": volume["metadata"]["name"]}
    made = make(CLAIM, {**claim, "spec": spec})
    make(VOLUME, {**volume, "spec": {**kinds.VOLUME_SPEC, "storageClassName": cls, "capacity": {"storage": capacity},
                                     "claimRef": {"namespace": make.ns, "name": claim["metadata"]["name"],
                                                  "uid": made["metadata"]["uid"]}}})
    path = make.path(CLAIM, made)
    deadline = time.monotonic() + 15
    while api.get(path).json["status"]["phase"] != "Bound":
        assert time.monotonic() < deadline, api.get(path)
        time.sleep(0.05)
    assert api.patch(path + "/status", {"status": {"capacity": {"storage": capacity}}}).code == 200
    return path


def resize(api, path, size):
    return api.patch(path, {"spec": {"resources": {"requests": {"storage": size}}}})


def test_a_bound_claim_may_grow(api, make):
    reply = resize(api, bound_claim(api, make), "3Gi")
    assert reply.code == 200 and reply.json["spec"]["resources"]["requests"]["storage"] == "3Gi", reply


def test_a_growing_claim_may_shrink_down_to_what_it_has(api, make):
    path = bound_claim(api, make)
    assert resize(api, path, "9Gi").code == 200
    assert resize(api, path, "3Gi").code == 200
    for size in ("2Gi", "1Gi"):
        reply = resize(api, path, size)
        assert reply.code == 422 and "spec.resources.requests.storage" in {
            cause["field"] for cause in reply.json["details"]["causes"]}, reply


def test_a_bound_claim_keeps_its_volume(api, make):
    reply = api.patch(bound_claim(api, make), {"spec": {"volumeName": "other"}})
    assert reply.code == 422, reply


# -- what is refused at once: the fields, and the field that the refusal names

CONTAINER = kinds.POD_SPEC["containers"][0]


def pod(**changes):
    return {"spec": {**kinds.POD_SPEC, **changes}}


def one(**changes):
    return pod(containers=[{**CONTAINER, **changes}])


REFUSED = {
    "pod-without-containers": (POD, pod(containers=[]), "spec.containers"),
    "pod-container-name": (POD, one(name=""), "spec.containers[0].name"),
    "pod-container-name-bad": (POD, one(name="A_b"), "spec.containers[0].name"),
    "pod-image": (POD, one(image=""), "spec.containers[0].image"),
    "pod-restart-policy": (POD, pod(restartPolicy="Perhaps"), "spec.restartPolicy"),
    "pod-volume-twice": (POD, pod(volumes=[{"name": "a", "emptyDir": {}}] * 2), "spec.volumes[1].name"),
    "pod-volume-of-two-sources": (POD, pod(volumes=[{"name": "a", "emptyDir": {}, "hostPath": {"path": "/x"}}]),
                                  "spec.volumes[0]"),
    "pod-mount-of-nothing": (POD, one(volumeMounts=[{"name": "none", "mountPath": "/x"}]),
                             "spec.containers[0].volumeMounts[0].name"),
    "pod-mount-path": (POD, {"spec": {**kinds.POD_SPEC, "volumes": [{"name": "a", "emptyDir": {}}], "containers": [
        {**CONTAINER, "volumeMounts": [{"name": "a", "mountPath": ""}]}]}},
        "spec.containers[0].volumeMounts[0].mountPath"),
    "pod-sub-path-upwards": (POD, {"spec": {**kinds.POD_SPEC, "volumes": [{"name": "a", "emptyDir": {}}],
                                            "containers": [{**CONTAINER, "volumeMounts": [
                                                {"name": "a", "mountPath": "/x", "subPath": "../y"}]}]}},
                             "spec.containers[0].volumeMounts.subPath"),
    "pod-port": (POD, one(ports=[{"containerPort": 70000}]), "spec.containers[0].ports[0].containerPort"),
    "pod-env-name": (POD, one(env=[{"name": "", "value": "x"}]), "spec.containers[0].env[0].name"),
    "pod-requests-beyond-limits": (POD, one(resources={"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}),
                                   "spec.containers[0].resources.requests"),
    "volume-without-capacity": (VOLUME, pv(capacity={}), "spec.capacity"),
    "volume-without-source": (VOLUME, {"spec": {k: v for k, v in kinds.VOLUME_SPEC.items() if k != "csi"}}, "spec"),
    "volume-of-two-sources": (VOLUME, pv(hostPath={"path": "/x"}), "spec"),
    "volume-without-modes": (VOLUME, pv(accessModes=[]), "spec.accessModes"),
    "volume-mode": (VOLUME, pv(volumeMode="Tape"), "spec.volumeMode"),
    "volume-reclaim": (VOLUME, pv(persistentVolumeReclaimPolicy="Shred"), "spec.persistentVolumeReclaimPolicy"),
    "volume-without-handle": (VOLUME, pv(csi={"driver": DRIVER}), "spec.csi.volumeHandle"),
    "volume-without-driver": (VOLUME, pv(csi={"volumeHandle": "x"}), "spec.csi.driver"),
    "volume-negative": (VOLUME, pv(capacity={"storage": "-1Gi"}), "spec.capacity"),
    "claim-without-size": (CLAIM, {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {}}},
                           "spec.resources[storage]"),
    "claim-of-nothing": (CLAIM, {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {
        "requests": {"storage": "0"}}}}, "spec.resources[storage]"),
    "claim-of-two-modes-with-once-pod": (CLAIM, {"spec": {
        **kinds.CLAIM_SPEC, "accessModes": ["ReadWriteOncePod", "ReadWriteOnce"]}}, "spec.accessModes"),
    "claim-selector": (CLAIM, {"spec": {**kinds.CLAIM_SPEC, "selector": {"matchExpressions": [
        {"key": "a", "operator": "Near"}]}}}, "spec.selector"),
    "class-reclaim": (STORAGE_CLASS, {"reclaimPolicy": "Shred"}, "reclaimPolicy"),
    "class-binding": (STORAGE_CLASS, {"volumeBindingMode": "Someday"}, "volumeBindingMode"),
    "attachment-without-attacher": (ATTACHMENT, {"spec": {"nodeName": "n", "source": {
        "persistentVolumeName": "v"}}}, "spec.attacher"),
    "attachment-without-node": (ATTACHMENT, {"spec": {"attacher": DRIVER, "source": {
        "persistentVolumeName": "v"}}}, "spec.nodeName"),
    "attachment-without-source": (ATTACHMENT, {"spec": {"attacher": DRIVER, "nodeName": "n", "source": {}}},
                                  "spec.source"),
    "driver-fs-group": (CSI_DRIVER, {"spec": {"fsGroupPolicy": "Sometimes"}}, "spec.fsGroupPolicy"),
    "driver-modes": (CSI_DRIVER, {"spec": {"volumeLifecycleModes": ["Eternal"]}}, "spec.volumeLifecycleModes"),
    "node-driver-twice": (CSI_NODE, {"spec": {"drivers": [
        {"name": DRIVER, "nodeID": n, "topologyKeys": []} for n in ("a", "b")]}}, "spec.drivers[1].name"),
    "node-driver-without-id": (CSI_NODE, {"spec": {"drivers": [{"name": DRIVER, "nodeID": "",
                                                                "topologyKeys": []}]}}, "spec.drivers[0].nodeID"),
    "capacity-without-class": (CAPACITY, {"storageClassName": ""}, "storageClassName"),
    "capacity-negative": (CAPACITY, {"capacity": "-1"}, "capacity"),
    "attributes-without-parameters": (ATTRIBUTES, {"parameters": {}}, "parameters"),
    "attributes-without-driver": (ATTRIBUTES, {"driverName": ""}, "driverName"),
    "runtime-without-handler": (RUNTIME, {"handler": ""}, "handler"),
    "runtime-handler": (RUNTIME, {"handler": "A_b"}, "handler"),
    "lease-duration": (LEASE, {"spec": {"holderIdentity": "me", "leaseDurationSeconds": 0}},
                       "spec.leaseDurationSeconds"),
    "secret-key": (SECRET, {"data": {"a b": ""}}, "data[a b]"),
    "secret-tls-without-key": (SECRET, {"type": "kubernetes.io/tls", "data": {}}, "data[tls.crt]"),
    "secret-too-large": (SECRET, {"data": {"a": base64.b64encode(b"x" * (1 << 20)).decode(), "b": "eA=="}}, "data"),
    "config-map-key": (CONFIG_MAP, {"data": {"a/b": ""}}, "data[a/b]"),
    "config-map-key-in-both": (CONFIG_MAP, {"data": {"a": ""}, "binaryData": {"a": ""}}, "data[a]"),
    "config-map-too-large": (CONFIG_MAP, {"data": {"a": "x" * ((1 << 20) + 1)}}, ""),
    "event-namespace": (EVENT, {"involvedObject": {"kind": "Pod", "name": "x", "namespace": "other"}},
                        "involvedObject.namespace"),
    "daemon-set-selector": (DAEMON_SET, {"spec": {**DAEMON_SET.body["spec"], "selector": {
        "matchLabels": {"app": "other"}}}}, "spec.template.metadata.labels"),
    "daemon-set-restart-policy": (DAEMON_SET, {"spec": {**DAEMON_SET.body["spec"], "template": {
        "metadata": {"labels": {"app": "conformance"}},
        "spec": {"containers": kinds.POD_SPEC["containers"], "restartPolicy": "Never"}}}},
        "spec.template.spec.restartPolicy"),
    "daemon-set-no-progress": (DAEMON_SET, {"spec": {**DAEMON_SET.body["spec"], "updateStrategy": {
        "type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 0}}}},
        "spec.updateStrategy.rollingUpdate.maxUnavailable"),
    "revision-without-data": (REVISION, {"data": None}, "data"),
}


@pytest.mark.parametrize("kind,fields,field", REFUSED.values(), ids=REFUSED)
def test_refused(api, make, kind, fields, field):
    item = {**make.new(kind), **fields}
    make.clean_later(make.path(kind, item))
    reply = api.post(kind.path(make.ns), item)
    assert reply.code == 422 and reply.json["reason"] == "Invalid", reply
    named = [cause.get("field", "") for cause in reply.json["details"]["causes"]]
    assert any(name.startswith(field) for name in named), named


@pytest.mark.parametrize("name", ["a.b", "A", "x" * 64])
def test_a_namespace_is_named_by_a_dns_label(api, make, name):
    reply = api.post(NAMESPACE.path(), {"metadata": {"name": name}})
    assert reply.code == 422 and reply.json["details"]["causes"][0]["field"] == "metadata.name", reply


@pytest.mark.parametrize("value", ["many", "1 Gi", "1Qi", "", "--1"])
def test_a_bad_quantity_is_refused(api, make, value):
    reply = api.post(VOLUME.path(), make.new(VOLUME, **pv(capacity={"storage": value})))
    assert reply.code in (400, 422), reply


def test_the_binding_of_a_pod(api, make):
    made = make(POD)
    path = make.path(POD, made)
    reply = api.post(path + "/binding", {"apiVersion": "v1", "kind": "Binding",
                                         "metadata": {"name": made["metadata"]["name"]},
                                         "target": {"kind": "Node", "name": "conformance-nowhere"}})
    assert reply.code == 201 and reply.json["status"] == "Success", reply
    bound = api.get(path).json
    assert bound["spec"]["nodeName"] == "conformance-nowhere"
    assert {"type": "PodScheduled", "status": "True"}.items() <= next(
        c for c in bound["status"]["conditions"] if c["type"] == "PodScheduled").items()
    again = api.post(path + "/binding", {"apiVersion": "v1", "kind": "Binding",
                                         "metadata": {"name": made["metadata"]["name"]},
                                         "target": {"kind": "Node", "name": "other"}})
    assert again.code == 409, again


def test_a_pod_of_a_missing_account_is_refused(api, make):
    reply = api.post(POD.path(make.ns), make.new(POD, **pod(serviceAccountName="no-such")))
    assert reply.code == 403 and reply.json["reason"] == "Forbidden", reply
    assert "no-such" in reply.message


def test_a_pod_of_a_missing_runtime_class_is_refused(api, make):
    reply = api.post(POD.path(make.ns), make.new(POD, **pod(runtimeClassName="no-such")))
    assert reply.code == 403 and "no-such" in reply.message, reply


def test_a_claim_without_a_class_gets_the_default_one(api, make):
    """A claim gets the default class where there is one; an empty name asks for none."""
    classes = [item["metadata"]["name"] for item in api.get(STORAGE_CLASS.path()).json["items"]
               if item["metadata"].get("annotations", {}).get("storageclass.kubernetes.io/is-default-class") == "true"]
    spec = {k: v for k, v in kinds.CLAIM_SPEC.items() if k != "storageClassName"}
    item = make.new(CLAIM, spec=spec)
    given = api.post(CLAIM.path(make.ns), item, dryRun="All").json["spec"].get("storageClassName")
    assert given in classes if classes else given is None
    reply = api.post(CLAIM.path(make.ns), {**item, "spec": {**spec, "storageClassName": ""}}, dryRun="All")
    assert reply.json["spec"]["storageClassName"] == ""
