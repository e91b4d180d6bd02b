"""The kinds of deploy/mount-pod besides GlusterFS, each from its own image: CephFS with a real cluster, and NFS as
far as possible with a kernel that has no NFS (tests/vm/test_file_systems.py mounts an export with the image)."""
import base64
import os
import pathlib
import shutil
import subprocess

import pytest
from lib import debian_root, mount_pods, objects, pod_image
from lib.ended_pods import run_to_end
from lib.mounts import targets
from lib.standalone import ROOT, wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.mountpod]

HOST_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


@pytest.fixture
def mount_pod(request, runtime, module_berth, tmp_path):
    """Gives (the DaemonSet, its pod) of the kind that the test asks for."""
    kind = request.param
    try:
        debian_root.fetch(mount_pods.packages(kind))
    except debian_root.Missing as missing:
        pytest.skip(str(missing))
    pod_image.import_into(runtime, kind, tmp_path / "image.tar")
    made = mount_pods.MountPods(module_berth, kind).apply()
    yield made, made.wait_ready()
    module_berth.remove_everything(seconds=60)
    made.delete()


def lives(berth, mount_pod):
    """Checks that the pod is registered, alive by its template's probe, and has all utilities, also mkfs and fsck."""
    pods, pod = mount_pod
    assert pods.registered() == pod["metadata"]["uid"]
    [container] = pods.daemon_set["spec"]["template"]["spec"]["containers"]
    berth.run("exec", pod["metadata"]["name"], "-n", mount_pods.NAMESPACE, "--", *container["livenessProbe"]["exec"]["command"])
    assert [status["restartCount"] for status in pod["status"]["containerStatuses"]] == [0]
    found = {f["name"]: f for f in mount_pods.doctor(berth) if f["area"] == "mount pods" and pods.kind in f["text"]}
    assert {name: f["verdict"] for name, f in found.items()} == {"registration": "ok", "utilities": "ok"}, found


def absent_here(program):
    return shutil.which(program, path=f"{HOST_PATH}:{os.environ['PATH']}") is None


def pod(name, script, volume):
    return objects.pod(name, script, mounts=[{"name": "data", "mountPath": "/data"}], volumes=[{"name": "data", **volume}])


@pytest.mark.skipif(not absent_here("ceph-fuse"), reason="this machine has a ceph-fuse of its own")
@pytest.mark.parametrize("mount_pod", ["cephfs"], indirect=True)
def test_cephfs_by_the_utilities_of_a_pod(module_berth, ceph_cluster, mount_pod):
    berth = module_berth
    lives(berth, mount_pod)
    key = base64.b64encode(ceph_cluster.keys["client.admin"].encode()).decode()
    berth.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "ceph"}, "data": {"key": key}})
    volume = {"cephfs": {"monitors": [ceph_cluster.monitor], "secretRef": {"name": "ceph"}}}

    berth.apply(pod("writer", "echo precious >/data/file && sync /data/file && sleep 1000", volume))
    writer = berth.wait_phase("pod", "writer", "Running")
    target = f"{berth.data}/kubelet/pods/{writer['metadata']['uid']}/volumes/kubernetes.io~cephfs/data"
    serving = mount_pods.daemons(berth.data, "ceph-fuse")
    assert serving == {target: mount_pod[1]["metadata"]["uid"]}, "its daemon runs in the mount pod"
    assert target in targets(), "the host sees it"
    # Another pod mounts the volume, and sees what has reached the cluster.
    _, said = run_to_end(berth, pod("reader", "until cat /data/file; do sleep 0.1; done", volume))
    assert said == "precious\n"

    for name in "reader", "writer":
        berth.delete("pod", name)
        berth.wait_gone("pod", name)
    assert not [t for t in targets() if "kubernetes.io~cephfs" in t and t.startswith(str(berth.data))]
    wait_for("the daemons to end", lambda: not mount_pods.daemons(berth.data, "ceph-fuse"))


def in_pod(berth, plugin, *argv):
    """Runs a utility as the node agent runs those of the plugin."""
    return subprocess.check_output(
        [ROOT / "build" / "bin" / "plugin_utility", "--kubelet", berth.data / "kubelet", "--data", berth.folder / "records",
         "--runtime", berth.runtime_socket, "--plugin", plugin, "run", "--", *argv], text=True)


@pytest.mark.skipif("nfs" in pathlib.Path("/proc/filesystems").read_text(), reason="this kernel can mount NFS")
@pytest.mark.parametrize("mount_pod", ["nfs"], indirect=True)
def test_nfs_by_the_utilities_of_a_pod(module_berth, mount_pod):
    berth = module_berth
    lives(berth, mount_pod)
    [kernel] = [f for f in mount_pods.doctor(berth) if f["area"] == "kernel" and f["name"] == "nfs"]
    assert kernel["verdict"] == "bad" and "modprobe nfs" in kernel["advice"]
    said = in_pod(berth, "kubernetes.io/nfs", "mount.nfs", "-V")
    assert "linux nfs-utils" in said, said

    # The event has the error of the pod's mount.nfs.
    berth.apply(pod("web", "true", {"nfs": {"server": "127.0.0.1", "path": "/"}}))
    text = f"container 'mount' of pod {mount_pods.NAMESPACE}/{mount_pod[1]['metadata']['name']}"
    told = wait_for("an event", lambda: [e["message"] for e in berth.events("web") if e["reason"] == "FailedMount"])
    assert text in told[0] and "mount.nfs: " in told[0], told
    assert berth.get("pod", "web")["status"]["phase"] == "Pending"
    assert not [t for t in targets() if "kubernetes.io~nfs" in t and t.startswith(str(berth.data))]
