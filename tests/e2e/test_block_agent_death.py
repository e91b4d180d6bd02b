"""A node dies at each step of a mount, and returns; there is always only one writer. The volume comes free by itself
where there is proof that the old node no longer writes. Otherwise it stays fenced, with the reason."""
import shutil

import pytest
from lib.block_agent import loops_of
from lib.standalone import wait_for
from test_block_agent import OUT_OF_SERVICE, power_off, site, two_nodes  # noqa: F401  (a fixture)

pytestmark = [pytest.mark.blockagent, pytest.mark.e2e]

BEFORE_THE_FENCE = ["blockagent.record.write.after", "blockagent.fence.acquire.before"]
BEHIND_THE_FENCE = ["blockagent.fence.acquire.after", "blockagent.map.after", "blockagent.format.after",
                    "blockagent.mount.after"]

# The duration of a node's lease, and the time for which the agents watch it before they count its node as silent.
LEASE = "2s"


@pytest.fixture(scope="module")
def module_site(runtime):
    with two_nodes(runtime, ["--node-lease-duration", LEASE], ["--node-silence", LEASE]) as site:
        yield site


def arm(site, point):
    """Makes node b's agent die at this fault point."""
    marks = site.further.folder / "crashed"
    shutil.rmtree(marks, ignore_errors=True)
    marks.mkdir()
    agent = site.agents["node-b"]
    agent.kill()
    agent.log.unlink()
    agent.start(env={"BERTH_FAULTS": f"block-agent/{point}=crash", "BERTH_FAULT_ONCE": str(marks)}).wait_ready()
    return agent


def revive(site):
    """Brings node b back with its records; it detaches what belongs to another node by now."""
    agent = site.agents["node-b"]
    if site.further.machine is None:
        site.further.start()
    elif site.further.agent.poll() is not None:
        site.further.start_agent()
    agent.kill()
    agent.log.unlink()
    agent.start().wait_ready()
    wait_for("node-b to be ready", site.further.ready, seconds=120)
    if site.berth.get("nodes", "node-b").get("spec", {}).get("taints"):
        site.api.patch("nodes", "node-b", {"spec": {"taints": []}})
    wait_for("node-b to forget the volume", lambda: not agent.records())
    wait_for("node-b to have nothing to clean up", lambda: site.berth.get("nodecleanups", "node-b") is None)


def force_away(site, name):
    site.berth.run("delete", "pod", name, "--grace-period=0", "--wait=false")
    site.berth.wait_gone("pods", name)


def has_alone(site, node):
    """Checks that only this node has the volume, by the fence and by devices."""
    assert [entry["node"] for entry in site.fence("data")["attachments"]] == [node]
    assert [len(devices) for devices in loops_of(site.images).values()] == [1]


@pytest.fixture(autouse=True)
def comes_back(site):
    """Brings both nodes back for the next test, also after a failure."""
    yield
    if site.further.machine is None or site.agents["node-b"].process.poll() is not None:
        revive(site)


@pytest.mark.parametrize("point", BEFORE_THE_FENCE + BEHIND_THE_FENCE)
def test_a_node_dies_while_it_mounts_and_comes_back(site, point):
    site.volume("data")
    agent = arm(site, point)
    site.berth.apply(site.pod("db", "node-b", "data"))
    wait_for(f"the agent to die at {point}", lambda: agent.process.poll() == -9)
    power_off(site)
    force_away(site, "db")
    site.berth.apply(site.pod("db", "node-a", "data"))
    if point in BEHIND_THE_FENCE:
        # A pod with the same name is no proof, and the Node exists.
        said = wait_for("the refusal", lambda: site.blocked("db"))
        assert "node 'node-b' has not confirmed" in said[-1] and "out-of-service" in said[-1]
        assert [entry["node"] for entry in site.fence("data")["attachments"]] == ["node-b"]
        condition, = site.fence("data")["status"]["conditions"]
        assert (condition["type"], condition["status"]) == ("Blocked", "True")
        assert "berth fence break --dangerous data" in condition["message"]
        site.api.patch("nodes", "node-b", {"spec": {"taints": [OUT_OF_SERVICE]}})
    site.berth.wait_phase("pods", "db", "Running", seconds=150)
    has_alone(site, "node-a")
    assert site.read("db") == ["db"]
    revive(site)
    has_alone(site, "node-a")
    assert site.read("db") == ["db"]


def test_a_node_that_is_off_and_deleted_frees_its_volume_without_a_hand(site):
    site.volume("data")
    site.run("db", "node-b", "data")
    power_off(site)
    force_away(site, "db")
    site.berth.run("delete", "node", "node-b")
    site.berth.apply(site.pod("db", "node-a", "data"))
    wait_for("the reason", lambda: any("its Lease has not expired" in text for text in site.blocked("db")))
    # The node's lease expires, and the back end has no lock of the image.
    site.berth.wait_phase("pods", "db", "Running", seconds=240)
    has_alone(site, "node-a")
    assert site.read("db") == ["db", "db"]
    revive(site)
    has_alone(site, "node-a")


def test_a_node_that_is_deleted_and_still_has_the_device_keeps_its_volume_fenced(site):
    site.volume("data")
    site.run("db", "node-b", "data")
    agent = site.agents["node-b"]
    agent.kill()
    site.further.agent.kill()
    site.further.agent.wait()
    force_away(site, "db")
    site.berth.run("delete", "node", "node-b")
    site.berth.apply(site.pod("db", "node-a", "data"))
    # The node died earlier, too, so its silence is counted anew.
    wait_for("the first reason", lambda: any("its Lease has not expired" in text for text in site.blocked("db")))
    # The machine runs, and the pod that has the volume mounted may still write to it.
    said = wait_for("the reason", lambda: [text for text in site.blocked("db") if "holds a lock" in text], seconds=240)
    assert "switch it off" in said[-1] and "berth fence break --dangerous data" in said[-1]
    has_alone(site, "node-b")
    # Its agent comes back, finds that the pod is gone, and detaches the volume.
    revive(site)
    site.berth.wait_phase("pods", "db", "Running", seconds=240)
    has_alone(site, "node-a")
    assert site.read("db") == ["db", "db"]
