"""`berth io-proxy` of a node."""
import os
import pathlib
import subprocess
import tempfile

from lib import mounts
from lib.standalone import BINARY, wait_for


class IoProxy:
    """Its log is in `folder`. Its own folder is a short one, because sockets are in it. `inside` gives a command as it
    has to be run on the node."""

    def __init__(self, folder, inside=lambda *command: list(map(str, command))):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="bp-", dir="/run"))
        self.socket = self.folder / "sock"
        self.log = pathlib.Path(folder) / "io-proxy.log"
        self.inside = inside
        self.process = None

    def start(self, env=None, wait=True):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(self.inside(BINARY, "io-proxy", "--folder", self.folder),
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=os.environ | (env or {}),
                                            start_new_session=True)
        if wait:
            wait_for("the I/O proxy", self.socket.exists)
        return self

    def kill(self):
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def left(self):
        """Gives its records, the files of its volumes, and the processes that serve them."""
        files = [str(path) for below in ("records", "exports") for path in (self.folder / below).rglob("*")
                 if not path.is_dir()]
        mark = f"BERTH_IO_PROXY_EXPORT={self.folder}/".encode()
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if mark in (process / "environ").read_bytes():
                    files.append(f"process {process.name}")
            except OSError:
                continue
        return files

    def loops(self):
        """Gives the attachments of its volumes to loop devices: by the device's path."""
        return {device: mounts.attachment_of(device) for device in mounts.loops_below(self.folder, self.inside)}

    def log_tail(self, lines=60):
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def remove_volumes(self):
        """Takes off what is left of its volumes."""
        mounts.detach_loops_below(self.folder)
        mounts.unmount_below(self.folder)
