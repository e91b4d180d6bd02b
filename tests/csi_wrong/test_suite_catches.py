"""The CSI conformance suite catches each rule that the driver double can break, and names it."""
import pathlib
import shutil
import sys
import tempfile

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "conformance" / "csi"))

from lib import csi_double  # noqa: E402
from lib.rules import broken_rules  # noqa: E402

import bench as workbench  # noqa: E402
import cases_controller  # noqa: E402,F401
import cases_groups  # noqa: E402,F401
import cases_identity  # noqa: E402,F401
import cases_node  # noqa: E402,F401
import driver as csi_driver  # noqa: E402
from case import CASES  # noqa: E402

pytestmark = [pytest.mark.csifaults, pytest.mark.csi, pytest.mark.conformance]

# METHOD is the method for switches of one method; the suite always calls it. SEEN_AS gives the rule that a caller
# sees broken, where it has another name.
METHOD = "NodePublishVolume"
SEEN_AS = {"late": "hangs"}


@pytest.fixture(scope="module")
def folder():
    path = pathlib.Path(tempfile.mkdtemp(prefix="bt-", dir="/var/tmp"))
    yield path
    shutil.rmtree(path, ignore_errors=True)


@pytest.fixture(scope="module")
def double(folder):
    double = csi_double.CsiDouble(folder / "double")
    yield double
    double.stop()


@pytest.fixture(scope="module")
def bench(folder, double):
    (folder / "work").mkdir()
    driver = csi_driver.Driver(double.socket, seconds=3)
    yield workbench.Bench(driver, folder / "work", second_node="node-b")
    driver.close()


@pytest.fixture
def honest(double, bench):
    """Gives a driver that keeps to the rules, whatever the test before did to it."""
    double.be_wrong()
    if not double.alive():
        double.start()
        bench.driver.reconnect()
    yield bench.capabilities()
    double.be_wrong()


def test_the_double_is_honest_by_itself(bench, honest):
    # The double leaves no mount to a container runtime and takes no groups of snapshots, so the suite asks it nothing
    # about these.
    assert {what for case in CASES for what in case.missing(honest)} == {"NODE_RUNTIME_ASSISTED_MOUNT",
                                                                         "CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT"}
    assert list(broken_rules(bench, honest, CASES)) == []


@pytest.mark.parametrize("name", [rule[0] for rule in csi_double.rules()])
def test_it_is_caught(name, double, bench, honest):
    rule, _, per_method = name.partition(":")
    wanted = SEEN_AS.get(rule, rule)
    double.be_wrong(f"{rule}:{METHOD}" if per_method else rule)
    cases = [case for case in CASES if case.name == wanted]
    if per_method:
        cases = [case for case in CASES if case.name == "publishes-nothing"]
    assert cases, f"the suite has no case for '{wanted}'"
    found = list(broken_rules(bench, honest, cases))
    assert any(broken == wanted for broken, _ in found), found
