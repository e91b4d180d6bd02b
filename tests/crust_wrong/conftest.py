"""Gives the tests of the CRUST suite a folder."""
import pathlib
import shutil
import tempfile

import pytest
from lib import mounts


@pytest.fixture(scope="module")
def folder():
    path = pathlib.Path(tempfile.mkdtemp(prefix="bt-", dir="/var/tmp"))
    yield path
    mounts.unmount_below(path)
    mounts.detach_loops_below(path)
    shutil.rmtree(path, ignore_errors=True)
