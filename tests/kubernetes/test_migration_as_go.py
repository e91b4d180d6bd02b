"""Volumes of the in-tree plugins: what the Go sidecars ask of the CSI drivers that have replaced the plugins, what they write, and
what Berth does in their place."""
import pytest
from lib import objects
from lib.kubernetes import in_tree, plugins, programs
from lib.kubernetes.in_tree import FAST, fill
from lib.kubernetes.migrated_driver import MigratedDriver
from lib.kubernetes.plugins import AWS_EBS, AZURE_DISK, AZURE_FILE, CINDER, GCE_PD, PORTWORX_VOLUME, VSPHERE_VOLUME
from lib.kubernetes.world import SECRETS, World
from lib.standalone import wait_for

GO_PROGRAMS = ("csi-provisioner", "csi-attacher", "csi-resizer")
NODE = "node-of-plugins"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
NODE_ID = "csi.alpha.kubernetes.io/node-id"


@pytest.fixture(params=plugins.ALL, ids=lambda plugin: plugin.name)
def plugin(request):
    return request.param


def prepare(world, plugin):
    """Writes the node with the plugin's driver, and the secret of the volumes that have one."""
    world.cluster.write_node(NODE, plugin.driver, plugin.node_topology, plugin.node_id)
    world.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "px"}, "stringData": {"token": "of px"}})


def clean_up(world):
    """Removes what other cases of the driver may not meet, whatever a failed case has left."""
    cluster = world.cluster

    def remove(kind, name, change, namespace=None):
        if cluster.get(kind, name, namespace) is not None:
            cluster.patch(kind, name, {"metadata": {"finalizers": None}} | change, namespace)
            cluster.delete(kind, name, namespace)

    remove("VolumeAttachment", attachment_of(world), {})
    volumes = [item["metadata"]["name"] for item in cluster.items("PersistentVolume")
               if (item["spec"].get("claimRef") or {}).get("namespace") == world.namespace]
    for name in {*volumes, in_tree.older_volume_of(world)}:
        remove("PersistentVolume", name, {"spec": {"persistentVolumeReclaimPolicy": "Retain"}})
    remove("PersistentVolumeClaim", "data", {}, world.namespace)
    cluster.delete("StorageClass", world.storage_class)
    for kind in ("CSINode", "Node"):
        cluster.delete(kind, NODE)


@pytest.fixture
def lists():
    """Whether the driver says to which nodes its volumes are published."""
    return False


@pytest.fixture
def world(new_world, short, plugin, lists):
    made = new_world(driver=plugin.driver, double=lambda _: MigratedDriver(short, plugin, lists), on_node=False)
    prepare(made, plugin)
    yield made
    made.stop_sidecars()
    clean_up(made)


def make_class(world, plugin, **changes):
    fields = {"parameters": plugin.parameters, "allowedTopologies": plugin.allowed_topologies} | changes
    return in_tree.Plugin(world, plugin, **fields)


def start(world, program, *arguments, of_go=None):
    return world.start(program, *FAST, *arguments, of_go=of_go, further=[SECRETS])


def only(messages):
    """Gives the only message: the Go programs now and then make a call twice."""
    assert messages and all(each == messages[0] for each in messages), messages
    return messages[0]


# -- csi-provisioner


def in_order(volume):
    """Gives the volume with the keys of its node affinity in order: the Go program writes them in any."""
    for term in volume["spec"].get("nodeAffinity", {"required": {"nodeSelectorTerms": []}})["required"]["nodeSelectorTerms"]:
        term["matchExpressions"].sort(key=lambda each: each["key"])
    return volume


def test_a_claim_gets_a_volume_of_the_plugin(world, plugin):
    """A claim of an in-tree class is served by the CSI driver: it gets a volume of the plugin, which the driver deletes."""
    made = make_class(world, plugin)
    start(world, "csi-provisioner")
    made.claim()
    volume = made.wait_bound()
    world.same("CreateVolume", only(world.double.messages("CreateVolume")))
    world.same("volume", in_order(volume))
    world.same("events", world.events("data", "ProvisioningSucceeded"))
    made.remove()
    world.same("DeleteVolume", only(world.double.messages("DeleteVolume")))


@pytest.mark.parametrize("plugin", [GCE_PD, AZURE_DISK, VSPHERE_VOLUME], ids=lambda plugin: plugin.name)
def test_a_node_is_selected(world, plugin):
    """The zones of an in-tree class and the selected node's labels give the topology that the driver is asked for."""
    made = make_class(world, plugin, binding="WaitForFirstConsumer")
    start(world, "csi-provisioner")
    made.claim({SELECTED_NODE: NODE})
    volume = made.wait_bound()
    world.same("topology", only(world.double.messages("CreateVolume"))["accessibility_requirements"])
    world.same("affinity", in_order(volume)["spec"].get("nodeAffinity"))
    made.remove()


@pytest.mark.parametrize("plugin", [CINDER, VSPHERE_VOLUME], ids=lambda plugin: plugin.name)
def test_a_class_names_no_zone(world, plugin):
    """Without zones of the class, the driver is asked for a volume in the topology of the nodes that have it."""
    made = make_class(world, plugin, allowedTopologies=[])
    start(world, "csi-provisioner")
    made.claim()
    made.wait_bound()
    world.same("topology", only(world.double.messages("CreateVolume"))["accessibility_requirements"])
    made.remove()


TWICE = {"parameters": {"zones": "z-1-a"}, "allowedTopologies": plugins.allowed("z-1-a")}


@pytest.mark.parametrize("plugin", [AWS_EBS, GCE_PD, AZURE_DISK], ids=lambda plugin: plugin.name)
def test_a_class_cannot_be_translated(world, plugin):
    """An in-tree class that names its zones twice has an event on the claim that says so, and no volume."""
    made = make_class(world, plugin, **TWICE)
    start(world, "csi-provisioner")
    made.claim()
    world.same("events", world.events("data", "ProvisioningFailed"))
    assert world.double.messages("CreateVolume") == []


@pytest.mark.parametrize("plugin, parameters", [
    pytest.param(AZURE_DISK, {"fsType": "ext4", "csi.storage.k8s.io/fstype": "xfs"}, id="azure-disk-fstype-twice"),
    pytest.param(AZURE_FILE, {"csi.storage.k8s.io/odd": "1"}, id="azure-file-reserved-parameter"),
    pytest.param(PORTWORX_VOLUME, {"openstorage.io/auth-secret-name": "px"}, id="portworx-volume-half-a-secret"),
])
def test_a_translated_class_is_refused(world, plugin, parameters):
    """An in-tree class whose translation is no good class has an event on the claim, and no volume. Its words are Berth's own."""
    made = make_class(world, plugin, parameters=parameters)
    start(world, "csi-provisioner")
    made.claim()
    world.same("events", [[kind, reason] for kind, reason, _ in world.events("data", "ProvisioningFailed")])
    assert world.double.messages("CreateVolume") == []


@pytest.mark.parametrize("plugin, answer", [
    pytest.param(AWS_EBS, {"context": {"partition": "first"}}, id="aws-ebs-partition"),
    pytest.param(GCE_PD, {"handle": "disk-1"}, id="gce-pd-handle"),
    pytest.param(AZURE_DISK, {"handle": "/disks/@VOLUME@"}, id="azure-disk-handle"),
    pytest.param(AZURE_FILE, {"handle": "share-1"}, id="azure-file-handle"),
])
def test_an_answer_cannot_be_translated(world, plugin, answer):
    """A volume that cannot be one of the plugin is refused with an event, until the driver answers as it should."""
    for name, value in answer.items():
        setattr(world.double, name, value)
    made = make_class(world, plugin)
    start(world, "csi-provisioner")
    made.claim()
    world.same("events", world.events("data", "ProvisioningFailed"))
    if world.of_go:
        assert world.double.messages("DeleteVolume") == [], "it asks for the same volume again, and leaves it"
    else:
        refused = wait_for("the volume to be deleted", lambda: world.double.messages("DeleteVolume"), seconds=60)[0]["volume_id"]
        assert refused == world.double.handle.replace("@VOLUME@", world.double.messages("CreateVolume")[0]["name"])
    for name in answer:
        setattr(world.double, name, getattr(plugin, name))
    made.wait_bound()
    made.remove()


@pytest.mark.parametrize("plugin", [AWS_EBS, GCE_PD], ids=lambda plugin: plugin.name)
def test_a_zone_cannot_be_translated(world, plugin):
    """A volume whose zone has no region is refused with an event. Go's text holds the whole volume, and Berth's its name."""
    [key] = plugin.node_topology
    world.double.places = [{key: "odd"}]
    made = make_class(world, plugin, parameters={"zone": "odd"})
    start(world, "csi-provisioner")
    made.claim()
    world.same("events", [[kind, reason, message.rpartition(" Error:")[2]]
                          for kind, reason, message in world.events("data", "ProvisioningFailed")])
    assert world.get("PersistentVolumeClaim", "data")["status"]["phase"] == "Pending"


# Volumes whose source has no translation.
UNTRANSLATABLE = {
    "aws-ebs-id": (AWS_EBS, {"source": {"volumeID": "aws://us-east-1a/disk-1"}}),
    "gce-pd-two-regions": (GCE_PD, {"metadata": {"labels": {plugins.ZONE: "us-central1-a__europe-west1-b"}}}),
    "azure-disk-kind": (AZURE_DISK, {"source": {"diskName": "disk-1", "diskURI": "https://a.blob.core.windows.net/vhds/disk-1",
                                                "kind": "Dedicated"}}),
    "azure-file-no-namespace": (AZURE_FILE, {"claimRef": None}),
}


def untranslatable(*names):
    return pytest.mark.parametrize("plugin, changes", [pytest.param(*UNTRANSLATABLE[name], id=name) for name in names])


@untranslatable("aws-ebs-id", "azure-disk-kind")
def test_a_volume_that_cannot_be_translated_is_not_deleted(world, plugin, changes):
    """A released volume whose in-tree source cannot be translated has an event that says so, and stays."""
    made = make_class(world, plugin)
    name = in_tree.write_volume(world, plugin, persistentVolumeReclaimPolicy="Delete", **changes)
    made.claim(volumeName=name)
    world.bound("data")
    start(world, "csi-provisioner")
    world.delete("PersistentVolumeClaim", "data")
    world.same("events", world.events(name, "VolumeFailedDelete"))
    assert world.double.messages("DeleteVolume") == []


# -- csi-attacher


def attachment_of(world):
    return f"{world.namespace}-attachment"


def attach(world, plugin, volume):
    world.create(objects.attachment(attachment_of(world), plugin.driver, NODE, volume))


def attach_inline(world, plugin, csi):
    """Attaches an inline volume, as kube-controller-manager writes it for a pod's volume of a plugin."""
    item = objects.attachment(attachment_of(world), plugin.driver, NODE, None)
    item["spec"]["source"] = {"inlineVolumeSpec": {"accessModes": ["ReadWriteOnce"], "csi": csi | {"driver": plugin.driver}}}
    world.create(item)


def wait_attached(world):
    return world.wait("VolumeAttachment", attachment_of(world), lambda item: (item.get("status") or {}).get("attached"))


def detach(world):
    world.delete("VolumeAttachment", attachment_of(world))
    world.wait_gone("VolumeAttachment", attachment_of(world))


def finalizers_of(world, volume):
    return sorted(world.get("PersistentVolume", volume)["metadata"]["finalizers"])


def test_a_volume_of_the_plugin_is_attached(world, plugin):
    """A volume that is older than the CSI driver is attached and detached by it, and keeps the finalizer."""
    volume = in_tree.write_volume(world, plugin)
    start(world, "csi-attacher")
    attach(world, plugin, volume)
    world.same("attached", wait_attached(world))
    world.same("ControllerPublishVolume", only(world.double.messages("ControllerPublishVolume")))
    detach(world)
    world.same("ControllerUnpublishVolume", only(world.double.messages("ControllerUnpublishVolume")))
    world.same("volume", world.get("PersistentVolume", volume))


@pytest.mark.parametrize("plugin", [AWS_EBS], ids=["aws-ebs"])
def test_a_volume_is_given_back(world, plugin):
    """A volume of the plugin that the driver has not taken over loses the finalizer when it is detached."""
    volume = in_tree.write_volume(world, plugin, migrated=False)
    start(world, "csi-attacher")
    attach(world, plugin, volume)
    wait_attached(world)
    world.same("attached", finalizers_of(world, volume))
    detach(world)
    world.wait("PersistentVolume", volume, lambda item: len(item["metadata"]["finalizers"]) == 1)
    world.same("detached", finalizers_of(world, volume))


@pytest.mark.parametrize("plugin, csi", [
    pytest.param(GCE_PD, {"volumeHandle": "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/disk-1", "fsType": "ext4",
                          "volumeAttributes": {"partition": ""}}, id="gce-pd"),
    pytest.param(AZURE_FILE, {"volumeHandle": "#account#share-1#data#@NAMESPACE@", "readOnly": True,
                              "volumeAttributes": {"sharename": "share-1"},
                              "nodeStageSecretRef": {"name": "azure-storage-account-account-secret",
                                                     "namespace": "@NAMESPACE@"}}, id="azure-file"),
    pytest.param(VSPHERE_VOLUME, {"volumeHandle": "[store] kubevols/volume-1.vmdk", "fsType": "ext4"}, id="vsphere-volume"),
])
def test_an_inline_volume_of_the_plugin_is_attached(world, plugin, csi):
    """A pod's own volume of a plugin, as the controller manager has translated it, is attached and detached as it is."""
    start(world, "csi-attacher")
    attach_inline(world, plugin, fill(csi, world))
    world.same("attached", wait_attached(world))
    world.same("ControllerPublishVolume", only(world.double.messages("ControllerPublishVolume")))
    detach(world)
    world.same("ControllerUnpublishVolume", only(world.double.messages("ControllerUnpublishVolume")))


@untranslatable(*UNTRANSLATABLE)
def test_a_volume_that_cannot_be_translated_is_not_attached(world, plugin, changes):
    """An attachment of a volume whose in-tree source cannot be translated has an error that says so, and can be deleted."""
    volume = in_tree.write_volume(world, plugin, **changes)
    start(world, "csi-attacher")
    attach(world, plugin, volume)
    failed = world.wait("VolumeAttachment", attachment_of(world), lambda item: (item.get("status") or {}).get("attachError"))
    world.same("failed", failed)
    detach(world)
    assert world.double.messages("ControllerPublishVolume") == world.double.messages("ControllerUnpublishVolume") == []


@pytest.mark.parametrize("plugin, lists", [(GCE_PD, True)], ids=["gce-pd"])
def test_the_driver_names_a_volume_in_full(world, plugin, lists):
    """ListVolumes names a volume with the project and zone that its translated handle lacks, and is compared all the same."""
    volume = in_tree.write_volume(world, plugin, metadata={})
    in_full = "projects/p/zones/us-central1-a/disks/disk-1"
    world.double.published = {in_full: [plugin.node_id]}
    start(world, "csi-attacher", "--reconcile-sync=500ms")
    attach(world, plugin, volume)
    wait_attached(world)
    world.same("volume", only(world.double.messages("ControllerPublishVolume"))["volume_id"])

    def compare(times):
        """Gives the number of calls that attach after some comparisons more."""
        before = len(world.double.messages("ListVolumes"))
        wait_for("comparisons", lambda: len(world.double.messages("ListVolumes")) >= before + times, seconds=60)
        return len(world.double.messages("ControllerPublishVolume"))

    # The Go program may have compared it while it was being attached.
    calls = compare(2)
    assert compare(3) == calls, "it is attached, as the driver says"
    world.double.published = {in_full: ["projects/p/zones/us-central1-a/instances/another"]}
    wait_for("the volume to be attached again", lambda: compare(1) > calls, seconds=60)
    detach(world)


@pytest.fixture
def real_migration(real_cluster, short, plugin):
    missing = programs.missing(*GO_PROGRAMS)
    if missing:
        pytest.skip(missing)
    made = World(real_cluster, False, None, short, plugin.driver, lambda _: MigratedDriver(short, plugin))
    try:
        prepare(made.begin(on_node=False), plugin)
        yield made
    finally:
        made.end()
        clean_up(made)


@pytest.mark.kubernetes
def test_an_attachment_changes_hands(real_migration, plugin, first):
    """A volume of a plugin that one program has attached is detached by the other one."""
    world = real_migration
    volume = in_tree.write_volume(world, plugin)
    sidecar = start(world, "csi-attacher", of_go=first == "go")
    attach(world, plugin, volume)
    attached = wait_attached(world)
    sidecar.stop()
    published = only(world.double.messages("ControllerPublishVolume"))
    start(world, "csi-attacher", of_go=first != "go")
    detach(world)
    unpublished = only(world.double.messages("ControllerUnpublishVolume"))
    assert attached["metadata"]["annotations"][NODE_ID] == unpublished["node_id"] == published["node_id"] == plugin.node_id
    assert unpublished["volume_id"] == published["volume_id"]
    assert unpublished.get("secrets") == published.get("secrets")


# -- csi-resizer


def grow(world):
    change = {"spec": {"resources": {"requests": {"storage": "2Mi"}}}}
    world.cluster.patch("PersistentVolumeClaim", "data", change, world.namespace)


def bind_older_volume(world, plugin, **changes):
    made = make_class(world, plugin)
    volume = in_tree.write_volume(world, plugin, **changes)
    modes = plugin.spec.get("accessModes", ["ReadWriteOnce"])
    made.claim(volumeName=volume, accessModes=modes)
    world.bound("data")
    return volume


def test_a_volume_of_the_plugin_grows(world, plugin):
    """A volume that is older than the CSI driver is grown by it, and stays one of the plugin."""
    volume = bind_older_volume(world, plugin)
    start(world, "csi-resizer")
    grow(world)
    ends = "FileSystemResizeRequired" if plugin.node_grows else "VolumeResizeSuccessful"
    world.same("events", world.events("data", "Resizing", ends, seconds=60))
    world.same("ControllerExpandVolume", only(world.double.messages("ControllerExpandVolume")))
    world.same("claim", world.get("PersistentVolumeClaim", "data"))
    world.same("volume", world.get("PersistentVolume", volume))


@untranslatable("aws-ebs-id", "gce-pd-two-regions")
def test_a_volume_that_cannot_be_translated_does_not_grow(world, plugin, changes):
    """A claim whose volume of a plugin cannot be translated has an event that says so."""
    bind_older_volume(world, plugin, **changes)
    start(world, "csi-resizer")
    grow(world)
    # The Go program says before that it begins.
    world.same("events", [event for event in world.events("data", "VolumeResizeFailed", seconds=60) if event[0] == "Warning"])
    assert world.double.messages("ControllerExpandVolume") == []
