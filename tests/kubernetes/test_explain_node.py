"""Ways to be stuck beside a real kubelet. `berth explain` names the first cause of each, with its owner and its proof, and its exit
code is 1. The proof is in objects, events, and the sockets and processes of the node, because no flight record is at hand."""
import contextlib
import json
import shutil
import signal
import subprocess

import pytest
import yaml
from lib import objects
from lib.block_agent import CRDS
from lib.csi_double import CsiDouble
from lib.kubernetes.node import DRIVER as SHIPPED
from lib.kubernetes.programs import Process
from lib.kubernetes.world import ELECTION
from lib.standalone import BINARY, wait_for

pytestmark = [pytest.mark.kubernetes, pytest.mark.explain]

FOREIGN = "foreign.csi.example.com"  # its volumes have to be attached
LONE = "lone.csi.example.com"  # its provisioner runs without leader election
STAY = "sleep 1000"
# A Flexvolume driver that says what mount.nfs says of a server whose export does not name the node.
REFUSED = """#!/bin/sh
case "$1" in
init) echo '{"status": "Success", "capabilities": {"attach": false}}';;
mount) echo '{"status": "Failure", "message": "mount.nfs: access denied by server while mounting 192.0.2.9:/export"}'; exit 1;;
*) echo '{"status": "Success"}';;
esac
"""


class Site:
    """The node, with a driver that fails on command and the block agent."""

    def __init__(self, node):
        self.node = node
        self.cluster = node.cluster
        self.double = CsiDouble(node.kubelet_folder / "plugins" / FOREIGN, name=FOREIGN,
                                registration_folder=node.kubelet_folder / "plugins_registry")
        self.made = []

    def start(self):
        self.double.start()
        self.wait_registered()
        self.node.run("foreign-roles", BINARY, "controller", "--roles=provisioner,attacher,resizer", *ELECTION,
                      f"--csi-address={self.double.socket}", f"--kubeconfig={self.cluster.kubeconfig}",
                      "--leader-election-namespace=default")
        for name, driver, binding in (("foreign", FOREIGN, "WaitForFirstConsumer"), ("foreign-now", FOREIGN, "Immediate"),
                                      ("local-now", SHIPPED, "Immediate")):
            self.cluster.create(objects.storage_class(name, provisioner=driver, binding=binding))
        return self

    def wait_registered(self):
        wait_for("the other driver on the node", lambda: self.node.lists(FOREIGN))

    @property
    def driver(self):
        return self.node.processes["driver"]

    def create(self, item):
        self.made.append((item["kind"], item["metadata"]["name"]))
        return self.cluster.create(item, "default")

    def claim(self, name, storage_class, **spec):
        return self.create(objects.claim(name, storage_class=storage_class, **spec))

    def pod(self, name, claims=(), **spec):
        self.made.append(("Pod", name))
        self.node.create_pod(objects.pod(name, STAY, claims, **spec))
        return f"pod/{name}"

    def claim_and_pod(self, name, storage_class, **spec):
        """A pod with a claim of the same name."""
        self.claim(name, storage_class, **spec)
        return self.pod(name, [name])

    def bound_and_pod(self, name, storage_class):
        """The same, once the claim is bound."""
        self.bound(name, storage_class)
        return self.pod(name, [name])

    def bound(self, name, storage_class, **spec):
        self.claim(name, storage_class, **spec)
        return wait_for(f"claim {name} to be bound", lambda: self.status(name).get("phase") == "Bound")

    def status(self, claim):
        return self.cluster.get("PersistentVolumeClaim", claim, "default")["status"]

    def grow(self, claim, size):
        self.cluster.patch("PersistentVolumeClaim", claim, {"spec": {"resources": {"requests": {"storage": size}}}}, "default")

    @contextlib.contextmanager
    def stopped(self, process):
        process.process.send_signal(signal.SIGSTOP)
        try:
            yield
        finally:
            process.process.send_signal(signal.SIGCONT)

    @contextlib.contextmanager
    def failing(self, *switches):
        self.double.be_wrong(*switches)
        try:
            yield
        finally:
            self.double.be_wrong()

    def explain(self, subject):
        """Gives (exit code, explanation)."""
        result = subprocess.run([BINARY, "explain", "--kubeconfig", self.cluster.kubeconfig, "-n", "default", subject, "-o", "json"],
                                capture_output=True, text=True, timeout=60)
        assert result.returncode in (0, 1) and result.stdout, result
        return result.returncode, json.loads(result.stdout)

    def remove(self):
        for kind in ("Pod", "PersistentVolumeClaim", "PersistentVolume", "StorageClass"):
            names = [name for each, name in self.made if each == kind]
            namespace = "default" if kind in ("Pod", "PersistentVolumeClaim") else None
            for name in names:
                self.cluster.delete(kind, name, namespace)
            for name in names:
                wait_for(f"{kind} {name} to be gone", lambda kind=kind, name=name, namespace=namespace:
                         self.cluster.get(kind, name, namespace) is None, 120)
        self.made.clear()


@pytest.fixture(scope="module")
def module_site(real_node):
    made = Site(real_node)
    try:
        yield made.start()
    finally:
        made.double.stop()


@pytest.fixture
def site(module_site):
    yield module_site
    module_site.remove()


# -- the cases: each makes its trouble, gives the subject, and ends the trouble.

@contextlib.contextmanager
def no_class(site):
    yield site.claim_and_pod("classless", "absent")


@contextlib.contextmanager
def unknown_provisioner(site):
    site.create(objects.storage_class("nobody", provisioner="nobody.csi.example.com"))
    yield site.claim_and_pod("nobody", "nobody")


@contextlib.contextmanager
def provisioner_stopped(site):
    with site.stopped(site.node.processes["foreign-roles"]):
        yield site.claim_and_pod("waiting", "foreign")


@contextlib.contextmanager
def provisioner_without_lease_stopped(site):
    double = CsiDouble(site.node.kubelet_folder / "plugins" / LONE, name=LONE,
                       registration_folder=site.node.kubelet_folder / "plugins_registry")
    double.start()
    roles = Process(site.node.folder / "lone-roles.log", [
        BINARY, "controller", "--roles=provisioner", f"--csi-address={double.socket}", f"--kubeconfig={site.cluster.kubeconfig}"])
    try:
        wait_for("the driver on the node", lambda: site.node.lists(LONE))
        roles.wait_for("the provisioner", lambda: "synced in" in roles.log())
        site.create(objects.storage_class("lone", provisioner=LONE, binding="Immediate"))
        with site.stopped(roles):
            yield site.claim_and_pod("lone", "lone")
        site.remove()
    finally:
        roles.stop()
        double.stop()


@contextlib.contextmanager
def driver_refuses_to_provision(site):
    with site.failing("unknown-code:CreateVolume"):
        yield site.claim_and_pod("refused", "foreign-now")


@contextlib.contextmanager
def topology_elsewhere(site):
    site.create(objects.storage_class("far", allowedTopologies=[{"matchLabelExpressions": [
        {"key": f"topology.{SHIPPED}/node", "values": ["node-z"]}]}]))
    yield site.claim_and_pod("far", "far")


@contextlib.contextmanager
def claim_of_other_mode(site):
    site.bound("device", "local-now", block=True)
    yield site.pod("device", ["device"])


@contextlib.contextmanager
def volume_of_other_mode(site):
    site.create({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "made"},
                 "spec": {"capacity": {"storage": "64Mi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "foreign",
                          "volumeMode": "Block", "persistentVolumeReclaimPolicy": "Retain",
                          "csi": {"driver": FOREIGN, "volumeHandle": "made"}}})
    site.claim("made", "foreign", volumeName="made")
    yield site.pod("made", ["made"])


@contextlib.contextmanager
def one_pod_at_a_time(site):
    site.claim("single", "local", accessModes=["ReadWriteOncePod"])
    site.pod("first", ["single"])
    site.node.wait_pod("first", "Running")
    yield site.pod("second", ["single"])


@contextlib.contextmanager
def attaching_refused(site):
    with site.failing("unknown-code:ControllerPublishVolume"):
        yield site.bound_and_pod("attached", "foreign-now")


@contextlib.contextmanager
def driver_not_registered(site):
    site.bound("unregistered", "foreign-now")
    site.double.announcement().unlink()
    wait_for("the driver to be gone", lambda: not site.node.lists(FOREIGN))
    try:
        yield site.pod("unregistered", ["unregistered"], nodeName=site.node.name)
    finally:
        site.double.stop()
        site.double.start()
        site.wait_registered()


@contextlib.contextmanager
def driver_ended(site):
    site.bound("ended", "local-now")
    site.driver.kill()
    try:
        yield site.pod("ended", ["ended"])
    finally:
        site.node.start_driver()


@contextlib.contextmanager
def driver_stopped(site):
    site.bound("stopped", "local-now")
    with site.stopped(site.driver):
        yield site.pod("stopped", ["stopped"])


@contextlib.contextmanager
def staging_refused(site):
    with site.failing("unknown-code:NodeStageVolume"):
        yield site.bound_and_pod("unstaged", "foreign-now")


@contextlib.contextmanager
def secret_missing(site):
    site.create(objects.storage_class("secret", provisioner=SHIPPED, binding="Immediate") | {"parameters": {
        "csi.storage.k8s.io/node-stage-secret-name": "keys", "csi.storage.k8s.io/node-stage-secret-namespace": "default"}})
    yield site.bound_and_pod("secret", "secret")


@contextlib.contextmanager
def server_denies_access(site):
    folder = site.node.folder / "flex" / "example.com~nfs"
    folder.mkdir(parents=True)
    (folder / "new").write_text(REFUSED)
    (folder / "new").chmod(0o755)
    (folder / "new").rename(folder / "nfs")
    yield site.pod("share", volumes=[{"name": "share", "flexVolume": {"driver": "example.com/nfs"}}],
                   mounts=[{"name": "share", "mountPath": "/share"}])


@contextlib.contextmanager
def block_agent_stopped(site):
    for file in CRDS:
        site.cluster.create(yaml.safe_load(file.read_text()))
    folder = site.node.folder
    agent = Process(folder / "agent.log", [
        BINARY, "block-agent", f"--kubeconfig={site.cluster.kubeconfig}", f"--node-name={site.node.name}", f"--data={folder}/agent",
        f"--socket={folder}/agent.sock", f"--kubelet-dir={site.node.kubelet_folder}", f"--volume-plugin-dir={folder}/flex"])
    try:
        agent.wait_for("the agent's driver", lambda: "is installed in" in agent.log())
        subject = site.pod("block", mounts=[{"name": "block", "mountPath": "/block"}], volumes=[{"name": "block", "flexVolume": {
            "driver": "berth.dev/block", "options": {"cluster": "main", "image": "none"}}}])
        agent.wait_for("the kubelet to ask the driver", lambda: "made its handshake" in agent.log())
        with site.stopped(agent):
            yield subject
        site.remove()
    finally:
        agent.stop()
        # Without its agent the driver would fail at each look of the kubelet for Flexvolume drivers.
        shutil.rmtree(folder / "flex" / "berth.dev~block", ignore_errors=True)


@contextlib.contextmanager
def growing(site, name, failing):
    """Grows the volume of a pod that runs, while the call `failing` of the driver fails. Gives the pod."""
    pod = site.bound_and_pod(name, "foreign-now")
    site.node.wait_pod(name, "Running")
    with site.failing(f"unknown-code:{failing}"):
        site.grow(name, "128Mi")
        yield pod


@contextlib.contextmanager
def growing_fails(site):
    with growing(site, "grows", "ControllerExpandVolume") as pod:
        yield pod


@contextlib.contextmanager
def growing_fails_on_the_node(site):
    with growing(site, "grows-there", "NodeExpandVolume"):
        yield "pvc/grows-there"


@contextlib.contextmanager
def claim_in_use(site):
    site.claim("used", "local")
    site.pod("user", ["used"])
    site.node.wait_pod("user", "Running")
    site.cluster.delete("PersistentVolumeClaim", "used", "default")
    yield "pvc/used"


CASES = [
    # the trouble, the cause, its link, its owner, and what the summary or the proof says
    (no_class, "no-class", "claim", "person", "storage class 'absent' does not exist"),
    (unknown_provisioner, "driver-absent", "volume", "driver", "no node's CSINode lists the driver 'nobody.csi.example.com'"),
    (provisioner_stopped, "no-leader", "volume", "controller", f"the provisioner of driver '{FOREIGN}' has no leader"),
    (provisioner_without_lease_stopped, "role-stopped", "volume", "controller", "'berth' is stopped (state T)"),
    (driver_refuses_to_provision, "driver-error", "volume", "driver", "forty-two"),
    (topology_elsewhere, "wrong-topology", "volume", "person", "nodes that reach the volume: none"),
    (claim_of_other_mode, "wrong-volume-mode", "claim", "person", "names volume 'device' in volumeMounts"),
    (volume_of_other_mode, "wrong-volume-mode", "volume", "person", "asks for volumeMode Filesystem, and volume 'made' has Block"),
    (one_pod_at_a_time, "in-use-elsewhere", "attachment", "person", "pod 'default/first' has it"),
    (attaching_refused, "driver-error", "attachment", "driver", "forty-two"),
    (driver_not_registered, "driver-absent", "attachment", "driver", "attaching to node 'node-k' fails"),
    (driver_ended, "driver-absent", "stage", "driver", f"no process serves the driver '{SHIPPED}' on node 'node-k'"),
    (driver_stopped, "driver-hung", "stage", "driver", "'berth' is stopped (state T)"),
    (staging_refused, "driver-error", "stage", "driver", "forty-two"),
    (secret_missing, "secret-missing", "stage", "person", "keys"),
    (server_denies_access, "access-denied", "publish", "person", "access denied by server while mounting 192.0.2.9:/export"),
    (block_agent_stopped, "block-agent-hung", "stage", "node agent", "'berth' is stopped (state T)"),
    (growing_fails, "expansion-fails", "volume", "driver", "forty-two"),
    (growing_fails_on_the_node, "expansion-fails", "volume", "driver", "forty-two"),
    (claim_in_use, "finalizer-left", "deletion", "person", "pods that use the claim: default/user"),
]


@pytest.mark.parametrize("trouble,cause,link,owner,says", CASES, ids=[case[0].__name__ for case in CASES])
def test_a_way_to_be_stuck(site, trouble, cause, link, owner, says):
    """Beside a kubelet `berth explain` names the first cause with its proof."""
    with trouble(site) as subject:
        seen = []

        def names_it():
            seen[:] = [site.explain(subject)]
            code, explanation = seen[0]
            found = explanation["cause"] or {}
            # The link changes while the trouble goes on, for example once attaching has failed.
            return code == 1 and (found.get("id"), found.get("link")) == (cause, link)
        try:
            wait_for(f"{subject} to be explained by {cause}", names_it, 60, interval=0.2)
        except AssertionError as failure:
            raise AssertionError(f"{failure}\n{json.dumps(seen[0][1], indent=1)}") from None
        found = seen[0][1]["cause"]
        assert found["owner"] == owner, found
        assert says in "\n".join([found["summary"], *found["proof"]]), found
        assert found["proof"] and found["step"], found
