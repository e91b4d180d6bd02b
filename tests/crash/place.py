"""A place where flows are walked: a Berth and a containerd that share nothing with those of other places that run at
the same time, not even the network."""
import ctypes
import os
import pathlib
import shutil
import subprocess
import tempfile
import threading

from controllers import ROLE, Controller
from flows import attach, main_job
from storages import KINDS
from survivor import Survivor
from lib import block_agent, crust, csi_double, io_proxy, leaks, mounts, roles, standalone

CLONE_NEWNET = 0x40000000


def _network_of_its_own():
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), "unshare the network")
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)


def _clear_below(folder):
    """Removes the mounts and loop devices that a failed flow left."""
    mounts.unmount_below(folder)
    mounts.detach_loops_below(folder)


# What may stay behind when containerd is killed while it makes a sandbox or container: at its next start it kills the
# shim, and runc with it, so nothing removes these.
CONTAINERDS_OWN = ("cgroup ", "container ", "pod address ")


class Place:
    """A context for a process that does nothing else, because it moves the whole process into a network namespace of
    its own."""

    def __enter__(self):
        _network_of_its_own()
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="bt-", dir="/var/tmp"))
        self.berth = None
        self.double = None
        self.agent = None
        self.handler = None
        self.proxy = None
        self.controller = None
        self.storages = {}
        self._make()
        return self

    def __exit__(self, *_):
        self._unmake()
        self._end_storages()
        shutil.rmtree(self.folder, ignore_errors=True)

    def _make(self):
        self.handler = crust.Handler(self.folder / "h")
        self.used = False
        self.runtime = crust.Runtime(self.folder / "r", self.handler)
        self.berth = standalone.Standalone(self.folder / "b", self.runtime.start())
        self.handler.kubelet = self.berth.data / "kubelet"

    def _unmake(self):
        for process in (self.agent, self.controller):
            if process is not None:
                process.kill()
        for storage in self.storages.values():
            storage.end()
        self.berth.kill()
        self._end_proxy()
        self._end_double()
        self.handler.kill()
        self.runtime.stop()
        _clear_below(self.folder)
        shutil.rmtree(self.folder / "b")
        shutil.rmtree(self.folder / "h")
        shutil.rmtree(self.folder / "r", ignore_errors=True)

    def _begin_double(self, beside_controller):
        """Starts the CSI driver double without any volumes. Its controllers are Berth's, or it has a Controller, which is
        not started."""
        registry = self.berth.data / "kubelet" / "plugins_registry"
        registry.mkdir(parents=True, exist_ok=True)
        self.double = csi_double.CsiDouble(self.folder / "d", registry).start()
        if beside_controller:
            self.controller = Controller(self.berth, self.double, self.folder)
        else:
            self.berth.flags += ["--csi-driver", self.double.socket]

    def _end_double(self):
        if self.double is None:
            return
        self.double.stop()
        self.double.announcement().unlink(missing_ok=True)
        shutil.rmtree(self.folder / "d")
        self.double = None

    def _begin_agent(self):
        """Makes the node's block agent, without starting it. It finds the API even when that listens elsewhere after
        a crash."""
        config = roles.kubeconfig_of(self.folder / "agent.kubeconfig", self.berth.data / "api.sock",
                                     **block_agent.as_agent("node-a"))
        self.agent = block_agent.BlockAgent(self.berth, "node-a", self.berth.data, self.folder, kubeconfig=config)
        self.agent.log.unlink(missing_ok=True)

    def _begin_storage(self, kind):
        """Gives the storage of this place, as new, and makes an I/O proxy for the agent, without starting it."""
        if kind not in self.storages:
            self.storages[kind] = KINDS[kind](self.folder)
        self.storages[kind].begin()
        self.proxy = io_proxy.IoProxy(self.folder)
        self.proxy.log.unlink(missing_ok=True)
        self.agent.flags = ["--io-proxy-socket", self.proxy.socket]
        return self.storages[kind]

    def _end_storages(self):
        for storage in self.storages.values():
            storage.stop()
        self.storages = {}

    def _end_proxy(self):
        if self.proxy is None:
            return
        self.proxy.kill()
        self.proxy.remove_volumes()
        shutil.rmtree(self.proxy.folder, ignore_errors=True)
        self.proxy = None

    def begin_anew(self):
        """Clears the place after a failure, because what is left would fail every later flow, too."""
        self._unmake()
        self._end_storages()
        self._make()

    def _left_at_double(self):
        """Gives what the driver double still has, and the attachments that it had to refuse, because no caller may
        ask for them."""
        if self.double is None:
            return []
        return [*(f"volume {path.name} of the double" for path in self.double.volumes()),
                *(f"{volume} at {node}" for volume, node in self.double.attached()),
                *(f"refused to attach {volume}" for volume in self.double.calls("ControllerPublishVolume", "failed"))]

    def _left_at_handler(self):
        return [*(f"record of sandbox {name}" for name in self.handler.records()),
                *(f"holder of sandbox {name}" for name in self.handler.holders()),
                *(f"mark of sandbox {name}" for name in self.handler.marks()),
                *(f"plan of pod {name}" for name in self.handler.plans())]

    def prepare(self, flow, fresh):
        """Makes Berth's data folder one in which Berth has been used before, or removes it. Used means that each driver
        has made a volume, because the first one leaves objects that the later ones find. A flow of a storage uses no
        such driver, and one with a Controller removes what its driver leaves."""
        if hasattr(flow, "storage") or hasattr(flow, "beside_controller"):
            return
        if fresh:
            shutil.rmtree(self.berth.data, ignore_errors=True)
            self.used = False
        elif not self.used:
            for flow in (main_job, attach):
                self.run(flow, log=os.devnull)
            self.used = True

    def run(self, flow, log, crashes=(), kill=None):
        """Runs one flow from start to stop, and raises AssertionError if it does not end right. It writes the points
        that are passed to `log`. `crashes` are points at which a process crashes, once each; `kill` is (moment in
        seconds, role) for a SIGKILL. Returns True if all of these crashes happened."""
        marks = self.folder / "crashed"
        shutil.rmtree(marks, ignore_errors=True)
        marks.mkdir()
        before = leaks.Snapshot(self.berth)
        self.berth.log.unlink(missing_ok=True)
        self.berth.flags = []
        if getattr(flow, "beside_double", False):
            self._begin_double(getattr(flow, "beside_controller", False))
        if getattr(flow, "beside_agent", False):
            self._begin_agent()
        storage = self._begin_storage(flow.storage) if hasattr(flow, "storage") else None
        handler = self.handler if getattr(flow, "beside_handler", False) else None
        if handler is not None:
            handler.log.unlink(missing_ok=True)
            self.berth.flags += ["--crust-run", handler.run]
        faults = {"BERTH_FAULTS": ",".join(f"{point}=crash" for point in crashes)} if crashes else {}
        survivor = Survivor(self.berth, {"BERTH_FAULT_ONCE": str(marks), "BERTH_FAULT_LOG": str(log), **faults},
                            self.double, self.agent, handler, self.runtime, storage, self.proxy, self.controller)
        killed, over = threading.Event(), threading.Event()
        try:
            survivor.start()
            if kill is not None:
                moment, role = kill
                threading.Thread(target=_kill_at, args=(moment, role, lambda: self._pid_of(role), killed, over),
                                 daemon=True).start()
            survivor.ready()
            flow(survivor)
            survivor.quiet()
            over.set()
            survivor.stop()
            left = before.leaked_since() + self._left_at_double() + self._left_at_handler()
            if kill is not None and kill[1] == "containerd":
                left = [what for what in left if not what.startswith(CONTAINERDS_OWN)]
            assert not left, "left behind:\n" + "\n".join(left) + f"\n{self.berth.log_tail(60)}"
            self._end_double()
            self._end_proxy()
            self.agent = self.controller = None
        except BaseException:
            over.set()
            self.begin_anew()
            self.agent = self.controller = None
            raise
        return killed.is_set() if kill is not None else len(list(marks.iterdir())) == len(crashes)

    def _pid_of(self, role):
        """Gives the process id of a role, or None while it does not run."""
        if role == "containerd":
            return self.runtime.pid()
        beside = {"crust-handler": self.handler, ROLE: self.controller}
        owner = beside.get(role, self.berth)
        process = owner and owner.process
        if process is None or process.poll() is not None:
            return None
        return process.pid if role == "up" or role in beside else _child_of(process.pid, role)


def _child_of(up, role):
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text().rpartition(")")[2].split()[1])
            if parent == up and role.encode() in (path.parent / "cmdline").read_bytes().split(b"\0"):
                return int(path.parent.name)
        except (OSError, ValueError, IndexError):
            continue
    return None


def _kill_at(moment, role, pid_of, killed, over):
    """Kills a process at a moment. If the process has not started by then, it is killed as soon as it has; if it has
    ended, it is not killed. After the flow nothing is killed, because containerd lives on."""
    if over.wait(moment):
        return
    try:
        pid = standalone.wait_for(role, pid_of, seconds=5)
        if not over.is_set():
            os.kill(pid, 9)
            killed.set()
    except (standalone.Failure, ProcessLookupError):
        pass
