"""csi-provisioner: what the Go program does and what Berth does in its place."""
import pytest
from lib import objects
from lib.kubernetes.world import NODE, OF_CAPACITY
from lib.standalone import wait_for

GO_PROGRAMS = ("csi-provisioner",)
FAST = ("--timeout=10s", "--retry-interval-start=200ms", "--retry-interval-max=1s")


def test_a_claim_gets_its_volume_and_loses_it(world):
    """A claim is bound, and its volume is deleted with it."""
    world.make_class(parameters={"csi.storage.k8s.io/fstype": "ext4", "kind": "fast"})
    world.start("csi-provisioner", *FAST)
    world.claim("data")
    claim, volume = world.bound("data")
    handle = volume["spec"]["csi"]["volumeHandle"]
    names = {handle: "HANDLE"}
    world.same("claim", claim, names)
    world.same("volume", volume, names)
    world.same("events", world.events("data", "Provisioning", "ProvisioningSucceeded"), names)
    world.same("calls", world.double.calls("CreateVolume"))
    world.delete("PersistentVolumeClaim", "data")
    world.wait_gone("PersistentVolume", volume["metadata"]["name"])
    deleted = world.double.calls("DeleteVolume")
    # The Go program sometimes asks for a deletion twice.
    assert deleted == [handle] or world.of_go and set(deleted) == {handle}
    assert not world.double.volumes()


def test_a_volume_of_retain_stays(world):
    """The volume of a class with Retain stays, without a finalizer, when its claim is gone."""
    world.make_class(reclaimPolicy="Retain", mountOptions=["noatime"])
    world.start("csi-provisioner", *FAST)
    world.claim("data", accessModes=["ReadWriteMany", "ReadOnlyMany"])
    _, volume = world.bound("data")
    name = volume["metadata"]["name"]
    world.same("volume", volume, {volume["spec"]["csi"]["volumeHandle"]: "HANDLE"})
    world.delete("PersistentVolumeClaim", "data")
    released = world.wait("PersistentVolume", name, lambda item: item["status"]["phase"] == "Released")
    world.same("finalizers", released["metadata"].get("finalizers", []))
    world.delete("PersistentVolume", name)
    world.wait_gone("PersistentVolume", name)
    assert world.double.calls("DeleteVolume") == []


def test_the_reclaim_policy_is_changed(world):
    """A volume whose policy is changed to Retain loses the provisioner's finalizer, and gets it again with Delete."""
    world.make_class()
    world.start("csi-provisioner", *FAST)
    world.claim("data")
    _, volume = world.bound("data")
    name = volume["metadata"]["name"]
    ours = "external-provisioner.volume.kubernetes.io/finalizer"
    for policy, there in (("Retain", False), ("Delete", True)):
        world.cluster.patch("PersistentVolume", name, {"spec": {"persistentVolumeReclaimPolicy": policy}})
        changed = world.wait("PersistentVolume", name, lambda item: (ours in item["metadata"]["finalizers"]) == there)
        world.same(f"finalizers with {policy}", sorted(changed["metadata"]["finalizers"]))


def static_volume(world, name, handle, **annotations):
    return world.create({
        "apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name, "annotations": annotations},
        "spec": {"capacity": {"storage": "1Mi"}, "accessModes": ["ReadWriteOnce"], "persistentVolumeReclaimPolicy": "Delete",
                 "storageClassName": "", "csi": {"driver": world.driver, "volumeHandle": handle},
                 "claimRef": {"namespace": world.namespace, "name": "data"}}})


def test_a_volume_that_a_person_wrote_is_deleted_when_it_is_released(world):
    """A static volume with Delete gets the finalizer when it is bound, and DeleteVolume when it is released."""
    name = f"static-{world.namespace}"
    world.start("csi-provisioner", *FAST)
    static_volume(world, name, "by-hand")
    world.claim("data", storageClassName="", volumeName=name)
    world.bound("data")
    volume = world.wait("PersistentVolume", name, lambda item: len(item["metadata"]["finalizers"]) == 2)
    world.same("volume", volume)
    world.delete("PersistentVolumeClaim", "data")
    world.wait_gone("PersistentVolume", name)
    assert set(world.double.calls("DeleteVolume")) == {"by-hand"}


def test_an_available_volume_can_be_deleted(world):
    """An Available volume with `provisioned-by` is not held: its deletion calls no driver."""
    name = f"available-{world.namespace}"
    world.start("csi-provisioner", *FAST)
    static_volume(world, name, "by-hand", **{"pv.kubernetes.io/provisioned-by": world.driver})
    available = world.wait("PersistentVolume", name, lambda item: item["status"].get("phase") == "Available")
    world.same("finalizers", available["metadata"]["finalizers"])
    world.delete("PersistentVolume", name)
    world.wait_gone("PersistentVolume", name)
    assert world.double.calls("DeleteVolume") == []


def test_the_driver_refuses(world):
    """An error of CreateVolume is told in the driver's own words, and asked again."""
    world.make_class()
    world.double.be_wrong("aborted-forever:CreateVolume")
    world.start("csi-provisioner", *FAST)
    world.claim("data")
    world.same("events", world.events("data", "ProvisioningFailed"))
    wait_for("a second call", lambda: len(world.double.calls("CreateVolume")) > 1)
    assert len(set(world.double.calls("CreateVolume"))) == 1
    world.same("claim", world.get("PersistentVolumeClaim", "data"))
    world.double.be_wrong()
    world.bound("data")


def test_the_driver_does_not_delete(world):
    """An error of DeleteVolume is told on the volume, which stays until the driver has deleted it."""
    world.make_class()
    world.start("csi-provisioner", *FAST)
    world.claim("data")
    _, volume = world.bound("data")
    name = volume["metadata"]["name"]
    world.double.be_wrong("aborted-forever:DeleteVolume")
    world.delete("PersistentVolumeClaim", "data")
    world.same("events", world.events(name, "VolumeFailedDelete"))
    failed = world.wait("PersistentVolume", name, lambda item: item["status"]["phase"] != "Bound")
    world.same("volume", failed, {failed["spec"]["csi"]["volumeHandle"]: "HANDLE"})
    world.double.be_wrong()
    world.wait_gone("PersistentVolume", name)


def test_an_attached_volume_is_released(world):
    """A released volume stays while an attachment names it, and an event says so."""
    world.make_class()
    world.start("csi-provisioner", *FAST)
    world.claim("data")
    _, volume = world.bound("data")
    name = volume["metadata"]["name"]
    attachment = f"{world.namespace}-attachment"
    world.create(objects.attachment(attachment, world.driver, NODE, name))
    world.delete("PersistentVolumeClaim", "data")
    world.same("events", world.events(name, "VolumeFailedDelete"), {name: "VOLUME"})
    assert world.double.calls("DeleteVolume") == []
    world.delete("VolumeAttachment", attachment)
    world.wait_gone("PersistentVolume", name)


def test_a_claim_with_an_empty_selector(world):
    """A selector that selects nothing is refused as any other."""
    world.make_class()
    world.start("csi-provisioner", *FAST)
    world.claim("data", selector={})
    world.same("events", world.events("data", "ProvisioningFailed"))
    assert world.double.calls("CreateVolume") == []


def test_a_missing_annotation_is_added(world):
    """A claim whose class names a secret by an annotation that it lacks is served as soon as it has the annotation."""
    world.make_class(parameters={"csi.storage.k8s.io/node-stage-secret-name": "${pvc.annotations['example.com/secret']}",
                                 "csi.storage.k8s.io/node-stage-secret-namespace": world.namespace})
    world.start("csi-provisioner", "--timeout=10s", "--retry-interval-start=10m", "--retry-interval-max=10m")
    world.claim("data")
    world.events("data", "ProvisioningFailed")
    world.cluster.patch("PersistentVolumeClaim", "data", {"metadata": {"annotations": {"example.com/secret": "key"}}},
                        world.namespace)
    _, volume = world.bound("data")
    world.same("secret", volume["spec"]["csi"]["nodeStageSecretRef"])


def test_a_node_was_selected(world):
    """A claim that waits for its first consumer is served for the node that the scheduler selected."""
    world.make_class(binding="WaitForFirstConsumer")
    world.start("csi-provisioner", *FAST)
    world.claim("data")
    world.cluster.patch("PersistentVolumeClaim", "data",
                        {"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "node-a"}}}, world.namespace)
    claim, volume = world.bound("data")
    names = {volume["spec"]["csi"]["volumeHandle"]: "HANDLE"}
    world.same("claim", claim, names)
    world.same("volume", volume, names)


def test_a_claim_is_cloned(world):
    """A claim whose source is a claim gets a volume from it."""
    world.make_class()
    world.start("csi-provisioner", *FAST)
    world.claim("data")
    world.bound("data")
    world.claim("copy", dataSource={"kind": "PersistentVolumeClaim", "name": "data"})
    claim, volume = world.bound("copy")
    world.same("claim", claim, {volume["spec"]["csi"]["volumeHandle"]: "HANDLE"})
    world.same("events", world.events("copy", "ProvisioningSucceeded"))
    if not world.of_go:  # which takes it off with its next look at all claims
        world.wait("PersistentVolumeClaim", "data", lambda item: item["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"])


@pytest.mark.parametrize("before", [True, False], ids=["before", "meanwhile"])
def test_a_source_whose_copies_are_gone_is_deleted(world, before):
    """A program before this one has left its finalizer, and the source is deleted before the program begins, or meanwhile."""
    world.make_class()
    world.start("csi-provisioner", *FAST)
    world.claim("data")
    world.bound("data")
    world.stop_sidecars()
    world.cluster.patch("PersistentVolumeClaim", "data", {"metadata": {"finalizers": [
        "provisioner.storage.kubernetes.io/cloning-protection"]}}, world.namespace)
    if before:
        world.delete("PersistentVolumeClaim", "data")
    world.start("csi-provisioner", *FAST)
    if not before:
        world.delete("PersistentVolumeClaim", "data")
    world.wait_gone("PersistentVolumeClaim", "data")


def test_name_and_namespace_of_a_secret_have_keys_of_different_age(world):
    """A class that names a secret by its old key and the namespace by its new one."""
    world.make_class(parameters={"csiProvisionerSecretName": "key", "csi.storage.k8s.io/provisioner-secret-namespace": "${pvc.namespace}"})
    world.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key"}, "stringData": {"user": "x"}})
    world.start("csi-provisioner", *FAST, further=[{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list"]}])
    world.claim("data")
    _, volume = world.bound("data")
    world.same("annotations", volume["metadata"]["annotations"])


def test_a_class_names_a_secret(world):
    """The secrets of a class go to the driver by reference; one that is missing is told, and looked for again."""
    world.make_class(parameters={f"csi.storage.k8s.io/{use}-secret-{part}": value
                                 for use in ("provisioner", "node-publish", "controller-publish")
                                 for part, value in (("name", "key"), ("namespace", "${pvc.namespace}"))})
    world.start("csi-provisioner", *FAST, further=[{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list"]}])
    world.claim("data")
    heard = world.events("data", "Provisioning", "ProvisioningFailed")
    world.same("events", [event[:2] for event in heard])
    assert all("key" in message for _, reason, message in heard if reason == "ProvisioningFailed"), "in Berth's own words"
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key"}, "stringData": {"user": "x"}}
    world.create(secret)
    claim, volume = world.bound("data")
    world.same("volume", volume, {volume["spec"]["csi"]["volumeHandle"]: "HANDLE"})
    world.delete("Secret", "key")
    world.delete("PersistentVolumeClaim", "data")
    world.wait_gone("PersistentVolume", volume["metadata"]["name"])
    assert not world.double.volumes()


@pytest.mark.parametrize("flag", ["--feature-gates=Topology=false", "--immediate-topology=false"])
def test_a_driver_that_no_node_has(new_world, flag):
    """A driver that no node has serves a claim if no topology is asked for."""
    world = new_world(on_node=False)
    world.make_class()
    world.start("csi-provisioner", *FAST, flag)
    world.claim("data")
    _, volume = world.bound("data")
    world.same("volume", volume, {volume["spec"]["csi"]["volumeHandle"]: "HANDLE"})


def test_the_lease(world):
    """The lease has the name and the fields that the Go program gives it."""
    world.make_class()
    world.start("csi-provisioner", *FAST)
    world.claim("data")
    world.bound("data")
    name = world.driver.replace(".", "-")
    lease = world.get("Lease", name)
    world.same("fields", sorted(key for key in lease["spec"] if key != "leaseTransitions"))
    world.same("holder", lease["spec"]["holderIdentity"].split("_")[0])
    world.same("duration", lease["spec"]["leaseDurationSeconds"])


def test_the_lease_is_given_back(world):
    """With the feature gate for it, a program that ends in order gives its lease back, so that the next one need not wait."""
    sidecar = world.start("csi-provisioner", *FAST, "--feature-gates=ReleaseLeaderElectionOnExit=true")
    name = world.driver.replace(".", "-")
    world.wait("Lease", name, lambda item: item["spec"].get("holderIdentity"))
    sidecar.stop()
    world.same("holder", world.get("Lease", name)["spec"].get("holderIdentity", ""))


def test_capacity_is_published(world):
    """CSIStorageCapacity objects have the names, labels and owners that the Go program gives them."""
    world.make_class(binding="WaitForFirstConsumer")
    world.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "owner"},
                  "spec": {"containers": [{"name": "c", "image": "none"}]}})
    world.start("csi-provisioner", *FAST, "--enable-capacity", "--capacity-ownerref-level=0", own_rules=OF_CAPACITY,
                env={"NAMESPACE": world.namespace, "POD_NAME": "owner"})
    wait_for("the capacity", lambda: world.cluster.items("CSIStorageCapacity", world.namespace))
    [capacity] = world.cluster.items("CSIStorageCapacity", world.namespace)
    capacity["metadata"].pop("name")
    world.same("capacity", capacity)
    owner = capacity["metadata"]["ownerReferences"][0]
    world.same("owner", {key: owner[key] for key in ("kind", "name")} | {"controller": owner.get("controller")})
