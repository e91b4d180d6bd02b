"""A pod writes to a volume while the fence that names it gets lost: deleted by hand, with its CustomResourceDefinition,
or by the restore of an older backup. The pod notices nothing, the fence names it again, and an event says so."""
import pathlib
import shutil
import tempfile

import pytest
from lib import block_agent, mounts, objects
from lib.block_agent import BlockAgent, loops_of
from lib.standalone import Standalone, wait_for

pytestmark = [pytest.mark.blockagent, pytest.mark.e2e, pytest.mark.security]

KIND = "volumefences.storage.berth.dev"
# Appends numbers for ever, syncs each to the device before the next, and says which writes failed.
WRITER = """
i=0
trap 'exit 0' TERM
while :; do
  { echo $i >>/data/numbers && sync /data/numbers; } || echo "write $i failed"
  i=$((i + 1))
  sleep 0.02
done
"""


class Site:
    def __init__(self, runtime):
        self.berth = Standalone(tempfile.mkdtemp(prefix="bt-", dir="/var/tmp"), runtime)
        self.images = self.berth.folder / "images"
        self.images.mkdir()
        self.agent = BlockAgent(self.berth, "node-a", self.berth.data, self.berth.folder)

    def start(self):
        self.berth.start()
        block_agent.define_kinds(self.berth)
        self.berth.apply(block_agent.storage_cluster("main", self.images))
        self.agent.start().wait_ready()
        block_agent.make_image(self.images, "data", 64 << 20)
        self.berth.apply(block_agent.volume("data", "main"))
        self.berth.wait_phase("pvc", "data", "Bound")

    def restart_agent(self):
        self.agent.kill()
        self.agent.log.unlink()
        self.agent.start()

    def writer(self):
        return objects.pod("writer", WRITER, ["data"], mounts=[{"name": "data", "mountPath": "/data"}])

    def numbers(self):
        read = self.berth.run("exec", "writer", "--", "cat", "/data/numbers", check=False)
        return [int(line) for line in read.stdout.split()] if read.returncode == 0 else []

    def entries(self):
        fence = self.berth.get("volumefences", "data") or {}
        return [(e["node"], e["podUID"]) for e in fence.get("attachments", [])]

    def expect_that_nothing_happened(self, uid):
        """Waits until the fence names the pod again, and checks that the pod has written all the time."""
        wait_for("the fence to name the pod again", lambda: self.entries() == [("node-a", uid)], seconds=120)
        wait_for("the event", lambda: any(e["reason"] == "FenceRestored" for e in self.berth.events("writer")))
        before = len(self.numbers())
        wait_for("the pod to write more", lambda: len(self.numbers()) > before)
        assert "failed" not in self.berth.run("logs", "writer").stdout
        numbers = self.numbers()
        assert numbers == list(range(len(numbers)))
        pod = self.berth.get("pods", "writer")
        assert pod["metadata"]["uid"] == uid
        assert [c["restartCount"] for c in pod["status"]["containerStatuses"]] == [0]
        assert not [e for e in self.berth.events("writer") if e["reason"] == "FenceLost"]
        assert len(loops_of(self.images)["data"]) == 1

    def close(self):
        self.agent.kill()
        self.berth.kill()
        mounts.unmount_below(self.berth.folder)
        mounts.detach_loops_below(self.berth.folder)
        shutil.rmtree(self.berth.folder, ignore_errors=True)


@pytest.fixture
def site(runtime):
    site = Site(runtime)
    try:
        site.start()
        yield site
        site.berth.remove_everything(seconds=60)
        wait_for("the fence to go", lambda: site.berth.get("volumefences", "data") is None)
        assert not loops_of(site.images)
        site.agent.stop()
        site.berth.stop()
    finally:
        site.close()


@pytest.fixture
def uid(site):
    """Runs the writer, and gives its uid."""
    site.berth.apply(site.writer())
    uid = site.berth.wait_phase("pods", "writer", "Running")["metadata"]["uid"]
    wait_for("the first numbers", site.numbers)
    return uid


def test_a_fence_that_is_deleted_by_hand_is_written_again(site, uid):
    site.berth.run("delete", "volumefence", "data")
    site.expect_that_nothing_happened(uid)


def test_the_kind_that_is_deleted_and_defined_again_takes_nothing_away(site, uid):
    berth = site.berth
    berth.run("delete", "crd", KIND)
    wait_for("the kind to be gone", lambda: berth.run("get", "volumefences", check=False).returncode != 0)
    # An agent that starts now compares its records with fences at once.
    site.restart_agent()
    wait_for("the agent to ask for the fence", lambda: "does not serve VolumeFences" in site.agent.log.read_text())
    before = len(site.numbers())
    wait_for("the pod to write more", lambda: len(site.numbers()) > before)
    block_agent.define_kinds(berth)
    site.expect_that_nothing_happened(uid)


def test_a_backup_that_is_older_than_the_fence_takes_nothing_away(site, tmp_path):
    berth = site.berth
    site.agent.kill()
    berth.apply(site.writer())
    wait_for("the pod to be given to the node",
             lambda: (berth.get("pods", "writer") or {}).get("spec", {}).get("nodeName"))
    uid = berth.get("pods", "writer")["metadata"]["uid"]
    backup = pathlib.Path(tmp_path) / "objects.backup"
    berth.run("backup", backup)
    assert berth.get("volumefences", "data") is None
    site.agent.start()
    berth.wait_phase("pods", "writer", "Running", seconds=150)
    wait_for("the first numbers", site.numbers)
    assert site.entries() == [("node-a", uid)]
    berth.stop()
    berth.run("restore", backup)
    berth.start()
    site.restart_agent()  # the API has another port
    site.expect_that_nothing_happened(uid)
