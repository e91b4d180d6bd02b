"""deploy/csi/local, alone and with the proxy of deploy/crust/proxy, as pods under a real kubelet, from the image that tools/pod_image makes
for it."""
import pytest
import yaml
from lib import objects, pod_image
from lib.kubectl import render
from lib.kubernetes import runtimes
from lib.kubernetes.api_node import ACCOUNT, DRIVER, NAMESPACE
from lib.standalone import BINARY, ROOT, wait_for

pytestmark = [pytest.mark.kubernetes, runtimes.BOTH]

IMAGE = "berth.local/csi-local:1"
SNAPSHOT_CLASS = "local"


def for_this_node(node, daemonset):
    """Changes what depends on the node of the tests: the folders of its kubelet, and where its pods reach the API."""
    host, _, port = node.cluster.plane.server.rpartition("//")[2].partition(":")
    text = yaml.safe_dump(daemonset).replace("/var/lib/kubelet", str(node.kubelet_folder)).replace(
        "/var/lib/berth/", f"{node.folder}/").replace("/run/berth", f"{node.folder}/handlers")
    daemonset = yaml.safe_load(text)
    pod = daemonset["spec"]["template"]["spec"]
    pod["hostNetwork"] = True
    for container in pod["containers"]:
        container["image"] = IMAGE
        container.setdefault("env", []).extend([{"name": "KUBERNETES_SERVICE_HOST", "value": host},
                                                {"name": "KUBERNETES_SERVICE_PORT", "value": port}])
    return daemonset


def roll_out(cluster, daemonset):
    """Creates the DaemonSet, or replaces the one of that name, and waits until its pod is ready."""
    name = daemonset["metadata"]["name"]
    cluster.create(daemonset, NAMESPACE)
    replaced = cluster.api.put(cluster.path("DaemonSet", NAMESPACE, name), daemonset)
    assert replaced.code == 200, replaced

    def is_ready():
        status = cluster.get("DaemonSet", name, NAMESPACE)["status"]
        return (status.get("observedGeneration", 0) >= replaced.json["metadata"]["generation"] and
                status.get("updatedNumberScheduled") == 1 and status.get("numberAvailable") == 1)
    try:
        wait_for("the pod of the DaemonSet", is_ready, 180)
    except AssertionError as failure:
        raise AssertionError(f"{failure}\n{[pod['status'] for pod in cluster.items('Pod', NAMESPACE)]}") from None


@pytest.mark.parametrize("folder", ["csi/local", "crust/proxy"])
def test_the_local_driver_as_pods(bare_node, folder):
    """The folder of deploy/ runs from its image, a pod gets a volume of it, a snapshot of the volume is taken, and nothing is refused to
    its account."""
    cluster = bare_node.cluster
    pod_image.import_into(bare_node.runtime, "csi-local", bare_node.folder / "image.tar")
    cluster.install_snapshots()
    for item in render(ROOT / "deploy" / folder).values():
        if item["kind"] == "DaemonSet":
            roll_out(cluster, for_this_node(bare_node, item))
        else:
            cluster.create(item, item["metadata"].get("namespace"))
    wait_for("the driver on the node", lambda: bare_node.lists(DRIVER), 120)
    assert (bare_node.folder / "crust-proxy").exists() == (folder == "crust/proxy"), "its records"
    cluster.create(objects.claim("data", storage_class="local"), "default")
    bare_node.create_pod(objects.pod("user", "echo kept > /data/file && cat /data/file", ["data"]))
    bare_node.wait_pod("user", "Succeeded")
    bare_node.delete_pod("user")
    take_a_snapshot(bare_node)
    cluster.delete("PersistentVolumeClaim", "data", "default")
    wait_for("the volume to be gone", lambda: not list((bare_node.folder / "pool").rglob("*.img")))
    assert cluster.requests_of(NAMESPACE, ACCOUNT) and not cluster.refused_to(NAMESPACE, ACCOUNT)


def take_a_snapshot(node):
    """Takes a snapshot of the claim and deletes it. deploy/csi/snapshot-controller runs outside the node, with its own account."""
    cluster = node.cluster
    for item in render(ROOT / "deploy/csi/snapshot-controller").values():
        if item["kind"] != "Deployment":
            cluster.create(item, item["metadata"].get("namespace"))
    config = cluster.write_token(node.folder / "snapshot-controller", "kube-system", "snapshot-controller")
    if "snapshot-controller" not in node.processes:
        node.run("snapshot-controller", BINARY, "snapshot-controller", f"--kubeconfig={config}", "--enable-distributed-snapshotting")
    cluster.create(objects.snapshot("snap", "data", SNAPSHOT_CLASS), "default")
    wait_for("the snapshot", lambda: (cluster.get("VolumeSnapshot", "snap", "default").get("status") or {}).get("readyToUse"), 60)
    cluster.delete("VolumeSnapshot", "snap", "default")
    wait_for("the snapshot to be gone", lambda: not cluster.items("VolumeSnapshotContent"), 60)
