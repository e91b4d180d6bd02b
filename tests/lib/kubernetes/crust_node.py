"""A node under a real kubelet whose containerd has Berth's CRUST handler, and where `berth crust-proxy` stands between the kubelet and
the drivers."""
import pathlib

import grpc
import yaml
from google.protobuf import json_format
from lib import crust, mounts
from lib.kubernetes import programs
from lib.kubernetes.api_node import ACCOUNT, DRIVER, NAMESPACE
from lib.kubernetes.cluster import rules_of
from lib.kubernetes.node import Node
from lib.kubernetes.world import LEASES, RIGHTS
from lib.proto_messages import csi
from lib.standalone import BINARY, ROOT, wait_for

HOSTPATH = "hostpath.csi.k8s.io"  # the Go driver, which knows nothing of runtime handlers
SOCKET = "storage.berth.dev/fs-mgmt-socket"
ALLOW = "storage.berth.dev/allow-runtime-assisted-mount"
# Mounts, and nothing more; the story of a handler that is not capable.
WEAK = "weak"
WEAK_CAPABILITIES = "POD_VOLUMES,VOLUME_STATS"


def runtime_class(name, handler=None, runtime=crust.RUNTIME):
    """Gives a RuntimeClass as a kube-apiserver stores it, which knows no fsMgmtSocket."""
    made = crust.runtime_class(name, handler=runtime)
    if handler is not None:
        made["metadata"]["annotations"] = {SOCKET: str(handler.socket)}
    return made


def allowing(storage_class):
    """Has the class allow that runtime handlers mount its volumes."""
    storage_class["metadata"]["annotations"] = {ALLOW: "true"}
    return storage_class


class CrustNode(Node):
    """It has the RuntimeClasses `sandboxed` and `weak`, and `no-handler`."""

    def __init__(self, cluster, containerd=None):
        super().__init__(cluster, containerd=containerd)
        self.handler = crust.Handler(self.folder / "h")
        self.weak = crust.Handler(self.folder / "w", [f"--capabilities={WEAK_CAPABILITIES}"])
        self.runtime_handlers = (f"{crust.RUNTIME}={self.handler.oci}", f"{WEAK}={self.weak.oci}")
        self.hostpath_endpoint = self.kubelet_folder / "plugins" / HOSTPATH / "csi.sock"
        self._kubeconfig = None

    def start(self):
        super().start()
        for handler in (self.handler, self.weak):
            handler.start(kubelet=self.kubelet_folder)
        for each in (runtime_class("sandboxed", self.handler), runtime_class(WEAK, self.weak, WEAK), runtime_class("no-handler")):
            self.cluster.create(each)
        return self

    def ask_stats(self, pod, claim):
        """Asks the proxy for the statistics of a pod's volume, as the kubelet does, and gives the answer."""
        name = self.cluster.get("PersistentVolumeClaim", claim, "default")["spec"]["volumeName"]
        source = self.cluster.get("PersistentVolume", name)["spec"]["csi"]
        uid = self.cluster.get("Pod", pod, "default")["metadata"]["uid"]
        request = csi.NodeGetVolumeStatsRequest(volume_id=source["volumeHandle"], volume_path=(
            f"{self.kubelet_folder}/pods/{uid}/volumes/kubernetes.io~csi/{name}/mount"))
        with grpc.insecure_channel(f"unix:{self.proxy_socket(source['driver'])}") as channel:
            answer = channel.unary_unary("/csi.v1.Node/NodeGetVolumeStats")(request.SerializeToString(), timeout=60)
        return csi.NodeGetVolumeStatsResponse.FromString(answer)

    def restart_kubelet(self):
        self.processes["kubelet"].stop(seconds=15)
        self.start_kubelet()

    def start_shipped_driver(self, roles="provisioner,resizer"):
        # The driver is on this node alone, so that a resizer calls no wrong one.
        super().start_shipped_driver(roles)

    def announce_driver(self, kubeconfig):
        """Announces the driver by its proxy's socket."""
        self.cluster.grant(NAMESPACE, ACCOUNT, rules_of(*RIGHTS["csi-resizer"]), LEASES)
        for item in yaml.safe_load_all((ROOT / "deploy/crust/proxy/rbac.yaml").read_text()):
            self.cluster.create(item)
        self._kubeconfig = kubeconfig
        self.announce_proxy("registrar", DRIVER, self.endpoint)

    def announce_proxy(self, registrar, driver, endpoint):
        """Announces a driver whose socket is `endpoint` by the socket of a proxy, which it starts."""
        self.start_proxy(driver, endpoint)
        self.start_registrar(registrar, driver, self.proxy_socket(driver))

    def start_hostpath(self):
        """Starts the Go hostpath driver, a proxy before it, and a resizer."""
        endpoint = self.hostpath_endpoint
        endpoint.parent.mkdir()
        driver = self.run("hostpath", programs.find("hostpathplugin"), f"--endpoint=unix://{endpoint}", f"--nodeid={self.name}",
                          f"--drivername={HOSTPATH}", f"--statedir={self.folder}/hostpath", "--enable-topology=false",
                          "--enable-attach=false", "--v=5")
        driver.wait_for("the hostpath driver", endpoint.exists)
        self.cluster.create({"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": HOSTPATH},
                             "spec": {"attachRequired": False, "fsGroupPolicy": "File"}})
        self.announce_proxy("hostpath-registrar", HOSTPATH, endpoint)
        self.run("hostpath-resizer", BINARY, "controller", "--roles=resizer", f"--csi-address={endpoint}",
                 f"--kubeconfig={self._kubeconfig}", env=self.roles_environment())

    def make_hostpath_volume(self, name, fs_type, mebibytes):
        """Makes a volume of the hostpath driver, which publishes as a device only what it made as one, and gives a PersistentVolume
        with a file system on it, for the claim of this name. With the type "folder" the driver makes a folder."""
        kind = "mount" if fs_type == "folder" else "block"
        made = self._call_hostpath("CreateVolume", name=name, capacity_range={"required_bytes": mebibytes << 20},
                                   volume_capabilities=[{kind: {}, "access_mode": {"mode": "SINGLE_NODE_WRITER"}}])
        return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
                "spec": {"capacity": {"storage": f"{mebibytes}Mi"}, "accessModes": ["ReadWriteOncePod"], "storageClassName": name,
                         "persistentVolumeReclaimPolicy": "Retain", "claimRef": {"namespace": "default", "name": name},
                         "csi": {"driver": HOSTPATH, "volumeHandle": made.volume.volume_id,
                                 "fsType": "ext4" if fs_type == "folder" else fs_type}}}

    def delete_hostpath_volume(self, volume):
        self.cluster.delete("PersistentVolume", volume["metadata"]["name"])
        self._call_hostpath("DeleteVolume", volume_id=volume["spec"]["csi"]["volumeHandle"])

    def _call_hostpath(self, method, **fields):
        """Calls a method of the controller service, and gives the answer."""
        request = json_format.ParseDict(fields, getattr(csi, f"{method}Request")())
        with grpc.insecure_channel(f"unix:{self.hostpath_endpoint}") as channel:
            answer = channel.unary_unary(f"/csi.v1.Controller/{method}")(request.SerializeToString(), timeout=60)
        return getattr(csi, f"{method}Response").FromString(answer)

    def proxy_socket(self, driver):
        return self.kubelet_folder / "plugins" / driver / "proxy.sock"

    def start_proxy(self, driver=DRIVER, endpoint=None, env=None):
        """Starts the proxy of a driver, for the first time or again."""
        self.proxy_socket(driver).parent.mkdir(parents=True, exist_ok=True)
        self.proxy_socket(driver).unlink(missing_ok=True)  # of one that was killed
        proxy = self.run(f"proxy-{driver}", BINARY, "crust-proxy", f"--endpoint={self.proxy_socket(driver)}",
                         f"--csi-address={endpoint or self.endpoint}", f"--node-name={self.name}", f"--kubelet={self.kubelet_folder}",
                         f"--data={self.folder}/proxy-{driver}", f"--kubeconfig={self._kubeconfig}", env=env)
        proxy.wait_for("the proxy to serve", self.proxy_socket(driver).exists)

    def proxy(self, driver=DRIVER):
        return self.processes[f"proxy-{driver}"]

    def mounts_of_disks(self):
        """Gives the mount points of the file systems on loop devices of the node, in the mount namespace of the host."""
        devices = {f"/dev/{pathlib.Path(loop).name}" for loop in mounts.loops_below(self.folder)}
        with open("/proc/self/mountinfo") as table:
            return [line.split()[4] for line in table if line.partition(" - ")[2].split()[1] in devices]

    def events(self, name, reason):
        """Gives what events of this reason say about the pod that has this name now."""
        uid = self.cluster.get("Pod", name, "default")["metadata"]["uid"]
        return [event["message"] for event in self.cluster.items("Event", "default")
                if event["involvedObject"].get("uid") == uid and event["reason"] == reason]

    def wait_until_free(self):
        """Waits until nothing of a deferred volume is left."""
        for handler in (self.handler, self.weak):
            wait_for("the handler to know no sandbox", lambda handler=handler: not handler.records())
        wait_for("the proxies to know no volume", lambda: not list(self.folder.glob("proxy-*/volumes/*.json")))
        for handler in (self.handler, self.weak):
            assert not handler.holders() and not handler.plans() and not handler.marks()
            assert not list((handler.run / "records" / "pods").glob("*"))

    def end(self):
        for handler in (self.handler, self.weak):
            handler.stop()
        super().end()
        for handler in (self.handler, self.weak):
            handler.clear()
