"""The CSI conformance suite catches each rule that a driver which leaves mounts to a runtime handler can break, by the case of that
name, and finds nothing wrong with the driver that Berth ships."""
import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "conformance" / "csi"))

from lib import deferring_driver, shipped_driver  # noqa: E402
from lib.rules import broken_rules  # noqa: E402

import bench as workbench  # noqa: E402
import cases_node  # noqa: E402
import driver as csi_driver  # noqa: E402
from case import CASES  # noqa: E402

pytestmark = [pytest.mark.crust, pytest.mark.csifaults, pytest.mark.conformance]

DEFERRAL = [case for case in CASES if "NODE_RUNTIME_ASSISTED_MOUNT" in case.needs]


@pytest.fixture(scope="module")
def driver(folder):
    with shipped_driver.serving(folder) as socket:
        proxy = deferring_driver.DeferringDriver(folder / "proxy.sock", socket)
        yield proxy
        proxy.close()


@pytest.fixture(scope="module")
def bench(folder, driver):
    (folder / "work").mkdir()
    client = csi_driver.Driver(driver.path, seconds=30)
    yield workbench.Bench(client, folder / "work")
    client.close()


@pytest.fixture(scope="module")
def offers(bench):
    return bench.capabilities()


def test_each_case_of_deferral_is_shown_to_catch_something():
    assert {case.name for case in DEFERRAL} == set(deferring_driver.RULES)


def test_the_shipped_driver_is_right(driver, bench, offers):
    assert not any(case.missing(offers) for case in DEFERRAL)
    assert list(broken_rules(bench, offers, DEFERRAL)) == []


@pytest.mark.parametrize("rule", deferring_driver.RULES)
def test_a_driver_that_defers_wrongly_is_caught(rule, driver, bench, offers):
    [case] = [case for case in DEFERRAL if case.name == rule]
    driver.be_wrong(rule)
    try:
        found = list(broken_rules(bench, offers, [case]))
    finally:
        driver.be_wrong()
    assert any(broken == rule for broken, _ in found), found
    assert list(broken_rules(bench, offers, [case])) == [], "what the case left behind"
