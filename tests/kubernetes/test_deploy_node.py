"""deploy/csi/local as pods under a real kubelet, from the image that tools/pod_image makes for it."""
import pytest
import yaml
from lib import objects, pod_image
from lib.kubectl import render
from lib.kubernetes import runtimes
from lib.kubernetes.api_node import DRIVER, NAMESPACE
from lib.standalone import ROOT, wait_for

pytestmark = [pytest.mark.kubernetes, runtimes.BOTH]

IMAGE = "berth.local/csi-local:1"


def for_this_node(node, daemonset):
    """Changes what depends on the node of the tests: the folders of its kubelet, and where its pods reach the API."""
    host, _, port = node.cluster.plane.server.rpartition("//")[2].partition(":")
    text = yaml.safe_dump(daemonset).replace("/var/lib/kubelet", str(node.kubelet_folder)).replace(
        "/var/lib/berth/pool", f"{node.folder}/pool")
    daemonset = yaml.safe_load(text)
    pod = daemonset["spec"]["template"]["spec"]
    pod["hostNetwork"] = True
    for container in pod["containers"]:
        container["image"] = IMAGE
        container.setdefault("env", []).extend([{"name": "KUBERNETES_SERVICE_HOST", "value": host},
                                                {"name": "KUBERNETES_SERVICE_PORT", "value": port}])
    return daemonset


def test_the_local_driver_as_pods(bare_node):
    """deploy/csi/local runs from its image, and a pod gets a volume of it."""
    cluster = bare_node.cluster
    pod_image.import_into(bare_node.runtime, "csi-local", bare_node.folder / "image.tar")
    cluster.install_snapshots()
    for item in render(ROOT / "deploy/csi/local").values():
        if item["kind"] == "DaemonSet":
            answer = cluster.api.post(f"/apis/apps/v1/namespaces/{NAMESPACE}/daemonsets", for_this_node(bare_node, item))
            assert answer.code == 201, answer
        else:
            cluster.create(item, item["metadata"].get("namespace"))
    try:
        wait_for("the driver on the node", lambda: bare_node.lists(DRIVER), 120)
    except AssertionError as failure:
        raise AssertionError(f"{failure}\n{[pod['status'] for pod in cluster.items('Pod', NAMESPACE)]}") from None
    cluster.create(objects.claim("data", storage_class="local"), "default")
    bare_node.create_pod(objects.pod("user", "echo kept > /data/file && cat /data/file", ["data"]))
    bare_node.wait_pod("user", "Succeeded")
    bare_node.delete_pod("user")
    cluster.delete("PersistentVolumeClaim", "data", "default")
    wait_for("the volume to be gone", lambda: not list((bare_node.folder / "pool").rglob("*.img")))
