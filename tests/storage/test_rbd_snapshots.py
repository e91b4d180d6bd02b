"""Snapshots of volumes in a real Ceph pool, from the claim to the pod and back: made while a pod writes, restored, deleted
in any order, and what a person is told of one that cannot be restored."""
import pytest
from lib import objects
from lib.ceph import Missing
from lib.rbd_site import rbd_site
from lib.standalone import wait_for

pytestmark = [pytest.mark.storage, pytest.mark.e2e]


@pytest.fixture(scope="module")
def module_site(runtime):
    try:
        with rbd_site(runtime) as made:
            yield made
    except Missing as missing:
        pytest.skip(str(missing))


@pytest.fixture
def site(module_site):
    module_site.prepare()
    yield module_site
    for item in module_site.berth.items("blocksnapshots"):
        delete(module_site, item["metadata"]["name"])
    module_site.clean()
    assert module_site.ceph.rbd("print([entry['name'] for entry in rbd.RBD().trash_list(io)])") == "[]\n"


def take(site, name, claim):
    """Makes a snapshot, and gives its name in the pool."""
    site.berth.apply(objects.block_snapshot(name, claim))
    return wait_for(f"snapshot {name}", lambda: made(site, name))


def made(site, name):
    status = site.berth.get("blocksnapshots", name).get("status", {})
    return status.get("readyToUse") and status["snapshot"]


def delete(site, name):
    site.berth.run("delete", "blocksnapshots", name, "--wait=false")
    site.berth.wait_gone("blocksnapshots", name)


def write_more(site, pod):
    site.berth.run("exec", pod, "--", "sh", "-c", "echo more >> /data/who && sync /data/who")


def test_the_data_of_a_moment_comes_back(site):
    name = site.claim("data")
    site.run("one", "data")
    assert site.read("one") == ["one"]
    monday = take(site, "monday", "data")
    write_more(site, "one")
    tuesday = take(site, "tuesday", "data")
    write_more(site, "one")
    assert site.images() == {name: 320 << 20, monday: 320 << 20, tuesday: 320 << 20}
    [holder] = site.call("holders", image=name)["holders"]
    assert holder["node"] == "node-a" and holder["alive"], "the pod has not lost its volume"
    # Each is restored while the first volume is in use, with the data of its own moment.
    for snapshot, pod, there in (("monday", "two", ["one"]), ("tuesday", "three", ["one", "more"])):
        site.claim(f"from-{snapshot}", **objects.restored_from(snapshot))
        site.run(pod, f"from-{snapshot}")
        assert site.read(pod) == [*there, pod]
    assert site.read("one") == ["one", "more", "more"]
    # One snapshot goes before the volume that was restored from it and before its own volume, the other one after both.
    delete(site, "monday")
    site.remove("one", "two", "three")
    site.delete_claim("data")
    site.delete_claim("from-tuesday")
    assert set(site.images()) == {tuesday, site.berth.get("pvc", "from-monday")["spec"]["volumeName"]}
    larger = site.claim("larger", "512Mi", **objects.restored_from("tuesday"))
    assert site.images()[larger] == 512 << 20
    site.run("four", "larger")
    assert site.read("four") == ["one", "more", "four"]


def test_what_cannot_be_restored_says_why(site):
    site.claim("data", "384Mi")
    take(site, "monday", "data")
    site.berth.apply(objects.claim("small", "320Mi", "ceph", **objects.restored_from("monday")))
    site.wait_event("small", "ProvisioningFailed", "the claim has to ask for at least its size, 384Mi")
    site.berth.apply(objects.claim("early", "320Mi", "ceph", **objects.restored_from("tuesday")))
    site.wait_event("early", "ProvisioningFailed", "BlockSnapshot 'tuesday': it does not exist")
    site.berth.apply(objects.block_snapshot("tuesday", "absent"))
    site.wait_event("tuesday", "SnapshotFailed", "claim 'absent' does not exist")
    told = site.berth.run("explain", "pvc", "early", check=False).stdout
    assert "BlockSnapshot 'default/tuesday'" in told and "claim 'absent' does not exist" in told
