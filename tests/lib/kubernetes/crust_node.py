"""A node under a real kubelet whose containerd has Berth's CRUST handler, and where `berth crust-proxy` stands between the kubelet and
the drivers."""
import pathlib

import yaml
from lib import crust, mounts
from lib.kubernetes.api_node import ACCOUNT, DRIVER, NAMESPACE
from lib.kubernetes.cluster import rules_of
from lib.kubernetes.node import Node
from lib.kubernetes.world import LEASES, RIGHTS
from lib.standalone import BINARY, ROOT, wait_for


class CrustNode(Node):
    def __init__(self, cluster, containerd=None):
        super().__init__(cluster, containerd=containerd)
        self.handler = crust.Handler(self.folder / "h")
        self.runtime_handlers = (f"{crust.RUNTIME}={self.handler.oci}",)
        self._kubeconfig = None

    def start(self):
        super().start()
        self.handler.start(kubelet=self.kubelet_folder)
        return self

    def start_shipped_driver(self, roles="provisioner,resizer"):
        # The driver is on this node alone, so that a resizer calls no wrong one.
        super().start_shipped_driver(roles)

    def announce_driver(self, kubeconfig):
        """Announces the driver by its proxy's socket."""
        self.cluster.grant(NAMESPACE, ACCOUNT, rules_of(*RIGHTS["csi-resizer"]), LEASES)
        for item in yaml.safe_load_all((ROOT / "deploy/crust/proxy-rbac.yaml").read_text()):
            self.cluster.create(item)
        self._kubeconfig = kubeconfig
        self.start_proxy(DRIVER, self.endpoint)
        self.start_registrar("registrar", DRIVER, self.proxy_socket(DRIVER))

    def proxy_socket(self, driver):
        return self.kubelet_folder / "plugins" / driver / "proxy.sock"

    def start_proxy(self, driver, endpoint):
        """Starts the proxy of a driver, for the first time or again."""
        proxy = self.run(f"proxy-{driver}", BINARY, "crust-proxy", f"--endpoint={self.proxy_socket(driver)}",
                         f"--csi-address={endpoint}", f"--node-name={self.name}", f"--kubelet={self.kubelet_folder}",
                         f"--data={self.folder}/proxy-{driver}", f"--kubeconfig={self._kubeconfig}")
        proxy.wait_for("the proxy to serve", self.proxy_socket(driver).exists)

    def proxy(self, driver=DRIVER):
        return self.processes[f"proxy-{driver}"]

    def records(self, driver=DRIVER):
        return list((self.folder / f"proxy-{driver}" / "volumes").glob("*.json"))

    def mounts_of_pool(self):
        """Gives the mount points of the pool's images in this namespace, which is the host's."""
        devices = {f"/dev/{pathlib.Path(loop).name}" for loop in mounts.loops_below(self.folder)}
        with open("/proc/self/mountinfo") as table:
            return [line.split()[4] for line in table if line.partition(" - ")[2].split()[1] in devices]

    def events(self, name, reason):
        """Gives what events of this reason say about the pod."""
        return [event["message"] for event in self.cluster.items("Event", "default")
                if event["involvedObject"].get("name") == name and event["reason"] == reason]

    def wait_until_free(self):
        """Waits until nothing of a deferred volume is left."""
        wait_for("the handler to know no sandbox", lambda: not self.handler.records())
        wait_for("the proxies to know no volume", lambda: not list(self.folder.glob("proxy-*/volumes/*.json")))
        assert not self.handler.holders() and not self.handler.plans() and not self.handler.marks()
        wait_for("the loop devices to be gone", lambda: not mounts.loops_below(self.folder), 20)
        assert not list((self.handler.folder / "data" / "pods").glob("*"))

    def end(self):
        self.handler.stop()
        super().end()
        self.handler.clear()
