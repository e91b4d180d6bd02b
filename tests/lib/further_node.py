"""A further node of a standalone Berth: `berth node` in a mount namespace of its own, as if it were a machine of its own,
with a containerd, a data folder and a pool of its own."""
import contextlib
import os
import pathlib
import signal
import subprocess

from lib.mounts import targets
from lib.standalone import ROOT, Failure, wait_for

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
        """A command as it runs on the node: what keeps its mount namespace is the machine."""
        return ["nsenter", f"--mount=/proc/{self.machine.pid}/ns/mnt", *map(str, command)]

    def _own_containerd(self, verb):
        result = subprocess.run(self.inside(ROOT / "tools" / "own_containerd", verb, self.folder / "c"),
                                text=True, capture_output=True, timeout=120)
        if result.returncode != 0:
            raise Failure(f"own_containerd {verb} on {self.name}: {result.stdout}{result.stderr}")
        return result.stdout.strip()

    def start(self):
        """Switches the machine on: nothing of another machine, nor of an earlier life, is mounted."""
        self.machine = subprocess.Popen(["unshare", "--mount", "--propagation", "private", "sleep", "infinity"])
        own = os.readlink("/proc/self/ns/mnt")
        wait_for("the mount namespace", lambda: os.readlink(f"/proc/{self.machine.pid}/ns/mnt") != own)
        # A copy of another's mount would keep its device busy.
        for target in sorted((t for t in targets() if t.startswith("/var/tmp/b")), reverse=True):
            subprocess.run(self.inside("umount", "--lazy", target), check=False, capture_output=True)
        self.socket = self._own_containerd("start")
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
        """The status of the Node's condition Ready."""
        node = self.berth.get("nodes", self.name) or {}
        return next((c["status"] for c in node.get("status", {}).get("conditions", []) if c["type"] == "Ready"), None)

    def stop(self):
        """As 'systemctl stop': the agent ends by itself, and pods stay."""
        self.agent.send_signal(signal.SIGTERM)
        if self.agent.wait(30) != 0:
            raise Failure(f"'berth node' ended with {self.agent.returncode}:\n{self.log_tail()}")

    def switch_off(self):
        """The machine loses power: its processes and mounts are gone, its disks stay."""
        if self.machine is None:
            return
        if self.agent is not None and self.agent.poll() is None:
            self.agent.kill()
            self.agent.wait()
        self._own_containerd("stop")
        self._end_all()
        self.machine.wait()
        self.machine = self.agent = None

    def _end_all(self):
        """All that runs there: a driver that waits for its agent would keep the mounts."""
        def mount_namespace(pid):
            try:
                return os.readlink(f"/proc/{pid}/ns/mnt")
            except OSError:
                return None

        own = mount_namespace(self.machine.pid)
        assert own not in (None, mount_namespace("self"))
        for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):
            if pid != self.machine.pid and mount_namespace(pid) == own:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        self.machine.kill()

    def images(self):
        """The volumes in the node's pool."""
        return sorted((self.data / "pool" / "volumes").glob("*.img"))

    def log_tail(self, lines=40):
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
