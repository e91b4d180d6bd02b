"""A node in the virtual machine: a kubelet, containerd and Berth run there, where root has all capabilities and the kernel has NFS.
The control plane is outside, because the machine's processor is emulated, and so slow.

What runs on the node is settled before it boots, and tests see it through the API. The machine serves NFS and a LUN to itself.
"""
import contextlib
import json
import pathlib
import shlex
import shutil
import subprocess
import tempfile

from lib import debian_root, mount_pods, vm
from lib.kubernetes import programs
from lib.kubernetes.api_node import ACCOUNT, DRIVER, NAMESPACE, ApiNode
from lib.kubernetes.cluster import rules_of
from lib.kubernetes.control_plane import ADMIN, KUBELETS, NODE
from lib.kubernetes.world import LEASES, RIGHTS
from lib.standalone import wait_for
from lib.vm import containerd
from lib.vm.iscsi import LINK_LUN, SERVE_TARGET
from lib.vm.nfs import SERVE_NFS

SCRIPT = pathlib.Path(__file__).with_suffix(".sh")
MOUNT_PODS = ("nfs", "iscsi")
TARGET_PACKAGES = ["tgt"]
RUNTIME = ("containerd", "containerd-shim-runc-v2", "ctr", "runc")
# Everything is slower than on the machine of the tests, by one order of magnitude.
SECONDS = 180


def missing():
    """Gives the reason why there can be no such node here, or None."""
    absent = [name for name in RUNTIME if shutil.which(name) is None]
    if absent:
        return f"this machine has no {', '.join(absent)}"
    try:
        for packages in (*map(mount_pods.packages, MOUNT_PODS), TARGET_PACKAGES):
            debian_root.fetch(packages)
    except debian_root.Missing as reason:
        return str(reason)
    return vm.available()


class VmNode(ApiNode):
    def __init__(self, cluster):
        super().__init__(cluster, NODE, "/node", "/var/lib/kubelet", "berth")
        self.runtime = "/run/containerd/containerd.sock"
        self.block_images = self.folder / "block-images"  # an empty folder, for a StorageCluster
        self._here = pathlib.Path(tempfile.mkdtemp(prefix="vm-", dir="/var/tmp"))
        self._machine = vm.Machine(self._here, memory="2G")
        self._output = None
        self._power = contextlib.ExitStack()  # the machine, while it runs

    def start(self):
        disk = self._machine.add_disk("node", "3G")
        subprocess.run(["mke2fs", "-q", "-t", "ext4", "-d", self._content(), disk.path], check=True)
        self._machine.add_host_network()
        for file in (SCRIPT, containerd.SCRIPT):
            self._machine.files[file.name] = file
        commands = [f"{shlex.join(map(str, command))} &" for command in self._commands()]
        script = [SERVE_NFS, SERVE_TARGET, LINK_LUN, f". ./{SCRIPT.name}", *commands, "wait"]
        self._output = self._power.enter_context(self._machine.running("\n".join(script)))
        self.wait_for("the node to be ready", self.is_ready)
        self.wait_for("the driver on the node", lambda: self.lists(DRIVER))
        return self

    def _content(self):
        """Makes what the machine's disk begins with, and gives its folder."""
        folder = self._here / "node"
        containerd.make_images(folder, MOUNT_PODS)
        (folder / self.block_images.name).mkdir()
        shutil.copytree(debian_root.cached(TARGET_PACKAGES), folder / "target", symlinks=True)
        shutil.copy(programs.find("kubelet"), folder)
        (folder / "kubelet.yaml").write_text(json.dumps(self.kubelet_configuration()))
        plane = self.cluster.plane
        configs = [plane.write_kubeconfig(folder / "kubelet.kubeconfig", KUBELETS[self.name]),
                   plane.write_kubeconfig(folder / "admin.kubeconfig", ADMIN), self.make_driver_account(folder / "driver.kubeconfig")]
        # The driver is on this node alone, so that a resizer calls no wrong one.
        self.cluster.grant(NAMESPACE, ACCOUNT, rules_of(*RIGHTS["csi-resizer"]), LEASES)
        for config in configs:
            config.write_text(config.read_text().replace("https://127.0.0.1:", f"https://{vm.HOST}:"))
        return folder

    def _commands(self):
        """Gives what runs on the node, beside containerd."""
        folder = self.folder
        yield self.kubelet_command(folder / "kubelet", folder / "kubelet.kubeconfig", folder / "kubelet.yaml")
        yield [self.berth, "node", "--roles=utilities"]
        yield self.driver_command()
        yield ["env", *(f"{name}={value}" for name, value in self.roles_environment().items()),
               *self.roles_command("provisioner,resizer", folder / "driver.kubeconfig")]
        yield self.registrar_command(self.endpoint)
        yield self.block_operator_command(folder / "admin.kubeconfig")
        yield self.block_agent_command(folder / "admin.kubeconfig")

    def wait_for(self, what, probe):
        """As wait_for, with the last words of the machine at a failure."""
        try:
            return wait_for(what, probe, SECONDS)
        except AssertionError as failure:
            raise AssertionError(f"{failure}\n{self.log()}") from None

    def log(self, name=None, lines=100):
        """Gives the last lines of all programs, which have one log."""
        return self._output.tail(lines)

    def end(self):
        self._power.close()
        self._machine.close()
        shutil.rmtree(self._here)
