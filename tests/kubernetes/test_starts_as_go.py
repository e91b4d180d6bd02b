"""How csi-provisioner starts: what the Go program does with its environment and flags, and what Berth does in its place."""
from lib.standalone import wait_for

GO_PROGRAMS = ("csi-provisioner",)
FAST = ("--timeout=5s", "--retry-interval-start=200ms", "--retry-interval-max=1s")


def test_capacity_without_a_namespace(world):
    """With --enable-capacity and without NAMESPACE the provisioner ends with an error that says so."""
    sidecar = world.start("csi-provisioner", *FAST, "--enable-capacity", env={"NAMESPACE": ""})
    wait_for("its end", lambda: sidecar.process.poll() is not None, seconds=60)
    assert sidecar.process.returncode != 0
    assert "need NAMESPACE env variable for CSIStorageCapacity objects" in sidecar.log()
