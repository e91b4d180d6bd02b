"""The CSI driver that Berth ships, as a process of its own."""
import contextlib
import subprocess

from lib.standalone import BINARY, wait_for


class ShippedDriver:
    """The driver under a name, for World(double=...), with a pool in the folder."""

    def __init__(self, folder, name):
        self.name = name
        self.folder = folder
        self.socket = folder / "csi.sock"
        self._pool = folder / "pool"
        self._process = None

    def start(self):
        self.folder.mkdir(parents=True, exist_ok=True)
        with open(self.folder / "log", "ab") as log:
            self._process = subprocess.Popen([BINARY, "csi-driver", "--driver-name", self.name, "--node-id", "node-a",
                                              "--pool", self._pool, "--endpoint", self.socket],
                                             stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_for("the shipped driver", self._serves)
        return self

    def _serves(self):
        assert self._process.poll() is None, (self.folder / "log").read_text()[-4000:]
        return self.socket.exists()

    def stop(self):
        if self._process is not None:
            self._process.terminate()
            self._process.wait(30)

    def snapshots(self):
        """Gives the images of all snapshots."""
        return sorted(path.name for path in (self._pool / "snapshots").glob("*.img"))


@contextlib.contextmanager
def serving(folder):
    """Serves the driver from a pool in the folder, and gives its socket. In the end it has to end in order and to have no volume
    left."""
    socket = folder / "csi.sock"
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen([BINARY, "csi-driver", "--node-id", "node-a", "--pool", folder / "pool", "--endpoint", socket],
                                   stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        wait_for("the shipped driver", lambda: process.poll() is None and socket.exists())
        yield socket
        process.terminate()
        process.wait(30)
        assert process.returncode == 0, (folder / "log").read_text()[-4000:]
        assert not list((folder / "pool").rglob("*.img")), "volumes are left behind"
    finally:
        process.kill()
        process.wait()
