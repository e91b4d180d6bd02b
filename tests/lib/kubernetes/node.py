"""A node under a real kubelet: a containerd of its own, the kubelet with a folder and a cgroup of its own, and Berth's shipped
driver beside it, as deploy/csi/local runs it.

The end of a Node ends all that it started and unmounts all below its folder, also after a failure.
"""
import json
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile

import yaml
from lib import mounts, standalone
from lib.kubernetes import programs
from lib.kubernetes.control_plane import KUBELETS, NODE
from lib.kubernetes.programs import Process, free_port
from lib.standalone import BINARY, ROOT, wait_for

PROGRAMS = ("kube-scheduler", "kubelet")
DRIVER = "local.csi.berth.dev"
NAMESPACE = "berth-local"
# What a kubelet sets for the whole machine, below /proc/sys.
SETTINGS = ("vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys",
            "kernel/keys/root_maxbytes", "net/ipv4/conf/all/route_localnet")


class Node:
    def __init__(self, cluster, name=NODE):
        self.cluster = cluster
        self.name = name
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="bn-", dir="/var/tmp"))
        self.kubelet_folder = self.folder / "kubelet"
        self.runtime = None  # the socket of containerd
        self.processes = {}  # by name, in the order of their start
        self._cgroup = self.folder.name
        self._settings = {}

    # -- the kubelet

    def start(self):
        self._settings = {name: path.read_text() for name in SETTINGS if (path := pathlib.Path("/proc/sys") / name).exists()}
        self.runtime = standalone.own_containerd("start", self.folder / "c")
        self.kubelet_folder.mkdir()
        # So that mounts which a driver's pod makes below it reach the node, as on a node whose root is shared.
        subprocess.run(["mount", "--bind", self.kubelet_folder, self.kubelet_folder], check=True)
        subprocess.run(["mount", "--make-shared", self.kubelet_folder], check=True)
        config = self.cluster.plane.write_kubeconfig(self.folder / "kubeconfig", KUBELETS[self.name])
        (self.folder / "kubelet.yaml").write_text(json.dumps(self._configuration()))
        kubelet = self.run("kubelet", programs.find("kubelet"), f"--kubeconfig={config}", f"--config={self.folder}/kubelet.yaml",
                           f"--root-dir={self.kubelet_folder}", f"--hostname-override={self.name}", f"--cert-dir={self.folder}/pki",
                           "--v=2")
        kubelet.wait_for("the node to be ready", self._is_ready, seconds=120)
        return self

    def _configuration(self):
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
            "failCgroupV1": False, "failSwapOn": False, "cgroupDriver": "cgroupfs",
            # Pods are in one cgroup, which this class can remove.
            "cgroupsPerQOS": False, "enforceNodeAllocatable": [], "cgroupRoot": f"/{self._cgroup}",
            "containerRuntimeEndpoint": f"unix://{self.runtime}", "volumePluginDir": f"{self.folder}/flex",
            "podLogsDir": f"{self.folder}/logs", "port": free_port(), "healthzPort": free_port(), "readOnlyPort": 0,
            "authentication": {"anonymous": {"enabled": False}, "webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"}, "resolvConf": "", "evictionHard": {"memory.available": "0%"},
            "imageGCHighThresholdPercent": 100, "localStorageCapacityIsolation": False,
            # So that the end of a test needs not wait for long.
            "nodeStatusUpdateFrequency": "5s", "syncFrequency": "10s"}

    def _is_ready(self):
        node = self.cluster.get("Node", self.name) or {"status": {}}
        return any(each["type"] == "Ready" and each["status"] == "True" for each in node["status"].get("conditions", []))

    def run(self, name, *command, env=None):
        """Starts a process that end() ends; its log is NAME.log in the folder."""
        self.processes[name] = Process(self.folder / f"{name}.log", command, env)
        return self.processes[name]

    # -- Berth's driver, beside the kubelet

    def start_shipped_driver(self):
        """Starts the driver, its roles and its registrar, with the objects, the rights and the flags of deploy/csi/local."""
        for file in ("namespace.yaml", "csidriver.yaml", "storageclass.yaml", "node.yaml", "rbac.yaml"):
            for item in yaml.safe_load_all((ROOT / "deploy/csi/local" / file).read_text()):
                if item["kind"] not in ("DaemonSet", "VolumeSnapshotClass"):
                    self.cluster.create(item, NAMESPACE)
        config = self.cluster.write_token(self.folder / "account", NAMESPACE, "csi-local")
        account = json.loads(config.read_text())
        account["contexts"][0]["context"]["namespace"] = NAMESPACE  # as a pod's own namespace
        config.write_text(json.dumps(account))
        place = self.kubelet_folder / "plugins" / DRIVER
        place.mkdir(parents=True)
        endpoint = place / "csi.sock"
        self.start_driver()
        self.run("roles", BINARY, "controller", "--roles=provisioner", f"--csi-address={endpoint}", f"--kubeconfig={config}",
                 "--provisioner-node-deployment", "--provisioner-strict-topology", "--provisioner-enable-capacity",
                 "--provisioner-capacity-ownerref-level=-1",
                 env={"NODE_NAME": self.name, "NAMESPACE": NAMESPACE, "POD_NAME": "csi-local"})
        self.start_registrar("registrar", DRIVER, endpoint)

    def start_driver(self):
        """Starts the driver's process, for the first time or again."""
        self.run("driver", BINARY, "csi-driver", f"--node-id={self.name}", f"--pool={self.folder}/pool",
                 f"--endpoint={self.kubelet_folder}/plugins/{DRIVER}/csi.sock")

    def start_registrar(self, name, driver, endpoint):
        """Starts the registrar of a driver, and waits until the kubelet lists the driver."""
        registrar = self.run(name, BINARY, "node", "--roles=registrar", f"--csi-address={endpoint}",
                             f"--plugin-registration-path={self.kubelet_folder}/plugins_registry",
                             f"--kubelet-registration-path={endpoint}")
        registrar.wait_for(f"driver {driver} on the node", lambda: self.lists(driver))

    def lists(self, driver):
        """Tells whether the kubelet lists a driver in the CSINode."""
        node = self.cluster.get("CSINode", self.name) or {"spec": {}}
        return any(each["name"] == driver for each in node["spec"].get("drivers") or [])

    # -- pods

    def create_pod(self, pod):
        """Creates a pod in the node's network, because the node has no network of its own for pods."""
        pod["spec"] |= {"hostNetwork": True, "automountServiceAccountToken": False, "enableServiceLinks": False}
        return self.cluster.create(pod, "default")

    def wait_pod(self, name, phase, seconds=120):
        """Waits until a pod has a phase, and gives the pod."""
        def look():
            pod = self.cluster.get("Pod", name, "default")
            return pod if pod is not None and pod["status"].get("phase") == phase else None
        try:
            return wait_for(f"pod {name} to be {phase}", look, seconds)
        except AssertionError as failure:
            raise AssertionError(f"{failure}\n{self.cluster.get('Pod', name, 'default')}\n{self.log('kubelet')}") from None

    def delete_pod(self, name, seconds=120):
        """Deletes a pod, and waits until the kubelet has ended it."""
        self.cluster.delete("Pod", name, "default")
        wait_for(f"pod {name} to be gone", lambda: self.cluster.get("Pod", name, "default") is None, seconds)

    def mounts_of(self, volume):
        """Gives where a PersistentVolume is mounted below the kubelet's folder for pods."""
        return [target for target in mounts.targets() if target.startswith(f"{self.kubelet_folder}/pods/") and volume in target]

    # -- the end

    def log(self, name, lines=40):
        return "\n".join(self.processes[name].log().splitlines()[-lines:])

    def end(self):
        for process in reversed(self.processes.values()):
            if process.process.poll() is None:
                process.process.send_signal(signal.SIGCONT)
            process.stop(seconds=15)
        if self.runtime is not None:
            standalone.own_containerd("stop", self.folder / "c")
        mounts.unmount_below(self.folder)
        mounts.detach_loops_below(self.folder)
        for name, value in self._settings.items():
            (pathlib.Path("/proc/sys") / name).write_text(value)
        self._remove_cgroups()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _remove_cgroups(self):
        for top in pathlib.Path("/sys/fs/cgroup").glob(f"**/{self._cgroup}"):
            below = sorted((path for path in top.rglob("*") if path.is_dir()), reverse=True)
            for path in (*below, top):
                wait_for(f"cgroup {path} to be empty", lambda path=path: _remove_folder(path), seconds=10)


def _remove_folder(path):
    try:
        path.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True
