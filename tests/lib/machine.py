"""A mount namespace that stands for a machine of its own, on the network and kernel of this one."""
import contextlib
import os
import signal
import subprocess

from lib.mounts import let_go_of_others, targets, wait_unshared
from lib.standalone import ROOT, Failure, wait_for


def mount_namespace(process):
    """Gives the namespace of a process, or of a thread as "PID/task/TID", or None if it has none any more."""
    try:
        return os.readlink(f"/proc/{process}/ns/mnt")
    except OSError:
        return None


def threads(pid):
    try:
        return [f"{pid}/task/{thread}" for thread in os.listdir(f"/proc/{pid}/task")]
    except OSError:
        return []


class Machine:
    """A machine that is switched on. Nothing of another machine, nor of its own earlier life, is mounted there.
    `shared`: its mounts are shared with further namespaces of this machine, as they are where systemd runs."""

    def __init__(self, shared=False):
        self.process = subprocess.Popen(["unshare", "--mount", "--propagation", "private", "sleep", "infinity"])
        wait_unshared(self.process.pid)
        let_go_of_others(self.process.pid)
        if shared:  # earlier this would unmount the host's own mounts, too
            subprocess.run(self.inside("mount", "--make-rshared", "/"), check=True)

    def inside(self, *command):
        """Gives a command as it has to be run on the machine."""
        return ["nsenter", f"--mount=/proc/{self.process.pid}/ns/mnt", *map(str, command)]

    def targets(self):
        return targets(self.process.pid)

    def own_containerd(self, verb, folder):
        """Runs own_containerd on the machine; gives its socket after "start"."""
        result = subprocess.run(self.inside(ROOT / "tools" / "own_containerd", verb, folder), text=True,
                                capture_output=True, timeout=120)
        if result.returncode != 0:
            raise Failure(f"own_containerd {verb} in {folder}: {result.stdout}{result.stderr}")
        return result.stdout.strip()

    def _processes(self):
        """Gives what runs there, but not in containers, which have mount namespaces of their own."""
        own = mount_namespace(self.process.pid)
        assert own not in (None, mount_namespace("self"))
        # A process whose first thread has ended shows no namespace, although its other threads may still be there.
        return [pid for pid in (int(name) for name in os.listdir("/proc") if name.isdigit())
                if pid != self.process.pid and any(mount_namespace(thread) == own for thread in threads(pid))]

    def send_signal(self, number):
        for pid in self._processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)

    def switch_off(self):
        """Kills everything that runs there, because a driver that waits for its agent would keep the mounts."""
        self.send_signal(signal.SIGKILL)
        # The last process of a mount namespace unmounts all of it. It must not be one that serves a file system there.
        wait_for("the machine's processes to end", lambda: not self._processes())
        self.process.kill()
        self.process.wait()
