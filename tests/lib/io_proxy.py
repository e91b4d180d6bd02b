"""`berth io-proxy` of a node."""
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

    def start(self):
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(self.inside(BINARY, "io-proxy", "--folder", self.folder),
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        wait_for("the I/O proxy", self.socket.exists)
        return self

    def kill(self):
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()

    def remove_volumes(self):
        """Takes off what is left of its volumes."""
        mounts.detach_loops_below(self.folder)
        mounts.unmount_below(self.folder)
