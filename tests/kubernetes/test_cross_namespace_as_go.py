"""csi-provisioner with the alpha gate CrossNamespaceVolumeDataSource: a claim gets its data from another namespace, if a
ReferenceGrant there allows it. The control plane needs the gate, too, because else the API server drops such a source."""
import pathlib
import shutil
import tempfile

import pytest
from lib import objects
from lib.kubernetes import programs
from lib.kubernetes.cluster import KINDS, Cluster
from lib.kubernetes.control_plane import PROGRAMS, ControlPlane
from lib.standalone import wait_for

GO_PROGRAMS = ("csi-provisioner",)
FAST = ("--timeout=10s", "--retry-interval-start=200ms", "--retry-interval-max=1s")
GATE = "--feature-gates=CrossNamespaceVolumeDataSource=true"
GROUP = "gateway.networking.k8s.io"
GRANTS = [{"apiGroups": [GROUP], "resources": ["referencegrants"], "verbs": ["get", "list", "watch"]}]
ANY = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
    "metadata": {"name": f"referencegrants.{GROUP}", "annotations": {"api-approved.kubernetes.io": "unapproved, for a test"}},
    "spec": {"group": GROUP, "scope": "Namespaced",
             "names": {"kind": "ReferenceGrant", "plural": "referencegrants", "singular": "referencegrant",
                       "listKind": "ReferenceGrantList"},
             "versions": [{"name": "v1beta1", "served": True, "storage": True,
                           "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": ANY}}}}]}}


@pytest.fixture(scope="module")
def real_cluster():
    missing = programs.missing(*PROGRAMS)
    if missing:
        pytest.skip(missing)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="bt-", dir="/var/tmp"))
    plane = ControlPlane(folder, feature_gates=("CrossNamespaceVolumeDataSource=true",))
    try:
        cluster = Cluster(plane.start().kubeconfig, plane=plane)
        cluster.install_snapshots()
        yield cluster
    finally:
        plane.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def vault(world, monkeypatch):
    """Makes another namespace, and the kind of grants, and gives the namespace's name."""
    monkeypatch.setitem(KINDS, "ReferenceGrant", (f"/apis/{GROUP}/v1beta1", "referencegrants", True))
    world.cluster.create(DEFINITION)
    wait_for("the kind of grants", lambda: world.cluster.api.get(world.cluster.path("ReferenceGrant")).code == 200)
    name = f"vault-of-{world.namespace}"
    world.names[name] = "VAULT"
    world.cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    return name


def begin(world, vault, *arguments):
    """Starts the provisioner, and makes a bound claim "data" in the other namespace, and a claim that is to be its copy."""
    world.make_class()
    world.start("csi-provisioner", *FAST, *arguments, further=GRANTS)
    world.cluster.create(objects.claim("data", "1Mi", world.storage_class), vault)
    wait_for("the source to be bound",
             lambda: world.cluster.get("PersistentVolumeClaim", "data", vault)["status"].get("phase") == "Bound", 60)
    world.claim("copy", dataSourceRef={"kind": "PersistentVolumeClaim", "name": "data", "namespace": vault})


def grant(world, vault, grant_name, namespace, **to):
    world.cluster.create({
        "apiVersion": f"{GROUP}/v1beta1", "kind": "ReferenceGrant", "metadata": {"name": grant_name},
        "spec": {"from": [{"group": "", "kind": "PersistentVolumeClaim", "namespace": namespace}],
                 "to": [{"group": "", "kind": "PersistentVolumeClaim", **to}]}}, vault)


def test_a_grant_allows_a_copy(world, vault):
    """A claim whose source is in another namespace waits until a ReferenceGrant there allows it, and then is a copy."""
    begin(world, vault, GATE)
    world.same("events without a grant", world.events("copy", "ProvisioningFailed"))
    grant(world, vault, "for-another", "elsewhere")
    grant(world, vault, "of-another", world.namespace, name="another")
    assert world.get("PersistentVolumeClaim", "copy")["status"]["phase"] == "Pending"
    grant(world, vault, "right", world.namespace, name="data")
    claim, volume = world.bound("copy")
    names = {volume["spec"]["csi"]["volumeHandle"]: "HANDLE"}
    world.same("claim", claim, names)
    world.same("volume", volume, names)
    world.same("events", world.events("copy", "ProvisioningSucceeded"), names)


def test_without_the_gate_it_is_refused(world, vault):
    """Without the provisioner's gate a source in another namespace is refused, whatever was granted."""
    grant(world, vault, "right", world.namespace)
    begin(world, vault)
    world.same("events", world.events("copy", "ProvisioningFailed"))
    assert world.get("PersistentVolumeClaim", "copy")["status"]["phase"] == "Pending"


def test_a_populators_source_needs_a_grant(world, vault):
    """The source of a populator in another namespace needs a grant as well."""
    world.make_class()
    world.start("csi-provisioner", *FAST, GATE, further=GRANTS)
    world.claim("copy", dataSourceRef={"apiGroup": "example.com", "kind": "Hello", "name": "h", "namespace": vault})
    world.same("events", world.events("copy", "ProvisioningFailed"))
