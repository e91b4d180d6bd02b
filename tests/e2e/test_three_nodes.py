"""Three nodes on one API, each with a mount namespace, a data folder, a pool and a containerd of its own. Volumes are
made where their pods are, pods run where their volumes are, and the death of a node affects only its own."""
import concurrent.futures
import pathlib
import shutil
import subprocess
import tempfile

import pytest
from lib import csi_double, mounts, objects
from lib.ended_pods import judge_end, run_to_end
from lib.further_node import DRIVER, FurtherNode
from lib.standalone import Standalone, wait_for

pytestmark = [pytest.mark.csi, pytest.mark.e2e]

KEY = f"topology.{DRIVER}/node"
NAMES = ("node-a", "node-b", "node-c")
OUT_OF_SERVICE = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}


class Cluster:
    def __init__(self, berth, double):
        self.berth = berth
        self.double = double
        self.api = berth.api
        self.further = {}

    def images(self, name):
        if name in self.further:
            return self.further[name].images()
        return sorted((self.berth.data / "pool" / "volumes").glob("*.img"))

    def run(self, manifest):
        """Runs a pod to its end; gives where it ran, and its output."""
        name = manifest["metadata"]["name"]
        ended, output = run_to_end(self.berth, manifest, seconds=120,
                                   sockets=[node.socket for node in self.further.values()])
        self.berth.run("delete", "pod", name)
        return ended["spec"]["nodeName"], output

    def volume_of(self, claim):
        return self.berth.get("pv", self.berth.get("pvc", claim)["spec"]["volumeName"])

    def cause(self, subject):
        return self.berth.explain(subject)["cause"] or {"id": None}

    def taint(self, node, *taints):
        self.api.patch("nodes", node, {"spec": {"taints": list(taints)}})

    def attached(self):
        """Gives the nodes to which volumes are attached."""
        return {item["spec"]["nodeName"] for item in self.api.items("volumeattachments")
                if item.get("status", {}).get("attached")}

    def die(self, node):
        """Switches the node off, and marks it as silent in the API."""
        self.further[node].switch_off()
        # The node lifecycle controller would write this after 40 s; no agent corrects it.
        self.api.patch("nodes", node, {"status": {"conditions": [
            {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}]}}, "status")

    def revive(self, node):
        self.further[node].start()
        self.taint(node)
        wait_for(f"{node} to be back", self.further[node].ready, seconds=120)


@pytest.fixture(scope="module")
def module_cluster(runtime):
    berth = Standalone(tempfile.mkdtemp(prefix="bt-", dir="/var/tmp"), runtime)
    registry = berth.data / "kubelet" / "plugins_registry"
    registry.mkdir(parents=True)
    double = csi_double.CsiDouble(berth.folder / "double", registry).start()
    berth.flags = ["--csi-driver", double.socket, "--node-label", "rack=one"]
    berth.start()
    cluster = Cluster(berth, double)
    try:
        for name in NAMES[1:]:
            folder = pathlib.Path(tempfile.mkdtemp(prefix="bt-", dir="/var/tmp"))
            cluster.further[name] = FurtherNode(berth, name, folder, ["--node-label", "rack=two"])
        with concurrent.futures.ThreadPoolExecutor() as pool:
            list(pool.map(FurtherNode.start, cluster.further.values()))
        for node in cluster.further.values():
            wait_for(f"{node.name} to be ready", node.ready)
        yield cluster
        for node in cluster.further.values():
            node.stop()
        berth.stop()
    finally:
        for node in cluster.further.values():
            node.switch_off()
        berth.kill()
        double.stop()
        for folder in [berth.folder] + [node.folder for node in cluster.further.values()]:
            mounts.unmount_below(folder)
            mounts.detach_loops_below(folder)
            shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def cluster(module_cluster):
    """Checks afterwards that nothing is left of what the test made, on any node."""
    yield module_cluster
    module_cluster.berth.remove_everything(seconds=60)
    for name in NAMES:
        wait_for(f"no volume to be left on {name}", lambda: not module_cluster.images(name))


def on(node):
    return {"nodeSelector": {"kubernetes.io/hostname": node}}


def only_on(node):
    return [{"matchExpressions": [{"key": KEY, "operator": "In", "values": [node]}]}]


def within(node):
    return [{"matchLabelExpressions": [{"key": KEY, "values": [node]}]}]


def test_each_node_says_what_it_is_and_how_much_room_it_has(cluster):
    for name in NAMES:
        labels = cluster.berth.get("nodes", name)["metadata"]["labels"]
        assert labels[KEY] == name and labels["rack"] == ("one" if name == "node-a" else "two")
        drivers = cluster.berth.get("csinodes", name)["spec"]["drivers"]
        entry, = (d for d in drivers if d["name"] == DRIVER)
        assert entry["nodeID"] == name and entry["topologyKeys"] == [KEY]

    def rooms():
        found = {item["nodeTopology"]["matchLabels"][KEY]: item for item in
                 cluster.berth.items("csistoragecapacities", ns="kube-system") if item["storageClassName"] == "local"}
        return found if set(found) == set(NAMES) else None
    for name, room in wait_for("the room on each node", rooms).items():
        assert room["metadata"]["labels"]["csi.storage.k8s.io/managed-by"] == f"external-provisioner-{name}"
        assert room["capacity"] not in ("", "0")


def test_a_volume_is_where_its_pod_is_and_pods_go_where_their_volume_is(cluster):
    berth = cluster.berth
    berth.apply(objects.claim("data"))
    where, _ = cluster.run(objects.pod("writer", "echo kept > /data/note; sync /data/note", ["data"], **on("node-b")))
    assert where == "node-b"
    assert cluster.volume_of("data")["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"] == only_on("node-b")
    assert [len(cluster.images(name)) for name in NAMES] == [0, 1, 0]
    # The pod asks for no node, so the volume decides.
    assert cluster.run(objects.pod("reader", "cat /data/note", ["data"])) == ("node-b", "kept\n")
    # A pod that has to be elsewhere is not scheduled, and a pod that was bound elsewhere does not get the volume.
    berth.apply([objects.pod("stray", "true", ["data"], **on("node-c")),
                 objects.pod("lost", "true", ["data"], nodeName="node-c")])
    wait_for("the refusal", lambda: any("node affinity conflict" in e["message"] for e in berth.events("lost")))
    for pod in ("stray", "lost"):
        assert wait_for("an explanation", lambda: cluster.cause(f"pod/{pod}")["id"]) == "wrong-topology"
    assert "nodeName" not in berth.get("pods", "stray")["spec"]


def test_allowed_topologies_decide_with_and_without_a_pod(cluster):
    berth = cluster.berth
    berth.apply([objects.storage_class("late-on-c", allowedTopologies=within("node-c")),
                 objects.storage_class("now-on-b", binding="Immediate", allowedTopologies=within("node-b")),
                 objects.claim("late", storage_class="late-on-c"), objects.claim("now", storage_class="now-on-b")])
    try:
        berth.wait_phase("pvc", "now", "Bound")
        assert cluster.volume_of("now")["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"] == only_on("node-b")
        where, _ = cluster.run(objects.pod("user", "true", ["late"]))
        assert where == "node-c"
        assert [len(cluster.images(name)) for name in NAMES] == [0, 1, 1]
    finally:
        for name in ("late-on-c", "now-on-b"):
            berth.run("delete", "storageclass", name)


def test_pods_and_their_volumes_spread(cluster):
    berth = cluster.berth
    stay = "echo $HOSTNAME > /data/note; cat /data/note; sleep 1000"
    for i in range(3):
        berth.apply([objects.claim(f"data-{i}"),
                     objects.pod(f"web-{i}", stay, [f"data-{i}"], mounts=[{"name": f"data-{i}", "mountPath": "/data"}])])
    homes = {f"web-{i}": berth.wait_phase("pods", f"web-{i}", "Running")["spec"]["nodeName"] for i in range(3)}
    assert sorted(homes.values()) == sorted(NAMES)
    assert [len(cluster.images(name)) for name in NAMES] == [1, 1, 1]
    for pod in homes:
        read = berth.run("exec", pod, "--", "cat", "/data/note").stdout
        assert read == f"{pod}\n", "logs and exec reach the pod's own node"
    # An agent handles only its own pods, so its restart disturbs no other.
    cluster.further["node-b"].stop()
    cluster.further["node-b"].start_agent()
    wait_for("node-b to be back", cluster.further["node-b"].ready)
    for pod in homes:
        # The Node may still be Ready from before, while the agent does not know its pods again yet.
        wait_for(f"the agent of {pod}", lambda pod=pod: berth.run("exec", pod, "--", "true", check=False).returncode == 0)
        assert berth.get("pods", pod)["status"]["containerStatuses"][0]["restartCount"] == 0
        assert berth.run("exec", pod, "--", "cat", "/data/note").stdout == f"{pod}\n"


def test_snapshots_clones_and_growth_are_done_on_the_volumes_node(cluster):
    berth = cluster.berth
    berth.apply([objects.claim("data", "64Mi"), objects.snapshot_class("snap")])
    try:
        cluster.run(objects.pod("writer", "echo kept > /data/note; sync /data/note", ["data"], **on("node-c")))
        berth.apply(objects.snapshot("monday", "data", "snap"))
        ready = wait_for("the snapshot", lambda: (s := berth.get("volumesnapshots", "monday"))
                         and s.get("status", {}).get("readyToUse") and s)
        content = berth.get("volumesnapshotcontents", ready["status"]["boundVolumeSnapshotContentName"])
        assert content["metadata"]["labels"]["snapshot.storage.kubernetes.io/managed-by"] == "node-c"
        of_snapshot = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "monday"}
        berth.apply([objects.claim("restored", "64Mi", dataSource=of_snapshot),
                     objects.claim("cloned", "64Mi", dataSource={"kind": "PersistentVolumeClaim", "name": "data"})])
        # Other nodes have fewer pods, but the data decides.
        assert cluster.run(objects.pod("one", "cat /restored/note", ["restored"])) == ("node-c", "kept\n")
        assert cluster.run(objects.pod("two", "cat /cloned/note", ["cloned"])) == ("node-c", "kept\n")
        cluster.api.patch("persistentvolumeclaims", "data", {"spec": {"resources": {"requests": {"storage": "96Mi"}}}})
        wait_for("the volume to have grown", lambda: cluster.volume_of("data")["spec"]["capacity"]["storage"] == "96Mi")
        _, size = cluster.run(objects.pod("three", "df -k /data | tail -1 | awk '{print $2}'", ["data"]))
        assert int(size) > 70000
    finally:
        berth.remove_everything(seconds=60)
        berth.run("delete", "volumesnapshotclass", "snap")


def test_an_inline_volume_is_on_each_node_that_a_daemon_runs_on(cluster):
    berth = cluster.berth
    template = objects.pod("scratch", "echo mine > /scratch/note; grep ' /scratch ' /proc/mounts; sleep 1000",
                           mounts=[{"name": "scratch", "mountPath": "/scratch"}], restart="Always",
                           volumes=[{"name": "scratch", "csi": {"driver": DRIVER, "volumeAttributes": {"size": "32Mi"}}}])
    berth.apply({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "scratch"}, "spec": {
        "selector": {"matchLabels": {"app": "scratch"}},
        "template": {"metadata": {"labels": {"app": "scratch"}}, "spec": template["spec"]}}})
    try:
        wait_for("a pod on each node", lambda: sorted(
            pod["spec"].get("nodeName", "") for pod in berth.items("pods")
            if pod["status"].get("phase") == "Running") == sorted(NAMES))
        assert [len(cluster.images(name)) for name in NAMES] == [1, 1, 1]
        for pod in berth.items("pods"):
            assert " ext4 " in berth.run("logs", pod["metadata"]["name"]).stdout
        assert not berth.items("persistentvolumes")
    finally:
        berth.run("delete", "daemonset", "scratch")
    wait_for("the pods to be gone", lambda: not berth.items("pods"))


def test_a_volume_of_a_dead_node_waits_for_it_and_is_unharmed(cluster):
    berth = cluster.berth
    berth.apply(objects.claim("data"))
    berth.apply(objects.pod("writer", "echo kept > /data/note; sync /data/note; sleep 1000", ["data"], **on("node-b")))
    berth.wait_phase("pods", "writer", "Running", seconds=120)
    wait_for("the note", lambda: berth.run("exec", "writer", "--", "cat", "/data/note", check=False).stdout == "kept\n")
    cluster.die("node-b")
    berth.run("delete", "pod", "writer", "--wait=false")
    found = wait_for("an explanation", lambda: (c := cluster.cause("pod/writer"))["id"] == "node-gone" and c)
    assert "out-of-service" in found["command"]
    assert cluster.attached() == {"node-b"}, "nobody has vouched for the node's death yet"
    cluster.taint("node-b", OUT_OF_SERVICE)
    berth.wait_gone("pods", "writer")
    wait_for("the volume to be detached", lambda: not cluster.attached())
    # The data is on the dead node, so no other node may run the pod, and the explanation says so.
    berth.apply(objects.pod("reader", "cat /data/note", ["data"]))
    found = wait_for("an explanation", lambda: (c := cluster.cause("pod/reader"))["id"] == "volumes-node-gone" and c)
    assert "only on node-b" in found["summary"]
    cluster.revive("node-b")
    ended, output = judge_end(berth, "reader", seconds=120)
    assert ended["spec"]["nodeName"] == "node-b" and output == "kept\n"


def test_a_volume_of_a_driver_that_attaches_moves_on(cluster):
    berth, node = cluster.berth, cluster.further["node-c"]
    berth.apply([objects.storage_class("shared", binding="Immediate", provisioner=csi_double.NAME),
                 objects.claim("data", storage_class="shared")])
    berth.wait_phase("pvc", "data", "Bound")
    # This driver serves the same storage on node-c; it knows the volumes that existed when it was started.
    there = subprocess.Popen(node.inside(
        csi_double.PROGRAM, "--endpoint", node.folder / "double.sock", "--data", cluster.double.data,
        "--switches", cluster.double.folder / "switches", "--node-id", "node-b", "--other-node", "node-a",
        "--registration-folder", node.data / "kubelet" / "plugins_registry"),
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_for("the driver on node-c", lambda: any(
            d["name"] == csi_double.NAME for d in berth.get("csinodes", "node-c")["spec"]["drivers"]))
        berth.apply(objects.pod("writer", "echo kept > /data/note; sync /data/note; sleep 1000", ["data"], **on("node-c")))
        berth.wait_phase("pods", "writer", "Running", seconds=120)
        assert cluster.attached() == {"node-c"}
        there.kill()
        cluster.die("node-c")
        berth.run("delete", "pod", "writer", "--wait=false")
        berth.apply(objects.pod("reader", "cat /data/note", ["data"], **on("node-a")))
        wait_for("the wait", lambda: any("Multi-Attach" in e["message"] for e in berth.events("reader")))
        assert cluster.attached() == {"node-c"}, "nobody has vouched for the node's death yet"
        cluster.taint("node-c", OUT_OF_SERVICE)
        ended, output = judge_end(berth, "reader", seconds=120)
        assert ended["spec"]["nodeName"] == "node-a" and output == "kept\n"
    finally:
        there.kill()
        there.wait()
        berth.remove_everything(seconds=60)
        berth.run("delete", "storageclass", "shared")
    cluster.revive("node-c")


def test_the_room_of_a_node_that_is_gone_for_good_goes_with_it(cluster):
    def rooms():
        return [room for room in cluster.berth.items("csistoragecapacities", "kube-system")
                if room["metadata"]["labels"].get("csi.storage.k8s.io/managed-by", "").endswith("-node-c")]

    wait_for("room on the node", rooms)
    cluster.die("node-c")
    cluster.berth.run("delete", "node", "node-c")
    wait_for("its room to go", lambda: not rooms())
    cluster.further["node-c"].start()
    wait_for("room on the node that came back", rooms)
    wait_for("the node to be back", cluster.further["node-c"].ready, seconds=120)
