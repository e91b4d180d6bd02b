"""One Ceph cluster for all tests of this folder, because it takes seconds to start. Each test uses images of its own."""
import itertools
import pathlib
import tempfile

import pytest
from lib.ceph import Missing
from lib.rbd import RbdCluster

NUMBERS = itertools.count(1)


@pytest.fixture(scope="session")
def ceph():
    made = RbdCluster(pathlib.Path(tempfile.mkdtemp(prefix="bc-", dir="/var/tmp")) / "ceph")
    try:
        yield made.start()
    except Missing as missing:
        pytest.skip(str(missing))
    finally:
        made.stop()
        made.folder.parent.rmdir()


@pytest.fixture
def image():
    """The name of an image that no other test uses."""
    return f"pvc-{next(NUMBERS)}"
