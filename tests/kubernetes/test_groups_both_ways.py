"""The images of snapshot-controller and csi-snapshotter are changed from the Go programs to Berth or the other way round while a
group snapshot is made, is there, or is deleted, and then changed back. No group is lost, doubled or stuck."""
import pytest
from lib.kubernetes import programs
from lib.kubernetes.groups import SHOP, Shop, is_ready
from lib.kubernetes.hostpath import Hostpath
from lib.kubernetes.world import World
from lib.standalone import wait_for

pytestmark = pytest.mark.kubernetes


class Switch:
    """Both programs are of one side at a time."""

    def __init__(self, shop, first_is_go, how):
        self.shop = shop
        self.how = how
        self.is_go = first_is_go
        self._running = {}

    def begin(self):
        self._running = {"controller": self.shop.start_controller(self.is_go), "snapshotter": self.shop.start_snapshotter(self.is_go)}

    def running(self, name):
        return self._running[name]

    def end(self, *names):
        """Ends the programs, or those of these names."""
        for name in names or list(self._running):
            self._running.pop(name).end(self.how)

    def change(self):
        """Ends what runs, and starts the programs of the other side."""
        self.end()
        self.is_go = not self.is_go
        self.begin()


@pytest.fixture
def switch(real_cluster, short, first, how):
    missing = programs.missing("hostpathplugin", "csi-snapshotter", "snapshot-controller")
    if missing:
        pytest.skip(missing)
    world = World(real_cluster, False, None, short, double=lambda name: Hostpath(short / "hostpath", name))
    try:
        made = Switch(Shop(world.begin(on_node=False), world.double), first == "go", how)
        made.begin()
        yield made
    finally:
        world.end()


def content_of(shop, condition=bool):
    """Waits for the only VolumeGroupSnapshotContent of the driver to be as it should."""
    def look():
        return next((item for item in shop.world.cluster.items("VolumeGroupSnapshotContent")
                     if item["spec"]["driver"] == shop.driver.name and condition(item)), None)
    return wait_for("the content of the group", look, interval=0.05)


def is_asked(content):
    """Tells whether csi-snapshotter has noted that it asks the driver, as it does before it asks."""
    return any(key.endswith("volumegroupsnapshot-being-created") for key in content["metadata"].get("annotations") or {})


def check_stays_ready(switch, members):
    """Berth leaves alone what is ready. The Go program, also after itself, may find a content missing while it starts, and makes
    the group ready again."""
    shop = switch.shop
    if not switch.is_go:
        for snapshot, content in members.values():
            assert is_ready(shop.world.get("VolumeSnapshot", snapshot["metadata"]["name"]))
            assert is_ready(shop.world.get("VolumeSnapshotContent", content["metadata"]["name"]))
        assert is_ready(shop.world.get("VolumeGroupSnapshot", "monday"))
    after = shop.ready("monday")[2]
    assert {claim: snapshot["metadata"]["uid"] for claim, (snapshot, _) in members.items()} == \
        {claim: snapshot["metadata"]["uid"] for claim, (snapshot, _) in after.items()}


def delete(switch, group, members):
    """Deletes a group with all that belongs to it. The Go program deletes only the content that it already knows."""
    if switch.is_go:
        switch.shop.wait_known(switch.running("controller"), group["status"]["boundVolumeGroupSnapshotContentName"])
    switch.shop.delete(group["metadata"]["name"], group, members)


def check_and_delete(switch):
    """The group and its snapshots are ready under the other programs, stay so under the first ones, and go when it is deleted."""
    shop = switch.shop
    group, _, members = shop.ready("monday")
    assert len(shop.driver.snapshots()) == len(SHOP)
    switch.change()
    check_stays_ready(switch, members)
    delete(switch, group, members)
    assert shop.driver.snapshots() == []


def test_while_the_driver_is_asked(switch):
    """The programs are changed while CreateVolumeGroupSnapshot is unanswered, and changed back: one group, and it is deleted."""
    shop = switch.shop
    shop.take_group("sunday")
    group, _, members = shop.ready("sunday")  # from now on the program knows the driver
    delete(switch, group, members)
    shop.driver.halt()
    shop.take_group("monday")
    content_of(shop, is_asked)
    switch.end()
    shop.driver.go_on()
    switch.change()
    check_and_delete(switch)


def test_before_its_snapshots_are_made(switch):
    """The programs are changed when the driver has taken the group and no VolumeSnapshot of it is there yet."""
    shop = switch.shop
    shop.driver.halt()
    shop.take_group("monday")
    content_of(shop)
    switch.end("controller")
    shop.driver.go_on()
    content_of(shop, is_ready)
    assert shop.members() == []
    switch.change()
    check_and_delete(switch)


def test_when_it_is_ready(switch):
    """The programs are changed under a group that is ready, and changed back: it and its snapshots stay ready."""
    shop = switch.shop
    shop.take_group("monday")
    members = shop.ready("monday")[2]
    switch.change()
    check_stays_ready(switch, members)
    check_and_delete(switch)


def test_while_it_is_deleted(switch):
    """The programs are changed while DeleteVolumeGroupSnapshot is unanswered, and changed back."""
    shop = switch.shop
    shop.take_group("monday")
    group, content, members = shop.ready("monday")
    shop.driver.halt()
    shop.world.delete("VolumeGroupSnapshot", "monday")
    content_of(shop, lambda item: item["metadata"].get("deletionTimestamp") or "being-deleted" in str(item["metadata"]))
    switch.end()
    shop.driver.go_on()
    switch.change()
    shop.delete("monday", group, members)
    switch.change()
    assert shop.driver.snapshots() == []
    assert shop.world.get("VolumeGroupSnapshotContent", content["metadata"]["name"]) is None
