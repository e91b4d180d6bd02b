"""A further node of a standalone Berth: `berth node` in a mount namespace of its own, with a containerd, a data
folder and a pool of its own, as if it were on another machine."""
import pathlib
import signal
import subprocess

from lib.machine import Machine
from lib.standalone import Failure

DRIVER = "local.csi.berth.dev"


class FurtherNode:
    def __init__(self, berth, name, folder, flags=()):
        self.berth = berth
        self.name = name
        self.folder = pathlib.Path(folder)
        self.data = self.folder / "d"
        self.log = self.folder / "node.log"
        self.flags = list(flags)
        self.machine = self.agent = self.socket = None
        self.folder.mkdir(parents=True, exist_ok=True)

    def inside(self, *command):
        """Gives a command as it has to be run on the node."""
        return self.machine.inside(*command)

    def start(self):
        """Switches the machine on."""
        self.machine = Machine()
        self.socket = self.machine.own_containerd("start", self.folder / "c")
        return self.start_agent()

    def start_agent(self):
        with open(self.log, "ab") as log:
            self.agent = subprocess.Popen(
                self.inside(self.berth.binary, "node", "--kubeconfig", self.berth.data / "kubeconfig",
                            "--node-name", self.name, "--data", self.data,
                            "--node-sockets", self.berth.data / "run" / "nodes",
                            "--container-runtime-endpoint", f"unix://{self.socket}", *self.flags),
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        return self

    def ready(self):
        if self.agent.poll() is not None:
            raise Failure(f"'berth node' ended with {self.agent.returncode}:\n{self.log_tail()}")
        listed = self.berth.get("csinodes", self.name)
        return (self.condition() == "True" and listed is not None
                and any(d["name"] == DRIVER for d in listed["spec"].get("drivers") or []))

    def condition(self):
        """Gives the status of the Node's condition Ready."""
        node = self.berth.get("nodes", self.name) or {}
        return next((c["status"] for c in node.get("status", {}).get("conditions", []) if c["type"] == "Ready"), None)

    def stop(self):
        """Stops the agent as 'systemctl stop' does: it ends by itself, and pods stay."""
        self.agent.send_signal(signal.SIGTERM)
        if self.agent.wait(30) != 0:
            raise Failure(f"'berth node' ended with {self.agent.returncode}:\n{self.log_tail()}")

    def switch_off(self):
        """Switches the machine off as a loss of power does: its processes and mounts are gone, its disks stay."""
        if self.machine is None:
            return
        if self.agent is not None and self.agent.poll() is None:
            self.agent.kill()
            self.agent.wait()
        self.machine.own_containerd("stop", self.folder / "c")
        self.machine.switch_off()
        self.machine = self.agent = None

    def images(self):
        """Gives the images in the node's pool."""
        return sorted((self.data / "pool" / "volumes").glob("*.img"))

    def log_tail(self, lines=40):
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
