"""A driver behind `berth crust-proxy` keeps to CSI as it does by itself: the conformance suite finds nothing wrong with the shipped
driver, which leaves mounts to handlers, nor with the driver double, which does not."""
import contextlib
import pathlib
import sys

import pytest
from lib import csi_double, shipped_driver
from lib.kubernetes.programs import Process
from lib.standalone import BINARY, Standalone, wait_for

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "conformance" / "csi"))

from lib.rules import broken_rules  # noqa: E402

import bench as workbench  # noqa: E402
import cases_controller  # noqa: E402,F401
import cases_groups  # noqa: E402,F401
import cases_identity  # noqa: E402,F401
import cases_node  # noqa: E402,F401
import driver as csi_driver  # noqa: E402
from case import CASES  # noqa: E402

pytestmark = [pytest.mark.guest, pytest.mark.crust, pytest.mark.csi, pytest.mark.conformance]


@pytest.fixture(scope="module")
def kubeconfig(folder):
    berth = Standalone(folder / "b", folder / "no-runtime.sock")
    try:
        berth.start(wait=False)
        wait_for("the API", berth.answers)
        yield berth.data / "kubeconfig"
        berth.stop()
    finally:
        berth.kill()


@contextlib.contextmanager
def double(folder):
    made = csi_double.CsiDouble(folder / "double").start()
    try:
        yield made.socket
    finally:
        made.stop()


@pytest.mark.parametrize("driver", [shipped_driver.serving, double], ids=["shipped", "double"])
def test_the_suite_finds_nothing_wrong(driver, folder, kubeconfig):
    here = folder / driver.__name__
    (here / "work").mkdir(parents=True)
    with driver(here) as behind:
        proxy = Process(here / "proxy.log", [BINARY, "crust-proxy", f"--endpoint={here}/p.sock", f"--csi-address={behind}",
                                             "--node-name=node-a", f"--kubelet={here}/kubelet", f"--data={here}/data",
                                             f"--kubeconfig={kubeconfig}"])
        try:
            proxy.wait_for("the proxy to serve", (here / "p.sock").exists)
            client = csi_driver.Driver(here / "p.sock", seconds=20)
            bench = workbench.Bench(client, here / "work", second_node="node-b")
            assert list(broken_rules(bench, bench.capabilities(), CASES)) == []
            client.close()
            assert proxy.stop() == 0
            assert not list((here / "data" / "volumes").iterdir())
        finally:
            proxy.kill()
