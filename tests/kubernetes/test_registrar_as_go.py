"""csi-node-driver-registrar: what the Go program does and what Berth does in its place."""
import time

import pytest
from lib.kubernetes.programs import Sidecar
from lib.standalone import wait_for

GO_PROGRAMS = ("csi-node-driver-registrar",)
WATCHED_FOR = 3  # seconds, several times as long as a registrar waits before it looks again


@pytest.fixture
def announcements(world):
    """Gives the folder in which a kubelet would find the driver."""
    folder = world.folder / "r"
    folder.mkdir()
    return folder


@pytest.fixture
def registrar(world, announcements):
    sidecar = Sidecar(world.folder / "registrar.log", "csi-node-driver-registrar", [
        f"--csi-address={world.double.socket}", f"--kubelet-registration-path={world.double.socket}",
        f"--plugin-registration-path={announcements}"], world.of_go, f"{world.namespace}-host")
    yield sidecar
    sidecar.stop()


def check_announced(registrar, socket, announced):
    """Looks for some time whether the kubelet finds the same socket and `/healthz` says that it is well."""
    begin = time.monotonic()

    def look():
        assert identity(socket) == announced, "the driver was announced anew"
        code, text = registrar.get("/healthz")
        assert code == 200, text
        return time.monotonic() - begin > WATCHED_FOR
    wait_for("some time to pass", look, WATCHED_FOR + 60)


def identity(socket):
    """Gives what differs when a socket is removed and made anew, or None if it is not there."""
    try:
        status = socket.stat()
    except FileNotFoundError:
        return None
    return status.st_ino, status.st_mtime_ns


def test_its_health(world, announcements, registrar):
    """A driver stays announced by the same registration socket while it is away and after its restart, and `/healthz` is 404 when
    that socket is gone."""
    registrar.wait_for("the driver to be announced", lambda: registrar.get("/healthz")[0] == 200)
    [socket] = announcements.iterdir()
    assert socket.name == f"{world.driver}-reg.sock"
    announced = identity(socket)
    world.double.stop()
    check_announced(registrar, socket, announced)
    world.double.start()
    check_announced(registrar, socket, announced)
    world.double.stop()
    socket.unlink()
    wait_for("the missing socket to be noticed", lambda: registrar.get("/healthz")[0] == 404)
    world.double.start()
    if not world.of_go:  # which has to be restarted
        wait_for("the driver to be announced again", lambda: registrar.get("/healthz")[0] == 200)
