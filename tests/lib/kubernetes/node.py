"""A node on the machine of the tests: a containerd of its own, the kubelet with a folder and a cgroup of its own, and Berth's
shipped driver beside it, as deploy/csi/local runs it.

The end of a Node ends all that it started and unmounts all below its folder, also after a failure.
"""
import json
import pathlib
import shutil
import signal
import subprocess
import tempfile

from lib import mounts, standalone
from lib.kubernetes import programs
from lib.kubernetes.api_node import DRIVER, ApiNode
from lib.kubernetes.control_plane import KUBELETS, NODE
from lib.kubernetes.programs import Process
from lib.standalone import BINARY, wait_for

PROGRAMS = ("kube-scheduler", "kubelet")
# What a kubelet sets for the whole machine, below /proc/sys.
SETTINGS = ("vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops", "kernel/keys/root_maxkeys",
            "kernel/keys/root_maxbytes", "net/ipv4/conf/all/route_localnet")


class Node(ApiNode):
    def __init__(self, cluster, name=NODE, containerd=None):
        """`containerd`: the program of its runtime, if not the machine's."""
        self.runtime_handlers = ()  # further ones, as tools/own_containerd takes them
        folder = pathlib.Path(tempfile.mkdtemp(prefix="bn-", dir="/var/tmp"))
        super().__init__(cluster, name, folder, folder / "kubelet", BINARY)
        self.containerd = containerd
        self.processes = {}  # by name, in the order of their start
        self._settings = {}

    # -- the kubelet

    def start(self):
        self._settings = {name: path.read_text() for name in SETTINGS if (path := pathlib.Path("/proc/sys") / name).exists()}
        self.runtime = standalone.own_containerd("start", self.folder / "c", *self.runtime_handlers, containerd=self.containerd)
        self.kubelet_folder.mkdir()
        # So that mounts which a driver's pod makes below it reach the node, as on a node whose root is shared.
        subprocess.run(["mount", "--bind", self.kubelet_folder, self.kubelet_folder], check=True)
        subprocess.run(["mount", "--make-shared", self.kubelet_folder], check=True)
        self.cluster.plane.write_kubeconfig(self.folder / "kubeconfig", KUBELETS[self.name])
        (self.folder / "kubelet.yaml").write_text(json.dumps(self.kubelet_configuration()))
        self.start_kubelet()
        return self

    def start_kubelet(self):
        """Starts the kubelet, for the first time or again."""
        kubelet = self.run("kubelet", *self.kubelet_command(programs.find("kubelet"), self.folder / "kubeconfig",
                                                            self.folder / "kubelet.yaml"))
        kubelet.wait_for("the node to be ready", self.is_ready, seconds=120)

    def run(self, name, *command, env=None):
        """Starts a process that end() ends; its log is NAME.log in the folder."""
        self.processes[name] = Process(self.folder / f"{name}.log", command, env)
        return self.processes[name]

    # -- Berth's driver, beside the kubelet

    def start_shipped_driver(self, roles="provisioner"):
        """Starts the driver, its roles and its registrar, with the objects, the rights and the flags of deploy/csi/local."""
        config = self.make_driver_account(self.folder / "account")
        self.endpoint.parent.mkdir(parents=True)
        self.start_driver()
        self.run("roles", *self.roles_command(roles, config), env=self.roles_environment())
        self.announce_driver(config)

    def announce_driver(self, _kubeconfig):
        self.start_registrar("registrar", DRIVER, self.endpoint)

    def start_driver(self):
        """Starts the driver's process, for the first time or again."""
        self.run("driver", *self.driver_command())

    def start_registrar(self, name, driver, endpoint):
        """Starts the registrar of a driver, and waits until the kubelet lists the driver."""
        registrar = self.run(name, *self.registrar_command(endpoint))
        registrar.wait_for(f"driver {driver} on the node", lambda: self.lists(driver))

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
        for top in pathlib.Path("/sys/fs/cgroup").glob(f"**/{self.cgroup}"):
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
