"""The cluster's side of the block agent: how a person sees its kinds, and a volume's whole life from the claim on,
with an agent on the node and real ext4."""
import json
import pathlib
import shutil
import tempfile

import pytest
from lib import block_agent, mounts, objects
from lib.block_agent import BlockAgent, loops_of
from lib.local_api import LocalApi
from lib.roles import LEASE
from lib.standalone import Standalone, wait_for

pytestmark = [pytest.mark.blockagent, pytest.mark.e2e]

STAY = "echo $HOSTNAME >> /data/who; sync /data/who; touch /written; trap 'exit 0' TERM; while :; do sleep 0.1; done"
FENCE = {"apiVersion": "storage.berth.dev/v1alpha1", "kind": "VolumeFence", "metadata": {"name": "pvc-1"},
         "attachments": [{"node": "node-a", "podNamespace": "team", "pod": "web", "podUID": "u", "mountDir": "/m",
                          "clusterName": "main"}]}
CLEANUP = {"apiVersion": "storage.berth.dev/v1alpha1", "kind": "NodeCleanup", "metadata": {"name": "node-x"},
           "entries": [{"volume": "pvc-1", "attachment": FENCE["attachments"][0]}]}


class Site:
    def __init__(self, berth):
        self.berth = berth
        self.images = berth.folder / "images"
        self.images.mkdir()
        self.agent = BlockAgent(berth, "node-a", berth.data, berth.folder)

    def storage_class(self, name, cluster="main", fs_type="ext4"):
        self.berth.apply({**objects.storage_class(name, provisioner="block.berth.dev", binding="Immediate"),
                          "parameters": {"cluster": cluster, "csi.storage.k8s.io/fstype": fs_type}})

    def claim(self, name, storage_class, size="64Mi", **spec):
        self.berth.apply(objects.claim(name, size, storage_class, **spec))

    def bound(self, name):
        """Waits until the claim is bound, and gives the name of its volume, which is also its image's."""
        self.berth.wait_phase("pvc", name, "Bound")
        return self.berth.get("pvc", name)["spec"]["volumeName"]

    def run(self, name, claim, script=STAY):
        self.berth.apply(objects.pod(name, script, [claim], mounts=[{"name": claim, "mountPath": "/data"}]))
        self.berth.wait_phase("pods", name, "Running", seconds=60)

    def why_not(self, claim, reason="ProvisioningFailed"):
        return wait_for(f"an event that says why {claim} waits",
                        lambda: [e["message"] for e in self.berth.events(claim) if e["reason"] == reason])


@pytest.fixture(scope="module")
def module_site(runtime):
    berth = Standalone(tempfile.mkdtemp(prefix="bt-", dir="/var/tmp"), runtime)
    berth.start()
    site = Site(berth)
    try:
        berth.apply(block_agent.storage_cluster("main", site.images))
        site.agent.start().wait_ready()
        yield site
        site.agent.stop()
        berth.stop()
    finally:
        site.agent.kill()
        berth.kill()
        mounts.unmount_below(berth.folder)
        mounts.detach_loops_below(berth.folder)
        shutil.rmtree(berth.folder, ignore_errors=True)


@pytest.fixture
def site(module_site):
    yield module_site
    module_site.berth.remove_everything(seconds=60)
    wait_for("all volumes to go", lambda: not module_site.berth.items("persistentvolumes"), seconds=30)
    assert not loops_of(module_site.images)
    assert [path.name for path in module_site.images.glob("pvc-*")] == []


def test_the_kinds_beside_the_built_in_one(kubectl):
    served = kubectl("api-resources", "--api-group=storage.berth.dev").split()
    for plural in ("hostmounts", "volumefences", "nodecleanups", "storageclusters", "blocksnapshots"):
        assert plural in served
    cluster = block_agent.storage_cluster("printed", "/srv/none")
    for item in (FENCE, CLEANUP, cluster):
        kubectl.run("apply", "-f", "-", stdin=json.dumps(item))
    try:
        status = {"status": {"devices": [{"node": "node-a", "devicePath": "/dev/loop9", "state": "Attached"}]}}
        api = LocalApi(pathlib.Path(kubectl.kubeconfig).parent / "api.sock")
        code, _ = api.call("PATCH", "/apis/storage.berth.dev/v1alpha1/volumefences/pvc-1/status", status,
                           "application/merge-patch+json")
        assert code == 200
        heading, row = kubectl("get", "volumefence").splitlines()
        assert heading.split() == ["NAME", "NODE", "POD", "NAMESPACE", "DEVICE", "STATE", "CLUSTER", "AGE"]
        assert row.split()[:7] == ["pvc-1", "node-a", "web", "team", "/dev/loop9", "Attached", "main"]
        heading, row = kubectl("get", "nc").splitlines()
        assert heading.split() == ["NAME", "VOLUMES", "MESSAGE", "AGE"] and row.split()[:2] == ["node-x", "pvc-1"]
        heading, row = kubectl("get", "stc").splitlines()
        assert heading.split() == ["NAME", "PHASE", "MESSAGE", "AGE"] and row.split()[0] == "printed"
        assert kubectl("get", "hostmounts", "-A").strip() in ("", "No resources found")
        # An object that the schema does not allow is refused.
        wrong = {**FENCE, "metadata": {"name": "wrong"}, "attachments": [{"node": "node-a"}]}
        refused = kubectl.run("apply", "--validate=false", "-f", "-", stdin=json.dumps(wrong), check=False)
        assert refused.returncode != 0 and "podUID" in refused.stderr
    finally:
        for kind, name in (("volumefence", "pvc-1"), ("nodecleanup", "node-x"), ("storagecluster", "printed")):
            kubectl.run("delete", kind, name, "--ignore-not-found", "--timeout=30s", check=False)


def test_from_the_claim_to_the_pod_and_back(site):
    berth = site.berth
    wait_for("the cluster to be ready", lambda: berth.get("storageclusters", "main")["status"].get("phase") == "Ready")
    site.storage_class("block")
    site.claim("data", "block")
    name = site.bound("data")
    volume = berth.get("pv", name)
    assert volume["spec"]["flexVolume"] == {"driver": "berth.dev/block", "fsType": "ext4",
                                            "options": {"cluster": "main", "image": name}}
    assert volume["metadata"]["annotations"]["pv.kubernetes.io/provisioned-by"] == "block.berth.dev"
    assert "storage.berth.dev/provisioning" not in berth.get("pvc", "data")["metadata"]["finalizers"]
    assert (site.images / name).stat().st_size == 64 << 20

    site.run("one", "data")
    assert berth.get("volumefences", name)["attachments"][0]["pod"] == "one"
    assert list(loops_of(site.images)) == [name]
    # A copy of a volume waits until the volume is not in use.
    site.claim("copy", "block", dataSource={"kind": "PersistentVolumeClaim", "name": "data"})
    assert "pod 'default/one' on node 'node-a' may use it" in site.why_not("copy")[0]
    berth.run("delete", "pod", "one")
    berth.wait_gone("pods", "one")
    site.bound("copy")
    site.run("two", "copy", "cat /data/who && " + STAY)
    # A pod is Running before its container has written.
    wait_and_read = "until [ -e /written ]; do sleep 0.1; done; cat /data/who"
    assert berth.run("exec", "two", "--", "sh", "-c", wait_and_read).stdout.split() == ["one", "two"]

    # The volume of a deleted claim is deleted with its image once nobody uses it.
    berth.run("delete", "pvc", "data")
    berth.wait_gone("persistentvolumes", name)
    assert not (site.images / name).exists()


def test_a_snapshot_keeps_the_data_and_outlives_its_claim(site):
    berth = site.berth
    site.storage_class("block")
    site.claim("data", "block")
    name = site.bound("data")
    site.run("one", "data")
    try:
        berth.apply(objects.block_snapshot("monday", "data"))
        # The image of a volume that is in use cannot be copied; berth explain tells the claim that waits for it.
        site.claim("early", "block", **objects.restored_from("monday"))
        said = site.why_not("monday", "SnapshotFailed")[0]
        assert "pod 'default/one' on node 'node-a' may use it" in said
        told = berth.run("explain", "pvc", "early", check=False).stdout
        assert "BlockSnapshot 'default/monday'" in told and "pod 'default/one'" in told
        berth.run("delete", "pod", "one")
        berth.wait_gone("pods", "one")
        site.bound("early")
        status = berth.get("blocksnapshots", "monday")["status"]
        assert (status["readyToUse"], status["restoreSize"], status["image"]) == (True, "64Mi", name)
        assert (site.images / status["snapshot"]).stat().st_mode & 0o777 == 0o400
        site.run("two", "data")
        wait_and_read = "until [ -e /written ]; do sleep 0.1; done; cat /data/who"
        assert berth.run("exec", "two", "--", "sh", "-c", wait_and_read).stdout.split() == ["one", "two"]
        # The snapshot has what was there before, also if its volume is deleted.
        for kind, of in (("pod", "two"), ("pvc", "data")):
            berth.run("delete", kind, of)
        berth.wait_gone("persistentvolumes", name)
        site.claim("late", "block", "96Mi", **objects.restored_from("monday"))
        site.bound("late")
        # A volume that was restored does not need the snapshot.
        berth.run("delete", "blocksnapshots", "monday")
        berth.wait_gone("blocksnapshots", "monday")
        assert not (site.images / status["snapshot"]).exists()
        for pod, claim in (("three", "early"), ("four", "late")):
            script = STAY.replace("/data", f"/{claim}")
            berth.apply(objects.pod(pod, script, [claim]))
            berth.wait_phase("pods", pod, "Running", seconds=60)
            read = f"until [ -e /written ]; do sleep 0.1; done; cat /{claim}/who"
            assert berth.run("exec", pod, "--", "sh", "-c", read).stdout.split() == ["one", pod]
    finally:
        berth.run("delete", "blocksnapshots", "monday", "--wait=false", check=False)
    assert list(site.images.glob("snap-*")) == []


def test_a_volume_grows_up_to_its_file_system(site):
    """The volume is xfs, because a mounted ext4 grows only where the agent has CAP_SYS_RESOURCE."""
    berth = site.berth
    site.storage_class("growing", fs_type="xfs")
    site.claim("data", "growing", "320Mi")
    name = site.bound("data")
    site.run("one", "data")
    claim = berth.get("pvc", "data")
    claim["spec"]["resources"]["requests"]["storage"] = "512Mi"
    berth.apply(claim)
    wait_for("the volume to have grown", lambda: berth.get("pv", name)["spec"]["capacity"]["storage"] == "512Mi")
    assert (site.images / name).stat().st_size == 512 << 20

    def blocks():
        return int(berth.run("exec", "one", "--", "df", "-k", "/data").stdout.split()[-5])

    wait_for("the file system to have its share", lambda: blocks() > 400 << 10)
    wait_for("the claim to say so", lambda: berth.get("pvc", "data")["status"]["capacity"]["storage"] == "512Mi")
    assert not [c for c in berth.get("pvc", "data")["status"].get("conditions", [])
                if c["type"] in ("Resizing", "FileSystemResizePending")]


def test_what_cannot_be_says_what_to_do(site):
    berth = site.berth
    site.storage_class("astray", cluster="nowhere")
    site.claim("lost", "astray")
    assert "StorageCluster 'nowhere' does not exist: create it" in site.why_not("lost")[0]
    site.storage_class("block")
    berth.apply(objects.claim("raw", "64Mi", "block", block=True))
    assert "ask for Filesystem" in site.why_not("raw")[0]
    # Provisioning goes on as soon as the cluster exists.
    berth.apply(block_agent.storage_cluster("nowhere", site.images))
    site.bound("lost")
    berth.run("delete", "pvc", "lost")
    wait_for("its volume to go", lambda: not berth.items("persistentvolumes"))
    berth.run("delete", "storageclusters", "nowhere")
    berth.wait_gone("storageclusters", "nowhere")


def test_a_node_that_is_deleted_leaves_a_cleanup_and_no_fence(site):
    berth = site.berth
    berth.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-dead"}})
    site.storage_class("block")
    site.claim("data", "block")
    name = site.bound("data")
    berth.apply({**FENCE, "metadata": {"name": name},
                 "attachments": [{**FENCE["attachments"][0], "node": "node-dead"}]})
    berth.run("delete", "node", "node-dead")
    cleanup = wait_for("the clean-up", lambda: berth.get("nodecleanups", "node-dead"))
    assert cleanup["entries"][0]["volume"] == name and cleanup["entries"][0]["image"] == name
    # The node's kubelet is silent for 40 s, and the back end has no lock.
    wait_for("the fence to go", lambda: berth.get("volumefences", name) is None, seconds=90)
    said = wait_for("the event", lambda: [e["message"] for e in berth.events(name) if e["reason"] == "FenceBroken"])
    assert "the back end has no lock of the image" in said[0]
    assert berth.get("nodecleanups", "node-dead")["entries"], "for its return"
    berth.run("delete", "pvc", "data")
    berth.wait_gone("persistentvolumes", name)
    berth.run("delete", "nodecleanups", "node-dead")


def test_a_cluster_is_deleted_under_a_pod(site):
    berth = site.berth
    folder = berth.folder / "doomed"
    folder.mkdir()
    berth.apply(block_agent.storage_cluster("doomed", folder))
    site.storage_class("doomed", cluster="doomed")
    site.claim("data", "doomed")
    name = site.bound("data")
    site.run("one", "data")
    assert list(loops_of(folder)) == [name]
    berth.run("delete", "storageclusters", "doomed", "--wait=false")
    berth.wait_gone("storageclusters", "doomed")
    assert berth.get("volumefences", name) is None
    said = wait_for("the event", lambda: [e["message"] for e in berth.events("doomed") if e["reason"] == "ClusterCleaned"])
    assert "1 forced off, 0 failed; 1 PersistentVolumes of it are left" in said[0]
    assert berth.get("pvc", "data") and (folder / name).exists(), "data is retained"
    berth.run("delete", "pod", "one")
    berth.wait_gone("pods", "one")
    # The container's own mount kept the device, and with it the lock of the image, until the container ended.
    wait_for("the device to go", lambda: not loops_of(folder))
    # The cluster's volumes can be deleted when the cluster exists again, as their events say.
    berth.run("delete", "pvc", "data", "--wait=false")
    assert "StorageCluster 'doomed' is gone" in site.why_not(name, "VolumeFailedDelete")[0]
    berth.apply(block_agent.storage_cluster("doomed", folder))
    berth.wait_gone("persistentvolumes", name)
    assert not (folder / name).exists()
    berth.run("delete", "storageclusters", "doomed")
    berth.wait_gone("storageclusters", "doomed")


def test_a_role_beside_the_cluster_makes_the_agents(site, start):
    """The role runs as in a pod of deploy/block-agent. Its node selector selects no node."""
    berth = site.berth
    role = start("controller", "--roles=block-operator", "--kubeconfig", berth.data / "kubeconfig", *LEASE,
                 "--block-operator-agent-namespace=kube-system", "--block-operator-agent-image=example.com/berth:1",
                 "--block-operator-agent-node-selector=berth.dev/none=here")
    names = ("berth-block-agent", "berth-io-proxy")
    try:
        for name in names:
            made = wait_for(f"DaemonSet {name}", lambda: berth.get("daemonsets", name, ns="kube-system"))
            pod = made["spec"]["template"]["spec"]
            assert pod["containers"][0]["image"] == "example.com/berth:1"
            assert pod["nodeSelector"] == {"berth.dev/none": "here"}
        assert "/berth-block-operator' is ours" in role.log()
        # A deleted DaemonSet is made again.
        uid = berth.get("daemonsets", names[0], ns="kube-system")["metadata"]["uid"]
        berth.run("delete", "daemonsets", names[0], "-n", "kube-system", "--wait=false")
        wait_for("it to be made again", lambda: (berth.get("daemonsets", names[0], ns="kube-system") or
                                                 {"metadata": {"uid": uid}})["metadata"]["uid"] != uid)
        assert role.stop() == 0
    finally:
        for name in names:
            berth.run("delete", "daemonsets", name, "-n", "kube-system", check=False)
