"""Gives the CRUST suite its handler: the one at --crust, or one of Berth's in a folder of its own.

The CRUST suite needs no Kubernetes API, so the fixtures of that API's suite do nothing here.
"""
import pathlib
import shutil
import sys
import tempfile

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from lib import crust  # noqa: E402

import crust_bench  # noqa: E402
from crust_client import CrustClient  # noqa: E402
from sandboxes import BerthSandboxes, CommandSandboxes  # noqa: E402


@pytest.fixture(scope="session")
def nothing_left_behind():
    """There are no objects here, and each case removes what it made."""


@pytest.fixture(scope="session")
def open_long_watch():
    """There is no API here, so there is no watch."""


@pytest.fixture(scope="session")
def folder():
    path = pathlib.Path(tempfile.mkdtemp(prefix="bt-", dir="/var/tmp"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="session")
def session_bench(request, folder):
    option = request.config.getoption
    (folder / "work").mkdir()
    handler, socket = None, option("--crust")
    if option("--crust-sandbox-command"):
        sandboxes = CommandSandboxes(option("--crust-sandbox-command"))
    elif socket:
        sandboxes = BerthSandboxes(option("--crust-oci"), option("--crust-run"), option("--crust-kubelet"), folder / "bundles")
    else:
        handler = crust.Handler(folder / "handler").start()
        socket = handler.socket
        sandboxes = crust_bench.sandboxes_of(handler)
    client = CrustClient(socket.removeprefix("unix://") if isinstance(socket, str) else socket, option("--crust-timeout"))
    yield crust_bench.Bench(client, sandboxes, folder / "work")
    client.close()
    if handler is not None:
        left = handler.records(), handler.holders()
        handler.stop()
        handler.clear()
        assert left == ([], []), f"sandboxes are left behind: {left}"


@pytest.fixture(scope="session")
def capabilities(session_bench):
    return session_bench.capabilities()
