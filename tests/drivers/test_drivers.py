"""CSI drivers that others wrote, each with all that it offers, and killed in the midst of it."""
import pytest
from lib import objects
from lib.drivers.bed import SECONDS
from lib.drivers.driver import BLOCK, CLONES, FUSE, GROWTH, INLINE, SHARED, SNAPSHOTS
from lib.standalone import wait_for

pytestmark = [pytest.mark.drivers, pytest.mark.e2e]

WRITE = "mkdir -p /data/d && i=0; while [ $i -lt 2000 ]; do echo {text}-$i; i=$((i+1)); done >/data/d/blob && sync && " \
        "sha256sum </data/d/blob"
GROUP = "snapshot.storage.k8s.io"
# When a process is killed, in seconds after the step began.
MOMENTS = [0.05, 0.3, 0.8, 1.5]


def write(bed, text):
    """Fills the claim `data`, and gives the checksum."""
    return bed.run(f"writes-{text}", WRITE.format(text=text))


def read(bed, claim="data"):
    return bed.run(f"reads-{claim}", f"sha256sum </{claim}/d/blob", [claim])


def source(kind, name):
    return {"kind": kind, "name": name} | ({"apiGroup": GROUP} if kind == "VolumeSnapshot" else {})


def test_data_stays(bed):
    """claim, data that a second pod finds, deletion"""
    bed.claim("data")
    assert write(bed, "kept") == read(bed)
    assert len(bed.driver.left()) == 1
    volume = bed.volume_of("data")["metadata"]["name"]
    bed.berth.delete("pvc", "data")
    bed.berth.wait_gone("pv", volume, SECONDS)


def test_a_group_owns_it(bed):
    """a pod's fsGroup and subPath"""
    bed.claim("data")
    out = bed.run("grouped", "echo mine >/part/note && cat /part/note && id -G", mounts=[
        {"name": "data", "mountPath": "/part", "subPath": "a/b"}],
        securityContext={"runAsUser": 1000, "runAsGroup": 1000, "fsGroup": 4321})
    assert out.split()[0] == "mine" and "4321" in out.split()[1:]


def test_a_read_only_mount(bed):
    """a read-only mount"""
    bed.claim("data")
    before = write(bed, "kept")
    out = bed.run("reader", "sha256sum </data/d/blob; (echo no >/data/note) 2>/dev/null || echo refused", read_only=["data"])
    assert out.splitlines() == [before.strip(), "refused"]


@pytest.mark.needs(SHARED)
def test_two_pods_at_once(bed):
    """two pods with one ReadWriteMany volume"""
    bed.claim("data", accessModes=["ReadWriteMany"])
    bed.berth.apply(objects.pod("first", "echo one >/data/first; until grep -qx two /data/second; do sleep 0.2; done", ["data"]))
    bed.run("second", "until grep -qx one /data/first; do sleep 0.2; done; echo two >/data/second")
    bed.end_of("first")


@pytest.mark.needs(BLOCK)
def test_raw_block(bed):
    """raw block"""
    device = [{"name": "disk", "devicePath": "/dev/disk"}]
    bed.claim("disk", "32Mi", volumeMode="Block")
    bed.run("first", "echo raw-bytes | dd of=/dev/disk bs=512 seek=100 conv=fsync,sync", ["disk"], devices=device)
    out = bed.run("second", "dd if=/dev/disk bs=512 skip=100 count=1 2>/dev/null | tr -d '\\000'", ["disk"], devices=device)
    assert out.strip() == "raw-bytes"


@pytest.mark.needs(GROWTH)
def test_it_grows_in_use(bed):
    """growth in use"""
    bed.claim("data")
    before = write(bed, "kept")
    bed.berth.apply(objects.pod("user", "sleep 1000", ["data"]))
    bed.berth.wait_phase("pods", "user", "Running", seconds=SECONDS)
    bed.grow("data", "96Mi")
    bed.wait_capacity("data", "96Mi")
    assert bed.volume_of("data")["spec"]["capacity"]["storage"] == "96Mi"
    assert bed.berth.run("exec", "user", "--", "/bin/sh", "-c", "sha256sum </data/d/blob").stdout == before
    bed.delete_pod("user")


@pytest.mark.needs(GROWTH)
def test_it_grows_for_its_next_pod(bed):
    """growth without a pod"""
    bed.claim("data")
    before = write(bed, "kept")
    bed.grow("data", "96Mi")
    # Where the node has a part in it, the growth ends with the next pod.
    assert read(bed) == before
    bed.wait_capacity("data", "96Mi")


@pytest.mark.needs(SNAPSHOTS)
def test_a_snapshot_is_restored(bed):
    """snapshot, restore, deletion of both"""
    bed.claim("data")
    before = write(bed, "before")
    bed.take_snapshot("monday", "data")
    after = write(bed, "after")
    bed.claim("copy", dataSource=source("VolumeSnapshot", "monday"))
    assert read(bed, "copy") == before != after
    assert read(bed) == after
    content = bed.berth.get("volumesnapshots", "monday")["status"]["boundVolumeSnapshotContentName"]
    bed.berth.delete("volumesnapshot", "monday")
    bed.berth.wait_gone("volumesnapshotcontents", content, SECONDS)
    assert read(bed, "copy") == before


@pytest.mark.needs(CLONES)
def test_a_clone(bed):
    """clone of a claim"""
    bed.claim("data")
    before = write(bed, "before")
    bed.claim("copy", dataSource=source("PersistentVolumeClaim", "data"))
    assert read(bed, "copy") == before
    assert write(bed, "after") != before
    assert read(bed, "copy") == before


@pytest.mark.needs(INLINE)
def test_an_inline_volume_lives_as_long_as_its_pod(bed):
    """inline volume of a pod"""
    inline = {"name": "data", "csi": {"driver": bed.driver.name, "volumeAttributes": bed.driver.attributes()}}
    bed.berth.apply(objects.pod("owner", "echo mine >/data/note && cat /data/note && sleep 1000", volumes=[inline],
                                mounts=[{"name": "data", "mountPath": "/data"}]))
    bed.berth.wait_phase("pods", "owner", "Running", seconds=SECONDS)
    wait_for("the pod's word", lambda: bed.berth.run("logs", "owner").stdout.strip() == "mine")
    assert len(bed.driver.left()) == 1
    bed.delete_pod("owner")
    wait_for("the volume to be gone", lambda: not bed.driver.left(), SECONDS)


def test_the_driver_is_killed_on_the_way_to_a_pod(bed):
    """driver killed from claim to pod"""
    for number, seconds in enumerate(MOMENTS):
        name = f"pod-{number}"
        bed.claim(f"c{number}")
        bed.berth.apply(objects.pod(name, f"echo kept >/c{number}/note && sync && cat /c{number}/note", [f"c{number}"]))
        bed.kill_driver_after(seconds)
        bed.restart_driver()
        assert bed.end_of(name).strip() == "kept"


def test_the_driver_is_killed_during_deletion(bed):
    """driver killed during deletion"""
    for number, seconds in enumerate(MOMENTS):
        claim = f"c{number}"
        bed.claim(claim)
        bed.berth.apply(objects.pod("user", f"echo kept >/{claim}/note; sleep 1000", [claim]))
        bed.berth.wait_phase("pods", "user", "Running", seconds=SECONDS)
        volume = bed.volume_of(claim)["metadata"]["name"]
        for kind, name in (("pod", "user"), ("pvc", claim)):
            bed.berth.run("delete", kind, name, "--wait=false")
        bed.kill_driver_after(seconds)
        bed.restart_driver()
        bed.berth.wait_gone("pods", "user", SECONDS)
        bed.berth.wait_gone("pv", volume, SECONDS)
        wait_for("the driver's storage to be empty", lambda: not bed.driver.left(), 30)


def test_a_pod_outlives_its_driver(bed):
    """pod that runs while its driver is away and back"""
    bed.claim("data")
    bed.berth.apply(objects.pod("user", "until [ -e /data/end ]; do date >/data/now; sleep 0.2; done", ["data"]))
    bed.berth.wait_phase("pods", "user", "Running", seconds=SECONDS)
    bed.restart_driver()
    bed.berth.run("exec", "user", "--", "touch", "/data/end")
    bed.end_of("user")


@pytest.mark.needs(FUSE)
def test_its_fuse_servers_die(bed):
    """driver killed with its FUSE servers, as by the end of its container: the pod ends, and the next one finds the data"""
    bed.claim("data")
    before = write(bed, "kept")
    bed.berth.apply(objects.pod("user", "sleep 1000", ["data"]))
    bed.berth.wait_phase("pods", "user", "Running", seconds=SECONDS)
    assert bed.kill_fuse() >= 1
    bed.restart_driver()
    bed.delete_pod("user")
    assert read(bed) == before


def test_berth_is_killed_on_the_way_to_a_pod(bed):
    """Berth killed from claim to pod"""
    for number, seconds in enumerate(MOMENTS):
        name = f"pod-{number}"
        bed.claim(f"c{number}")
        bed.berth.apply(objects.pod(name, f"echo kept >/c{number}/note && sync && cat /c{number}/note", [f"c{number}"]))
        bed.restart_berth_after(seconds)
        assert bed.end_of(name).strip() == "kept"


def test_berth_is_killed_during_deletion(bed):
    """Berth killed during deletion"""
    for number, seconds in enumerate(MOMENTS):
        claim = f"c{number}"
        bed.claim(claim)
        bed.berth.apply(objects.pod("user", f"echo kept >/{claim}/note; sleep 1000", [claim]))
        bed.berth.wait_phase("pods", "user", "Running", seconds=SECONDS)
        volume = bed.volume_of(claim)["metadata"]["name"]
        for kind, name in (("pod", "user"), ("pvc", claim)):
            bed.berth.run("delete", kind, name, "--wait=false")
        bed.restart_berth_after(seconds)
        bed.berth.wait_gone("pods", "user", SECONDS)
        bed.berth.wait_gone("pv", volume, SECONDS)
        wait_for("the driver's storage to be empty", lambda: not bed.driver.left(), 30)


@pytest.mark.needs(SNAPSHOTS)
def test_both_are_killed_while_a_snapshot_is_taken_and_restored(bed):
    """driver and Berth killed during snapshot and restore"""
    bed.claim("data")
    before = write(bed, "before")
    for number, seconds in enumerate(MOMENTS[:3]):
        snapshot, copy = f"s{number}", f"copy{number}"
        bed.ask_snapshot(snapshot, "data")
        bed.kill_driver_after(seconds)
        bed.restart_driver()
        bed.claim(copy, dataSource=source("VolumeSnapshot", snapshot))
        bed.restart_berth_after(seconds)
        bed.wait_snapshot(snapshot)
        assert read(bed, copy) == before
