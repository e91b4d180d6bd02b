"""A real kubelet in the virtual machine, where root has CAP_SYS_RESOURCE and the kernel has NFS: what the kernel of a container's
host may refuse."""
import pytest
from lib import block_agent, objects
from lib.kubectl import render
from lib.kubernetes import node, programs, vm_node
from lib.kubernetes.cluster import Cluster
from lib.kubernetes.control_plane import PROGRAMS, running_plane
from lib.standalone import ROOT
from lib.vm.iscsi import PORTAL, TARGET

pytestmark = pytest.mark.kubernetes

GROWN = 200_000  # KiB, of a file system of 256 MiB


@pytest.fixture(scope="module")
def machine():
    """Gives the node in the virtual machine."""
    missing = programs.missing(*PROGRAMS, *node.PROGRAMS) or vm_node.missing()
    if missing:
        pytest.skip(missing)
    with running_plane(with_node=True) as plane:
        made = vm_node.VmNode(Cluster(plane.kubeconfig, plane=plane))
        try:
            yield made.start()
        finally:
            made.end()


def has_grown(name):
    """A probe of a container: whether the file system that it has mounted at /NAME is large, and has its data."""
    script = f"grep -q ' /{name} ext4 ' /proc/mounts && grep -qx kept /{name}/file && " \
             f"test $(df -Pk /{name} | awk 'END {{print $2}}') -gt {GROWN}"
    return {"exec": {"command": ["/bin/sh", "-c", script]}, "periodSeconds": 2, "timeoutSeconds": 30, "failureThreshold": 1}


def container_of(pod):
    return pod["status"]["containerStatuses"][0]["containerID"]


@pytest.mark.parametrize("name", ["csi", "flexvolume"])
def test_ext4_grows_under_a_pod(machine, name):
    """A mounted ext4 of a claim grows under its running pod, which sees the new size and its data, and nothing of the growth is left
    on the claim."""
    cluster = machine.cluster
    if name == "csi":
        cluster.create(objects.storage_class(name, "ext4"))
    else:
        block_agent.make_class(cluster, name, machine.block_images, "ext4")
    cluster.create(objects.claim(name, "64Mi", name), "default")
    machine.create_pod(objects.pod(name, f"echo kept > /{name}/file && sync && sleep 10000", [name],
                                   container={"readinessProbe": has_grown(name)}))
    before = machine.wait_pod(name, "Running", vm_node.SECONDS)
    assert not objects.is_ready(before)
    cluster.patch("PersistentVolumeClaim", name, {"spec": {"resources": {"requests": {"storage": "256Mi"}}}}, "default")
    machine.wait_for("the pod to see the new size", lambda: objects.is_ready(cluster.get("Pod", name, "default")))
    assert container_of(cluster.get("Pod", name, "default")) == container_of(before)

    def is_done():
        status = cluster.get("PersistentVolumeClaim", name, "default")["status"]
        left = [key for key in ("conditions", "allocatedResourceStatuses") if status.get(key)]
        return status["capacity"]["storage"] == "256Mi" and not left
    machine.wait_for("the growth to be over", is_done)
    volume = cluster.get("PersistentVolumeClaim", name, "default")["spec"]["volumeName"]
    assert cluster.get("PersistentVolume", volume)["spec"]["capacity"]["storage"] == "256Mi"
    machine.delete_pod(name, vm_node.SECONDS)
    cluster.delete("PersistentVolumeClaim", name, "default")
    machine.wait_for("the volume to be gone", lambda: cluster.get("PersistentVolume", volume) is None)


def deploy_mount_pod(machine, kind):
    """Creates what deploy/mount-pod/KIND has, and waits until the pod is registered."""
    cluster = machine.cluster
    for item in render(ROOT / "deploy/mount-pod" / kind).values():
        if item["kind"] == "DaemonSet":
            answer = cluster.api.post("/apis/apps/v1/namespaces/berth-mount/daemonsets", item)
            assert answer.code == 201, answer
        elif item["kind"] != "Namespace" or cluster.get("Namespace", "berth-mount") is None:
            cluster.create(item, item["metadata"].get("namespace"))
    machine.wait_for("the mount pod", lambda: any(
        objects.is_ready(pod) for pod in cluster.items("Pod", "berth-mount") if pod["metadata"]["name"].startswith(f"{kind}-")))


def share(name, script):
    """Gives a pod with the export that the machine serves, at /share."""
    return objects.pod(name, script, mounts=[{"name": "share", "mountPath": "/share"}],
                       volumes=[{"name": "share", "nfs": {"server": "127.0.0.1", "path": "/"}}])


def test_nfs_by_the_shim_and_a_mount_pod(machine):
    """The kubelet mounts an NFS volume by `berth-shim`, whose utility is in the mount pod of deploy/mount-pod/nfs alone. A pod reads
    what another one writes."""
    cluster = machine.cluster
    machine.create_pod(share("first", "grep ' /share nfs4 ' /proc/mounts && echo one > /share/of-first && cat /share/of-first && "
                                      "until grep -x two /share/of-second; do sleep 1; done"))
    machine.wait_for("the shim to miss the mount pod", lambda: any(
        event["reason"] == "FailedMount" and "no pod that runs on this node is registered for kubernetes.io/nfs" in event["message"]
        for event in cluster.items("Event", "default") if event["involvedObject"].get("name") == "first"))
    deploy_mount_pod(machine, "nfs")
    machine.wait_pod("first", "Running", vm_node.SECONDS)
    machine.create_pod(share("second", "grep -x one /share/of-first && echo two > /share/of-second"))
    for name in ("second", "first"):
        machine.wait_pod(name, "Succeeded", vm_node.SECONDS)
    for name in ("second", "first"):
        machine.delete_pod(name, vm_node.SECONDS)


def lun(name, script):
    """Gives a pod with an XFS on the LUN that the machine serves, at /disk."""
    return objects.pod(name, f"grep ' /disk xfs ' /proc/mounts && {script}", mounts=[{"name": "disk", "mountPath": "/disk"}],
                       volumes=[{"name": "disk", "iscsi": {"targetPortal": PORTAL, "iqn": TARGET, "lun": 1, "fsType": "xfs"}}])


def test_iscsi_by_the_shims_and_a_mount_pod(machine):
    """The kubelet logs in to a target, formats the LUN and logs out by shims, whose utilities are in the mount pod of
    deploy/mount-pod/iscsi alone, and so are modprobe's and iscsid's work. A pod reads what an earlier one wrote."""
    deploy_mount_pod(machine, "iscsi")
    for name, script in (("writer", "echo kept > /disk/file"), ("reader", "grep -x kept /disk/file")):
        machine.create_pod(lun(name, script))
        machine.wait_pod(name, "Succeeded", vm_node.SECONDS)
        machine.delete_pod(name, vm_node.SECONDS)
