"""A real GlusterFS server for one test, in network, mount and process namespaces of its own. The host gets no package
and no mount, and has one end of a veth pair as long as the server lives.

glusterd refuses loopback addresses, so it uses the other end. The brick is an ext4 on a loop device, which is
detached when the namespace ends.
"""
import contextlib
import os
import pathlib
import shutil
import signal
import subprocess

from lib import debian_root
from lib.mounts import let_go_of_others
from lib.standalone import Failure, wait_for
from lib.veth import Veth

PACKAGES = ["glusterfs-server", "dash", "coreutils", "grep", "sed", "mawk", "util-linux", "mount", "procps", "hostname",
            "libc-bin"]

# Run as PID 1 of the server's process namespace. $1: root, $2: the brick's image.
START = r"""
set -e
mount --bind "$1" "$1"
cd "$1"
mount -t proc proc proc
mount --rbind /dev dev
for folder in run tmp var/lib/glusterd var/log; do mount -t tmpfs tmpfs "$folder"; done
mkdir -p var/log/glusterfs var/lib/glusterd run/gluster
mount -t tmpfs tmpfs srv
mkdir srv/brick
mount -o loop "$2" srv/brick
ip link set lo up
exec chroot . /bin/sh -c '
  while ! [ -e /run/go ]; do sleep 0.05; done
  /usr/sbin/glusterd --no-daemon --log-level=WARNING --log-file=/dev/stderr &
  wait'
"""


class GlusterServer:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.veth = Veth("bg")
        self.address = self.veth.address
        self.process = self.pid = None

    def start(self):
        root = debian_root.cached(PACKAGES)
        brick = self.folder / "brick.img"
        with open(brick, "wb") as file:
            file.truncate(256 << 20)
        subprocess.run(["mkfs.ext4", "-q", "-F", "-m", "0", brick], check=True)
        with open(self.folder / "gluster.log", "wb") as log:
            self.process = subprocess.Popen(
                ["unshare", "--net", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child",
                 "sh", "-c", START, "sh", root, brick], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.pid = wait_for("the server's namespaces", self._inner_pid)
        # This enters by the process of unshare, which is in the same mount namespace, because the server's root shows
        # nothing of the host.
        let_go_of_others(self.process.pid, own=self.folder)
        self.veth.connect(self.pid)
        self.inside("touch", "/run/go")
        wait_for("glusterd", lambda: self.inside("gluster", "volume", "list", check=False).returncode == 0, interval=0.2)
        return self

    def _inner_pid(self):
        """Gives PID 1 of the server's process namespace once its root is the server's."""
        if self.process.poll() is not None:
            raise Failure(f"the GlusterFS server did not start: {(self.folder / 'gluster.log').read_text()}")
        children = pathlib.Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        with contextlib.suppress(OSError):
            if children and os.readlink(f"/proc/{children[0]}/root") != "/":
                return int(children[0])
        return None

    def inside(self, *command, check=True):
        result = subprocess.run(
            ["nsenter", "--target", str(self.pid), "--net", "--mount", "--pid", "--root", "--wd", *command],
            capture_output=True, text=True, timeout=60, env={"PATH": "/usr/sbin:/usr/bin"})
        if check and result.returncode != 0:
            raise Failure(f"{' '.join(command)}: {result.stdout}{result.stderr}")
        return result

    def volume(self, name):
        """Makes and starts a volume of one brick, and gives its name for a mount."""
        self.inside("gluster", "--mode=script", "volume", "create", name, f"{self.address}:/srv/brick/{name}", "force")
        self.inside("gluster", "--mode=script", "volume", "start", name)
        return f"{self.address}:/{name}"

    def has(self, volume, path):
        """Whether a file is on the brick."""
        return self.inside("test", "-e", f"/srv/brick/{volume}/{path}", check=False).returncode == 0

    def read(self, volume, path):
        """Gives the content of a file on the brick."""
        return self.inside("cat", f"/srv/brick/{volume}/{path}").stdout

    def stop(self):
        if self.process is not None:
            if self.pid is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self.pid, signal.SIGKILL)
            self.process.kill()
            self.process.wait()
            self.process = None
        self.veth.delete()
        shutil.rmtree(self.folder, ignore_errors=True)
