"""The "no leak" comparison: what the machine holds before and after."""
import os
import pathlib
import subprocess


def _mounts():
    with open("/proc/self/mountinfo") as table:
        rows = [line.split() for line in table]
    return {f"mount {row[4]} ({row[row.index('-') + 1]})" for row in rows}


def _loop_devices():
    found = set()
    for device in pathlib.Path("/sys/block").glob("loop*"):
        backing = device / "loop" / "backing_file"
        try:
            found.add(f"{device.name} on {backing.read_text().strip()}")
        except OSError:
            pass
    return found


def _network_namespaces():
    folder = pathlib.Path("/run/netns")
    return {f"netns {entry}" for entry in os.listdir(folder)} if folder.is_dir() else set()


def _links():
    out = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout
    return {"link " + line.split(": ")[1].split("@")[0] for line in out.splitlines()}


def _cgroups():
    return {f"cgroup {path}" for path in pathlib.Path("/sys/fs/cgroup").glob("*/k8s.io/*")}


def _files(folder):
    """What volumes and pods leave in a data folder: their images, records and folders."""
    found = set()
    for below in ("kubelet/pods", "kubelet/plugins/kubernetes.io", "pool", "node/pods", "node/volumes",
                  "pod-logs"):
        top = pathlib.Path(folder) / below
        found |= {f"file {path}" for path in top.rglob("*") if path.is_file() or path.is_symlink()}
        if below == "kubelet/pods" and top.is_dir():
            found |= {f"folder {path}" for path in top.iterdir()}
    return found


def _descriptors(pid):
    found = {}
    for fd in os.listdir(f"/proc/{pid}/fd"):
        try:
            target = os.readlink(f"/proc/{pid}/fd/{fd}")
        except OSError:
            continue
        kind = target.split(":")[0] if ":" in target else target
        if kind.startswith("/") and "/loop" not in kind and "/pods/" not in kind:
            continue
        found[kind] = found.get(kind, 0) + 1
    return found


class Snapshot:
    def __init__(self, data):
        self.data = data
        self.things = (_mounts() | _loop_devices() | _network_namespaces() | _links() | _cgroups()
                       | _files(data))

    def leaked_since(self):
        """What is here now and was not then."""
        return sorted(Snapshot(self.data).things - self.things)
