"""Volumes in a real Ceph pool, from the claim to the pod and back: with the block operator of a standalone Berth, an
agent and an I/O proxy on its node, and what a person sees if the Secret, the pool or the monitor is not there."""
import base64
import os
import pathlib
import shutil
import signal
import tempfile
import time

import pytest
from lib import block_agent, objects
from lib.block_agent import write_socket_config
from lib.ceph import Missing
from lib.cut_proxy import CutProxy
from lib.export import Export
from lib.rbd import POOL, PROGRAM
from lib.rbd_site import SECRET, rbd_site
from lib.standalone import wait_for
from lib.storage_site import NAMESPACE, STAY

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
    module_site.clean()


def test_from_the_claim_to_the_pod_and_back(site):
    name = site.claim("data")
    assert site.images() == {name: 320 << 20}
    site.run("one", "data")
    [holder] = site.call("holders", image=name)["holders"]
    assert holder["node"] == "node-a" and holder["alive"]
    assert site.read("one") == ["one"]
    site.remove("one")
    wait_for("the lock to go", lambda: not site.call("holders", image=name)["holders"])
    site.run("two", "data")
    assert site.read("two") == ["one", "two"]
    site.remove("two")
    # A copy has the data of its source, and its source can be deleted before it.
    copy = site.claim("copy", dataSource={"kind": "PersistentVolumeClaim", "name": "data"})
    site.berth.run("delete", "pvc", "data")
    site.berth.wait_gone("persistentvolumes", name)
    assert set(site.images()) == {copy}
    site.run("three", "copy")
    assert site.read("three") == ["one", "two", "three"]


def test_a_volume_grows_while_a_pod_uses_it(site):
    name = site.claim("data")
    site.run("one", "data")
    claim = site.berth.get("pvc", "data")
    claim["spec"]["resources"]["requests"]["storage"] = "512Mi"
    site.berth.apply(claim)
    wait_for("the file system to have grown", lambda: int(site.berth.run(
        "exec", "one", "--", "df", "-k", "/data").stdout.split()[-5]) > 400 << 10)
    assert site.images() == {name: 512 << 20}
    wait_for("the claim to say so", lambda: site.berth.get("pvc", "data")["status"]["capacity"]["storage"] == "512Mi")


def test_what_is_wrong_is_said_and_counts_no_more_once_it_is_mended(site):
    nobody = f"{site.ceph.address.rsplit('.', 1)[0]}.77:6789"
    cases = {
        "no-secret": ({"secretRef": {"name": "absent", "namespace": NAMESPACE}}, "secret 'berth-block/absent'"),
        "no-key": ({"secretRef": {"name": "odd", "namespace": NAMESPACE}}, "is not a key of Ceph"),
        "wrong-key": ({"secretRef": {"name": "wrong", "namespace": NAMESPACE}}, "key"),
        "no-pool": ({"pool": "nowhere"}, "nowhere"),
        "no-monitor": ({"monitors": [nobody]}, "answer"),
    }
    site.secret("odd", "no key at all")
    wrong = base64.b64encode(base64.b64decode(site.key)[:12] + bytes(16)).decode()
    site.secret("wrong", wrong)
    for name, (more, said) in cases.items():
        site.cluster(name, **more)
        site.wait_failed(name, said)
    # A claim of such a cluster is told the same, and may be deleted, because nothing was begun for it.
    site.berth.apply([objects.claim(name, site.size, "no-secret") for name in ("data", "unwanted")])
    for name in ("data", "unwanted"):
        site.wait_event(name, "ProvisioningFailed", "secret 'berth-block/absent'")
    site.berth.run("delete", "pvc", "unwanted")
    assert site.images() == {}
    # A Secret that a person makes counts soon.
    site.secret("absent")
    wait_for("the mended cluster", lambda: site.status("no-secret").get("phase") == "Ready", seconds=40)
    site.berth.wait_phase("pvc", "data", "Bound")
    site.delete_claim("data")
    for name in cases:
        site.berth.run("delete", "storageclusters", name, "--wait=false")
        site.berth.wait_gone("storageclusters", name)


def test_a_pod_is_told_why_its_volume_does_not_come(site):
    name = site.claim("data")
    site.berth.run("delete", "secret", "-n", NAMESPACE, SECRET)
    time.sleep(11)  # the agent may use a key that it read for ten seconds
    site.berth.apply(objects.pod("one", STAY, ["data"], mounts=[{"name": "data", "mountPath": "/data"}]))
    said = wait_for("the event", lambda: [e["message"] for e in site.berth.events("one") if e["reason"] == "FailedMount"
                                          and f"secret '{NAMESPACE}/{SECRET}'" in e["message"]], seconds=30)
    assert "does not exist" in said[-1]
    assert site.berth.get("volumefences", name) is None, "nothing is taken for a pod that cannot have it"
    site.secret()
    site.berth.wait_phase("pods", "one", "Running", seconds=150)


def test_the_agent_and_the_proxy_are_killed_under_a_pod(site):
    site.claim("data")
    site.run("one", "data")
    site.agent.kill()
    assert site.read("one") == ["one"]
    site.agent.start().wait_ready()
    site.proxy.kill()
    # The process that serves the volume lives on without the proxy.
    site.berth.run("exec", "one", "--", "sh", "-c", "echo more >> /data/who && sync /data/who")
    site.proxy.start()
    site.remove("one")
    site.run("two", "data")
    assert site.read("two") == ["one", "more", "two"]


def test_a_cluster_is_deleted_under_a_pod(site):
    site.cluster("doomed")
    name = site.claim("data", storage_class="doomed")
    site.run("one", "data")
    site.berth.run("delete", "storageclusters", "doomed", "--wait=false")
    site.berth.wait_gone("storageclusters", "doomed", seconds=90)
    # A process that was killed keeps its lock until Ceph has not heard of it for half a minute.
    wait_for("nobody to hold the image", lambda: not any(
        holder["alive"] for holder in site.call("holders", image=name)["holders"]), interval=1)
    site.remove("one")
    site.cluster("doomed")
    site.berth.run("delete", "pvc", "data")
    site.berth.wait_gone("persistentvolumes", name)
    site.berth.run("delete", "storageclusters", "doomed", "--wait=false")
    site.berth.wait_gone("storageclusters", "doomed", seconds=90)


def test_the_key_is_nowhere_but_in_the_secret(site):
    site.claim("data")
    site.run("one", "data")
    needle = site.key.encode()
    store = site.berth.data / "store"  # the API's own, which holds the Secret
    found = [path for folder in (site.berth.folder, site.proxy.folder) for path in folder.rglob("*")
             if path.is_file() and path.stat().st_dev == folder.stat().st_dev  # no volume that is shown
             and store not in path.parents and not path.name.startswith("berth.db")
             and path.stat().st_size < 64 << 20 and needle in path.read_bytes()]
    assert found == []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        for what in ("cmdline", "environ"):
            try:
                assert needle not in (process / what).read_bytes(), f"{process}/{what}"
            except OSError:
                continue


def test_a_frozen_node_of_a_deleted_Node_is_fenced_and_writes_no_more(site):
    """Another node's client has the volume and is frozen. Its Node is deleted, and a pod here gets the volume at once."""
    name = site.claim("data")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="bs-", dir="/run"))
    other = Export(folder / "other", PROGRAM, {"cluster": site.ceph.settings(), "image": name, "readOnly": False,
                                               "shared": False, "node": "node-b"})
    try:
        other.start()
        wait_for("the other node to have the volume", lambda: site.call("holders", image=name)["holders"])
        site.berth.apply({"apiVersion": "storage.berth.dev/v1alpha1", "kind": "VolumeFence", "metadata": {"name": name},
                          "attachments": [{"node": "node-b", "podNamespace": "default", "pod": "gone", "podUID": "u",
                                           "mountDir": "/m", "clusterName": "ceph"}]})
        other.signal(signal.SIGSTOP)
        site.run("one", "data")
        assert list(site.call("fenced")["nodes"]) == ["node-b"]
        other.signal(signal.SIGCONT)
        # It wakes up, and every write of it fails.
        with pytest.raises(OSError):
            with open(other.file, "r+b", buffering=0) as file:
                file.write(b"x" * 4096)
                os.fsync(file.fileno())
        assert site.read("one") == ["one"]
        # The Node is back. The fence stands as long as the node owes that it takes the volume off.
        site.berth.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-b"}})
        assert site.berth.get("nodecleanups", "node-b")["entries"][0]["volume"] == name
        assert list(site.call("fenced")["nodes"]) == ["node-b"]
        # An agent removes the entry once the process has ended, and not before.
        other.stop()
        assert list(site.call("fenced")["nodes"]) == ["node-b"]
        site.berth.run("delete", "nodecleanups", "node-b")
        wait_for("the fence to be lifted", lambda: site.call("fenced")["nodes"] == {}, seconds=30)
    finally:
        other.stop()
        shutil.rmtree(folder)


def use_by_hand(site, name, cluster="ceph", image=None):
    """A volume, its claim and a pod, all made by hand, for an image of that name."""
    volume, claim = block_agent.volume(name, cluster)
    volume["spec"]["flexVolume"]["options"]["image"] = image or name
    site.berth.apply(volume)
    site.berth.apply(claim)
    site.berth.wait_phase("pvc", name, "Bound")
    site.berth.apply(objects.pod(f"uses-{name}", STAY, [name], mounts=[{"name": name, "mountPath": "/data"}]))


def refusals(site, name, said):
    return [e["message"] for e in site.berth.events(f"uses-{name}") if e["reason"] == "FailedMount" and said in e["message"]]


def test_an_image_that_is_not_there_is_not_made(site):
    use_by_hand(site, "absent")
    wait_for("the event", lambda: refusals(site, "absent", f"pool '{POOL}' has no image 'absent'"))
    assert site.images() == {}
    site.remove("uses-absent")
    site.berth.run("delete", "pvc", "absent")
    site.berth.run("delete", "pv", "absent", "--wait=false")


def test_an_image_with_somebodys_data_is_not_formatted(site):
    """It has the header of an encrypted disk, which is no file system."""
    site.ceph.rbd("rbd.RBD().create(io, 'theirs', 64 << 20, old_format=False, features=4)\n"
                  "with rbd.Image(io, 'theirs') as image: image.write(b'LUKS\\xba\\xbe\\0\\1' + b's' * 504, 0)")
    try:
        use_by_hand(site, "theirs")
        wait_for("the event", lambda: refusals(site, "theirs", "crypto_LUKS"))
        site.remove("uses-theirs")
        wait_for("the lock to go", lambda: not site.call("holders", image="theirs")["holders"])
        assert site.ceph.rbd("with rbd.Image(io, 'theirs') as image: print(image.read(0, 6))") == "b'LUKS\\xba\\xbe'\n"
        site.berth.run("delete", "pvc", "theirs")
        site.berth.run("delete", "pv", "theirs", "--wait=false")
    finally:
        site.ceph.rbd("rbd.RBD().remove(io, 'theirs')")


def test_two_storage_clusters_that_name_one_image_tell(site):
    name = site.claim("data")
    site.cluster("twin")
    volume, claim = block_agent.volume("second", "twin")
    volume["spec"]["flexVolume"]["options"]["image"] = name
    site.berth.apply(volume)

    def condition(cluster):
        return [c["status"] for c in site.status(cluster).get("conditions", []) if c["type"] == "ImageNamedTwice"]
    for cluster in ("ceph", "twin"):
        wait_for("the condition", lambda cluster=cluster: condition(cluster) == ["True"])
    for told in ("ceph", "twin", "second", name):
        wait_for("the event", lambda told=told: [e for e in site.berth.events(told) if e["reason"] == "ImageNamedTwice"])
    site.berth.run("delete", "pvc", "data")
    wait_for("the refusal", lambda: [e for e in site.berth.events(name) if e["reason"] == "VolumeFailedDelete"
                                     and "'second', too" in e["message"]])
    assert set(site.images()) == {name}
    site.berth.run("delete", "pv", "second", "--wait=false")
    wait_for("the condition to end", lambda: condition("ceph") == ["False"])
    site.berth.wait_gone("persistentvolumes", name)
    site.berth.run("delete", "storageclusters", "twin", "--wait=false")
    site.berth.wait_gone("storageclusters", "twin")


@pytest.fixture
def cut(site):
    """The way of the agent to the API, which can be cut. The agent fences itself soon."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="bx-", dir="/run"))
    way = CutProxy(folder / "api.sock", site.berth.data / "api.sock")
    config = write_socket_config(folder / "kubeconfig", way.path, "node-a")
    before = site.agent.flags, site.agent.kubeconfig
    site.agent.stop()
    site.agent.flags, site.agent.kubeconfig = [*before[0], "--self-fence-after", "6s"], config
    site.agent.start()
    yield way
    way.heal()
    site.agent.stop()
    site.agent.flags, site.agent.kubeconfig = before
    site.agent.start()
    way.close()


def test_a_node_that_is_cut_off_takes_its_volume_off_and_gets_it_anew(site, cut):
    """Neither the API nor the storage answers. Before anybody may break its fence, the node has no process of the volume
    any more, and its pod gets errors."""
    name = site.claim("data")
    site.run("one", "data")

    def write(pod):
        return site.berth.run("exec", pod, "--", "sh", "-c", "echo more >> /data/who && sync /data/who", check=False)

    def exports():
        return list((site.proxy.folder / "records").glob("*.json"))
    assert write("one").returncode == 0 and exports()
    try:
        site.ceph.veth.set_link("down")
        cut.hang()
        wait_for("the process of the volume to end", lambda: not exports())
        wait_for("the pod's error", lambda: write("one").returncode != 0)
        assert site.berth.get("volumefences", name) is not None, "it is given back when the API answers"
    finally:
        site.ceph.veth.set_link("up")
        cut.heal()
    wait_for("the fence to be given back", lambda: site.berth.get("volumefences", name) is None)
    wait_for("the event", lambda: [e for e in site.berth.events("one") if e["reason"] == "NodeCutOff"])
    site.remove("one")
    site.run("two", "data")
    assert site.read("two") == ["one", "more", "two"]
