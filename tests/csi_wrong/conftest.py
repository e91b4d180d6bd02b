"""One Berth and one driver double for all tests of a file."""
import pathlib
import shutil
import subprocess
import tempfile

import pytest

from lib import csi_bed, leaks


@pytest.fixture(scope="module")
def module_bed():
    folder = pathlib.Path(tempfile.mkdtemp(prefix="bt-", dir="/var/tmp"))
    bed = csi_bed.Bed(folder)
    try:
        yield bed.start()
    finally:
        bed.stop()
        with open("/proc/self/mountinfo") as table:
            left = [line.split()[4] for line in table if line.split()[4].startswith(f"{folder}/")]
        for path in sorted(left, reverse=True):
            subprocess.run(["umount", "--lazy", path], check=False)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def bed(module_bed):
    """After each test the driver is honest again, and everything goes: a driver's wrong answer must not stay."""
    before = leaks.Snapshot(module_bed.berth)
    yield module_bed
    module_bed.calm()
    left = [thing for thing in before.leaked_since() if "/double/" not in thing]
    assert not left, "left behind:\n" + "\n".join(left)
