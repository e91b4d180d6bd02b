"""Each driver runs beside a Berth of its own for all tests of a file. A driver that is not in BERTH_DRIVERS is skipped by name."""
import pytest
from lib.drivers.bed import Bed
from lib.drivers.cephcsi import CephFs
from lib.drivers.democratic import Democratic
from lib.drivers.driver import Missing
from lib.drivers.hostpath import Hostpath
from lib.drivers.s3 import S3

KINDS = {"hostpath": Hostpath, "s3": S3, "democratic": Democratic, "cephfs": CephFs}


@pytest.fixture(scope="session")
def bed_of(request, tmp_path_factory):
    """Gives a function that makes the Bed of a driver for a fixture."""
    def make(kind):
        try:
            kind(tmp_path_factory.mktemp("asked")).check()
        except Missing as missing:
            pytest.skip(f"{kind.title}: {missing}")
        bed = Bed(kind, request.getfixturevalue("runtime"))
        try:
            yield bed.start()
        finally:
            bed.end()

    return make


@pytest.fixture(scope="module", params=KINDS.values(), ids=KINDS)
def module_bed(request, bed_of):
    yield from bed_of(request.param)


@pytest.fixture
def bed(module_bed, request, record_property):
    """Gives a driver and its Berth to a test, whose mark `needs` names what the driver has to offer. Its docstring is the case on the
    page."""
    driver = module_bed.driver
    record_property("driver", driver.title)
    record_property("version", driver.version())
    record_property("found", driver.found)
    record_property("case", " ".join(request.function.__doc__.split()).rstrip("."))
    yield module_bed
    module_bed.remove_everything()


def pytest_collection_modifyitems(items):
    """Leaves out the cases of what a driver does not offer: they are no tests of it."""
    def fits(item):
        kind = getattr(item, "callspec", None) and item.callspec.params.get("module_bed")
        needs = {what for mark in item.iter_markers("needs") for what in mark.args}
        return not kind or needs <= kind.offers
    items[:] = [item for item in items if fits(item)]
