"""Snapshots, restored volumes and clones of the shipped driver, by manifests as kubectl's users write them. Checksums
tell the data apart.
"""
import pytest
from lib import objects
from lib.ended_pods import run_to_end
from lib.standalone import wait_for

pytestmark = [pytest.mark.csi, pytest.mark.e2e]

GROUP = "snapshot.storage.k8s.io"
DEVICE = [{"name": "data", "devicePath": "/dev/data"}]


@pytest.fixture
def bed(berth, leak_free):
    """Makes a class of each policy. Afterwards no snapshot may be left, in the API or in the pool."""
    berth.apply([objects.snapshot_class("gone"), objects.snapshot_class("kept", policy="Retain")])
    yield berth
    berth.remove_everything()
    for name in ("gone", "kept"):
        berth.delete("volumesnapshotclass", name)
    assert not list((berth.data / "pool").rglob("*.img")), "an image is left in the pool"


def run(berth, name, script, claim="data", devices=None):
    """Runs a pod on the claim, deletes it, and gives its output."""
    _, output = run_to_end(berth, objects.pod(name, script, [claim], devices=devices))
    berth.run("delete", "pod", name)
    return output


def write(berth, text, claim="data"):
    """Fills the volume with repeated `text`, and gives the checksum."""
    fill = f"mkdir -p /{claim}/d && i=0; while [ $i -lt 20000 ]; do echo {text}-$i; i=$((i+1)); done > /{claim}/d/blob"
    return run(berth, f"writes-{text}", f"{fill} && sync && cat /{claim}/d/blob | sha256sum", claim)


def checksum(berth, claim):
    return run(berth, f"reads-{claim}", f"cat /{claim}/d/blob | sha256sum", claim)


def take(berth, name, claim="data", snapshot_class="gone"):
    berth.apply(objects.snapshot(name, claim, snapshot_class))
    return ready(berth, name)


def ready(berth, name):
    def probe():
        item = berth.get("volumesnapshots", name)
        return item if item.get("status", {}).get("readyToUse") else None
    return wait_for(f"snapshot {name} to be ready", probe)


def content_of(berth, snapshot):
    return berth.get("volumesnapshotcontents", snapshot["status"]["boundVolumeSnapshotContentName"])


def restore(berth, name, snapshot, size="64Mi", **spec):
    berth.apply(objects.claim(name, size, dataSource={"apiGroup": GROUP, "kind": "VolumeSnapshot", "name": snapshot},
                              **spec))


def test_a_snapshot_keeps_what_was_and_a_volume_restored_from_it_has_it(bed):
    bed.apply(objects.claim("data"))
    before = write(bed, "before")
    bed.apply(objects.pod("user", "sleep 1000", ["data"]))
    bed.wait_phase("pods", "user", "Running")
    snapshot = take(bed, "monday")
    assert snapshot["status"]["restoreSize"] == "64Mi"
    content = content_of(bed, snapshot)
    assert content["spec"]["source"]["volumeHandle"] == bed.get(
        "pv", bed.get("pvc", "data")["spec"]["volumeName"])["spec"]["csi"]["volumeHandle"]
    bed.run("delete", "pod", "user")
    after = write(bed, "after")
    restore(bed, "copy", "monday")
    assert checksum(bed, "copy") == before != after
    assert checksum(bed, "data") == after
    # The copy stays when its source and the snapshot are gone.
    bed.run("delete", "pvc", "data")
    bed.run("delete", "volumesnapshot", "monday")
    bed.wait_gone("volumesnapshotcontents", content["metadata"]["name"])
    assert checksum(bed, "copy") == before


def test_the_default_class_is_taken_and_a_larger_volume_restored(bed):
    default = {"snapshot.storage.kubernetes.io/is-default-class": "true"}
    bed.apply(objects.snapshot_class("gone", annotations=default))
    bed.apply(objects.claim("data"))
    before = write(bed, "small")
    bed.apply(objects.snapshot("monday", "data"))
    assert ready(bed, "monday")["spec"]["volumeSnapshotClassName"] == "gone"
    restore(bed, "copy", "monday", "96Mi")
    out = run(bed, "reader", "cat /copy/d/blob | sha256sum; df -m /copy | tail -1", "copy")
    assert out.splitlines()[0] == before.strip()
    assert int(out.splitlines()[1].split()[1]) > 75


def test_a_snapshot_that_is_kept_is_found_again_by_its_handle(bed):
    bed.apply(objects.claim("data"))
    before = write(bed, "kept")
    content = content_of(bed, take(bed, "monday", snapshot_class="kept"))
    bed.run("delete", "volumesnapshot", "monday")
    bed.run("delete", "volumesnapshotcontent", content["metadata"]["name"])
    bed.run("delete", "pvc", "data")
    bed.apply([objects.snapshot_content("by-hand", content["status"]["snapshotHandle"], "tuesday"),
               objects.snapshot("tuesday", content="by-hand")])
    ready(bed, "tuesday")
    restore(bed, "copy", "tuesday")
    assert checksum(bed, "copy") == before
    # This time the snapshot is deleted, by its policy.
    bed.run("delete", "volumesnapshot", "tuesday")
    bed.wait_gone("volumesnapshotcontents", "by-hand")


def test_a_clone_has_what_its_source_has_and_goes_its_own_way(bed):
    bed.apply(objects.claim("data"))
    before = write(bed, "original")
    bed.apply(objects.claim("copy", dataSource={"kind": "PersistentVolumeClaim", "name": "data"}))
    assert checksum(bed, "copy") == before
    changed = write(bed, "changed", "copy")
    assert checksum(bed, "data") == before != changed


def test_a_raw_block_volume_is_restored_byte_for_byte(bed):
    bed.apply(objects.claim("data", "32Mi", block=True))
    whole = run(bed, "writer", "dd if=/dev/urandom of=/dev/data bs=1M count=32 conv=fsync 2>/dev/null; "
                "dd if=/dev/data bs=1M 2>/dev/null | sha256sum", devices=DEVICE)
    assert content_of(bed, take(bed, "monday"))["spec"]["sourceVolumeMode"] == "Block"
    run(bed, "eraser", "dd if=/dev/zero of=/dev/data bs=1M count=32 conv=fsync 2>/dev/null", devices=DEVICE)
    bed.apply(objects.claim("copy", "32Mi", block=True,
                            dataSource={"apiGroup": GROUP, "kind": "VolumeSnapshot", "name": "monday"}))
    assert run(bed, "reader", "dd if=/dev/copy bs=1M 2>/dev/null | sha256sum", "copy",
               devices=[{"name": "copy", "devicePath": "/dev/copy"}]) == whole


def test_a_restored_volume_grows_unused_and_in_use(bed):
    """ext4 grows between two pods, xfs under a pod; the data stays."""
    bed.apply([objects.storage_class("of-xfs", "xfs"), objects.claim("data", "320Mi", "of-xfs")])
    before = write(bed, "grows")
    take(bed, "monday")
    restore(bed, "copy", "monday", "320Mi", storageClassName="of-xfs")
    bed.apply(objects.pod("user", "sleep 1000", ["copy"]))
    bed.wait_phase("pods", "user", "Running")
    bed.apply(objects.claim("copy", "400Mi", "of-xfs", dataSource=bed.get("pvc", "copy")["spec"]["dataSource"]))
    wait_for("the volume to have grown", lambda: bed.get("pvc", "copy")["status"]["capacity"]["storage"] == "400Mi")
    out = bed.run("exec", "user", "--", "/bin/sh", "-c", "cat /copy/d/blob | sha256sum; df -m /copy | tail -1").stdout
    assert out.splitlines()[0] == before.strip()
    assert int(out.splitlines()[1].split()[1]) > 300  # 64 MiB of 400 are the log, as of 320 before
    bed.run("delete", "pod", "user")
    bed.apply(objects.claim("small"))
    small = write(bed, "small", "small")
    take(bed, "tuesday", "small")
    restore(bed, "again", "tuesday")
    assert checksum(bed, "again") == small
    bed.apply(objects.claim("again", "96Mi", dataSource=bed.get("pvc", "again")["spec"]["dataSource"]))
    bed.wait_volume_size("again", "96Mi")
    out = run(bed, "reader", "cat /again/d/blob | sha256sum; df -m /again | tail -1", "again")
    assert out.splitlines()[0] == small.strip()
    assert int(out.splitlines()[1].split()[1]) > 75


def test_what_keeps_a_snapshot_is_explained(bed):
    def causes(name):
        return bed.run("explain", f"volumesnapshot/{name}", check=False).stdout

    bed.apply([objects.claim("data"), objects.snapshot("unbound", "data", "gone"),
               objects.snapshot("classless", "data", "none")])
    wait_for("the source", lambda: "has no volume yet" in causes("unbound"))
    write(bed, "some")
    ready(bed, "unbound")
    wait_for("the class", lambda: "VolumeSnapshotClass 'none' does not exist" in causes("classless"))
    bed.run("delete", "volumesnapshot", "classless")
    # A restored volume that waits for its first pod keeps the snapshot.
    restore(bed, "copy", "unbound")
    bed.run("delete", "volumesnapshot", "unbound", "--no-wait")
    wait_for("the claim", lambda: "claims that are Pending and name it: copy" in causes("unbound"))
    bed.run("delete", "pvc", "copy")
    bed.wait_gone("volumesnapshots", "unbound")
