"""The manifests by which the hostpath driver is deployed upstream, as pods of a node, with the images of the Go programs or of Berth.

BERTH_HOSTPATH_MANIFESTS names a folder with them: those of the driver, which have a StatefulSet for each sidecar, those of the
snapshot-controller, and the roles of each sidecar's own repository, all of them as they are.
"""
import os
import pathlib
import subprocess
import sys

import pytest
import yaml
from lib.kubectl import installed
from lib.kubernetes import programs
from lib.standalone import BINARY, ROOT, wait_for

FOLDER = os.environ.get("BERTH_HOSTPATH_MANIFESTS")
DRIVER = "hostpath.csi.k8s.io"
SNAPSHOT_CLASS = "csi-hostpath-snapclass"
PLUGIN = "hostpathplugin"
SIDECARS = ("csi-provisioner", "csi-attacher", "csi-resizer", "csi-snapshotter", "snapshot-controller", "csi-node-driver-registrar",
            "livenessprobe")
# No sidecar that Berth stands in for: it only writes events about volumes that the driver calls unhealthy.
LEFT_OUT = "csi-external-health-monitor-controller"


def missing():
    """Says what is not there, or gives an empty text."""
    if not FOLDER:
        return "BERTH_HOSTPATH_MANIFESTS names no folder of manifests"
    return programs.missing(PLUGIN, *SIDECARS)


def program_of(image):
    """Gives the program that an image has: csi-resizer of registry.k8s.io/sig-storage/csi-resizer:v2.2.1."""
    return image.rpartition("/")[2].partition(":")[0]


def import_images(node, side):
    """Makes an image for each sidecar, as deploy/csi/Containerfile does for Berth, and one for the driver."""
    root = node.folder / "image-root"
    subprocess.run([ROOT / "deploy" / "csi" / "image-root", BINARY, root], check=True, capture_output=True)
    for program in (*SIDECARS, PLUGIN):
        of_berth = side == "berth" and program != PLUGIN
        added = f"{root}=." if of_berth else f"{programs.find(program)}=/{program}"
        archive = node.folder / "image.tar"
        subprocess.run([sys.executable, ROOT / "tools" / "make_image", "--add", added, "--entrypoint", f"/{program}", archive,
                        f"{side}.local/{program}:1"], check=True, timeout=120)
        subprocess.run(["ctr", "--address", node.runtime, "-n", "k8s.io", "images", "import", archive],
                       check=True, capture_output=True, timeout=120)
        archive.unlink()


class Deployment:
    """What the manifests make on a node."""

    def __init__(self, node):
        self.node = node
        self._kubectl = max(installed().items(), key=lambda entry: entry[1][:2], default=(None, None))[0]
        if self._kubectl is None:
            pytest.skip("no kubectl is here")
        self._workloads = []

    def apply(self, side):
        """Applies the manifests with the images of a side, and waits until their pods run."""
        items = [item for item in self._items(side) if item is not None]
        # Roles and accounts come before the pods that use them.
        items.sort(key=lambda item: item["kind"] in ("StatefulSet", "Deployment"))
        applied = subprocess.run([self._kubectl, "--kubeconfig", self.node.cluster.kubeconfig, "apply", "-f", "-"], text=True,
                                 input=yaml.safe_dump_all(items), capture_output=True, timeout=120)
        assert applied.returncode == 0, applied.stderr
        self._workloads = [(item["kind"], item["metadata"].get("namespace", "default"), item["metadata"]["name"])
                           for item in items if item["kind"] in ("StatefulSet", "Deployment")]
        try:
            wait_for("the pods of the manifests", lambda: all(self._is_up(*each) for each in self._workloads), 240)
            wait_for("the driver on the node", lambda: self.node.lists(DRIVER), 60)
        except AssertionError as failure:
            raise AssertionError(f"{failure}\n{self.states()}\n{self.logs()}") from None

    def _items(self, side):
        """Gives the objects of all files with what depends on the node of the tests."""
        for path in sorted(pathlib.Path(FOLDER).rglob("*.yaml")):
            # The folder of the kubelet, as upstream's own script replaces it, and the driver's.
            text = path.read_text().replace("/var/lib/kubelet/", f"{self.node.kubelet_folder}/").replace(
                "/var/lib/csi-hostpath-data/", f"{self.node.folder}/hostpath/")
            for item in yaml.safe_load_all(text):
                if item is not None and item["kind"] in ("StatefulSet", "Deployment"):
                    item = self._for_this_node(item, side)
                yield item

    def _for_this_node(self, item, side):
        """Changes the images, and where pods reach the API: the node has no network for pods. Gives None if nothing remains."""
        host, _, port = self.node.cluster.plane.server.rpartition("//")[2].partition(":")
        pod = item["spec"]["template"]["spec"]
        # A container with a command of its own (socat) serves no sidecar: it shows the driver's socket to the outside.
        pod["containers"] = [each for each in pod["containers"] if "command" not in each and program_of(each["image"]) != LEFT_OUT]
        for container in pod["containers"]:
            program = program_of(container["image"])
            container["image"] = f"{'go' if program == PLUGIN else side}.local/{program}:1"
            container.setdefault("env", []).extend([{"name": "KUBERNETES_SERVICE_HOST", "value": host},
                                                    {"name": "KUBERNETES_SERVICE_PORT", "value": port}])
        pod["hostNetwork"] = True
        # Pods in the network of the node share its host name, by which the Go program elects its leader.
        item["spec"]["replicas"] = 1
        return item if pod["containers"] else None

    def _is_up(self, kind, namespace, name):
        answer = self.node.cluster.api.get(f"/apis/apps/v1/namespaces/{namespace}/{kind.lower()}s/{name}")
        assert answer.code == 200, answer
        status = answer.json.get("status") or {}
        return status.get("observedGeneration") == answer.json["metadata"]["generation"] and \
            status.get("updatedReplicas") == 1 and status.get("readyReplicas") == 1

    def pods(self):
        """Gives the pods of the manifests."""
        names = {name for _, _, name in self._workloads}
        return [pod for namespace in ("default", "kube-system") for pod in self.node.cluster.items("Pod", namespace)
                if any(pod["metadata"]["name"].startswith(f"{name}-") for name in names)]

    def states(self):
        """Gives (pod, container, image, how often it was started again, state) of each container."""
        return [(pod["metadata"]["name"], each["name"], each["image"], each["restartCount"], each["state"])
                for pod in self.pods() for each in pod["status"].get("containerStatuses") or []]

    def kept_by_driver(self):
        """Gives the names of what the driver has of volumes and snapshots."""
        return [path.name for path in (self.node.folder / "hostpath").glob("*-*-*")]

    def logs(self, lines=30):
        """Gives the last lines of each container."""
        found = []
        for path in sorted((self.node.folder / "logs").rglob("*.log")):
            text = "\n".join(path.read_text(errors="replace").splitlines()[-lines:])
            found.append(f"--- {path.relative_to(self.node.folder / 'logs')}\n{text}")
        return "\n".join(found)
