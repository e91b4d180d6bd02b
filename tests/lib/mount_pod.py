"""berth-init as process 1 of namespaces of its own, as in a mount pod, without a container runtime."""
import json
import os
import pathlib
import subprocess

from lib.mounts import let_go_of_others
from lib.standalone import ROOT, wait_for

INIT = ROOT / "build" / "bin" / "berth-init"
FUSE_DOUBLE = ROOT / "build" / "bin" / "fuse_double"
UID = "5d1942bd-7358-40e8-9547-a04345c85be9"
POD = {"POD_NAMESPACE": "kubernetes-storage", "POD_NAME": "gluster-xtzwv", "POD_UID": UID}


class MountPod:
    """Makes a kubelet folder that is shared with the host, and the host's /proc, below `folder`."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.kubelet = self.folder / "kubelet"
        self.registrations = self.kubelet / "plugin-containers"
        self.host_proc = self.folder / "host-proc"
        self.log = self.folder / "log"
        self.process = None  # unshare, whose child is process 1
        self.pid = None
        for path in self.kubelet, self.host_proc:
            path.mkdir()
        for command in (["mount", "--bind", self.kubelet, self.kubelet], ["mount", "--make-rshared", self.kubelet],
                        ["mount", "--bind", "/proc", self.host_proc]):
            subprocess.run(command, check=True)

    def registration(self, plugin="kubernetes.io~glusterfs"):
        return self.registrations / f"{plugin}.json"

    def registered_uid(self):
        try:
            return json.loads(self.registration().read_text())["podUID"]
        except FileNotFoundError:
            return None

    def run(self, *arguments, env=None, plugins=("kubernetes.io/glusterfs",), command=()):
        """Starts berth-init, and does not wait for anything."""
        flags = [flag for plugin in plugins for flag in ("--plugin", plugin)]
        environment = {"PATH": os.environ["PATH"], **POD, **(env or {})}
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(
                ["unshare", "--pid", "--fork", "--mount-proc", "--propagation", "unchanged", "--kill-child",
                 INIT, *flags, "--container", "gluster", "--kubelet-dir", self.kubelet, "--host-mountinfo",
                 self.host_proc / str(os.getpid()) / "mountinfo", *arguments, *(["--", *command] if command else [])],
                env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        return self

    def start(self, *arguments, **keywords):
        """Starts berth-init, and waits until it is registered."""
        self.run(*arguments, **keywords)
        self.wait_for_log("registered for")
        of_unshare = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        self.pid = int(of_unshare.read_text())
        let_go_of_others(self.pid, own=self.folder)
        return self

    def said(self):
        return self.log.read_text()

    def wait_for_log(self, text):
        def look():
            if self.process.poll() is not None and text not in self.said():
                raise AssertionError(f"berth-init ended without '{text}': {self.said()}")
            return text in self.said()

        wait_for(f"'{text}' in berth-init's log", look)

    def exec(self, script, **keywords):
        """Runs a script as the runtime's ExecSync does: in the pod's namespaces, without a parent there."""
        return subprocess.Popen(["nsenter", "--target", str(self.pid), "--pid", "--mount", "sh", "-c", script],
                                stdin=subprocess.DEVNULL, **keywords)

    def children(self):
        """Gives {pid: state} of process 1's children; the state is "Z" for a child that was not reaped."""
        states = {}
        for pid in pathlib.Path(f"/proc/{self.pid}/task/{self.pid}/children").read_text().split():
            try:
                states[pid] = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
            except (FileNotFoundError, ProcessLookupError):
                continue
        return states

    def mount_points(self):
        """Gives the mount points that the pod sees."""
        return [line.split()[4] for line in pathlib.Path(f"/proc/{self.pid}/mountinfo").read_text().splitlines()]

    def serve(self, name):
        """Starts a FUSE daemon that has left its parent, at a mount point that the host sees, and gives that mount
        point."""
        below, target = self.folder / f"{name}-below", self.kubelet / name
        below.mkdir()
        target.mkdir()
        script = (f"{FUSE_DOUBLE} --folder {below} --mount-point {target} --switches {self.folder}/{name}-switches "
                  f"</dev/null >/dev/null 2>&1 &")
        assert self.exec(script).wait(timeout=60) == 0
        wait_for("the file system to be seen by the host", lambda: os.path.ismount(target))
        return target

    def signal(self, number):
        os.kill(self.pid, number)

    def wait(self):
        """Waits for the end of berth-init, and gives its exit code, which unshare passes on."""
        return self.process.wait(timeout=60)

    def stop(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
