"""snapshot-controller and csi-snapshotter: what the Go programs do and what Berth does in their place."""
import re

import pytest
from lib import objects, protobuf
from lib.csi_double import CsiDouble
from lib.kubernetes.csi_proxy import Proxied
from lib.kubernetes.world import NODE, RIGHTS, rules_of
from lib.standalone import wait_for

GO_PROGRAMS = ("csi-snapshotter", "snapshot-controller")
BEING_CREATED = "snapshot.storage.kubernetes.io/volumesnapshot-being-created"
PROTECTION = "provisioner.storage.kubernetes.io/volumesnapshot-as-source-protection"
RETRIES = ("--retry-interval-start=200ms", "--retry-interval-max=1s")
# The Go programs look half a minute for the kinds of group snapshots.
NO_GROUPS = ("--feature-gates=CSIVolumeGroupSnapshot=false",)
LABEL = "snapshot.storage.kubernetes.io/managed-by"
WARNING = re.compile(r"\S+Z [WEC] ")  # or worse, in Berth's log
SIZE_BYTES, SOURCE_VOLUME_ID, READY_TO_USE = 1, 3, 5  # of csi.v1.Snapshot


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
    # Berth adds the driver's words, and writes them to the status, too.
    world.same("events", [event[:2] for event in world.events(name, "SnapshotDeleteError")])
    content = without_number(world.get("VolumeSnapshotContent", name))
    content["status"].pop("error", None)
    world.same("content", content)
    world.double.be_wrong()
    world.wait_gone("VolumeSnapshotContent", name)


def test_a_snapshot_that_exists_is_bound(world, bound):
    """A content that a person wrote for a snapshot of the driver is bound to the snapshot that it names."""
    kind = make_class(world, "Retain")
    world.create(objects.snapshot("first", "data", kind))
    _, taken = ready(world, "first")
    name = f"static-{world.namespace}"
    written = objects.snapshot_content(name, taken["status"]["snapshotHandle"], "second", world.driver, "Retain")
    written["spec"]["volumeSnapshotRef"]["namespace"] = world.namespace
    world.create(written)
    world.create(objects.snapshot("second", content=name))
    snapshot, content = ready(world, "second")
    world.same("snapshot", snapshot)
    world.same("content", without_number(content))


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
    """A World whose driver's answers can be altered, with a bound claim; both programs run."""
    world = new_world(double=lambda name: Proxied(CsiDouble(short / "d", name=name), short / "proxy.sock"), on_node=False)
    world.make_class()
    world.start("csi-provisioner", "--feature-gates=Topology=false", of_go=False, elect=False)
    world.start("snapshot-controller", *RETRIES, *NO_GROUPS)
    world.snapshotter = world.start("csi-snapshotter", "--timeout=5s", *RETRIES, *NO_GROUPS)
    world.claim("data")
    _, volume = world.bound("data")
    world.names[volume["spec"]["csi"]["volumeHandle"]] = "HANDLE"
    return world


def alter_snapshots(world, alter):
    """Changes each snapshot of the driver's answers by a function of its fields."""
    def altered(snapshot):
        fields = protobuf.decode(snapshot)
        alter(fields)
        return protobuf.encode(fields)

    def of_creation(fields):
        fields[1] = [altered(one) for one in fields[1]]

    def of_list(fields):  # of entries, each around a snapshot
        fields[1] = [protobuf.encode({1: altered(protobuf.decode(entry)[1][0])}) for entry in fields.get(1, [])]
    world.double.proxy.alter.update(CreateSnapshot=of_creation, ListSnapshots=of_list)


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
