"""LUNs of a real iSCSI target as volumes, from the claim to the pod and back: with the block operator of a standalone
Berth, an agent and an I/O proxy on its node, and what a person sees if the target or the Secret is not as it should be."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile

import pytest
from lib import objects
from lib.export import Export
from lib.iscsi import PROGRAM, request
from lib.iscsi_site import CHAP, PASSWORD, SIZES, USER, iscsi_site
from lib.standalone import Failure, wait_for
from lib.storage_site import NAMESPACE
from lib.tgt import MIB, TARGET, Missing, free_port

pytestmark = [pytest.mark.storage, pytest.mark.e2e]


@pytest.fixture(scope="module")
def module_site(runtime):
    try:
        with iscsi_site(runtime) as made:
            yield made
    except Missing as missing:
        pytest.skip(f"tgtd is not there: {missing}")


@pytest.fixture
def site(module_site):
    module_site.prepare()
    yield module_site
    module_site.clean()


def test_from_the_claim_to_the_pod_and_back(site):
    name = site.claim("data", "32Mi", "san")
    volume = site.berth.get("persistentvolumes", name)
    assert volume["spec"]["capacity"]["storage"] == "40Mi", "the smallest LUN that fits is taken"
    assert volume["spec"]["flexVolume"]["options"]["image"].startswith(f"{name}.")
    assert site.units(name)[1]["reserved"] == "guard" and site.units()[1]["reserved"] == "used"
    site.run("one", "data")
    assert site.holders(name) == ["node-a"]
    assert site.read("one") == ["one"]
    site.remove("one")
    wait_for("the reservation to go back to the guard", lambda: not site.holders(name))
    site.run("two", "data")
    assert site.read("two") == ["one", "two"]
    site.remove("two")
    assert b"two" in site.tgt.data(1)
    # The LUN is free again once it is overwritten, and the next claim finds nothing of the old data.
    site.delete_claim("data")
    assert site.tgt.data(1) == bytes(SIZES[1])
    assert site.units()[1]["reserved"] == ""
    site.claim("next", "32Mi", "san")
    site.run("three", "next")
    assert site.read("three") == ["three"]


def test_claims_share_no_lun_and_the_last_one_is_told_why(site):
    names = [site.claim(f"data-{i}", "32Mi", "san") for i in range(2)]
    images = [site.berth.get("persistentvolumes", name)["spec"]["flexVolume"]["options"]["image"] for name in names]
    assert len({image.rsplit(".", 1)[1] for image in images}) == 2
    site.berth.apply(objects.claim("third", "32Mi", "san"))
    site.wait_event("third", "ProvisioningFailed", "no free LUN", "2 are in use")
    assert site.units()[3]["reserved"] == "", "a LUN that is not listed is not touched"
    site.delete_claim("data-0")
    site.berth.wait_phase("pvc", "third", "Bound")


def test_two_storage_clusters_that_list_one_lun_give_it_to_one_claim(site):
    site.cluster("first", luns=[3])
    site.cluster("second", luns=[3])
    for name in ("first", "second"):
        site.wait_ready(name)
    site.claim("one", "50Mi", "first")
    site.berth.apply(objects.claim("two", "50Mi", "second"))
    site.wait_event("two", "ProvisioningFailed", "no free LUN", "1 are in use")
    site.delete_claim("one")
    site.berth.wait_phase("pvc", "two", "Bound")


def test_a_lun_with_somebodys_data_is_neither_taken_nor_written(site):
    subprocess.run(["mkfs.ext4", "-q", "-F", site.tgt.file(1)], check=True)
    with open(site.tgt.file(2), "r+b") as data:
        data.seek(SIZES[2] - 600)
        data.write(b"the end of somebody's data")
    before = [site.tgt.data(lun) for lun in (1, 2)]
    site.berth.apply(objects.claim("data", "32Mi", "san"))
    site.wait_event("data", "ProvisioningFailed", "no free LUN", "2 hold data")
    assert [site.tgt.data(lun) for lun in (1, 2)] == before
    assert [site.units()[lun]["reserved"] for lun in (1, 2)] == ["", ""]


def test_a_volume_grows_when_the_administrator_has_grown_its_lun(site):
    site.cluster("big", fs_type="xfs", luns=[4])
    site.wait_ready("big")
    site.claim("data", "320Mi", "big")
    site.run("one", "data")
    claim = site.berth.get("pvc", "data")
    claim["spec"]["resources"]["requests"]["storage"] = "512Mi"
    site.berth.apply(claim)
    site.wait_event("data", "VolumeResizeFailed", "grow it at target")
    site.tgt.grow(4, 512 * MIB)
    wait_for("the file system to have grown", lambda: int(site.berth.run(
        "exec", "one", "--", "df", "-k", "/data").stdout.split()[-5]) > 400 << 10, seconds=90)
    wait_for("the claim to say so", lambda: site.berth.get("pvc", "data")["status"]["capacity"]["storage"] == "512Mi")


def test_copies_and_snapshots_are_refused_in_words(site):
    site.claim("data", "32Mi", "san")
    site.berth.apply(objects.claim("copy", "48Mi", "san", dataSource={"kind": "PersistentVolumeClaim", "name": "data"}))
    site.wait_event("copy", "ProvisioningFailed", "made beforehand")
    site.run("one", "data")
    site.berth.apply(objects.block_snapshot("monday", "data"))
    said = site.wait_event("monday", "SnapshotFailed", "made beforehand", "Berth makes no snapshots of it")
    wait_for("the object to say so", lambda: site.berth.get("blocksnapshots", "monday")["status"]["error"]["message"] == said)
    site.berth.run("delete", "blocksnapshots", "monday", "--wait=false")
    site.berth.wait_gone("blocksnapshots", "monday")
    assert site.units()[2]["reserved"] == "", "no LUN is taken for it"


def test_what_is_wrong_is_said_and_counts_no_more_once_it_is_mended(site):
    ref = lambda name: {"chapSecretRef": {"name": name, "namespace": NAMESPACE}}  # noqa: E731
    cases = {
        "no-secret": (ref("absent"), f"secret '{NAMESPACE}/absent'"),
        "no-password": (ref("odd"), "has neither"),
        "wrong-password": (ref("wrong"), "CHAP"),
        "no-target": ({"target": f"{TARGET}-2"}, f"{TARGET}-2"),
        "no-portal": ({"portals": [f"127.0.0.1:{free_port()}"]}, "answer"),
        "no-lun": ({"allow": ["naa.0123456789abcdef"]}, "none of the LUNs"),
        "kernel": ({"access": "Kernel"}, "Kernel"),
    }
    site.secret("odd", username=USER)
    site.secret("wrong", username=USER, password="another-secret-here")
    for name, (more, said) in cases.items():
        site.cluster(name, **more)
        site.wait_failed(name, said)
        assert PASSWORD not in json.dumps(site.status(name))
    site.secret("absent", username=USER, password=PASSWORD)
    site.wait_ready("no-secret")
    for name in cases:
        site.berth.run("delete", "storageclusters", name, "--wait=false")
        site.berth.wait_gone("storageclusters", name)


def test_the_agent_and_the_proxy_are_killed_under_a_pod(site):
    site.claim("data", "32Mi", "san")
    site.run("one", "data")
    assert site.read("one") == ["one"]
    site.agent.kill()
    site.agent.start().wait_ready()
    site.proxy.kill()
    # The process that serves the volume lives on without the proxy.
    site.berth.run("exec", "one", "--", "sh", "-c", "echo more >> /data/who && sync /data/who")
    site.proxy.start()
    site.remove("one")
    site.run("two", "data")
    assert site.read("two") == ["one", "more", "two"]


def test_an_operator_that_is_killed_takes_one_lun_and_gives_it_back(site, tmp_path):
    env = {"BERTH_FAULTS": "blockoperator.create.after=crash,blockoperator.delete.after=crash",
           "BERTH_FAULT_ONCE": str(tmp_path)}
    site.berth.stop()
    site.berth.start(env=env)
    deaths = []

    def wait_through(what, probe):
        def attempt():
            if site.berth.process.poll() is not None:
                deaths.append(what)
                site.berth.start(env=env)
            try:
                return probe()
            except (Failure, OSError):
                return False
        return wait_for(what, attempt, seconds=90)

    site.berth.apply(objects.claim("data", "32Mi", "san"))
    wait_through("the claim", lambda: site.berth.get("pvc", "data")["status"]["phase"] == "Bound")
    name = site.berth.get("pvc", "data")["spec"]["volumeName"]
    assert {lun: unit["reserved"] for lun, unit in site.units(name).items()} == {1: "guard", 2: "", 3: "", 4: ""}
    site.berth.run("delete", "pvc", "data", "--wait=false")
    wait_through("the deletion", lambda: site.berth.get("persistentvolumes", name) is None)
    assert deaths == ["the claim", "the deletion"]
    assert {unit["reserved"] for unit in site.units().values()} == {""}


def test_a_target_that_forgets_its_reservations_stops_a_volume_and_loses_nothing(site):
    name = site.claim("data", "32Mi", "san")
    site.run("one", "data")
    assert site.read("one") == ["one"]
    site.tgt.kill()
    site.tgt.start()
    wait_for("writes to fail", lambda: site.berth.run(
        "exec", "one", "--", "sh", "-c", "echo lost >> /data/who && sync /data/who", check=False).returncode != 0)
    # Nobody has the LUN now, and no other claim gets it, because the PersistentVolume names it.
    assert site.units()[1]["reserved"] == ""
    other = site.claim("other", "32Mi", "san")
    assert site.units(other)[2]["reserved"] == "guard"
    site.remove("one")
    site.run("two", "data")
    assert site.read("two") == ["one", "two"]
    assert site.holders(name) == ["node-a"]


def test_a_cluster_is_deleted_under_a_pod(site):
    site.cluster("doomed", luns=[3])
    name = site.claim("data", "50Mi", "doomed")
    site.run("one", "data")
    assert site.read("one") == ["one"]
    site.berth.run("delete", "storageclusters", "doomed", "--wait=false")
    site.berth.wait_gone("storageclusters", "doomed", seconds=90)
    wait_for("nobody to hold the LUN", lambda: not site.holders(name, lun=3))
    assert b"one" in site.tgt.data(3), "the data of a cluster that is deleted stays"
    site.remove("one")
    site.cluster("doomed", luns=[3])
    site.delete_claim("data")
    assert site.tgt.data(3) == bytes(SIZES[3])
    site.berth.run("delete", "storageclusters", "doomed", "--wait=false")
    site.berth.wait_gone("storageclusters", "doomed", seconds=90)


def test_the_password_is_nowhere_but_in_the_secret(site):
    site.claim("data", "32Mi", "san")
    site.run("one", "data")
    needle = PASSWORD.encode()
    store = site.berth.data / "store"  # the API's own, which holds the Secret
    found = [path for folder in (site.berth.folder, site.proxy.folder) for path in folder.rglob("*")
             if path.is_file() and path.stat().st_dev == folder.stat().st_dev  # no volume that is shown
             and store not in path.parents and not path.name.startswith("berth.db") and site.tgt.folder not in path.parents
             and path.stat().st_size < 64 << 20 and needle in path.read_bytes()]
    assert found == []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        for what in ("cmdline", "environ"):
            try:
                assert needle not in (process / what).read_bytes(), f"{process}/{what}"
            except OSError:
                continue


def test_a_frozen_node_of_a_deleted_Node_is_fenced_and_writes_no_more(site):
    """Another node's session has the LUN and is frozen. Its Node is deleted, and a pod here gets the volume at once."""
    name = site.claim("data", "32Mi", "san")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="bs-", dir="/run"))
    ticket = site.call("holders", name)["ticket"]
    other = Export(folder / "other", PROGRAM, request(
        site.tgt.portal, node="node-b", cluster=CHAP | {"owner": name}, lun=1, identity=site.identity(1), ticket=ticket,
        image=name, readOnly=False, shared=False))
    try:
        other.start()
        assert other.file.stat().st_size == SIZES[1]
        assert site.holders(name) == ["node-b"]
        site.berth.apply({"apiVersion": "storage.berth.dev/v1alpha1", "kind": "VolumeFence", "metadata": {"name": name},
                          "attachments": [{"node": "node-b", "podNamespace": "default", "pod": "gone", "podUID": "u",
                                           "mountDir": "/m", "clusterName": "san"}]})
        other.signal(signal.SIGSTOP)
        site.run("one", "data")
        assert site.holders(name) == ["node-a"]
        other.signal(signal.SIGCONT)
        # It wakes up, and every write of it fails.
        with pytest.raises(OSError):
            with open(other.file, "r+b", buffering=0) as file:
                file.write(b"x" * 4096)
                os.fsync(file.fileno())
        assert site.read("one") == ["one"]
        assert site.berth.get("nodecleanups", "node-b")["entries"][0]["volume"] == name
        site.berth.run("delete", "nodecleanups", "node-b")
    finally:
        other.stop()
        shutil.rmtree(folder)
