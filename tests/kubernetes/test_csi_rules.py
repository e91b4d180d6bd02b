"""The rules of CSI: csi-sanity, the suite that everybody runs, against the shipped driver, and our suite against a driver that others wrote."""
import subprocess

import pytest
from lib import mounts, shipped_driver
from lib.kubernetes import programs
from lib.kubernetes.programs import Process
from lib.standalone import ROOT, wait_for

pytestmark = pytest.mark.kubernetes


@pytest.fixture
def needed(request):
    """Skips the test where a program that it names is missing."""
    missing = programs.missing(*request.param)
    if missing:
        pytest.skip(missing)


@pytest.mark.parametrize("needed", [("csi-sanity",)], indirect=True, ids=["berth"])
def test_the_shipped_driver_passes_csi_sanity(needed, short):
    """csi-sanity passes whole on the shipped driver."""
    with shipped_driver.serving(short) as socket:
        result = subprocess.run([programs.find("csi-sanity"), f"--csi.endpoint={socket}", f"--csi.mountdir={short}/mount",
                                 f"--csi.stagingdir={short}/staging", "--ginkgo.no-color"], capture_output=True, text=True, timeout=900)
    assert result.returncode == 0, result.stdout[-6000:]


@pytest.mark.parametrize("needed", [("hostpathplugin",)], indirect=True, ids=["berth"])
def test_the_hostpath_driver_under_our_suite(needed, short):
    """Our suite of CSI's rules names the known breaches of the hostpath driver, and no others."""
    (short / "state").mkdir()
    driver = Process(short / "log", [programs.find("hostpathplugin"), f"--endpoint=unix://{short}/csi.sock", "--nodeid=node-a",
                                     "--drivername=hostpath.csi.k8s.io", f"--statedir={short}/state", "--v=5"])
    try:
        wait_for("the driver", (short / "csi.sock").exists)
        result = subprocess.run(["/usr/bin/python3", "-B", "-m", "pytest", "-p", "no:cacheprovider", "-q", "-rf", "--tb=no", "-c",
                                 "tests/pytest.ini", "tests/conformance/csi", "--csi", short / "csi.sock"], cwd=ROOT,
                                capture_output=True, text=True, timeout=900)
    finally:
        driver.stop()
        mounts.unmount_below(short)
    failed = {line.split()[1].rpartition("::")[2] for line in result.stdout.splitlines() if line.startswith("FAILED")}
    assert failed == set(BREACHES), result.stdout[-4000:]


# By case: the words of the specification, or of the condition under which it demands the code.
BREACHES = {
    "test_rule[wrong-topology]": "CreateVolume: if requisite is specified, the volume MUST be accessible from at least one of them",
    "test_rule[accepts-bad-token]": "ListVolumes: ABORTED for an invalid starting_token",
    "test_rule[group-of-nothing]": "CreateVolumeGroupSnapshot: if it fails for a part of the snapshots, the plugin MUST remove the others",
    "test_rule[group-delete-twice]": "DeleteVolumeGroupSnapshot: INVALID_ARGUMENT if snapshot_ids do not match the group",
    "test_rule[stage-ignores-conflict]": "NodeStageVolume: ALREADY_EXISTS for an incompatible capability",
    "test_rule[publish-ignores-conflict]": "NodePublishVolume: ALREADY_EXISTS for an incompatible capability",
}
