"""The folders of deploy/ on a real API server: it takes each of them, its admission lets the pods in, and a program with the rights that a
folder gives its account is refused nothing."""
import subprocess

import pytest
import yaml
from lib import block_agent, kube, objects
from lib.csi_double import CsiDouble
from lib.kubectl import installed
from lib.kubernetes.control_plane import KUBELETS
from lib.kubernetes.control_plane import NODE as KUBELET_NODE
from lib.kubernetes.programs import Process
from lib.kubernetes.world import NODE
from lib.standalone import BINARY, ROOT, wait_for

pytestmark = pytest.mark.kubernetes

FOLDERS = ["crds", "csi/base", "csi/local", "csi/snapshot-controller", "csi/overlays/example", "block-agent", "mount-pod/nfs",
           "mount-pod/glusterfs", "mount-pod/cephfs", "mount-pod/iscsi", "mount-pod/rbd", "crust/proxy"]
OF_BASE = "base.csi.example.com"  # the driver beside deploy/csi/base
FILES = ["flexvolume/daemonset.yaml", "crust/rbac.yaml"]


@pytest.fixture(scope="module")
def kubectl(plane):
    """Gives a function that runs the newest kubectl here as the administrator."""
    binary = max(installed().items(), key=lambda entry: entry[1][:2])[0]

    def run(*arguments):
        result = subprocess.run([binary, "--kubeconfig", plane.kubeconfig, *arguments], capture_output=True, text=True, timeout=120)
        assert result.returncode == 0, result.stderr
        return result
    return run


@pytest.fixture(scope="module")
def node(real_cluster):
    """A node on which the pods of DaemonSets are made, although nobody runs them."""
    if real_cluster.get("Node", NODE) is None:
        real_cluster.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": NODE}})
    real_cluster.patch("Node", NODE, {"spec": {"taints": None}})  # of a node that is not ready


def workloads(kubectl, *what):
    """Gives (kind, namespace, name, wanted pods' labels) of each Deployment and DaemonSet that was applied."""
    for item in yaml.safe_load_all(kubectl(*what).stdout):
        if item["kind"] in ("Deployment", "DaemonSet"):
            yield item["kind"], item["metadata"]["namespace"], item["metadata"]["name"], item["spec"]["selector"]["matchLabels"]


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_is_applied(kubectl, node, real_cluster, folder):
    """A folder of deploy/ is applied without a warning, and its pods are admitted."""
    applied = kubectl("apply", "--server-side", "--force-conflicts", "-k", ROOT / "deploy" / folder)
    assert "Warning" not in applied.stderr, applied.stderr
    check_pods(real_cluster, workloads(kubectl, "kustomize", ROOT / "deploy" / folder))


@pytest.mark.parametrize("file", FILES)
def test_a_file_is_applied(kubectl, node, real_cluster, file):
    """A file of deploy/ is applied without a warning, and its pods are admitted."""
    applied = kubectl("apply", "--server-side", "-f", ROOT / "deploy" / file)
    assert "Warning" not in applied.stderr, applied.stderr
    check_pods(real_cluster, workloads(kubectl, "create", "--dry-run=client", "-o", "yaml", "-f", ROOT / "deploy" / file))


def check_pods(cluster, made):
    for kind, namespace, name, labels in made:
        wait_for(f"a pod of {kind} {name}", lambda namespace=namespace, labels=labels: any(
            labels.items() <= pod["metadata"].get("labels", {}).items() for pod in cluster.items("Pod", namespace)))


def run_as(cluster, folder, namespace, account, *arguments, env=None):
    """Runs Berth with a token of an account that a folder of deploy/ has made."""
    config = cluster.write_token(folder / account, namespace, account)
    return Process(folder / f"{account}.log", [BINARY, *arguments, f"--kubeconfig={config}"], env)


def test_the_rights_of_the_base_and_the_snapshot_controller(kubectl, node, real_cluster, short):
    """The roles of deploy/csi/base with the account of its Deployment, and the snapshot controller with the account of its folder,
    make, attach, grow, snapshot and delete a volume, and are refused nothing."""
    for folder in ("crds", "csi/base", "csi/snapshot-controller"):
        kubectl("apply", "--server-side", "--force-conflicts", "-k", ROOT / "deploy" / folder)
    real_cluster.install_snapshots()
    double = CsiDouble(short / "d", name=OF_BASE, nodes=(NODE, "other")).start()
    real_cluster.write_node(NODE, OF_BASE, {f"{OF_BASE}/zone": "here"})
    programs = [run_as(real_cluster, short, "csi-driver", "csi-controller", "controller", "--leader-election",
                       "--roles=provisioner,attacher,resizer,snapshotter", f"--csi-address={double.socket}",
                       "--leader-election-namespace=csi-driver"),
                run_as(real_cluster, short, "kube-system", "snapshot-controller", "snapshot-controller", "--leader-election",
                       "--leader-election-namespace=kube-system", "--enable-distributed-snapshotting")]
    try:
        use_a_volume(real_cluster, programs[0])
        assert not [line for process in programs for line in process.refusals()]
    finally:
        for process in programs:
            process.stop()
        double.stop()


def use_a_volume(cluster, process):
    """Makes a claim with the class "of-base", uses all that the roles offer, and deletes it again. `process` has the roles."""
    def status(kind, name, namespace=None):
        return (cluster.get(kind, name, namespace) or {}).get("status") or {}

    def wait(what, look):
        process.wait_for(what, look)
    cluster.create(objects.storage_class("of-base", binding="Immediate", provisioner=OF_BASE))
    cluster.create(objects.claim("of-base", "1Mi", "of-base"), "default")
    wait("the claim to be bound", lambda: status("PersistentVolumeClaim", "of-base", "default").get("phase") == "Bound")
    volume = cluster.get("PersistentVolumeClaim", "of-base", "default")["spec"]["volumeName"]
    cluster.create(objects.attachment("of-base", OF_BASE, NODE, volume))
    wait("the volume to be attached", lambda: status("VolumeAttachment", "of-base").get("attached"))
    cluster.patch("PersistentVolumeClaim", "of-base", {"spec": {"resources": {"requests": {"storage": "2Mi"}}}}, "default")
    wait("the volume to grow", lambda: cluster.get("PersistentVolume", volume)["spec"]["capacity"]["storage"] == "2Mi")
    cluster.create(objects.snapshot_class("of-base", OF_BASE))
    cluster.create(objects.snapshot("of-base", "of-base", "of-base"), "default")
    wait("the snapshot", lambda: status("VolumeSnapshot", "of-base", "default").get("readyToUse"))
    for kind, namespace in (("VolumeSnapshot", "default"), ("VolumeAttachment", None), ("PersistentVolumeClaim", "default")):
        cluster.delete(kind, "of-base", namespace)
        wait(f"the {kind} to be gone", lambda kind=kind, namespace=namespace: cluster.get(kind, "of-base", namespace) is None)
    wait("the volume to be gone", lambda: cluster.get("PersistentVolume", volume) is None)


AGENTS = ("berth-block-agent", "berth-io-proxy")
OPERATOR_POD = "operator"


def test_the_rights_of_the_block_operator(kubectl, real_cluster, short):
    """The operator of the block agent with the account of its folder takes a StorageCluster up, deploys the programs on the nodes,
    makes a claim's volume, and is refused nothing."""
    kubectl("apply", "--server-side", "--force-conflicts", "-k", ROOT / "deploy/block-agent")
    # The operator takes its own pod's image for the pods on the nodes.
    real_cluster.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": OPERATOR_POD},
                         "spec": {"containers": [{"name": "berth", "image": "example.com/operator:1"}]}}, "berth-block")
    process = run_as(real_cluster, short, "berth-block", "berth-block-operator", "controller", "--roles=block-operator",
                     "--leader-election", "--leader-election-namespace=berth-block",
                     env={"POD_NAMESPACE": "berth-block", "POD_NAME": OPERATOR_POD})

    def deployed():
        return all((made := real_cluster.get("DaemonSet", name, "berth-block"))
                   and made["spec"]["template"]["spec"]["containers"][0]["image"] == "example.com/operator:1" for name in AGENTS)

    def bound():
        claim = real_cluster.get("PersistentVolumeClaim", "of-block", "default")
        return claim["status"].get("phase") == "Bound"
    since = real_cluster.plane.audit_size()
    try:
        process.wait_for("the programs on the nodes", deployed)
        (short / "images").mkdir()
        block_agent.make_class(real_cluster, "of-block", short / "images", "ext4")
        real_cluster.create(objects.claim("of-block", "8Mi", "of-block"), "default")
        process.wait_for("the claim to be bound", bound)
        real_cluster.delete("PersistentVolumeClaim", "of-block", "default")
        process.wait_for("its image to be gone", lambda: not list((short / "images").glob("pvc-*")))
        assert not process.refusals()
        asked = real_cluster.requests_of("berth-block", "berth-block-operator", since)
        assert [code for verb, resource, code in asked if (verb, resource) == ("create", "daemonsets")] == [201] * len(AGENTS)
        assert not real_cluster.refused_to("berth-block", "berth-block-operator")
    finally:
        process.stop()


def test_the_rights_of_a_node_of_the_crust(kubectl, real_cluster, short):
    """With deploy/crust/rbac.yaml a node's account may read a StorageClass, which the node authorizer alone does not let it, and
    nothing else of it."""
    real_cluster.create(objects.storage_class("of-crust", binding="Immediate", provisioner="crust.example.com"))
    node = kube.Api(kube.Kubeconfig(real_cluster.plane.write_kubeconfig(short / "kubelet", KUBELETS[KUBELET_NODE])))
    path = real_cluster.path("StorageClass", name="of-crust")
    manifest = ROOT / "deploy" / "crust" / "rbac.yaml"
    kubectl("delete", "--ignore-not-found", "-f", manifest)
    wait_for("the right to be gone", lambda: node.get(path).code == 403)
    kubectl("apply", "--server-side", "-f", manifest)
    wait_for("the right to be there", lambda: node.get(path).code == 200)
    assert node.get(real_cluster.path("StorageClass")).code == 403, "it lists none"
    assert node.delete(path).code == 403
