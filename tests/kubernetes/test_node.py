"""Pods under a real kubelet use volumes of Berth's shipped driver, whose roles and registrar run beside the kubelet."""
import pytest
from lib import mounts, objects
from lib.kubernetes.node import DRIVER
from lib.standalone import wait_for

pytestmark = pytest.mark.kubernetes


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
