"""The CSI driver that Berth ships, as a process of its own."""
import contextlib
import subprocess

from lib.standalone import BINARY, wait_for


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
