"""The block agent on two nodes, each with a mount namespace, a data folder and an agent of its own, and real ext4 on image
files that both reach."""
import contextlib
import pathlib
import shutil
import subprocess
import tempfile

import pytest
from lib import block_agent, mounts, objects
from lib.block_agent import BlockAgent, loops_of
from lib.further_node import FurtherNode
from lib.standalone import Standalone, wait_for

pytestmark = [pytest.mark.blockagent, pytest.mark.e2e]

OUT_OF_SERVICE = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}
STAY = "echo $HOSTNAME >> /data/who; sync /data/who; cat /data/who; touch /written; trap 'exit 0' TERM; while :; do sleep 0.1; done"


class Site:
    def __init__(self, berth, further, agent_flags=()):
        self.berth = berth
        self.api = berth.api
        self.further = further
        self.images = berth.folder / "images"
        self.images.mkdir()
        self.agents = {
            "node-a": BlockAgent(berth, "node-a", berth.data, berth.folder, flags=agent_flags),
            "node-b": BlockAgent(berth, "node-b", further.data, further.folder, further.inside, flags=agent_flags),
        }

    def start(self):
        block_agent.define_kinds(self.berth)
        self.berth.apply(block_agent.storage_cluster("main", self.images))
        for agent in self.agents.values():
            agent.start()
        for agent in self.agents.values():
            agent.wait_ready()

    def volume(self, name, megabytes=64, **how):
        block_agent.make_image(self.images, name, megabytes << 20)
        self.berth.apply(block_agent.volume(name, "main", size=f"{megabytes}Mi", **how))
        self.berth.wait_phase("pvc", name, "Bound")

    def pod(self, name, node, claim, script=STAY, **more):
        return objects.pod(name, script, [claim], mounts=[{"name": claim, "mountPath": "/data"}],
                           nodeSelector={"kubernetes.io/hostname": node}, **more)

    def run(self, name, node, claim, script=STAY, **more):
        self.berth.apply(self.pod(name, node, claim, script, **more))
        return self.berth.wait_phase("pods", name, "Running", seconds=60)

    def read(self, name):
        """Gives who has written, once this pod's container has; it is Running before."""
        wait_and_read = "until [ -e /written ]; do sleep 0.1; done; cat /data/who"
        return self.berth.run("exec", name, "--", "sh", "-c", wait_and_read).stdout.split()

    def remove(self, *names):
        for name in names:
            self.berth.run("delete", "pod", name, "--wait=false")
        for name in names:
            self.berth.wait_gone("pods", name)

    def fence(self, name):
        return self.berth.get("volumefences", name)

    def blocked(self, name):
        """Gives the events of the pod that has this name now, and not of earlier ones."""
        pod = self.berth.get("pods", name)
        return [e["message"] for e in self.berth.events(name) if e["reason"] == "FenceBlocked"
                and pod is not None and e["involvedObject"].get("uid") == pod["metadata"]["uid"]]


@contextlib.contextmanager
def two_nodes(runtime, node_flags=(), agent_flags=()):
    berth = Standalone(tempfile.mkdtemp(prefix="bt-", dir="/var/tmp"), runtime)
    berth.start()
    further = FurtherNode(berth, "node-b", pathlib.Path(tempfile.mkdtemp(prefix="bt-", dir="/var/tmp")), node_flags)
    site = Site(berth, further, agent_flags)
    try:
        further.start()
        wait_for("node-b to be ready", further.ready)
        site.start()
        yield site
        for agent in site.agents.values():
            agent.stop()
        further.stop()
        berth.stop()
    finally:
        for agent in site.agents.values():
            agent.kill()
        further.switch_off()
        berth.kill()
        for folder in (berth.folder, further.folder):
            mounts.unmount_below(folder)
            mounts.detach_loops_below(folder)
            shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def module_site(runtime):
    with two_nodes(runtime) as site:
        yield site


@pytest.fixture
def site(module_site):
    """Checks afterwards that no volume is attached anywhere, and that no record or fence names one."""
    yield module_site
    module_site.berth.remove_everything(seconds=60)
    wait_for("all fences to go", lambda: not module_site.berth.items("volumefences"), seconds=30)
    assert not loops_of(module_site.images)
    for agent in module_site.agents.values():
        wait_for(f"{agent.name} to have no records", lambda agent=agent: not agent.records(), seconds=30)
    shutil.rmtree(module_site.images)
    module_site.images.mkdir()


def test_the_control_flow_of_the_design(site):
    berth = site.berth
    site.volume("data")
    assert not loops_of(site.images) and site.fence("data") is None
    site.run("one", "node-a", "data")
    fence = site.fence("data")
    pod = berth.get("pods", "one")
    entry, = fence["attachments"]
    assert entry == {"node": "node-a", "podNamespace": "default", "pod": "one", "podUID": pod["metadata"]["uid"],
                     "mountDir": f"{berth.data}/kubelet/pods/{pod['metadata']['uid']}/volumes/berth.dev~block/data",
                     "readOnly": False, "clusterName": "main"}
    device, = fence["status"]["devices"]
    assert device["node"] == "node-a" and device["state"] == "Attached"
    assert loops_of(site.images) == {"data": [device["devicePath"]]}
    table = berth.run("get", "volumefence").stdout
    for word in ("data", "node-a", "one", "default", device["devicePath"], "Attached", "main"):
        assert word in table, table
    mounted = berth.run("exec", "one", "--", "sh", "-c", "grep ' /data ' /proc/mounts").stdout.split()
    assert mounted[:3] == [device["devicePath"], "/data", "ext4"]
    site.remove("one")
    wait_for("the fence to go", lambda: site.fence("data") is None)
    assert not loops_of(site.images)
    # The next pod is on the other node, and finds what the first wrote.
    site.run("two", "node-b", "data")
    assert site.fence("data")["attachments"][0]["node"] == "node-b"
    assert site.read("two") == ["one", "two"]


def test_one_pod_at_a_time_and_the_second_is_told_why(site):
    site.volume("data")
    site.run("one", "node-a", "data")
    for name, node in (("two", "node-a"), ("three", "node-b")):
        site.berth.apply(site.pod(name, node, "data"))
        said = wait_for("the refusal", lambda: site.blocked(name))
        assert "pod 'default/one'" in said[0] and "delete that pod" in said[0]
        site.remove(name)
    condition, = site.fence("data")["status"]["conditions"]
    assert condition["type"] == "Blocked" and condition["status"] == "True"
    site.berth.apply(site.pod("four", "node-b", "data"))
    wait_for("the refusal", lambda: site.blocked("four"))
    site.remove("one")
    site.berth.wait_phase("pods", "four", "Running", seconds=150)
    assert site.read("four") == ["one", "four"]


def test_many_pods_of_one_node_share_a_read_write_many_volume(site):
    site.volume("data", modes=("ReadWriteMany",))
    site.run("one", "node-a", "data")
    site.run("two", "node-a", "data")
    assert len(loops_of(site.images)["data"]) == 1
    assert sorted(e["pod"] for e in site.fence("data")["attachments"]) == ["one", "two"]
    site.berth.apply(site.pod("elsewhere", "node-b", "data"))
    said = wait_for("the refusal", lambda: site.blocked("elsewhere"))
    assert "ext4 is destroyed by two nodes" in said[0]
    site.remove("elsewhere", "one")
    assert [e["pod"] for e in site.fence("data")["attachments"]] == ["two"]
    assert site.read("two") == ["one", "two"]


def test_an_agent_that_is_killed_leaves_volumes_mounted_and_the_next_goes_on(site):
    site.volume("data")
    site.run("one", "node-a", "data")
    agent = site.agents["node-a"]
    agent.kill()
    assert site.read("one") == ["one"]
    # The new and the deleted pod both wait for the agent, and neither request is lost.
    site.volume("more")
    site.berth.apply(site.pod("two", "node-a", "more"))
    site.berth.run("delete", "pod", "one", "--wait=false")
    agent.start()
    site.berth.wait_gone("pods", "one")
    site.berth.wait_phase("pods", "two", "Running", seconds=60)
    wait_for("the fence to go", lambda: site.fence("data") is None)


def test_a_pod_cannot_name_anothers_volume_inline(site):
    site.volume("data")
    stray = objects.pod("stray", "sleep 1000", mounts=[{"name": "data", "mountPath": "/data"}],
                        volumes=[{"name": "data", "flexVolume": {
                            "driver": block_agent.DRIVER, "options": {"cluster": "main", "image": "data"}}}],
                        nodeSelector={"kubernetes.io/hostname": "node-a"})
    site.berth.apply(stray)
    said = wait_for("the refusal", lambda: [e["message"] for e in site.berth.events("stray")
                                            if "does not use the claim" in e["message"]])
    assert "default/data" in said[0]
    assert site.fence("data") is None and not loops_of(site.images)


def test_a_person_breaks_a_fence_and_the_old_node_takes_it_off(site):
    site.volume("data")
    site.run("one", "node-a", "data")
    berth = site.berth
    refused = berth.run("fence", "break", "data", check=False)
    assert refused.returncode != 0 and "--dangerous" in refused.stderr
    asked = subprocess.run([berth.binary, "fence", "break", "--data", berth.data, "--dangerous", "data"],
                           input="dta\n", text=True, capture_output=True, timeout=30)
    assert asked.returncode != 0 and "pod 'default/one'" in asked.stdout and site.fence("data")
    said = berth.run("fence", "break", "--dangerous", "--yes-i-lose-data", "data", "data").stdout
    assert "node 'node-a' takes the volume off" in said
    wait_for("node-a to forget it", lambda: not site.agents["node-a"].records())
    write = berth.run("exec", "one", "--", "sh", "-c", "echo late > /data/late && sync /data/late", check=False)
    assert write.returncode != 0, "what has it open writes no more"
    wait_for("the event", lambda: any(e["reason"] == "FenceLost" for e in berth.events("one")))
    wait_for("what node-a owed to be worked off", lambda: berth.get("nodecleanups", "node-a") is None)


def power_off(site):
    """Switches node b off. Its loop devices have to be detached here, because they belong to this machine's kernel,
    which goes on."""
    site.agents["node-b"].kill()
    site.further.switch_off()
    for devices in loops_of(site.images).values():
        for device in devices:
            subprocess.run(["losetup", "--detach", device], check=True)


def test_a_dead_nodes_volume_stays_fenced_until_somebody_vouches_for_its_death(site):
    site.volume("data")
    site.run("db", "node-b", "data")
    power_off(site)
    site.berth.run("delete", "pod", "db", "--grace-period=0", "--wait=false")
    site.berth.wait_gone("pods", "db")
    # A pod with the same name on another node is no proof.
    site.berth.apply(site.pod("db", "node-a", "data"))
    said = wait_for("the refusal", lambda: site.blocked("db"))
    assert "kubectl taint node node-b node.kubernetes.io/out-of-service=nodeshutdown:NoExecute" in said[-1]
    assert [e["node"] for e in site.fence("data")["attachments"]] == ["node-b"]
    site.api.patch("nodes", "node-b", {"spec": {"taints": [OUT_OF_SERVICE]}})
    site.berth.wait_phase("pods", "db", "Running", seconds=150)
    assert site.read("db") == ["db", "db"]
    entry, = site.fence("data")["attachments"]
    assert entry["node"] == "node-a"
    owed, = site.berth.get("nodecleanups", "node-b")["entries"]
    assert owed["volume"] == "data" and owed["image"] == "data"
    # The event is from the agent that wants the volume, or from the operator, whichever came first.
    wait_for("the event", lambda: [e for name in ("db", "data") for e in site.berth.events(name)
                                   if e["reason"] == "FenceBroken"])
    # Node b comes back, and finds that another node has its volume.
    site.further.start()
    site.api.patch("nodes", "node-b", {"spec": {"taints": []}})
    site.agents["node-b"].start().wait_ready()
    wait_for("node-b to be ready", site.further.ready, seconds=120)
    wait_for("node-b to forget it", lambda: not site.agents["node-b"].records())
    assert site.read("db") == ["db", "db"]
    assert [e["node"] for e in site.fence("data")["attachments"]] == ["node-a"]
    wait_for("what node-b owed to be worked off", lambda: site.berth.get("nodecleanups", "node-b") is None)
