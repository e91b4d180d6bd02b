"""snapshot-controller and csi-snapshotter: what the Go programs do and what Berth does in their place."""
import re

import grpc
import pytest
from lib import objects, protobuf
from lib.csi_double import CsiDouble
from lib.kubernetes.csi_proxy import Proxied
from lib.kubernetes.world import NODE, RIGHTS, rules_of
from lib.standalone import wait_for

GO_PROGRAMS = ("csi-snapshotter", "snapshot-controller")
BEING_CREATED = "snapshot.storage.kubernetes.io/volumesnapshot-being-created"
SECRET_NAME = "snapshot.storage.kubernetes.io/deletion-secret-name"
CLAIM_PROTECTION = "snapshot.storage.kubernetes.io/pvc-as-source-protection"
PROTECTION = "provisioner.storage.kubernetes.io/volumesnapshot-as-source-protection"
RETRIES = ("--retry-interval-start=200ms", "--retry-interval-max=1s")
# The Go programs look half a minute for the kinds of group snapshots.
NO_GROUPS = ("--feature-gates=CSIVolumeGroupSnapshot=false",)
LABEL = "snapshot.storage.kubernetes.io/managed-by"
WARNING = re.compile(r"\S+Z [WEC] ")  # or worse, in Berth's log
SIZE_BYTES, SNAPSHOT_ID, SOURCE_VOLUME_ID, READY_TO_USE = 1, 2, 3, 5  # of csi.v1.Snapshot
GET_SNAPSHOT = 15  # of csi.v1.ControllerServiceCapability.RPC.Type
PENDING = (grpc.StatusCode.ABORTED, "a call is pending")


@pytest.fixture
def bound(world):
    """A bound claim, whose provisioner serves on; both programs run."""
    world.make_class()
    world.start("csi-provisioner", of_go=False, elect=False, further=[
        {"apiGroups": ["snapshot.storage.k8s.io"], "resources": ["volumesnapshotclasses"], "verbs": ["get", "list", "watch"]}])
    world.start("snapshot-controller", *RETRIES, *NO_GROUPS)
    world.start("csi-snapshotter", "--timeout=5s", *RETRIES, *NO_GROUPS)
    world.claim("data")
    _, volume = world.bound("data")
    world.names[volume["spec"]["csi"]["volumeHandle"]] = "HANDLE"
    return volume


def make_class(world, policy="Delete", **options):
    name = f"snapshots-{world.namespace}"
    world.names[name] = "SNAPSHOT-CLASS"
    world.create(objects.snapshot_class(name, world.driver, policy, **options))
    return name


def ready(world, name):
    """Waits until a snapshot is ready, and gives (it, its content). The mark of a creation goes after the content is ready."""
    snapshot = world.wait("VolumeSnapshot", name, lambda item: (item.get("status") or {}).get("readyToUse"))
    content = world.wait("VolumeSnapshotContent", snapshot["status"]["boundVolumeSnapshotContentName"],
                         lambda item: (item.get("status") or {}).get("readyToUse")
                         and BEING_CREATED not in item["metadata"].get("annotations", {}))
    world.names[content["status"]["snapshotHandle"]] = "SNAPSHOT-HANDLE"
    return snapshot, content


def without_number(content):
    """Removes the creation time, a number of nanoseconds."""
    content["status"].pop("creationTime", None)
    return content


def test_a_snapshot_is_taken_and_deleted(world, bound):
    """A snapshot is taken, gets its content, and both go together."""
    kind = make_class(world)
    world.create(objects.snapshot("snap", "data", kind))
    snapshot, content = ready(world, "snap")
    world.same("snapshot", snapshot)
    world.same("content", without_number(content))
    claim = world.wait("PersistentVolumeClaim", "data", lambda item: len(item["metadata"]["finalizers"]) == 1)
    world.same("claim", claim["metadata"]["finalizers"])
    world.same("events", world.events("snap", "CreatingSnapshot", "SnapshotCreated", "SnapshotReady"))
    world.delete("VolumeSnapshot", "snap")
    world.wait_gone("VolumeSnapshot", "snap")
    world.wait_gone("VolumeSnapshotContent", content["metadata"]["name"])
    assert len(world.double.calls("DeleteSnapshot")) == 1


def test_a_content_of_retain_stays(world, bound):
    """The content of a class with Retain stays when its snapshot is gone."""
    kind = make_class(world, "Retain")
    world.create(objects.snapshot("snap", "data", kind))
    _, content = ready(world, "snap")
    name = content["metadata"]["name"]
    world.delete("VolumeSnapshot", "snap")
    world.wait_gone("VolumeSnapshot", "snap")
    left = world.get("VolumeSnapshotContent", name)
    world.same("content", without_number(left))
    world.delete("VolumeSnapshotContent", name)
    world.wait_gone("VolumeSnapshotContent", name)
    assert world.double.calls("DeleteSnapshot") == []


def is_asked_again(snapshot):
    error = (snapshot.get("status") or {}).get("error") or {}
    return error.get("message", "").startswith("Failed to check and update")


def test_the_driver_takes_no_snapshot(world, bound):
    """An error of CreateSnapshot stands in both statuses, in the driver's words, and is asked again."""
    kind = make_class(world)
    world.double.be_wrong("aborted-forever:CreateSnapshot")
    world.create(objects.snapshot("snap", "data", kind))
    failed = world.wait("VolumeSnapshot", "snap", is_asked_again)
    world.same("snapshot", failed)
    content = world.get("VolumeSnapshotContent", failed["status"]["boundVolumeSnapshotContentName"])
    world.same("error", content["status"]["error"])
    world.same("events", world.events(content["metadata"]["name"], "SnapshotCreationFailed", "SnapshotContentCheckandUpdateFailed"))
    world.double.be_wrong()
    snapshot, _ = ready(world, "snap")
    world.same("snapshot afterwards", snapshot)


def test_the_driver_deletes_no_snapshot(world, bound):
    """An error of DeleteSnapshot is told on the content, which stays."""
    kind = make_class(world)
    world.create(objects.snapshot("snap", "data", kind))
    _, content = ready(world, "snap")
    name = content["metadata"]["name"]
    world.double.be_wrong("aborted-forever:DeleteSnapshot")
    world.delete("VolumeSnapshot", "snap")
    # Berth adds the driver's words, and writes them to the status, too. The creation may have failed once, because the program saw
    # the content before its class.
    world.same("events", [event[:2] for event in world.events(name, "SnapshotDeleteError") if event[1] != "SnapshotCreationFailed"])
    content = without_number(world.get("VolumeSnapshotContent", name))
    content["status"].pop("error", None)
    world.same("content", content)
    world.double.be_wrong()
    world.wait_gone("VolumeSnapshotContent", name)


def import_snapshot(world, handle, name, policy="Retain", of_class=None):
    """Writes a content for a snapshot of the driver, as a person does, and gives the content's name."""
    content = f"static-{world.namespace}"
    written = objects.snapshot_content(content, handle, name, world.driver, policy)
    written["spec"]["volumeSnapshotRef"]["namespace"] = world.namespace
    if of_class:
        written["spec"]["volumeSnapshotClassName"] = of_class
    world.create(written)
    return content


def test_a_snapshot_that_exists_is_bound(world, bound):
    """A content that a person wrote for a snapshot of the driver is bound to the snapshot that it names."""
    kind = make_class(world, "Retain")
    world.create(objects.snapshot("first", "data", kind))
    _, taken = ready(world, "first")
    name = import_snapshot(world, taken["status"]["snapshotHandle"], "second")
    world.create(objects.snapshot("second", content=name))
    snapshot, content = ready(world, "second")
    world.same("snapshot", snapshot)
    world.same("content", without_number(content))


def test_the_class_of_a_snapshot_replaces_that_of_its_content(world, bound):
    """A content that a person wrote gets the class of the snapshot that is bound to it, in place of its own."""
    kind = make_class(world, "Retain")
    world.create(objects.snapshot("first", "data", kind))
    _, taken = ready(world, "first")
    other = f"others-{world.namespace}"
    world.names[other] = "OTHER-CLASS"
    world.create(objects.snapshot_class(other, world.driver, "Retain"))
    name = import_snapshot(world, taken["status"]["snapshotHandle"], "second", of_class=kind)
    world.create(objects.snapshot("second", None, other, name))
    _, content = ready(world, "second")
    world.same("content", without_number(content))


def test_a_content_names_another_snapshot(world, bound):
    """A snapshot that asks for the content of another one is told so, and gets no finalizer."""
    name = import_snapshot(world, "nothing", "another")
    world.create(objects.snapshot("second", content=name))
    world.same("snapshot", world.wait("VolumeSnapshot", "second", lambda item: (item.get("status") or {}).get("error")))
    world.same("events", world.events("second", "SnapshotContentMisbound", "SnapshotFinalizerError"))
    for kind, each in (("VolumeSnapshot", "second"), ("VolumeSnapshotContent", name)):
        world.delete(kind, each)
        world.wait_gone(kind, each)


def test_the_default_class_is_taken(world, bound):
    """A snapshot without a class gets the driver's default one."""
    make_class(world, annotations={"snapshot.storage.kubernetes.io/is-default-class": "true"})
    world.create(objects.snapshot("snap", "data"))
    snapshot, _ = ready(world, "snap")
    world.same("snapshot", snapshot)


def test_there_is_no_such_claim(world, bound):
    """A snapshot of a claim that is not there says so."""
    kind = make_class(world)
    world.create(objects.snapshot("snap", "nothing", kind))
    failed = world.wait("VolumeSnapshot", "snap", lambda item: (item.get("status") or {}).get("error"))
    assert failed["status"]["error"]["message"].startswith("Failed to create snapshot content with error ")  # in Berth's own words
    world.same("events", [event[:2] for event in world.events("snap", "SnapshotContentCreationFailed")])
    world.same("finalizers", world.get("VolumeSnapshot", "snap")["metadata"]["finalizers"])
    world.delete("VolumeSnapshot", "snap")
    world.wait_gone("VolumeSnapshot", "snap")


def test_the_claim_is_not_bound(world, bound):
    """A snapshot of a claim that is not bound says so, and both are protected until it can be taken."""
    kind = make_class(world)
    world.claim("pending", storage_class="nothing")
    world.create(objects.snapshot("snap", "pending", kind))
    failed = world.wait("VolumeSnapshot", "snap", lambda item: (item.get("status") or {}).get("error"))
    world.same("finalizers", failed["metadata"]["finalizers"])
    world.same("events", [event[:2] for event in world.events("snap", "SnapshotContentCreationFailed")])
    claim = world.wait("PersistentVolumeClaim", "pending", lambda item: CLAIM_PROTECTION in item["metadata"]["finalizers"])
    world.same("claim", sorted(claim["metadata"]["finalizers"]))
    world.delete("VolumeSnapshot", "snap")
    world.wait_gone("VolumeSnapshot", "snap")
    world.wait("PersistentVolumeClaim", "pending", lambda item: CLAIM_PROTECTION not in item["metadata"]["finalizers"])


def test_there_is_no_such_class(world, bound):
    """A snapshot whose class is not there says so, and nothing of it is protected yet."""
    world.create(objects.snapshot("snap", "data", "nothing"))
    world.same("snapshot", world.wait("VolumeSnapshot", "snap", lambda item: (item.get("status") or {}).get("error")))
    world.same("events", world.events("snap", "GetSnapshotClassFailed"))
    world.same("claim", world.get("PersistentVolumeClaim", "data")["metadata"]["finalizers"])
    world.delete("VolumeSnapshot", "snap")
    world.wait_gone("VolumeSnapshot", "snap")


def test_the_class_goes(world, bound):
    """A snapshot whose class is deleted says so and stays ready, and can be deleted."""
    kind = make_class(world)
    world.create(objects.snapshot("snap", "data", kind))
    _, content = ready(world, "snap")
    world.delete("VolumeSnapshotClass", kind)
    world.same("snapshot", world.looked_at("VolumeSnapshot", "snap", lambda item: item["status"].get("error")))
    world.same("events", world.events("snap", "GetSnapshotClassFailed"))
    world.delete("VolumeSnapshot", "snap")
    world.wait_gone("VolumeSnapshot", "snap")
    world.wait_gone("VolumeSnapshotContent", content["metadata"]["name"])
    assert len(world.double.calls("DeleteSnapshot")) == 1


def test_one_annotation_of_a_secret_alone(world, bound):
    """A content with one of the two annotations that name a secret is deleted without one."""
    world.create(objects.snapshot("snap", "data", make_class(world)))
    _, content = ready(world, "snap")
    name = content["metadata"]["name"]
    world.cluster.patch("VolumeSnapshotContent", name, {"metadata": {"annotations": {SECRET_NAME: "nothing"}}})
    world.delete("VolumeSnapshot", "snap")
    world.wait_gone("VolumeSnapshot", "snap")
    world.wait_gone("VolumeSnapshotContent", name)


def test_a_snapshot_is_restored(world, bound):
    """A claim whose source is a snapshot is bound."""
    kind = make_class(world)
    world.create(objects.snapshot("snap", "data", kind))
    ready(world, "snap")
    world.claim("restored", dataSource={"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "snap"})
    world.bound("restored")
    world.delete("PersistentVolumeClaim", "restored")
    world.delete("VolumeSnapshot", "snap")
    wait_for("the snapshot to be gone", lambda: world.get("VolumeSnapshot", "snap") is None)


@pytest.fixture
def taken(world):
    """A snapshot that is ready, and a claim that is to be restored from it; no provisioner runs."""
    world.make_class()
    maker = world.start("csi-provisioner", of_go=False, elect=False)
    world.start("snapshot-controller", *RETRIES, *NO_GROUPS, of_go=False)
    world.start("csi-snapshotter", "--timeout=5s", *RETRIES, *NO_GROUPS, of_go=False)
    world.claim("data")
    world.bound("data")
    world.create(objects.snapshot("snap", "data", make_class(world)))
    snapshot, _ = ready(world, "snap")
    maker.stop()
    world.claim("restored", dataSource={"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "snap"})
    return snapshot


def test_a_deleted_snapshot_that_is_held_is_restored(world, taken):
    """A claim is restored from a snapshot that is being deleted and has the finalizer of a provisioner, which ended in the midst."""
    world.cluster.patch("VolumeSnapshot", "snap", {"metadata": {"finalizers": [*taken["metadata"]["finalizers"], PROTECTION]}},
                        world.namespace)
    world.delete("VolumeSnapshot", "snap")
    assert PROTECTION in world.get("VolumeSnapshot", "snap")["metadata"]["finalizers"]
    world.start("csi-provisioner", "--timeout=5s", *RETRIES)
    world.bound("restored")
    world.wait_gone("VolumeSnapshot", "snap")


def test_a_snapshot_that_may_not_be_protected_is_restored(world, taken):
    """Without the rights to list, watch and update snapshots the provisioner restores one all the same."""
    rules = [rule | {"verbs": ["get"]} if rule["resources"] == ["volumesnapshots"] else rule
             for rule in rules_of(*RIGHTS["csi-provisioner"])]
    provisioner = world.start("csi-provisioner", "--timeout=5s", *RETRIES, rules=rules)
    world.bound("restored")
    if not world.of_go:
        refused = [line for line in provisioner.log().splitlines() if "forbidden" in line]
        assert len(refused) <= 2, "a list and an update are refused, and each is logged once"


def test_no_node_matches_the_volume(world):
    """With --enable-distributed-snapshotting a snapshot whose volume's node affinity matches no node is taken unlabelled."""
    world.make_class(reclaimPolicy="Retain")
    world.start("csi-provisioner", of_go=False, elect=False)
    world.start("snapshot-controller", "--enable-distributed-snapshotting", *RETRIES, *NO_GROUPS)
    world.start("csi-snapshotter", "--timeout=5s", *RETRIES, *NO_GROUPS)
    world.claim("data")
    _, volume = world.bound("data")
    kind = make_class(world)
    world.create(objects.snapshot("here", "data", kind))
    _, content = ready(world, "here")
    assert content["metadata"]["labels"][LABEL] == NODE, "as a control: this volume's affinity matches"
    # The same volume by another object, because an object's node affinity can't be changed.
    name = f"nowhere-{world.namespace}"
    world.create({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": {
        "capacity": {"storage": "1Mi"}, "accessModes": ["ReadWriteOnce"], "persistentVolumeReclaimPolicy": "Retain",
        "claimRef": {"namespace": world.namespace, "name": "elsewhere"}, "storageClassName": world.storage_class,
        "csi": {"driver": world.driver, "volumeHandle": volume["spec"]["csi"]["volumeHandle"]},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
            {"key": f"{world.driver}/zone", "operator": "In", "values": ["nowhere"]}]}]}}}})
    world.claim("elsewhere", volumeName=name)
    world.bound("elsewhere")
    world.create(objects.snapshot("nowhere", "elsewhere", kind))
    _, content = ready(world, "nowhere")
    assert LABEL not in content["metadata"].get("labels", {})


@pytest.fixture
def altered(new_world, short):
    """A World whose driver's answers can be altered, with a bound claim; both programs run. The driver says that it has
    GetSnapshot."""
    world = new_world(double=lambda name: Proxied(CsiDouble(short / "d", name=name), short / "proxy.sock"), on_node=False)
    world.double.proxy.alter["ControllerGetCapabilities"] = \
        lambda fields: fields[1].append(protobuf.encode({1: {1: GET_SNAPSHOT}}))
    world.make_class()
    world.start("csi-provisioner", "--feature-gates=Topology=false", of_go=False, elect=False)
    world.start("snapshot-controller", *RETRIES, *NO_GROUPS)
    world.snapshotter = world.start("csi-snapshotter", "--timeout=5s", *RETRIES, *NO_GROUPS)
    world.claim("data")
    _, volume = world.bound("data")
    world.names[volume["spec"]["csi"]["volumeHandle"]] = "HANDLE"
    return world


def alter_snapshots(world, alter, methods=("CreateSnapshot", "ListSnapshots")):
    """Changes each snapshot of the driver's answers to these calls by a function of its fields."""
    def altered(snapshot):
        fields = protobuf.decode(snapshot)
        alter(fields)
        return protobuf.encode(fields)

    def of_creation(fields):
        fields[1] = [altered(one) for one in fields[1]]

    def of_list(fields):  # of entries, each around a snapshot
        fields[1] = [protobuf.encode({1: altered(protobuf.decode(entry)[1][0])}) for entry in fields.get(1, [])]
    functions = {"CreateSnapshot": of_creation, "ListSnapshots": of_list}
    world.double.proxy.alter.update((method, functions[method]) for method in methods)


def test_the_driver_knows_no_size(altered):
    """`restoreSize` is left out of a snapshot whose size the driver answers with 0."""
    world = altered
    alter_snapshots(world, lambda fields: fields.pop(SIZE_BYTES))
    world.create(objects.snapshot("snap", "data", make_class(world)))
    snapshot, content = ready(world, "snap")
    assert "restoreSize" not in snapshot["status"]
    world.same("snapshot", snapshot)
    world.same("content", without_number(content))


def test_the_driver_names_another_volume(altered):
    """A content becomes ready whose driver answers with another `source_volume_id` than it was asked for."""
    world = altered
    alter_snapshots(world, lambda fields: fields.update({SOURCE_VOLUME_ID: ["another"]}))
    world.create(objects.snapshot("snap", "data", make_class(world)))
    snapshot, content = ready(world, "snap")
    world.same("snapshot", snapshot)
    world.same("content", without_number(content))


def test_a_snapshot_is_ready_later(altered):
    """Asking again for a snapshot that is not ready yet is no warning in Berth's log."""
    world = altered
    answers = []

    def is_ready_later(fields):
        answers.append(fields)
        if len(answers) < 4:
            fields.pop(READY_TO_USE)

    alter_snapshots(world, is_ready_later)
    world.create(objects.snapshot("snap", "data", make_class(world)))
    ready(world, "snap")
    assert len(answers) >= 4, "it was asked for several times"
    if not world.of_go:
        assert [line for line in world.snapshotter.log().splitlines() if WARNING.match(line)] == []


def refuse(world, code, words):
    """From now on the driver refuses CreateSnapshot."""
    world.double.proxy.failures["CreateSnapshot"] = (code, words)


def take_in_vain(world, policy="Delete"):
    """Has a snapshot taken whose CreateSnapshot has no known outcome, and gives its content's name."""
    refuse(world, *PENDING)
    world.create(objects.snapshot("snap", "data", make_class(world, policy)))
    return world.wait("VolumeSnapshot", "snap", is_asked_again)["status"]["boundVolumeSnapshotContentName"]


def claim_that_is_free(world):
    return world.wait("PersistentVolumeClaim", "data", lambda item: CLAIM_PROTECTION not in item["metadata"]["finalizers"])


def test_a_snapshot_is_deleted_before_it_is_taken(altered):
    """A snapshot that is deleted before the driver has answered frees its claim at once, and goes with its content after the
    answer."""
    world = altered
    content = take_in_vain(world)
    world.delete("VolumeSnapshot", "snap")
    world.same("claim", claim_that_is_free(world)["metadata"]["finalizers"])
    left = world.wait("VolumeSnapshot", "snap", lambda item: len(item["metadata"]["finalizers"]) == 1)
    world.same("snapshot", left)
    world.same("content", world.get("VolumeSnapshotContent", content))
    world.double.proxy.failures.clear()
    if world.of_go:
        # Its own change of the annotation may let it look at the content again only at the resync, or when another one starts.
        wait_for("the answer to be noted", lambda: BEING_CREATED not in str(world.get("VolumeSnapshotContent", content)))
        world.snapshotter.stop()
        world.start("csi-snapshotter", "--timeout=5s", *RETRIES, *NO_GROUPS)
    world.wait_gone("VolumeSnapshot", "snap")
    world.wait_gone("VolumeSnapshotContent", content)
    asked = len(world.double.calls("DeleteSnapshot"))
    assert asked == 1 or (asked == 2 and world.of_go)  # after its second start it may look at the content twice


def test_a_snapshot_of_retain_is_deleted_before_it_is_taken(altered):
    """With Retain such a snapshot goes at once, and its content is worked on."""
    world = altered
    content = take_in_vain(world, "Retain")
    world.delete("VolumeSnapshot", "snap")
    world.wait_gone("VolumeSnapshot", "snap")
    claim_that_is_free(world)
    world.same("content", world.get("VolumeSnapshotContent", content))
    world.double.proxy.failures.clear()
    world.wait("VolumeSnapshotContent", content, lambda item: item["status"].get("readyToUse"))


@pytest.mark.parametrize("code", ["ALREADY_EXISTS", "PERMISSION_DENIED"])
def test_the_driver_refuses_after_an_unknown_outcome(altered, code):
    """A deleted snapshot goes with its content once the driver has refused it, also after a call of unknown outcome."""
    world = altered
    content = take_in_vain(world)
    world.delete("VolumeSnapshot", "snap")
    refuse(world, getattr(grpc.StatusCode, code), "not yours")
    world.wait_gone("VolumeSnapshot", "snap")
    world.wait_gone("VolumeSnapshotContent", content)
    claim_that_is_free(world)
    assert world.double.calls("DeleteSnapshot") == []


def test_the_driver_lists_another_id(altered):
    """A snapshot that exists is ready although the driver lists it by another id, and GetSnapshot is not called."""
    world = altered
    kind = make_class(world, "Retain")
    world.create(objects.snapshot("first", "data", kind))
    _, taken = ready(world, "first")
    alter_snapshots(world, lambda fields: fields.update({SNAPSHOT_ID: ["pool/snapshot"]}), ["ListSnapshots"])
    name = import_snapshot(world, taken["status"]["snapshotHandle"], "second")
    world.create(objects.snapshot("second", content=name))
    snapshot, content = ready(world, "second")
    world.same("snapshot", snapshot)
    world.same("content", without_number(content))
    assert world.double.proxy.requests("ListSnapshots")
    assert world.double.proxy.requests("GetSnapshot") == []


def take_slowly(world):
    """Has snapshots taken that are not ready until the list that is given here is not empty."""
    uploaded = []
    alter_snapshots(world, lambda fields: None if uploaded else fields.pop(READY_TO_USE, None))
    return uploaded


def test_a_person_deletes_a_content_that_is_not_ready(altered):
    """A content that is deleted without its snapshot before it is ready becomes ready, and stays."""
    world = altered
    uploaded = take_slowly(world)
    world.create(objects.snapshot("snap", "data", make_class(world)))
    taken = world.wait("VolumeSnapshot", "snap", lambda item: (item.get("status") or {}).get("creationTime"))
    name = taken["status"]["boundVolumeSnapshotContentName"]
    world.delete("VolumeSnapshotContent", name)
    uploaded.append(True)
    snapshot, content = ready(world, "snap")
    world.same("snapshot", snapshot)
    world.same("content", without_number(content))
    world.delete("VolumeSnapshot", "snap")
    world.wait_gone("VolumeSnapshot", "snap")
    world.wait_gone("VolumeSnapshotContent", name)
    assert len(world.double.calls("DeleteSnapshot")) == 1


def test_a_mark_is_left_on_a_ready_content(altered):
    """A ready content that a program left with the mark of a creation loses it without a call when the next one leads."""
    world = altered
    world.create(objects.snapshot("snap", "data", make_class(world)))
    _, content = ready(world, "snap")
    world.snapshotter.stop()
    world.cluster.patch("VolumeSnapshotContent", content["metadata"]["name"], {"metadata": {"annotations": {BEING_CREATED: "yes"}}})
    world.start("csi-snapshotter", "--timeout=5s", *RETRIES, *NO_GROUPS)
    ready(world, "snap")
    assert len(world.double.calls("CreateSnapshot")) == 1


def test_an_error_stays_during_the_upload(altered):
    """The error of a first attempt stands in both statuses until the snapshot is ready."""
    world = altered
    uploaded = take_slowly(world)
    refuse(world, grpc.StatusCode.INTERNAL, "a disk is on fire")
    world.create(objects.snapshot("snap", "data", make_class(world)))
    world.wait("VolumeSnapshot", "snap", is_asked_again)
    world.double.proxy.failures.clear()
    uploading = world.wait("VolumeSnapshot", "snap", lambda item: item["status"].get("creationTime"))
    world.same("uploading", uploading)
    content = world.get("VolumeSnapshotContent", uploading["status"]["boundVolumeSnapshotContentName"])
    world.same("error", content["status"]["error"])
    uploaded.append(True)
    snapshot, content = ready(world, "snap")
    world.same("snapshot", snapshot)
    world.same("content", without_number(content))
