"""Targets, clusters and clients of the storage tests."""
import itertools
import pathlib
import tempfile

import pytest
from lib import ceph as ceph_cluster
from lib import tgt as tgt_target
from lib.iscsi import Writer
from lib.rbd import MIB, RbdCluster
from lib.rbd_served import Served
from lib.tcp_gate import TcpGate

NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def ceph():
    """One Ceph cluster for all tests of this folder, because it takes seconds to start. Each test uses images of its own."""
    made = RbdCluster(pathlib.Path(tempfile.mkdtemp(prefix="bc-", dir="/var/tmp")) / "ceph")
    try:
        yield made.start()
    except ceph_cluster.Missing as missing:
        pytest.skip(str(missing))
    finally:
        made.stop()
        made.folder.parent.rmdir()


@pytest.fixture
def image():
    """The name of an image that no other test uses."""
    return f"pvc-{next(NUMBERS)}"


@pytest.fixture
def serve(ceph, image, tmp_path):
    """Gives a function that serves the test's image on a node."""
    ceph.call("create", image=image, size=8 * MIB)
    made = []

    def start(node, **other):
        made.append(Served(ceph, tmp_path / f"{len(made)}", image, node, **other))
        return made[-1]

    yield start
    for served in made:
        served.kill()


@pytest.fixture
def tgt(tmp_path):
    """A target without LUNs."""
    try:
        target = tgt_target.Tgt(tmp_path / "tgt")
    except tgt_target.Missing as missing:
        pytest.skip(f"tgtd is not there: {missing}")
    yield target.start()
    target.stop()


@pytest.fixture
def writers():
    """Gives a function that makes Writers. At the end it ends those that still run."""
    started = []

    def make(*arguments, **members):
        started.append(Writer(*arguments, **members))
        return started[-1]

    yield make
    for writer in started:
        writer.kill()


@pytest.fixture
def gate(tgt):
    """A way to the target that can be held up and cut."""
    opened = TcpGate(tgt.portal)
    yield opened
    opened.close()
