"""Compares what a Standalone's folder and its containerd hold before and after a test.

Only what belongs to them counts, because other programs of the machine may run containers meanwhile.
"""
import fnmatch
import os
import pathlib
import time


def _mounts(folders):
    with open("/proc/self/mountinfo") as table:
        rows = [line.split() for line in table]
    return {f"mount {row[4]} ({row[row.index('-') + 1]})" for row in rows
            if any(row[4].startswith(f"{folder}/") for folder in folders)}


def _loop_devices(folder):
    found = set()
    for device in pathlib.Path("/sys/block").glob("loop*"):
        try:
            backing = (device / "loop" / "backing_file").read_text().strip()
        except OSError:
            continue
        if backing.startswith(str(folder)):
            found.add(f"{device.name} on {backing}")
    return found


def _network(runtime):
    """Gives the addresses of pods on the network. A pod's address is given back with its namespace and its veth
    pair."""
    addresses = runtime / "cni-addresses" / "berth"
    found = set()
    for path in addresses.glob("[0-9]*"):
        found.add(f"pod address {path.name}")
    return found


def _containers(runtime):
    tasks = runtime / "state" / "io.containerd.runtime.v2.task" / "k8s.io"
    return {f"container {path.name}" for path in tasks.glob("*")}


def _empty_cgroups(runtime):
    """Gives empty cgroups of this containerd's containers. Each containerd puts its containers' cgroups in the same
    place, and logs each container that it starts."""
    empty = set()
    for path in pathlib.Path("/sys/fs/cgroup").glob("*/k8s.io/*"):
        try:
            if path.is_dir() and not (path / "cgroup.procs").read_text():
                empty.add(path)
        except OSError:
            continue  # it went away meanwhile
    log = runtime / "containerd.log"
    if not empty or not log.exists():  # a double of a runtime has no containers
        return set()
    started = log.read_text(errors="replace")
    return {f"cgroup {path}" for path in empty if path.name in started}


def _below(top):
    """Gives the paths of everything in a folder that is not itself a folder. Files that are removed meanwhile are
    left out."""
    for folder, folders, names in os.walk(top):
        links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
        yield from (pathlib.Path(folder, name) for name in names + links)


def _files(data):
    """Gives what volumes and pods have in a data folder: their images, records and folders."""
    found = set()
    for below in ("kubelet/pods", "kubelet/plugins/kubernetes.io", "node/pods", "node/volumes", "pod-logs"):
        top = data / below
        found |= {f"file {path}" for path in _below(top) if path.is_file() or path.is_symlink()}
        if below == "kubelet/pods" and top.is_dir():
            found |= {f"folder {path}" for path in top.iterdir()}
    found |= {f"file {path}" for path in _below(data / "pool") if path.suffix == ".img"}
    found |= {f"half a record {path}" for path in _below(data) if fnmatch.fnmatch(path.name, ".*.tmp-*")}
    return found


def _descriptors(pid):
    """Gives the descriptors that would keep a volume busy."""
    found = set()
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            target = os.readlink(f"/proc/{pid}/fd/{fd}")
        except OSError:
            continue
        if target.startswith("/dev/loop") or "/kubelet/pods/" in target:
            found.add(f"descriptor of process {pid}: {target}")
    return found


class Snapshot:
    def __init__(self, berth):
        self.berth = berth
        self.things = self._take()

    def _take(self):
        runtime = pathlib.Path(self.berth.runtime_socket).parent
        things = (_mounts([self.berth.folder, runtime]) | _loop_devices(self.berth.folder) | _network(runtime)
                  | _containers(runtime) | _empty_cgroups(runtime) | _files(self.berth.data))
        if self.berth.process is not None:
            things |= _descriptors(self.berth.process.pid)
        return things

    def leaked_since(self, seconds=5):
        """Gives what is here now and was not before. Only what stays counts, because the kernel and the runtime
        finish a removal a little after they have reported it, and other runtimes' containers come and go."""
        deadline = time.monotonic() + seconds
        left = self._take() - self.things
        while left and time.monotonic() < deadline:
            time.sleep(0.1)
            left &= self._take()
        return sorted(left)
