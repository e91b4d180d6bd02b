"""The Secrets Store CSI driver: secrets that are published again, with tokens of the pod's account, by a client of the API."""
import pytest
from lib import objects
from lib.drivers.bed import SECONDS
from lib.drivers.secrets_store import SecretsStore
from lib.standalone import wait_for

pytestmark = [pytest.mark.drivers, pytest.mark.e2e]


@pytest.fixture(scope="module")
def module_bed(bed_of):
    yield from bed_of(SecretsStore)


@pytest.fixture
def reader(bed):
    """Gives a running pod with the secrets at /secrets."""
    volume = {"name": "secrets", "csi": {"driver": bed.driver.name, "readOnly": True, "volumeAttributes": bed.driver.attributes()}}
    bed.berth.apply(objects.pod("reader", "sleep 1000", volumes=[volume], mounts=[
        {"name": "secrets", "mountPath": "/secrets", "readOnly": True}]))
    bed.berth.wait_phase("pods", "reader", "Running", seconds=SECONDS)
    return "reader"


def secret(bed, pod):
    return bed.berth.run("exec", pod, "--", "cat", "/secrets/foo").stdout


def statuses(bed):
    return [item["status"]["podName"] for item in bed.berth.items("secretproviderclasspodstatuses")]


def test_secrets_of_a_pod(bed, reader):
    """inline volume with a token of the pod's account; the driver's own object for the pod goes with the pod"""
    assert secret(bed, reader) == "secret"
    wait_for("the driver's object for the pod", lambda: statuses(bed) == [reader])
    bed.delete_pod(reader)
    wait_for("the driver's object to be gone", lambda: not statuses(bed), SECONDS)


def test_the_driver_is_killed_beside_a_pod(bed, reader):
    """driver and Berth killed beside a pod"""
    bed.restart_driver()
    bed.restart_berth_after(0)
    assert secret(bed, reader) == "secret"
    bed.delete_pod(reader)


def test_a_secret_that_changes(bed, reader):
    """a secret that changes reaches the running pod (requiresRepublish)"""
    bed.driver.rotate()
    wait_for("the new secret", lambda: secret(bed, reader) == "rotated", SECONDS)
    bed.delete_pod(reader)
