"""A StorageCluster is deleted while its back end hangs and a pod writes to one of its volumes. The clean-up ends,
reports what it forced, and delays nothing else."""
import time

import pytest
from lib import block_agent, fuse_double
from lib.block_agent import loops_of
from lib.standalone import wait_for
from test_block_agent import module_site, site  # noqa: F401  (fixtures)

pytestmark = [pytest.mark.blockagent, pytest.mark.e2e]

WRITES = ("while :; do echo x >> /data/log; sync /data/log; [ -e /data/ready ] || touch /data/ready; sleep 0.1; done & "
          "trap 'exit 0' TERM; while :; do sleep 0.1; done")


@pytest.fixture
def hanging(site):
    """Makes a storage cluster on a file system that can be made to hang."""
    double = fuse_double.FuseDouble(site.berth.folder / "fuse", site.berth.folder / "on-fuse").start()
    cluster = block_agent.storage_cluster("hanging", double.mount_point)
    cluster["spec"]["cleanup"] = {"unmapTimeoutSeconds": 3}
    site.berth.apply(cluster)
    yield double
    double.be_wrong()
    site.berth.remove_everything(seconds=60)
    site.berth.run("delete", "storagecluster", "hanging", "--wait=false", check=False)
    wait_for("the devices to go", lambda: not loops_of(double.mount_point))
    double.stop()


def test_the_cleanup_of_a_cluster_whose_back_end_hangs_ends(site, hanging):
    berth = site.berth
    block_agent.make_image(hanging.mount_point, "stuck", 64 << 20)
    berth.apply(block_agent.volume("stuck", "hanging"))
    berth.wait_phase("pvc", "stuck", "Bound")
    site.run("writer", "node-a", "stuck", script=WRITES)
    wait_for("the pod to have written", lambda: berth.run(
        "exec", "writer", "--", "ls", "/data/ready", check=False).returncode == 0)
    hanging.be_wrong("hangs")
    time.sleep(1)  # writes are stuck by now
    begun = time.monotonic()
    berth.run("delete", "storagecluster", "hanging", "--wait=false")
    # Other volumes are not delayed.
    site.volume("data")
    site.run("one", "node-a", "data")
    berth.wait_gone("storageclusters", "hanging", seconds=90)
    assert time.monotonic() - begun < 90
    cleaned = wait_for("what became of the volume", lambda: [
        event["message"] for event in berth.events("hanging") if event["reason"] == "ClusterCleaned"])
    assert "1 forced off" in cleaned[-1] and "0 failed" in cleaned[-1]
    assert site.fence("stuck") is None
    assert site.agents["node-a"].records() == ["data"]
    assert "volume 'stuck' of StorageCluster 'hanging', which is being deleted, was forced off" in \
        site.agents["node-a"].log.read_text()
    assert site.read("one") == ["one"]
