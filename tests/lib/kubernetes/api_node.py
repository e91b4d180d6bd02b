"""A node under a real kubelet: what tests see of it through the API, and the commands of what runs there. Who runs these is a
subclass: node.py on the machine of the tests, vm_node.py in the virtual machine."""
import json
import pathlib

import yaml
from lib import objects
from lib.kubernetes.programs import free_port
from lib.standalone import ROOT, wait_for

DRIVER = "local.csi.berth.dev"
NAMESPACE = "berth-local"
ACCOUNT = "csi-local"


class ApiNode:
    """All paths are those on the node: `folder` for what runs there, `kubelet_folder`, and the program `berth`."""

    def __init__(self, cluster, name, folder, kubelet_folder, berth):
        self.cluster = cluster
        self.name = name
        self.folder = pathlib.Path(folder)
        self.kubelet_folder = pathlib.Path(kubelet_folder)
        self.berth = berth
        self.runtime = None  # the socket of containerd
        self.cgroup = self.folder.name
        self.endpoint = self.kubelet_folder / "plugins" / DRIVER / "csi.sock"  # of the shipped driver

    # -- the kubelet

    def kubelet_configuration(self):
        return {
            "apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
            "failCgroupV1": False, "failSwapOn": False, "cgroupDriver": "cgroupfs",
            # Pods are in one cgroup, which can be removed.
            "cgroupsPerQOS": False, "enforceNodeAllocatable": [], "cgroupRoot": f"/{self.cgroup}",
            "containerRuntimeEndpoint": f"unix://{self.runtime}", "volumePluginDir": f"{self.folder}/flex",
            "podLogsDir": f"{self.folder}/logs", "port": free_port(), "healthzPort": free_port(), "readOnlyPort": 0,
            "authentication": {"anonymous": {"enabled": False}, "webhook": {"enabled": False}},
            "authorization": {"mode": "AlwaysAllow"}, "resolvConf": "", "evictionHard": {"memory.available": "0%"},
            "imageGCHighThresholdPercent": 100, "localStorageCapacityIsolation": False,
            # So that the end of a test needs not wait for long.
            "nodeStatusUpdateFrequency": "5s", "syncFrequency": "10s"}

    def kubelet_command(self, kubelet, kubeconfig, configuration):
        return [kubelet, f"--kubeconfig={kubeconfig}", f"--config={configuration}", f"--root-dir={self.kubelet_folder}",
                f"--hostname-override={self.name}", f"--cert-dir={self.folder}/pki", "--v=2"]

    # -- Berth's driver, beside the kubelet

    def make_driver_account(self, path):
        """Makes the objects of deploy/csi/local, and writes the kubeconfig of the driver's account."""
        for file in ("namespace.yaml", "csidriver.yaml", "storageclass.yaml", "node.yaml", "rbac.yaml"):
            for item in yaml.safe_load_all((ROOT / "deploy/csi/local" / file).read_text()):
                if item["kind"] not in ("DaemonSet", "VolumeSnapshotClass"):
                    self.cluster.create(item, NAMESPACE)
        self.cluster.write_token(path, NAMESPACE, ACCOUNT)
        account = json.loads(path.read_text())
        account["contexts"][0]["context"]["namespace"] = NAMESPACE  # as a pod's own namespace
        path.write_text(json.dumps(account))
        return path

    def driver_command(self):
        return [self.berth, "csi-driver", f"--node-id={self.name}", f"--pool={self.folder}/pool", f"--endpoint={self.endpoint}"]

    def roles_command(self, roles, kubeconfig):
        return [self.berth, "controller", f"--roles={roles}", f"--csi-address={self.endpoint}", f"--kubeconfig={kubeconfig}",
                "--provisioner-node-deployment", "--provisioner-strict-topology", "--provisioner-enable-capacity",
                "--provisioner-capacity-ownerref-level=-1"]

    def roles_environment(self):
        return {"NODE_NAME": self.name, "NAMESPACE": NAMESPACE, "POD_NAME": ACCOUNT}

    def registrar_command(self, endpoint):
        return [self.berth, "node", "--roles=registrar", f"--csi-address={endpoint}",
                f"--plugin-registration-path={self.kubelet_folder}/plugins_registry", f"--kubelet-registration-path={endpoint}"]

    # -- the block agent

    def block_operator_command(self, kubeconfig):
        return [self.berth, "controller", "--roles=block-operator", f"--kubeconfig={kubeconfig}", "--block-operator-agents=false"]

    def block_agent_command(self, kubeconfig):
        return [self.berth, "block-agent", f"--kubeconfig={kubeconfig}", f"--node-name={self.name}", f"--data={self.folder}/agent",
                f"--socket={self.folder}/agent.sock", f"--kubelet-dir={self.kubelet_folder}",
                f"--volume-plugin-dir={self.folder}/flex"]

    # -- what the API shows

    def is_ready(self):
        return objects.is_ready(self.cluster.get("Node", self.name) or {})

    def runtime_version(self):
        """Gives name and version of the runtime, as the kubelet reports them: "containerd://1.6.20"."""
        return self.cluster.get("Node", self.name)["status"]["nodeInfo"]["containerRuntimeVersion"]

    def lists(self, driver):
        """Tells whether the kubelet lists a driver in the CSINode."""
        node = self.cluster.get("CSINode", self.name) or {"spec": {}}
        return any(each["name"] == driver for each in node["spec"].get("drivers") or [])

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

    def log(self, name, lines=40):
        """Gives the last lines that a process on the node has written."""
        raise NotImplementedError
