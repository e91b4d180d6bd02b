"""Gives the CSI suite its driver: the one at --csi, or the one that Berth ships, on a pool of its own.

The CSI suite needs no Kubernetes API, so the fixtures of that API's suite do nothing here.
"""
import pathlib
import shutil
import sys
import tempfile

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from lib import shipped_driver  # noqa: E402

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
    try:
        with shipped_driver.serving(folder) as socket:
            yield socket
    finally:
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
