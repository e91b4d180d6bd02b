"""One Berth and one driver double for all tests of a file."""
import pytest

from lib import csi_bed, leaks


@pytest.fixture(scope="module")
def module_bed():
    with csi_bed.made() as bed:
        yield bed


@pytest.fixture
def bed(module_bed):
    """After each test the driver keeps to the rules again, and everything is deleted, because a wrong answer must
    leave nothing behind."""
    before = leaks.Snapshot(module_bed.berth)
    yield module_bed
    module_bed.calm()
    left = [thing for thing in before.leaked_since() if "/double/" not in thing]
    assert not left, "left behind:\n" + "\n".join(left)
