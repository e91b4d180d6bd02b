"""The hostpath driver's deployment as upstream ships it, as pods under a real kubelet: with the images of the Go programs first, and then
with only the images changed. Berth goes on with what the Go programs made."""
import pytest
from lib import objects
from lib.kubernetes import hostpath_manifests
from lib.kubernetes.hostpath_manifests import DRIVER, SIDECARS, SNAPSHOT_CLASS, Deployment, program_of
from lib.standalone import wait_for

pytestmark = pytest.mark.kubernetes

# Who may be refused nothing with the roles that each sidecar's own repository gives its account.
ACCOUNTS = (*(("default", name) for name in SIDECARS if name.startswith("csi-")), ("kube-system", "snapshot-controller"))


@pytest.fixture(scope="module")
def deployment(request):
    if hostpath_manifests.missing():
        pytest.skip(hostpath_manifests.missing())
    node = request.getfixturevalue("bare_node")
    node.cluster.install_snapshots()
    node.cluster.install_groups()
    node.cluster.create(objects.storage_class("hostpath", binding="Immediate", provisioner=DRIVER))
    return Deployment(node)


class Volumes:
    """What a side's pods do with volumes; all of it has the side's name."""

    def __init__(self, deployment, side):
        self.deployment = deployment
        self.node = deployment.node
        self.cluster = self.node.cluster
        self.side = side

    def wait(self, what, look, seconds=90):
        try:
            return wait_for(what, look, seconds)
        except AssertionError as failure:
            raise AssertionError(f"{failure}\n{self.deployment.states()}\n{self.deployment.logs()}") from None

    def claim(self, name, **spec):
        self.cluster.create(objects.claim(name, "64Mi", "hostpath", **spec), "default")
        self.wait(f"claim {name} to be bound", lambda: self.get_claim(name)["status"].get("phase") == "Bound")

    def get_claim(self, name):
        return self.cluster.get("PersistentVolumeClaim", name, "default")

    def attachment_of(self, claim):
        volume = self.get_claim(claim)["spec"]["volumeName"]
        return next((item for item in self.cluster.items("VolumeAttachment")
                     if item["spec"]["attacher"] == DRIVER and item["spec"]["source"]["persistentVolumeName"] == volume), None)

    def make(self):
        """A claim, a pod that uses it, its growth under the pod, and a snapshot."""
        claim, pod = f"data-{self.side}", f"writer-{self.side}"
        self.claim(claim)
        self.node.create_pod(objects.pod(pod, f"echo kept > /{claim}/file && sync && sleep 1000", [claim]))
        self.node.wait_pod(pod, "Running")
        assert self.attachment_of(claim)["status"]["attached"]
        self.cluster.patch("PersistentVolumeClaim", claim, {"spec": {"resources": {"requests": {"storage": "96Mi"}}}}, "default")
        self.wait("the volume to grow", lambda: self.get_claim(claim)["status"]["capacity"]["storage"] == "96Mi"
                  and not self.get_claim(claim)["status"].get("conditions"))
        self.cluster.create(objects.snapshot(f"snap-{self.side}", claim, SNAPSHOT_CLASS), "default")
        self.wait("the snapshot", lambda: (self.cluster.get("VolumeSnapshot", f"snap-{self.side}", "default").get("status") or {}).get(
            "readyToUse"))

    def restore(self):
        """A claim from the snapshot, whose data a pod reads."""
        name = f"restored-{self.side}"
        self.claim(name, dataSource={"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": f"snap-{self.side}"},
                   resources={"requests": {"storage": "96Mi"}})
        self.node.create_pod(objects.pod(name, f"test $(cat /{name}/file) = kept", [name]))
        self.node.wait_pod(name, "Succeeded")
        self.end_pod(name, name)
        self.remove("PersistentVolumeClaim", name)

    def end_pod(self, pod, claim):
        """Deletes a pod, and waits until its volume is detached."""
        self.remove("Pod", pod)
        self.wait(f"the volume of {claim} to be detached", lambda: self.attachment_of(claim) is None)

    def remove_all(self):
        """Deletes what make() made."""
        self.end_pod(f"writer-{self.side}", f"data-{self.side}")
        for kind, name in (("VolumeSnapshot", f"snap-{self.side}"), ("PersistentVolumeClaim", f"data-{self.side}")):
            self.remove(kind, name)

    def remove(self, kind, name):
        self.cluster.delete(kind, name, "default")
        self.wait(f"{kind} {name} to be gone", lambda: self.cluster.get(kind, name, "default") is None)


@pytest.mark.parametrize("side", ["go", "berth"])
def test_the_manifests_of_the_hostpath_driver(deployment, side):
    """The manifests of the hostpath driver's deployment with only the image changed serve a claim, a pod, its attachment, a growth, a
    snapshot and a restore, also of what the Go programs made before."""
    cluster = deployment.node.cluster
    before = cluster.plane.audit_size()
    hostpath_manifests.import_images(deployment.node, side)
    deployment.apply(side)
    volumes = [Volumes(deployment, side)]
    volumes[0].make()
    assert deployment.kept_by_driver()
    if side == "berth" and cluster.get("PersistentVolumeClaim", "data-go", "default") is not None:
        volumes.append(Volumes(deployment, "go"))
    for each in volumes:
        each.restore()
    if side == "berth":
        for each in volumes:
            each.remove_all()
        for kind in ("PersistentVolume", "VolumeSnapshotContent", "VolumeAttachment"):
            volumes[0].wait(f"each {kind} to be gone", lambda kind=kind: not cluster.items(kind))
        assert not deployment.kept_by_driver()
    images = {program_of(image): image for _, _, image, _, _ in deployment.states()}
    assert all(images[program].startswith(f"{side}.local/") for program in SIDECARS), images
    assert not [state for state in deployment.states() if state[3]], f"containers that ended\n{deployment.logs()}"
    refused = {(account, verb, resource) for namespace, account in ACCOUNTS
               for verb, resource, code in cluster.plane.requests_of(f"system:serviceaccount:{namespace}:{account}", before)
               if code == 403}
    assert not refused
