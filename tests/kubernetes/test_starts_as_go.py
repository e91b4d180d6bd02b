"""How csi-provisioner starts: what the Go program does with its environment and flags, and what Berth does in its place."""
import pytest
from lib.kubernetes.programs import Sidecar
from lib.kubernetes.world import RIGHTS, rules_of
from lib.standalone import wait_for

GO_PROGRAMS = ("csi-provisioner",)
FAST = ("--timeout=5s", "--retry-interval-start=200ms", "--retry-interval-max=1s")


def test_capacity_without_a_namespace(world):
    """With --enable-capacity and without NAMESPACE the provisioner ends with an error that says so."""
    sidecar = world.start("csi-provisioner", *FAST, "--enable-capacity", env={"NAMESPACE": ""})
    wait_for("its end", lambda: sidecar.process.poll() is not None, seconds=60)
    assert sidecar.process.returncode == 255
    assert "need NAMESPACE env variable for CSIStorageCapacity objects" in sidecar.log()


@pytest.fixture(params=[(), ("--kubeconfig=/nonexistent",)], ids=["without-the-flag", "besides-the-flag"])
def by_variable(world, request):
    """The provisioner, which finds its kubeconfig by the environment alone."""
    config = world.cluster.write_account(world.folder / "config", world.namespace, "csi-provisioner",
                                         rules_of(*RIGHTS["csi-provisioner"]))
    sidecar = Sidecar(world.folder / "csi-provisioner.log", "csi-provisioner",
                      [f"--csi-address={world.double.socket}", *FAST, *request.param], world.of_go, f"{world.namespace}-host",
                      env={"KUBECONFIG": str(config)})
    yield sidecar
    sidecar.stop()


def test_the_variable_of_kubectl(world, by_variable):
    """$KUBECONFIG says how to reach the API, also where --kubeconfig says otherwise."""
    world.make_class()
    world.claim("data")
    by_variable.wait_for("the claim to be bound", lambda: world.get("PersistentVolumeClaim", "data")["status"]["phase"] == "Bound")
