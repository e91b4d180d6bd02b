"""Pods under a real kubelet use volumes of Berth's shipped driver, whose roles and registrar run beside the kubelet."""
import shutil

import pytest
from lib import mounts, objects
from lib.kubernetes import runtimes
from lib.kubernetes.api_node import DRIVER
from lib.standalone import wait_for

pytestmark = [pytest.mark.kubernetes, runtimes.BOTH]


def test_data_survive_the_pod(real_node):
    """A pod with a claim that waits for its first consumer becomes Running, its data survive its deletion, and the volume goes with
    the claim."""
    cluster = real_node.cluster
    cluster.create(objects.claim("data", storage_class="local"), "default")
    real_node.create_pod(objects.pod("writer", "echo kept > /data/file && sync && sleep 1000", ["data"]))
    real_node.wait_pod("writer", "Running")
    volume = cluster.get("PersistentVolumeClaim", "data", "default")["spec"]["volumeName"]
    assert cluster.get("PersistentVolume", volume)["spec"]["csi"]["driver"] == DRIVER
    assert cluster.get("PersistentVolumeClaim", "data", "default")["status"]["phase"] == "Bound"
    real_node.delete_pod("writer")
    assert not real_node.mounts_of(volume), mounts.targets()

    real_node.create_pod(objects.pod("reader", "test $(cat /data/file) = kept", ["data"]))
    real_node.wait_pod("reader", "Succeeded")
    real_node.delete_pod("reader")
    cluster.delete("PersistentVolumeClaim", "data", "default")
    wait_for("the volume to be gone", lambda: cluster.get("PersistentVolume", volume) is None)
    assert not list((real_node.folder / "pool").rglob("*.img"))


def test_a_claim_for_one_pod_alone(real_node):
    """A second pod with the same claim of ReadWriteOncePod is held back, and starts when the first one is gone."""
    cluster = real_node.cluster
    cluster.create(objects.claim("single", storage_class="local", accessModes=["ReadWriteOncePod"]), "default")
    real_node.create_pod(objects.pod("one", "echo one > /single/file && sync && sleep 1000", ["single"]))
    real_node.wait_pod("one", "Running")
    real_node.create_pod(objects.pod("two", "test $(cat /single/file) = one && sleep 1000", ["single"]))
    wait_for("the second pod to be held back", lambda: any(
        each.get("reason") == "Unschedulable" and "ReadWriteOncePod" in each["message"]
        for each in cluster.get("Pod", "two", "default")["status"].get("conditions") or []))
    real_node.delete_pod("one")
    real_node.wait_pod("two", "Running")
    real_node.delete_pod("two")
    cluster.delete("PersistentVolumeClaim", "single", "default")
    wait_for("the volume to be gone", lambda: not list((real_node.folder / "pool").rglob("*.img")))


def test_a_pod_that_the_scheduler_did_not_place(real_node):
    """The kubelet and the driver hold a second pod of ReadWriteOncePod back, too, when it names its node itself."""
    cluster = real_node.cluster
    cluster.create(objects.claim("sole", storage_class="local", accessModes=["ReadWriteOncePod"]), "default")
    real_node.create_pod(objects.pod("placed", "sleep 1000", ["sole"]))
    real_node.wait_pod("placed", "Running")
    real_node.create_pod(objects.pod("forced", "sleep 1000", ["sole"], nodeName=real_node.name))
    wait_for("the kubelet to refuse the volume", lambda: any(
        event["reason"] == "FailedMount" and event["involvedObject"].get("name") == "forced"
        for event in cluster.items("Event", "default")))
    assert cluster.get("Pod", "forced", "default")["status"]["phase"] == "Pending"
    real_node.delete_pod("placed")
    real_node.wait_pod("forced", "Running", 180)
    real_node.delete_pod("forced")
    cluster.delete("PersistentVolumeClaim", "sole", "default")
    wait_for("the volume to be gone", lambda: not list((real_node.folder / "pool").rglob("*.img")))


@pytest.mark.parametrize("fs_type", ["btrfs", "xfs"])
def test_other_file_systems(real_node, fs_type):
    """A volume with another file system than ext4 is used under the kubelet, with an fsGroup."""
    if shutil.which(f"mkfs.{fs_type}") is None:
        pytest.skip(f"this machine has no mkfs.{fs_type}")
    cluster = real_node.cluster
    cluster.create(objects.storage_class(fs_type, fs_type))
    cluster.create(objects.claim(fs_type, "400Mi", storage_class=fs_type), "default")
    script = f"grep ' /{fs_type} {fs_type} ' /proc/mounts && touch /{fs_type}/file && stat -c %g /{fs_type}/file | grep -x 2345"
    real_node.create_pod(objects.pod(fs_type, script, [fs_type], securityContext={"fsGroup": 2345}))
    real_node.wait_pod(fs_type, "Succeeded")
    real_node.delete_pod(fs_type)
    cluster.delete("PersistentVolumeClaim", fs_type, "default")
    wait_for("the volume to be gone", lambda: not list((real_node.folder / "pool").rglob("*.img")))


def test_a_sub_path_with_an_fs_group(real_node):
    """A user who is not root writes by the fsGroup to a subPath of a volume, which a second pod finds below the volume's top."""
    cluster = real_node.cluster
    cluster.create(objects.claim("parts", storage_class="local"), "default")
    real_node.create_pod(objects.pod(
        "of-a-part", "echo kept > /part/file && stat -c %g /part/file | grep -x 2345 && grep ' /part ext4 ' /proc/mounts", ["parts"],
        mounts=[{"name": "parts", "mountPath": "/part", "subPath": "one/two"}],
        securityContext={"runAsUser": 1000, "runAsGroup": 1000, "fsGroup": 2345}))
    real_node.wait_pod("of-a-part", "Succeeded")
    volume = cluster.get("PersistentVolumeClaim", "parts", "default")["spec"]["volumeName"]
    real_node.delete_pod("of-a-part")
    # The API at once deletes a pod that has ended.
    wait_for("its mounts to be gone", lambda: not [target for target in mounts.targets() if volume in target])
    real_node.create_pod(objects.pod("of-all", "test $(cat /parts/one/two/file) = kept", ["parts"]))
    real_node.wait_pod("of-all", "Succeeded")
    real_node.delete_pod("of-all")
    cluster.delete("PersistentVolumeClaim", "parts", "default")
    wait_for("the volume to be gone", lambda: not list((real_node.folder / "pool").rglob("*.img")))


def test_a_block_volume(real_node):
    """A pod has a volume as a block device, a second pod finds what the first one wrote, and no loop device is left."""
    cluster = real_node.cluster
    cluster.create(objects.claim("disk", storage_class="local", block=True), "default")
    device = [{"name": "disk", "devicePath": "/dev/disk"}]
    scripts = {"writes": "test -b /dev/disk && echo kept | dd of=/dev/disk conv=fsync", "reads": "head -n 1 /dev/disk | grep -x kept"}
    for name, script in scripts.items():
        real_node.create_pod(objects.pod(name, script, ["disk"], devices=device))
        real_node.wait_pod(name, "Succeeded")
        real_node.delete_pod(name)
    cluster.delete("PersistentVolumeClaim", "disk", "default")
    wait_for("the volume to be gone", lambda: not list((real_node.folder / "pool").rglob("*.img")))
    wait_for("the loop devices to be gone", lambda: not mounts.loops_below(real_node.folder), 20)
