"""Gives the CSI suite its driver: the one at --csi, or the one that Berth ships, on a pool of its own.

The CSI suite needs no Kubernetes API, so the fixtures of that API's suite do nothing here.
"""
import pathlib
import shutil
import subprocess
import sys
import tempfile

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from lib import standalone  # noqa: E402

import bench as workbench  # noqa: E402
import driver as csi_driver  # noqa: E402


@pytest.fixture(scope="session")
def nothing_left_behind():
    """There are no objects here, and each case removes its volumes."""


@pytest.fixture(scope="session")
def open_long_watch():
    """There is no API here, so there is no watch."""


@pytest.fixture(scope="session")
def endpoint(request):
    given = request.config.getoption("--csi")
    if given:
        yield given.removeprefix("unix://")
        return
    folder = pathlib.Path(tempfile.mkdtemp(prefix="bt-", dir="/var/tmp"))
    socket = folder / "csi.sock"
    with open(folder / "log", "wb") as log:
        process = subprocess.Popen([standalone.BINARY, "csi-driver", "--node-id", "node-a", "--pool", folder / "pool",
                                    "--endpoint", socket], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    try:
        standalone.wait_for("the shipped driver", lambda: process.poll() is None and socket.exists())
        yield socket
        process.terminate()
        process.wait(30)
        assert process.returncode == 0, (folder / "log").read_text()[-4000:]
        assert not list((folder / "pool").rglob("*.img")), "the suite left volumes behind"
    finally:
        process.kill()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def session_bench(request, endpoint):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="bt-", dir="/var/tmp"))
    driver = csi_driver.Driver(endpoint, seconds=request.config.getoption("--csi-timeout"))
    yield workbench.Bench(driver, folder, second_node=request.config.getoption("--csi-second-node"),
                          parameters=workbench.json_option(request.config.getoption("--csi-parameters")),
                          secrets=workbench.json_option(request.config.getoption("--csi-secrets")))
    driver.close()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def capabilities(session_bench):
    return session_bench.capabilities()
