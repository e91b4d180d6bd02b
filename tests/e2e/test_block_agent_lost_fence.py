"""A VolumeFence that is lost while a pod writes: the object is deleted, its kind is installed again, or a backup without it
is restored. The pod sees no error, and its node writes the fence again."""
import json

import pytest
from lib import block_agent
from lib.standalone import wait_for
from test_block_agent import module_site, site  # noqa: F401: fixtures

pytestmark = [pytest.mark.blockagent, pytest.mark.security, pytest.mark.e2e]

# Ends with an error at the first write that fails.
WRITE = ("trap 'exit 0' TERM; n=0; while :; do n=$((n+1)); echo $n >> /data/log || exit 1; sync /data/log || exit 2; "
         "sleep 0.05; done")


def written(site):
    return int(site.berth.run("exec", "writer", "--", "tail", "-n", "1", "/data/log").stdout)


def uid_in_fence(site):
    fence = site.fence("data")
    entries = fence["attachments"] if fence else []
    return entries[0]["podUID"] if len(entries) == 1 else None


def begin(site):
    site.volume("data")
    pod = site.run("writer", "node-a", "data", WRITE)
    wait_for("the first lines", lambda: written(site) > 3)
    return pod


def expect_unharmed(site, pod, before):
    """Waits until the fence names the pod again, and the pod has written since."""
    wait_for("the fence", lambda: uid_in_fence(site) == pod["metadata"]["uid"])
    after = written(site)
    assert after >= before
    wait_for("more lines", lambda: written(site) > after + 3)
    now = site.berth.get("pods", "writer")
    assert now["metadata"]["uid"] == pod["metadata"]["uid"] and now["status"]["phase"] == "Running", now["status"]
    wait_for("the event", lambda: any(e["reason"] == "FenceRestored" for e in site.berth.events("writer")))
    assert not any(e["reason"] == "FenceLost" for e in site.berth.events("writer"))


def test_a_deleted_fence_is_written_again(site):  # noqa: F811
    pod = begin(site)
    before = written(site)
    site.berth.run("delete", "volumefences", "data")
    expect_unharmed(site, pod, before)


def test_fences_come_back_when_their_kind_is_installed_again(site):  # noqa: F811
    pod = begin(site)
    before = written(site)
    definition = site.berth.get("customresourcedefinitions", "volumefences.storage.berth.dev")
    site.berth.run("delete", "customresourcedefinitions", "volumefences.storage.berth.dev")
    wait_for("the kind to be gone", lambda: site.berth.run("get", "volumefences", check=False).returncode != 0)
    at = written(site)
    wait_for("lines while there is no such kind", lambda: written(site) > at + 3)
    for field in ("resourceVersion", "uid", "creationTimestamp", "generation", "managedFields"):
        definition["metadata"].pop(field, None)
    definition.pop("status", None)
    site.berth.apply(json.dumps(definition))
    wait_for("the kind", lambda: site.berth.run("get", "volumefences", check=False).returncode == 0)
    expect_unharmed(site, pod, before)


def test_a_restored_backup_without_the_fence_takes_nothing(site, tmp_path):  # noqa: F811
    pod = begin(site)
    agent = site.agents["node-a"]
    agent.kill()
    site.berth.run("delete", "volumefences", "data")
    backup = tmp_path / "objects.backup"
    site.berth.run("backup", backup)
    agent.start()
    expect_unharmed(site, pod, written(site))
    before = written(site)
    site.berth.keep_port()
    site.berth.stop()
    site.berth.run("restore", backup)
    site.berth.start()
    assert site.berth.get("pods", "writer")["metadata"]["uid"] == pod["metadata"]["uid"]
    expect_unharmed(site, pod, before)


def test_another_node_waits_while_a_fence_is_lost(site):  # noqa: F811
    """A pod on another node that wants the volume gets it only after the first has ended, though the fence was gone."""
    pod = begin(site)
    site.berth.apply(site.pod("next", "node-b", "data"))
    wait_for("the refusal", lambda: site.blocked("next"))
    before = written(site)
    site.berth.run("delete", "volumefences", "data")
    expect_unharmed(site, pod, before)
    site.remove("writer")
    site.berth.wait_phase("pods", "next", "Running", seconds=90)
    assert block_agent.loops_of(site.images)
