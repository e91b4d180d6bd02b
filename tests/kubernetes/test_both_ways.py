"""The image of a sidecar is changed from the Go program to Berth or the other way round, at the worst moment: while the driver has done
what it was asked for and its answer is missing. The other program goes on, and then the first one comes back. Nothing hangs,
nothing doubles, nothing has to be taken off by hand."""
import pytest
from lib import objects
from lib.kubernetes import in_tree, plugins, programs
from lib.kubernetes.world import NODE, RIGHTS, World, rules_of
from lib.standalone import wait_for

pytestmark = pytest.mark.kubernetes

CONTROLLER = ("--retry-interval-start=200ms", "--feature-gates=CSIVolumeGroupSnapshot=false")
FAST = ("--timeout=5s", "--retry-interval-start=200ms", "--retry-interval-max=1s")


class Switch:
    def __init__(self, world, first, how):
        self.world = world
        self.first_is_go = first == "go"
        self.how = how

    def begin(self, program, second=False):
        """Starts the first program, or the second one, and waits until it leads."""
        name = "external-attacher-leader-" if program == "csi-attacher" else \
            "external-resizer-" if program == "csi-resizer" else \
            "external-snapshotter-leader-" if program == "csi-snapshotter" else ""
        if programs.missing(program):
            pytest.skip(programs.missing(program))
        sidecar = self.world.start(program, *FAST, of_go=self.first_is_go != second)
        lease = name + self.world.driver.replace(".", "-")
        self.world.wait("Lease", lease, lambda item: sidecar.host_name in (item["spec"].get("holderIdentity") or ""))
        return sidecar

    def lose_answers(self, method):
        self.world.double.be_wrong(f"loses-answers:{method}")
        return method

    def end(self, sidecar, method):
        """Ends the program once the driver has done a call whose answer is lost."""
        wait_for(f"{method} to be done", lambda: self.world.double.calls(method, "done"))
        sidecar.end(self.how)
        self.world.double.be_wrong()


@pytest.fixture
def switch(real_world, first, how):
    return Switch(real_world, first, how)


def begin_back(switch, second, program):
    """The first program comes back in place of the second one."""
    second.stop()
    return switch.begin(program)


def provision(switch):
    """Makes a claim's volume by the first program, and gives (the program that runs, the volume)."""
    switch.world.make_class()
    sidecar = switch.begin("csi-provisioner")
    switch.world.claim("data")
    return sidecar, switch.world.bound("data")[1]


def test_while_a_volume_is_made(switch):
    """The program is changed and changed back during CreateVolume: one volume, and it is deleted with its claim."""
    world = switch.world
    world.make_class()
    sidecar = switch.begin("csi-provisioner")
    method = switch.lose_answers("CreateVolume")
    world.claim("data")
    switch.end(sidecar, method)
    second = switch.begin("csi-provisioner", second=True)
    claim, volume = world.bound("data")
    assert len(world.double.volumes()) == 1
    begin_back(switch, second, "csi-provisioner")
    world.delete("PersistentVolumeClaim", "data")
    world.wait_gone("PersistentVolumeClaim", "data")
    world.wait_gone("PersistentVolume", volume["metadata"]["name"])
    assert not world.double.volumes()
    assert len(set(world.double.calls("CreateVolume"))) == 1, "the name that the driver got"
    assert claim["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]


def test_the_claim_is_deleted_while_the_volume_is_made(switch):
    """A claim that is deleted in the midst goes at once, whoever leads. Berth deletes the volume when it comes back."""
    world = switch.world
    world.make_class()
    sidecar = switch.begin("csi-provisioner")
    method = switch.lose_answers("CreateVolume")
    world.claim("data")
    switch.end(sidecar, method)
    second = switch.begin("csi-provisioner", second=True)
    world.delete("PersistentVolumeClaim", "data")
    world.wait_gone("PersistentVolumeClaim", "data")
    begin_back(switch, second, "csi-provisioner")
    if not switch.first_is_go:
        wait_for("the volume to be deleted", lambda: not world.double.volumes())


def test_while_a_volume_is_deleted(switch):
    """The program is changed and changed back during DeleteVolume."""
    world = switch.world
    sidecar, volume = provision(switch)
    method = switch.lose_answers("DeleteVolume")
    world.delete("PersistentVolumeClaim", "data")
    switch.end(sidecar, method)
    second = switch.begin("csi-provisioner", second=True)
    world.wait_gone("PersistentVolume", volume["metadata"]["name"])
    begin_back(switch, second, "csi-provisioner")
    assert not world.double.volumes()


def test_a_volume_that_the_other_program_made(switch):
    """A volume that one program made is deleted by the other one, which started after the claim was bound."""
    world = switch.world
    sidecar, volume = provision(switch)
    assert "external-provisioner.volume.kubernetes.io/finalizer" in volume["metadata"]["finalizers"]
    sidecar.end(switch.how)
    switch.begin("csi-provisioner", second=True)
    world.delete("PersistentVolumeClaim", "data")
    world.wait_gone("PersistentVolumeClaim", "data")
    world.wait_gone("PersistentVolume", volume["metadata"]["name"])
    assert set(world.double.calls("DeleteVolume")) == {volume["spec"]["csi"]["volumeHandle"]}
    assert not world.double.volumes()


@pytest.mark.parametrize("terminating", [False, True], ids=["kept", "terminating"])
def test_a_claim_of_an_older_berth(real_world, terminating):
    """A claim with the finalizer of an older Berth is freed when Berth starts, Terminating or not. The case is of Berth alone."""
    world = real_world
    ours = "storage.berth.dev/provisioning"
    world.make_class()
    world.create(objects.claim("data", "1Mi", world.storage_class) | {
        "metadata": {"name": "data", "finalizers": [ours]}})
    world.wait("PersistentVolumeClaim", "data", lambda item: "volume.kubernetes.io/storage-provisioner" in (
        item["metadata"].get("annotations") or {}))
    if terminating:
        world.delete("PersistentVolumeClaim", "data")
        world.wait("PersistentVolumeClaim", "data", lambda item: item["metadata"]["finalizers"] == [ours])
    world.start("csi-provisioner", *FAST)
    if not terminating:
        world.bound("data")
        world.wait("PersistentVolumeClaim", "data", lambda item: ours not in item["metadata"]["finalizers"])
        world.delete("PersistentVolumeClaim", "data")
    world.wait_gone("PersistentVolumeClaim", "data")
    wait_for("the volume to be deleted", lambda: not world.double.volumes())


@pytest.fixture
def attachment(switch):
    """Begins with the attacher on a bound volume; gives a function that creates the attachment."""
    world = switch.world
    world.make_class()
    provisioner = world.start("csi-provisioner", of_go=False, elect=False)
    world.claim("data")
    _, volume = world.bound("data")
    provisioner.stop()
    name = f"{world.namespace}-attachment"

    def create():
        world.create(objects.attachment(name, world.driver, NODE, volume["metadata"]["name"]))
        return name
    return create


def is_attached(item):
    return (item.get("status") or {}).get("attached")


def test_while_a_volume_is_attached(switch, attachment):
    """The program is changed and changed back during ControllerPublishVolume."""
    world = switch.world
    sidecar = switch.begin("csi-attacher")
    method = switch.lose_answers("ControllerPublishVolume")
    name = attachment()
    switch.end(sidecar, method)
    second = switch.begin("csi-attacher", second=True)
    world.wait("VolumeAttachment", name, is_attached)
    begin_back(switch, second, "csi-attacher")
    world.delete("VolumeAttachment", name)
    world.wait_gone("VolumeAttachment", name)
    assert world.double.attached() == set()


def test_while_a_volume_is_detached(switch, attachment):
    """The program is changed and changed back during ControllerUnpublishVolume."""
    world = switch.world
    sidecar = switch.begin("csi-attacher")
    name = attachment()
    world.wait("VolumeAttachment", name, is_attached)
    method = switch.lose_answers("ControllerUnpublishVolume")
    world.delete("VolumeAttachment", name)
    switch.end(sidecar, method)
    second = switch.begin("csi-attacher", second=True)
    world.wait_gone("VolumeAttachment", name)
    begin_back(switch, second, "csi-attacher")
    assert world.double.attached() == set()


@pytest.fixture
def plugin(real_cluster, short):
    world = World(real_cluster, False, None, short, driver=plugins.AWS_EBS.driver)
    try:
        made = in_tree.Plugin(world.begin())
        yield made
        made.remove()
    finally:
        world.end()


def test_a_volume_of_a_plugin_is_attached(plugin, first, how):
    """The program is changed while a volume of an in-tree plugin is attached, and the second one detaches it."""
    world = plugin.world
    switch = Switch(world, first, how)
    volume, _ = plugin.bound(go=False)
    sidecar = switch.begin("csi-attacher")
    name = f"{world.namespace}-attachment"
    world.create(objects.attachment(name, world.driver, NODE, volume))
    world.wait("VolumeAttachment", name, is_attached)
    assert world.double.attached()
    sidecar.end(how)
    world.delete("VolumeAttachment", name)
    switch.begin("csi-attacher", second=True)
    world.wait_gone("VolumeAttachment", name)
    assert world.double.attached() == set()


def test_a_volume_that_was_never_attached(real_world):
    """A Berth in both roles makes a volume with the attacher's finalizer. Go's attacher takes the finalizer off when Go's provisioner
    deletes the volume."""
    world = real_world
    for program in ("csi-provisioner", "csi-attacher"):
        if programs.missing(program):
            pytest.skip(programs.missing(program))
    world.make_class()
    rules = [rule for program in ("csi-provisioner", "csi-attacher") for rule in rules_of(*RIGHTS[program])]
    berth = world.start("controller", "--roles=provisioner,attacher", of_go=False, rules=rules)
    world.claim("data")
    _, volume = world.bound("data")
    berth.stop()
    assert f"external-attacher/{world.driver.replace('.', '-')}" in volume["metadata"]["finalizers"]
    for program in ("csi-provisioner", "csi-attacher"):
        world.start(program, *FAST, of_go=True)
    world.delete("PersistentVolumeClaim", "data")
    world.wait_gone("PersistentVolume", volume["metadata"]["name"])
    assert not world.double.volumes()


def ask_for_snapshot(world):
    """Creates a snapshot of the bound claim."""
    kind = f"snapshots-{world.namespace}"
    world.create(objects.snapshot_class(kind, world.driver))
    world.create(objects.snapshot("snap", "data", kind))


def wait_ready(world):
    return world.wait("VolumeSnapshot", "snap", lambda item: (item.get("status") or {}).get("readyToUse"), seconds=90)


def lose_a_filled_volume(switch, source):
    """The answer to CreateVolume for a claim that is filled from `source` is lost, the source is deleted, and the first program
    ends."""
    world = switch.world
    sidecar = switch.begin("csi-provisioner")
    method = switch.lose_answers("CreateVolume")
    world.double.forget_calls()
    world.claim("filled", dataSource=source)
    wait_for("CreateVolume to be done", lambda: world.double.calls(method, "done"))
    world.delete(source["kind"], source["name"])
    switch.end(sidecar, method)


def check_filled_once(world):
    """The claim is bound to the only volume that was asked for, whose name is given."""
    _, volume = world.bound("filled")
    assert len(set(world.double.calls("CreateVolume"))) == 1, "the name that the driver got"
    return volume["metadata"]["name"]


def delete_filled(world, volume):
    """The claim and its volume can be deleted."""
    world.delete("PersistentVolumeClaim", "filled")
    world.wait_gone("PersistentVolumeClaim", "filled")
    world.wait_gone("PersistentVolume", volume)


def test_while_a_snapshot_is_restored(switch):
    """The program is changed and changed back during CreateVolume from a snapshot that is deleted meanwhile: one volume, and the
    snapshot goes."""
    world = switch.world
    world.make_class()
    maker = world.start("csi-provisioner", of_go=False, elect=False)
    world.start("snapshot-controller", *CONTROLLER, of_go=False)
    world.start("csi-snapshotter", *CONTROLLER, of_go=False, elect=False)
    world.claim("data")
    world.bound("data")
    ask_for_snapshot(world)
    snapshot = wait_ready(world)
    maker.stop()
    lose_a_filled_volume(switch, {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "snap"})
    second = switch.begin("csi-provisioner", second=True)
    volume = check_filled_once(world)
    wait_snapshot_gone(world, snapshot)
    begin_back(switch, second, "csi-provisioner")
    delete_filled(world, volume)
    assert len(world.double.volumes()) == 1, "that of the claim of which the snapshot was taken"


def test_while_a_claim_is_cloned(switch):
    """The program is changed and changed back during CreateVolume from a claim that is deleted meanwhile: one volume, and the
    source goes. Go refuses such a source, so the copy waits until Berth is back."""
    world = switch.world
    world.make_class()
    maker = world.start("csi-provisioner", of_go=False, elect=False)
    world.claim("data")
    _, source = world.bound("data")
    maker.stop()
    lose_a_filled_volume(switch, {"kind": "PersistentVolumeClaim", "name": "data"})
    second = switch.begin("csi-provisioner", second=True)
    if switch.first_is_go:
        volume = check_filled_once(world)
        begin_back(switch, second, "csi-provisioner")
    else:
        wait_for("the source to be refused", lambda: any(
            "is currently being deleted" in message for _, _, message in world.events("filled")))
        begin_back(switch, second, "csi-provisioner")
        volume = check_filled_once(world)
    world.wait_gone("PersistentVolumeClaim", "data", seconds=90)
    world.wait_gone("PersistentVolume", source["metadata"]["name"])
    delete_filled(world, volume)
    assert not world.double.volumes()


def test_while_a_volume_grows(switch):
    """The program is changed and changed back during ControllerExpandVolume."""
    world = switch.world
    world.make_class()
    world.start("csi-provisioner", of_go=False, elect=False)
    world.claim("data")
    _, volume = world.bound("data")
    sidecar = switch.begin("csi-resizer")
    method = switch.lose_answers("ControllerExpandVolume")
    world.cluster.patch("PersistentVolumeClaim", "data", {"spec": {"resources": {"requests": {"storage": "2Mi"}}}}, world.namespace)
    switch.end(sidecar, method)
    second = switch.begin("csi-resizer", second=True)
    world.wait("PersistentVolume", volume["metadata"]["name"], lambda item: item["spec"]["capacity"]["storage"] == "2Mi")
    claim = world.wait("PersistentVolumeClaim", "data", lambda item: any(
        each["type"] == "FileSystemResizePending" for each in item["status"].get("conditions") or []))
    begin_back(switch, second, "csi-resizer")
    assert claim["status"]["allocatedResources"] == {"storage": "2Mi"}


def test_while_a_volume_is_modified(switch):
    """The program is changed and changed back during ControllerModifyVolume."""
    world = switch.world
    world.make_class()
    world.start("csi-provisioner", of_go=False, elect=False)
    world.claim("data")
    _, volume = world.bound("data")
    fast, slow = (f"{speed}-{world.namespace}" for speed in ("fast", "slow"))
    for name, iops in ((fast, "100"), (slow, "10")):
        world.create(objects.attributes_class(name, world.driver, iops=iops))

    def wish(name):
        world.cluster.patch("PersistentVolumeClaim", "data", {"spec": {"volumeAttributesClassName": name}}, world.namespace)

    def wait_modified(name):
        world.wait("PersistentVolume", volume["metadata"]["name"],
                   lambda item: item["spec"].get("volumeAttributesClassName") == name)
        return world.wait("PersistentVolumeClaim", "data",
                          lambda item: item["status"].get("currentVolumeAttributesClassName") == name)
    sidecar = switch.begin("csi-resizer")
    method = switch.lose_answers("ControllerModifyVolume")
    wish(fast)
    switch.end(sidecar, method)
    second = switch.begin("csi-resizer", second=True)
    claim = wait_modified(fast)
    assert "modifyVolumeStatus" not in claim["status"] and not claim["status"].get("conditions")
    begin_back(switch, second, "csi-resizer")
    wish(slow)
    wait_modified(slow)


@pytest.fixture
def snapshotters(switch):
    """The first snapshot-controller and csi-snapshotter, with a bound claim."""
    world = switch.world
    world.make_class()
    world.start("csi-provisioner", of_go=False, elect=False)
    world.claim("data")
    world.bound("data")
    controller = world.start("snapshot-controller", *CONTROLLER, of_go=switch.first_is_go)
    return controller, switch.begin("csi-snapshotter")


def change_snapshotters(switch, snapshotters, method):
    """Ends the first programs once the driver has done a call whose answer is lost, and gives the csi-snapshotter that follows."""
    controller, sidecar = snapshotters
    switch.end(sidecar, method)
    controller.stop()
    switch.world.start("snapshot-controller", *CONTROLLER, of_go=not switch.first_is_go)
    return switch.begin("csi-snapshotter", second=True)


def wait_snapshot_gone(world, snapshot):
    world.wait_gone("VolumeSnapshot", "snap", seconds=90)
    world.wait_gone("VolumeSnapshotContent", snapshot["status"]["boundVolumeSnapshotContentName"])


def test_while_a_snapshot_is_taken(switch, snapshotters):
    """The snapshotter is changed and changed back during CreateSnapshot: one snapshot, and it is deleted."""
    world = switch.world
    method = switch.lose_answers("CreateSnapshot")
    ask_for_snapshot(world)
    second = change_snapshotters(switch, snapshotters, method)
    snapshot = wait_ready(world)
    begin_back(switch, second, "csi-snapshotter")
    world.delete("VolumeSnapshot", "snap")
    wait_snapshot_gone(world, snapshot)
    assert len(set(world.double.calls("CreateSnapshot"))) == 1


def test_while_a_snapshot_is_deleted(switch, snapshotters):
    """The snapshotter is changed and changed back during DeleteSnapshot."""
    world = switch.world
    ask_for_snapshot(world)
    snapshot = wait_ready(world)
    assert world.double.snapshots()
    method = switch.lose_answers("DeleteSnapshot")
    world.delete("VolumeSnapshot", "snap")
    second = change_snapshotters(switch, snapshotters, method)
    wait_snapshot_gone(world, snapshot)
    begin_back(switch, second, "csi-snapshotter")
    assert not world.double.snapshots()


def test_two_programs_at_a_time(real_world, first):
    """Both programs run beside each other, as during a rollout: one of them leads, and a claim gets one CreateVolume."""
    world = real_world
    if programs.missing("csi-provisioner"):
        pytest.skip(programs.missing("csi-provisioner"))
    world.make_class()
    switch = Switch(world, first, "stopped")
    sidecar = switch.begin("csi-provisioner")
    world.start("csi-provisioner", *FAST, of_go=not switch.first_is_go)
    for number in range(5):
        world.claim(f"data-{number}")
        world.bound(f"data-{number}")
    assert len(world.double.calls("CreateVolume")) == 5
    sidecar.kill()
    world.claim("data")
    world.bound("data")
    assert len(world.double.volumes()) == 6
