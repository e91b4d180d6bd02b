"""PersistentVolumes without a driver: a local disk is used from the claim to a second pod, and events say why a
network file system cannot be mounted."""
import pathlib
import subprocess
import tempfile

import pytest
from lib import handmade_pod, objects
from lib.mounts import targets
from lib.standalone import wait_for

pytestmark = [pytest.mark.mountpod, pytest.mark.e2e]


@pytest.fixture
def disk():
    """Gives a blank block device of this machine."""
    with tempfile.NamedTemporaryFile(prefix="bt-disk-", dir="/var/tmp") as image:
        image.truncate(64 << 20)
        device = subprocess.check_output(["losetup", "--find", "--show", image.name], text=True).strip()
        yield device
        wait_for("the device to be detached",
                 lambda: subprocess.run(["losetup", "--detach", device], capture_output=True).returncode == 0
                 or image.name not in subprocess.check_output(["losetup", "--list", "--output", "BACK-FILE"], text=True))


def volume(name, source, modes=("ReadWriteOnce",), **spec):
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
            "spec": {"capacity": {"storage": "64Mi"}, "accessModes": list(modes), "storageClassName": "by-hand",
                     "persistentVolumeReclaimPolicy": "Retain", **source, **spec}}


def on_node(name):
    return {"required": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [name]}]}]}}


def test_a_local_disk_serves_one_pod_after_another(berth, leak_free, disk):
    berth.apply([
        objects.storage_class("by-hand", provisioner="kubernetes.io/no-provisioner"),
        volume("elsewhere", {"local": {"path": "/nowhere"}}, nodeAffinity=on_node("node-b")),
        volume("disk", {"local": {"path": disk}}, nodeAffinity=on_node("node-a")),
        objects.claim("data", storage_class="by-hand"),
        objects.pod("first", "echo precious >/data/file && sync /data/file", claims=["data"], securityContext={"fsGroup": 4242}),
    ])
    berth.wait_phase("pod", "first", "Succeeded")
    assert berth.get("persistentvolumeclaim", "data")["spec"]["volumeName"] == "disk"
    berth.run("delete", "pod", "first")
    berth.wait_gone("pod", "first")
    berth.kill()
    berth.start()
    berth.apply(objects.pod("second", "cat /data/file && stat -c %g /data/file && sleep 1000", claims=["data"]))
    berth.wait_phase("pod", "second", "Running")
    wait_for("the data", lambda: berth.run("logs", "second").stdout == "precious\n4242\n")
    mount = f"{berth.data}/kubelet/plugins/kubernetes.io/local-volume/mounts/disk"
    assert mount in targets()
    berth.run("delete", "pod", "second")
    berth.wait_gone("pod", "second")
    wait_for("the disk to be unmounted", lambda: mount not in targets())


def told(berth, pod, text):
    wait_for(f"an event that says {text!r}",
             lambda: any(text in event["message"] for event in berth.events(pod)))


@pytest.mark.skipif(pathlib.Path("/sbin/mount.glusterfs").exists(), reason="this machine can mount GlusterFS")
def test_who_cannot_mount_a_network_file_system_is_told_why(berth, leak_free):
    berth.apply([
        volume("shared", {"glusterfs": {"endpoints": "servers", "path": "scratch"}}, modes=["ReadWriteMany"]),
        objects.claim("data", storage_class="by-hand", accessModes=["ReadWriteMany"]),
        objects.pod("web", "sleep 1000", claims=["data"]),
    ])
    told(berth, "web", "Endpoints 'default/servers', which list the servers of the volume, do not exist")
    berth.apply({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "servers"},
                 "subsets": [{"addresses": [{"ip": "10.214.255.254"}], "ports": [{"port": 1}]}]})
    text = "deploy a pod that has it and registers for 'kubernetes.io/glusterfs'"
    told(berth, "web", text)
    wait_for("an explanation", lambda: text in berth.run("explain", "pod", "web", check=False).stdout)


def test_the_gate_off_is_the_plain_host_way(disk, new_berth):
    """A pod without mkfs.ext4 is registered for local disks. With the feature gate off nothing runs in it."""
    berth = new_berth().start()
    kubelet = berth.data / "kubelet"
    assert (kubelet / "plugin-containers").stat().st_mode & 0o777 == 0o755
    berth.apply(handmade_pod.pod("tools", kubelet))
    handmade_pod.register(berth, "tools", "kubernetes.io/local-volume")
    berth.apply([
        volume("disk", {"local": {"path": disk}}, nodeAffinity=on_node("node-a")),
        objects.claim("data", storage_class="by-hand"),
        objects.pod("web", "echo precious >/data/file", claims=["data"]),
    ])
    told(berth, "web", "no program 'mkfs.ext4' in container 'main' of pod default/tools")
    berth.stop()
    berth.flags += ["--feature-gates", "MountContainers=false"]
    berth.start()
    berth.wait_phase("pod", "web", "Succeeded")
    assert handmade_pod.path(kubelet, "kubernetes.io/local-volume").exists()
    assert berth.get("pod", "tools")["status"]["phase"] == "Running"
