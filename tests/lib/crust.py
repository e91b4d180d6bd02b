"""The CRUST handler, berth-oci and a containerd that has them as runtime handler `crust`."""
import contextlib
import fcntl
import json
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import tempfile

import grpc
from lib import mounts, objects, protobuf
from lib.leaks import Snapshot
from lib.standalone import BINARY, Standalone, own_containerd, wait_for

RUNTIME = "crust"


class Handler:
    """`berth crust-handler` in a folder of its own, and berth-oci beside it."""

    def __init__(self, folder, flags=()):
        self.folder = pathlib.Path(folder)
        self.kubelet = self.folder / "kubelet"
        self.socket = self.folder / "crust.sock"
        self.run = self.folder / "run"
        self.oci = self.folder / "berth-oci"
        self.log = self.folder / "handler.log"
        self.flags = list(flags)
        self.process = None
        self.folder.mkdir(parents=True, exist_ok=True)
        shutil.copy(BINARY.parent / "berth-oci", self.oci)
        (self.folder / "berth-oci.json").write_text(json.dumps(
            {"runtime": "runc", "socket": str(self.folder / "oci.sock"), "run": str(self.run)}))

    def start(self, env=None, kubelet=None):
        if kubelet is not None:
            self.kubelet = kubelet
        command = [BINARY, "crust-handler", "--socket", self.socket, "--oci-socket", self.folder / "oci.sock",
                   "--data", self.folder / "data", "--run", self.run, "--kubelet", self.kubelet, *self.flags]
        self.socket.unlink(missing_ok=True)  # the socket of a killed handler would pass for this one's
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            env=os.environ | (env or {}), start_new_session=True)
        wait_for("the handler to listen", lambda: self.socket.exists() or self.process.poll() is not None)
        return self

    def kill(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def stop(self):
        if self.process is None:
            return
        self.process.send_signal(signal.SIGTERM)
        self.process.wait(30)
        self.process = None

    def holders(self):
        """Gives the namespaces that the handler keeps for sandboxes."""
        return sorted(path.name for path in (self.folder / "data" / "holders").glob("*"))

    def records(self):
        return sorted(path.stem for path in (self.run / "records" / "sandboxes").glob("*.json"))

    def stats(self):
        """Calls RuntimeGetVolumeStats for the only volume of the only sandbox. Gives {unit: (total, used,
        available)}, and whether its condition is abnormal."""
        [record] = [json.loads(path.read_text()) for path in (self.run / "records" / "sandboxes").glob("*.json")]
        [volume] = record["volumes"]
        with grpc.insecure_channel(f"unix://{self.socket}") as channel:
            ask = channel.unary_unary("/crust.v1alpha1.RuntimeAssistedStorageManagement/RuntimeGetVolumeStats",
                                      lambda message: protobuf.encode(message), lambda answer: answer)
            answer = protobuf.decode(ask({1: record["sandboxId"], 2: volume["hostVolumeId"]}, timeout=10))
        usage = {}
        for one in map(protobuf.decode, answer[1]):
            unit = {1: "bytes", 2: "inodes"}[one[4][0]]
            usage[unit] = tuple(one.get(number, [0])[0] for number in (2, 3, 1))
        return usage, bool(protobuf.at(answer[2][0], 1))

    def plans(self):
        return sorted(path.stem for path in (self.run / "plans").glob("*.json"))

    def marks(self):
        return sorted(path.name for path in (self.run / "sandboxes").glob("*"))

    def log_tail(self, lines=60):
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def clear(self):
        """Kills the handler and unmounts all that is mounted in its folder, also after a failed test."""
        self.kill()
        with open("/proc/self/mountinfo") as table:
            points = [line.split()[4] for line in table]
        for point in reversed(points):
            if point.startswith(f"{self.folder}/"):
                subprocess.run(["umount", "-l", point], check=False)


class Runtime:
    """A containerd that has a handler's berth-oci as a runtime."""

    def __init__(self, folder, handler):
        self.folder = folder
        self.handler = handler

    def start(self):
        """Starts containerd, unless it runs, and gives its socket."""
        return own_containerd("start", self.folder, f"{RUNTIME}={self.handler.oci}")

    def stop(self):
        own_containerd("stop", self.folder)

    def pid(self):
        """Gives containerd's process id, or None if it has ended."""
        pid = int((self.folder / "pid").read_text())
        try:
            with open(f"/proc/{pid}/stat") as stat:
                return None if stat.read().rpartition(")")[2].split()[0] == "Z" else pid
        except FileNotFoundError:
            return None

    def kill(self):
        """Kills containerd; its containers and their shims go on."""
        pid = self.pid()
        os.kill(pid, signal.SIGKILL)
        wait_for("containerd to be gone", lambda: self.pid() != pid)


@contextlib.contextmanager
def place(handler_flags=(), berth_flags=()):
    """Gives (Berth, handler, containerd) in a folder of their own, with StorageClasses and RuntimeClasses for the
    handler."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="bt-", dir="/var/tmp"))
    handler = Handler(folder / "h", handler_flags)
    runtime = Runtime(folder / "c", handler)
    berth = Standalone(folder / "b", runtime.start(), flags=["--crust-run", handler.run, *berth_flags])
    try:
        handler.start(kubelet=berth.data / "kubelet")
        berth.start()
        berth.apply([runtime_class("sandboxed", handler.socket), runtime_class("plain"), storage_class("deferred"),
                     storage_class("of-ext4", "ext4"), storage_class("of-btrfs", "btrfs"),
                     storage_class("on-host", allow=False)])
        yield berth, handler, runtime
        berth.remove_everything(seconds=30)
        berth.stop()
        handler.stop()
    finally:
        berth.kill()
        runtime.stop()
        handler.clear()
        mounts.unmount_below(folder)
        mounts.detach_loops_below(folder)
        shutil.rmtree(folder, ignore_errors=True)


def devices(berth, claim=None):
    """Gives the numbers of the loop devices of the pool's images, or only of one claim's."""
    found = []
    volume = ""
    if claim is not None:
        bound = berth.get("pvc", claim)["spec"].get("volumeName")
        if bound is None:
            return found
        volume = berth.get("pv", bound)["spec"]["csi"]["volumeHandle"]
    for device in pathlib.Path("/sys/block").glob("loop*"):
        try:
            image = (device / "loop" / "backing_file").read_text()
            if image.startswith(str(berth.data)) and volume in image:
                found.append((device / "dev").read_text().strip())
        except OSError:
            continue
    return found


def cgroups():
    """Gives all containers and sandboxes, by the names with which paths in /proc/PID/cgroup end."""
    return [path.name for path in pathlib.Path("/sys/fs/cgroup").glob("*/k8s.io/*") if path.is_dir()]


def host_mounts(berth, claim=None):
    """Gives the mount points of these devices in this namespace, which is the host's. A mount is recognised by the
    device's number or, if the file system has a number of its own (btrfs), by the device's path."""
    numbers = devices(berth, claim)
    paths = ["/dev/loop" + number.partition(":")[2] for number in numbers]
    with open("/proc/self/mountinfo") as table:
        return [line.split()[4] for line in table
                if line.split()[2] in numbers or line.partition(" - ")[2].split()[1] in paths]


def runtime_class(name, socket=None, handler=RUNTIME):
    made = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": name}, "handler": handler}
    if socket is not None:
        made["fsMgmtSocket"] = str(socket)
    return made


def storage_class(name, fs_type="xfs", allow=True, **members):
    return objects.storage_class(name, fs_type, **members) | ({"allowRuntimeAssistedMount": True} if allow else {})


def claim(name, size="320Mi", storage_class="deferred", mode="ReadWriteOncePod"):
    made = objects.claim(name, size, storage_class)
    made["spec"]["accessModes"] = [mode]
    return made


def wait_begun(pod):
    """Waits until the script of a running pod sleeps, because a container runs before its script has done anything."""
    containers = [status["containerID"].rpartition("/")[2] for status in pod["status"]["containerStatuses"]]
    cgroups = [next(pathlib.Path("/sys/fs/cgroup").glob(f"*/k8s.io/{container}")) for container in containers]

    def sleeps():
        for cgroup in cgroups:
            for pid in (cgroup / "cgroup.procs").read_text().split():
                with contextlib.suppress(OSError):  # it has ended
                    if pathlib.Path(f"/proc/{pid}/comm").read_text() == "sleep\n":
                        return True
        return False
    wait_for(f"the script of pod {pod['metadata']['name']} to sleep", sleeps)
    return pod


def shut_down(pod, path):
    """Shuts down the file system at `path` in a running pod's first container, as after a fatal error."""
    shutdown, at_once = 0x8004587D, 2  # FS_IOC_SHUTDOWN, without writing its log out
    container = pod["status"]["containerStatuses"][0]["containerID"].rpartition("/")[2]
    pid = next(pathlib.Path("/sys/fs/cgroup").glob(f"*/k8s.io/{container}/cgroup.procs")).read_text().split()[0]
    folder = os.open(f"/proc/{pid}/root{path}", os.O_RDONLY)
    try:
        fcntl.ioctl(folder, shutdown, struct.pack("I", at_once))
    finally:
        os.close(folder)


def events(berth, name, reason):
    """Gives the events of the pod that has this name now, and not those of earlier pods with the name."""
    uid = berth.get("pods", name)["metadata"]["uid"]
    return [e for e in berth.events(name) if e["reason"] == reason and e["involvedObject"]["uid"] == uid]


def told(berth, name, reason):
    return [e["message"] for e in events(berth, name, reason)]


def volume_stats(berth, claim):
    """Gives the node agent's metrics of a claim's volume, by the kubelet's names."""
    return {name: float(value) for name, value in re.findall(
        rf'^kubelet_volume_stats_(\w+){{[^}}]*persistentvolumeclaim="{claim}"[^}}]*}} (\S+)$', berth.metrics(),
        re.MULTILINE)}


def shell(berth, name, script, container=()):
    return berth.run("exec", name, *container, "--", "/bin/sh", "-c", script).stdout


@contextlib.contextmanager
def leaving_nothing(berth, handler):
    """Checks at its end that no pod or volume left anything behind, and that the handler knows no sandbox."""
    before = Snapshot(berth)
    yield
    berth.remove_everything()
    left = before.leaked_since()
    assert not left, "left behind:\n" + "\n".join(left)
    wait_for("the handler to know no sandbox", lambda: not handler.records())
    assert not handler.holders() and not handler.plans()
