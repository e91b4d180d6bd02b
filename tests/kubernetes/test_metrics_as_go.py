"""The metrics for Prometheus: each one that a Go sidecar gives, Berth gives in its place, with the same labels."""
import contextlib
import re

import pytest
from lib import objects
from lib.kubernetes import in_tree, plugins
from lib.kubernetes.observed import without_names
from lib.kubernetes.programs import Sidecar
from lib.kubernetes.world import NODE
from lib.standalone import Failure, wait_for

GO_PROGRAMS = ("csi-provisioner", "csi-attacher", "csi-resizer", "csi-snapshotter", "snapshot-controller", "livenessprobe")
FAST = ("--timeout=5s", "--retry-interval-start=200ms", "--retry-interval-max=1s")
NO_GROUPS = "--feature-gates=CSIVolumeGroupSnapshot=false"
# Metrics of the Go language and of the HTTP library are no promise of a sidecar.
PREFIXES = ("csi_", "workqueue_", "leader_election_", "process_", "controller_", "snapshot_controller_", "persistentvolume")
# Go's provisioner often asks twice for a deletion, so that it counts a failed one, and has two queues more, for what Berth keeps in
# the queue of claims. Which calls are made at the start under the driver's name differs from one Go program to the other; those
# without its name are compared by themselves.
LEFT_OUT = re.compile(r'controller_persistentvolume_delete_failed|.*name="(unsavedpvs|csitopology)"'
                      r'|.*(Identity/|ControllerGetCapabilities)')
COUNT = "csi_sidecar_operations_seconds_count"
# Go leaves the name of the lease empty.
LEASE = re.compile(r'(leader_election_master_status\{name=)"[^"]*"')


def metrics_of(text):
    """Gives the names of all metrics with their labels and values, without the buckets of histograms."""
    found = set()
    for line in text.splitlines():
        series = line.rpartition(" ")[0]
        if line.startswith(PREFIXES) and not LEFT_OUT.match(line) and "_bucket{" not in line:
            found.add(re.sub(r'\{(.*)\}', lambda match: "{" + ",".join(sorted(re.findall(r'\w+="[^"]*"', match[1]))) + "}",
                             series))
    return sorted(found)


def check(world, sidecar):
    """Compares the metrics; those that Berth gives beyond Go's are no difference. A program counts what it did after the
    object is written, so they are waited for."""
    def read():
        return [LEASE.sub(r'\1""', metric) for metric in without_names(metrics_of(sidecar.metrics()), world.names)]

    with contextlib.suppress(Failure):
        wait_for("the metrics", lambda: set(world.observed.values.get("metrics", ())) <= set(read()), seconds=10)
    found = read()
    if not world.of_go:
        found = [metric for metric in found if metric in world.observed.values["metrics"]]
    world.same("metrics", found)
    check_unnamed_calls(world, sidecar)


def check_unnamed_calls(world, sidecar):
    """Compares which calls are counted without the driver's name, because it was not known yet. They differ from one Go program to
    the other."""
    world.same("unnamed calls", sorted(line.rpartition(" ")[0] for line in sidecar.metrics().splitlines()
                                       if line.startswith(COUNT) and "unknown-driver" in line))


def grow(world, size):
    world.cluster.patch("PersistentVolumeClaim", "data", {"spec": {"resources": {"requests": {"storage": size}}}}, world.namespace)


def test_of_the_provisioner(world):
    """The metrics of csi-provisioner after a claim was bound and deleted."""
    world.make_class()
    sidecar = world.start("csi-provisioner", *FAST)
    world.claim("data")
    _, volume = world.bound("data")
    world.delete("PersistentVolumeClaim", "data")
    world.wait_gone("PersistentVolume", volume["metadata"]["name"])
    check(world, sidecar)


def attach_and_detach(world, volume):
    name = f"{world.namespace}-attachment"
    world.create(objects.attachment(name, world.driver, NODE, volume))
    world.wait("VolumeAttachment", name, lambda item: (item.get("status") or {}).get("attached"))
    world.delete("VolumeAttachment", name)
    world.wait_gone("VolumeAttachment", name)


def check_calls(plugin, sidecar):
    calls = [metric for metric in metrics_of(sidecar.metrics()) if metric.startswith(COUNT)]
    plugin.world.same("calls", without_names(calls, plugin.world.names))
    check_unnamed_calls(plugin.world, sidecar)


@pytest.fixture
def plugin(new_world):
    made = in_tree.Plugin(new_world(driver=plugins.AWS_EBS.driver))
    yield made
    made.remove()


def test_of_a_volume_of_a_plugin(plugin):
    """The metrics of a driver that replaces an in-tree plugin, after a volume of the plugin was made and deleted."""
    _, provisioner = plugin.bound()
    plugin.remove()
    check_calls(plugin, provisioner)


def test_of_an_attached_volume_of_a_plugin(plugin):
    """The metrics of such a driver's attacher, after a volume of the plugin was attached and detached."""
    world = plugin.world
    volume, _ = plugin.bound(go=False)
    sidecar = world.start("csi-attacher", *FAST)
    attach_and_detach(world, volume)
    check_calls(plugin, sidecar)


def test_of_a_grown_volume_of_a_plugin(plugin):
    """The metrics of such a driver's resizer, after a volume of the plugin has grown."""
    world = plugin.world
    volume, _ = plugin.bound(go=False)
    sidecar = world.start("csi-resizer", *FAST)
    grow(world, "2Gi")
    world.wait("PersistentVolume", volume, lambda item: item["spec"]["capacity"]["storage"] == "2Gi")
    check_calls(plugin, sidecar)


@pytest.fixture
def volume(world):
    world.make_class()
    world.start("csi-provisioner", of_go=False, elect=False)
    world.claim("data")
    return world.bound("data")[1]["metadata"]["name"]


def test_of_the_attacher(world, volume):
    """The metrics of csi-attacher after a volume was attached and detached."""
    sidecar = world.start("csi-attacher", *FAST)
    attach_and_detach(world, volume)
    check(world, sidecar)


def test_of_the_resizer(world, volume):
    """The metrics of csi-resizer after a volume has grown."""
    sidecar = world.start("csi-resizer", *FAST)
    grow(world, "2Mi")
    world.wait("PersistentVolume", volume, lambda item: item["spec"]["capacity"]["storage"] == "2Mi")
    check(world, sidecar)


def is_under_way(controller):
    """Whether the snapshot controller counts an operation that is under way."""
    found = re.search(r"^snapshot_controller_operations_in_flight (\S+)", controller.metrics(), re.MULTILINE)
    return found is not None and float(found[1]) > 0


def wait_seen(world, controller):
    """Waits until the snapshot controller has seen a snapshot that no csi-snapshotter takes yet. Berth's own API has a controller
    beside this one, which is not to be done before."""
    if not world.of_go:
        wait_for("the snapshot to be seen", lambda: is_under_way(controller))


@pytest.mark.parametrize("program", ["csi-snapshotter", "snapshot-controller"])
def test_of_snapshots(world, volume, program):
    """The metrics of both programs of snapshots after one was taken and deleted."""
    sidecars = {"snapshot-controller": world.start("snapshot-controller", NO_GROUPS)}
    kind = f"snapshots-{world.namespace}"
    world.create(objects.snapshot_class(kind, world.driver))
    world.create(objects.snapshot("snap", "data", kind))
    wait_seen(world, sidecars["snapshot-controller"])
    sidecars["csi-snapshotter"] = world.start("csi-snapshotter", *FAST, NO_GROUPS)
    world.wait("VolumeSnapshot", "snap", lambda item: (item.get("status") or {}).get("readyToUse"))
    world.delete("VolumeSnapshot", "snap")
    world.wait_gone("VolumeSnapshot", "snap")
    check(world, sidecars[program])


def test_of_an_imported_snapshot(world, volume):
    """The metrics of snapshot-controller after a content that a person wrote was bound."""
    controller = world.start("snapshot-controller", NO_GROUPS)
    kind = f"snapshots-{world.namespace}"
    world.create(objects.snapshot_class(kind, world.driver, "Retain"))
    world.create(objects.snapshot("first", "data", kind))
    wait_seen(world, controller)
    snapshotter = world.start("csi-snapshotter", *FAST, NO_GROUPS, of_go=False)
    first = world.wait("VolumeSnapshot", "first", lambda item: (item.get("status") or {}).get("readyToUse"))
    content = world.get("VolumeSnapshotContent", first["status"]["boundVolumeSnapshotContentName"])
    world.delete("VolumeSnapshot", "first")
    world.wait_gone("VolumeSnapshot", "first")
    wait_for("the deletion to be counted", lambda: not is_under_way(controller))
    name = f"static-{world.namespace}"
    world.create(objects.snapshot("second", content=name))
    wait_for("the snapshot to be seen", lambda: is_under_way(controller))
    written = objects.snapshot_content(name, content["status"]["snapshotHandle"], "second", world.driver, "Retain")
    written["spec"]["volumeSnapshotRef"]["namespace"] = world.namespace
    world.create(written)
    world.wait("VolumeSnapshot", "second", lambda item: (item.get("status") or {}).get("readyToUse"))
    wait_for("the snapshot to be counted", lambda: not is_under_way(controller))
    check(world, controller)
    snapshotter.stop()


@pytest.fixture
def liveness(world):
    sidecar = Sidecar(world.folder / "livenessprobe.log", "livenessprobe",
                      [f"--csi-address={world.double.socket}", "--probe-timeout=2s"], world.of_go, f"{world.namespace}-host")
    yield sidecar
    sidecar.stop()


def test_of_the_liveness_probe(world, liveness):
    """How often livenessprobe has called the driver, and with which code; a driver that is away is not counted."""
    probes = [liveness.wait_for("the driver to be alive", lambda: liveness.get("/healthz") == (200, "ok"))]
    probes.append(liveness.get("/healthz") == (200, "ok"))
    assert all(probes)
    world.double.stop()
    assert liveness.get("/healthz")[0] == 500
    world.double.start()
    wait_for("it to be alive again", lambda: liveness.get("/healthz") == (200, "ok"))
    counted = [line for line in liveness.metrics().splitlines() if line.startswith(COUNT)]
    world.same("calls", sorted(without_names(counted, world.names)))
