"""Group snapshots: what snapshot-controller and csi-snapshotter of Go do and what Berth does in their place."""
import grpc
import pytest
from lib import objects
from lib.kubernetes.groups import SHOP, SIZE, Shop, is_ready
from lib.standalone import wait_for

GO_PROGRAMS = ("csi-snapshotter", "snapshot-controller")
BEING_CREATED = "groupsnapshot.storage.kubernetes.io/volumegroupsnapshot-being-created"


@pytest.fixture
def shop(new_world, short):
    """Two claims of a group, bound, and both programs."""
    shop = Shop.of(new_world, short)
    shop.controller = shop.start_controller()
    shop.start_snapshotter()
    return shop


def wait_known(shop, content):
    """Waits until the Go program knows the content, without which it does not delete the group."""
    if shop.world.of_go:
        shop.wait_known(shop.controller, content)


def test_a_group_is_taken_and_deleted(shop):
    """A group of two claims is taken with a snapshot of each, and deleted with all that it made."""
    world = shop.world
    shop.take_group("monday")
    group, content, members = shop.ready("monday")
    world.same("group", group)
    world.same("content", shop.content_for_comparison(content))
    for claim, (snapshot, member_content) in members.items():
        world.same(f"snapshot of {claim}", snapshot)
        world.same(f"snapshot content of {claim}", shop.content_for_comparison(member_content))
    world.same("events", world.events("monday", "GroupSnapshotReady"))
    world.same("claims", [world.get("PersistentVolumeClaim", claim)["metadata"]["finalizers"] for claim in SHOP])
    assert len(shop.driver.snapshots()) == len(SHOP)
    shop.delete("monday", group, members)
    assert shop.driver.snapshots() == []


def test_a_member_alone_cannot_be_deleted(shop):
    """A snapshot of a group that is deleted by itself stays until the group is deleted."""
    world = shop.world
    shop.take_group("monday")
    group, _, members = shop.ready("monday")
    snapshot, content = members[SHOP[0]]
    name = snapshot["metadata"]["name"]
    world.delete("VolumeSnapshot", name)
    world.same("events", [event[:2] for event in world.events(name, "SnapshotDeletePending")])
    left = world.get("VolumeSnapshot", name)
    assert left["status"]["readyToUse"]
    world.same("finalizers", sorted(left["metadata"]["finalizers"]))
    assert world.get("VolumeSnapshotContent", content["metadata"]["name"]) is not None
    assert len(shop.driver.snapshots()) == len(SHOP)
    shop.delete("monday", group, members)
    assert shop.driver.snapshots() == []


def test_a_group_of_retain_stays_in_the_driver(shop):
    """The contents and the snapshots of a class with Retain stay when their group is deleted."""
    world = shop.world
    shop.take_group("monday", policy="Retain")
    _, content, members = shop.ready("monday")
    wait_known(shop, content["metadata"]["name"])
    world.delete("VolumeGroupSnapshot", "monday")
    world.wait_gone("VolumeGroupSnapshot", "monday")
    for snapshot, _ in members.values():
        world.wait_gone("VolumeSnapshot", snapshot["metadata"]["name"])
    world.same("content", shop.content_for_comparison(world.get("VolumeGroupSnapshotContent", content["metadata"]["name"])))
    for claim, (_, member) in members.items():
        left = world.get("VolumeSnapshotContent", member["metadata"]["name"])
        world.same(f"snapshot content of {claim}", shop.content_for_comparison(left))
    assert len(shop.driver.snapshots()) == len(SHOP)


def test_a_member_is_restored(shop):
    """A claim whose source is a snapshot of a group is bound."""
    world = shop.world
    shop.take_group("monday")
    group, _, members = shop.ready("monday")
    name = members[SHOP[0]][0]["metadata"]["name"]
    world.claim("restored", SIZE, dataSource={"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": name})
    world.bound("restored")
    shop.delete("monday", group, members)
    wait_for("the snapshots to be gone", lambda: shop.driver.snapshots() == [])


def test_the_default_class_is_taken(shop):
    """A group without a class gets the driver's default one."""
    world = shop.world
    shop.make_class(**{"groupsnapshot.storage.kubernetes.io/is-default-class": "true"})
    world.create(objects.group_snapshot("monday", app="shop"))
    group, content, members = shop.ready("monday")
    world.same("group", group)
    world.same("content", shop.content_for_comparison(content))
    shop.delete("monday", group, members)


def test_a_group_that_exists_is_bound(shop):
    """A content that a person wrote for a group of the driver is bound to the group that it names."""
    world = shop.world
    shop.take_group("first", policy="Retain")
    _, taken, members = shop.ready("first")
    name = f"static-{world.namespace}"
    world.create(objects.group_content(name, taken["status"]["volumeGroupSnapshotHandle"],
                                       [members[claim][1]["status"]["snapshotHandle"] for claim in SHOP],
                                       "second", world.namespace, world.driver, "Retain"))
    world.create(objects.group_snapshot("second", content=name))
    # Go adds the finalizer when it looks at the group once more.
    group = world.wait("VolumeGroupSnapshot", "second", lambda item: is_ready(item) and item["metadata"].get("finalizers"))
    world.same("group", group)
    world.same("content", shop.content_for_comparison(world.wait("VolumeGroupSnapshotContent", name, is_ready)))
    assert len(shop.members()) == len(SHOP), "the person writes the members, too"
    assert len(shop.driver.snapshots()) == len(SHOP), "nothing is taken anew"


def is_asked_again(group):
    error = (group.get("status") or {}).get("error") or {}
    return error.get("message", "").startswith("Failed to check and update")


def test_the_driver_takes_no_group(shop):
    """An error of CreateVolumeGroupSnapshot is told on the group and its content, in the driver's words, and asked for again."""
    world = shop.world
    failures = world.double.proxy.failures
    failures["CreateVolumeGroupSnapshot"] = (grpc.StatusCode.ABORTED, "a disk is on fire")
    shop.take_group("monday")
    failed = world.wait("VolumeGroupSnapshot", "monday", is_asked_again)
    world.same("failed", failed)
    content = failed["status"]["boundVolumeGroupSnapshotContentName"]
    world.same("error", world.get("VolumeGroupSnapshotContent", content)["status"]["error"])
    heard = world.events(content, "GroupSnapshotCreationFailed", "GroupSnapshotContentCheckandUpdateFailed")
    world.same("events of the content", heard)
    world.same("events", world.events("monday", "CreatingGroupSnapshot"))
    failures.clear()
    group, _, members = shop.ready("monday")
    world.same("group afterwards", group)
    shop.delete("monday", group, members)


def test_a_mark_is_left_on_a_ready_group(shop):
    """A ready content of a group loses the mark of a creation without a call."""
    world = shop.world
    shop.take_group("monday")
    group, content, members = shop.ready("monday")
    name = content["metadata"]["name"]
    world.wait("VolumeGroupSnapshotContent", name, lambda item: BEING_CREATED not in item["metadata"].get("annotations", {}))
    asked = len(world.double.proxy.requests("CreateVolumeGroupSnapshot"))
    world.cluster.patch("VolumeGroupSnapshotContent", name, {"metadata": {"annotations": {BEING_CREATED: "yes"}}})
    world.wait("VolumeGroupSnapshotContent", name, lambda item: BEING_CREATED not in item["metadata"].get("annotations", {}))
    assert len(world.double.proxy.requests("CreateVolumeGroupSnapshot")) == asked
    if not world.of_go:  # which may leave a content that was changed just before its group is deleted
        shop.delete("monday", group, members)


def test_the_class_of_a_group_goes(shop):
    """A group whose class is deleted says so and stays ready, and can be deleted."""
    world = shop.world
    shop.take_group("monday")
    group, content, members = shop.ready("monday")
    # Go adds the finalizer when it looks at the group once more.
    world.wait("VolumeGroupSnapshot", "monday", lambda item: item["metadata"].get("finalizers"))
    wait_known(shop, content["metadata"]["name"])
    world.delete("VolumeGroupSnapshotClass", f"groups-{world.namespace}")
    world.same("group", world.looked_at("VolumeGroupSnapshot", "monday", lambda item: item["status"].get("error")))
    world.same("events", world.events("monday", "GetGroupSnapshotClassFailed"))
    shop.delete("monday", group, members)
    assert shop.driver.snapshots() == []


def test_with_a_snapshotter_on_each_node(new_world, short):
    """A csi-snapshotter with --node-deployment takes the snapshots that name its node, and no groups, because a group names none."""
    shop = Shop.of(new_world, short)
    world = shop.world
    shop.start_controller()
    shop.start_snapshotter_of("node-a")
    shop.take_group("monday")
    kind = f"snapshots-{world.namespace}"
    world.create(objects.snapshot_class(kind, world.driver))
    world.create(objects.snapshot("snap", SHOP[0], kind))
    snapshot = world.wait("VolumeSnapshot", "snap", lambda item: (item.get("status") or {}).get("boundVolumeSnapshotContentName"))
    # snapshot-controller writes this label if it knows the node of the volume.
    world.cluster.patch("VolumeSnapshotContent", snapshot["status"]["boundVolumeSnapshotContentName"],
                        {"metadata": {"labels": {"snapshot.storage.kubernetes.io/managed-by": "node-a"}}})
    world.wait("VolumeSnapshot", "snap", is_ready)
    group = world.get("VolumeGroupSnapshot", "monday")
    content = world.get("VolumeGroupSnapshotContent", group["status"]["boundVolumeGroupSnapshotContentName"])
    world.same("content", shop.content_for_comparison(content))
    assert len(shop.driver.snapshots()) == 1, "that of the single claim"
    world.delete("VolumeSnapshot", "snap")
    world.wait_gone("VolumeSnapshot", "snap")
    world.delete("VolumeGroupSnapshot", "monday")
