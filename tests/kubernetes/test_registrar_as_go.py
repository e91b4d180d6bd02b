"""csi-node-driver-registrar: what the Go program does and what Berth does in its place."""
import pytest
from lib.kubernetes.programs import Sidecar
from lib.standalone import wait_for

GO_PROGRAMS = ("csi-node-driver-registrar",)


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


def test_its_health(world, announcements, registrar):
    """A driver stays announced while it is away, and `/healthz` is 404 when the registration socket is gone."""
    registrar.wait_for("the driver to be announced", lambda: registrar.get("/healthz")[0] == 200)
    [socket] = announcements.iterdir()
    assert socket.name == f"{world.driver}-reg.sock"
    world.double.stop()
    assert registrar.get("/healthz")[0] == 200 and socket.is_socket()
    socket.unlink()
    wait_for("the missing socket to be noticed", lambda: registrar.get("/healthz")[0] == 404)
    world.double.start()
