"""Targets, clusters and clients of the storage tests."""
import itertools
import pathlib
import tempfile

import pytest
from lib import ceph as ceph_cluster
from lib import tgt as tgt_target
from lib.export import Export
from lib.iscsi import Writer
from lib.rbd import MIB, PROGRAM, RbdCluster
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
    """Gives a function that makes the Export by which a node serves the test's image."""
    ceph.call("create", image=image, size=8 * MIB)
    made = []

    def make(node):
        made.append(Export(tmp_path / f"{len(made)}", PROGRAM, {"cluster": ceph.settings(), "node": node, "image": image}))
        return made[-1]

    yield make
    for export in made:
        export.stop()


@pytest.fixture
def tgt(tmp_path):
    """A target without LUNs."""
    try:
        target = tgt_target.Tgt(tmp_path / "tgt")
    except tgt_target.Missing as missing:
        pytest.skip(f"tgtd is not there: {missing}")
    try:
        yield target.start()
    finally:
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
