"""Classes and volumes of in-tree plugins, which CSI drivers have replaced."""
import json

from lib import objects
from lib.kubernetes import plugins

FAST = ("--timeout=5s", "--retry-interval-start=200ms", "--retry-interval-max=1s")
# For a double whose topology is none of the plugin's zones, because a volume of another place cannot be one of the plugin.
NO_TOPOLOGY = ("--feature-gates=Topology=false",)
MIGRATED_TO, PROVISIONED_BY = "pv.kubernetes.io/migrated-to", "pv.kubernetes.io/provisioned-by"


def fill(item, world):
    """Gives an item of plugins.py for the namespace of a World."""
    return json.loads(json.dumps(item).replace("@NAMESPACE@", world.namespace))


class Plugin:
    """A plugin with a class in the World of its driver."""

    def __init__(self, world, plugin=plugins.AWS_EBS, **fields):
        self.world = world
        self.plugin = plugin
        self._volume = None
        fields = {"binding": "Immediate"} | fill(fields, world)
        world.create(objects.storage_class(world.storage_class, provisioner=plugin.provisioner, **fields))

    def claim(self, annotations=None, **spec):
        """Makes the claim."""
        claim = objects.claim("data", "1Mi", self.world.storage_class, **spec)
        claim["metadata"]["annotations"] = dict(annotations or {})
        if not self.world.cluster.real:
            # On a real cluster kube-controller-manager has the driver take the claim over. Here a person does.
            claim["metadata"]["annotations"]["volume.kubernetes.io/storage-resizer"] = self.world.driver
            if "volumeName" not in spec:
                claim["metadata"]["annotations"][MIGRATED_TO] = self.world.driver
        self.world.create(claim)

    def bound(self, go=None, arguments=NO_TOPOLOGY):
        """Makes a claim, and gives (its volume, which is one of the plugin; the provisioner). `go`: as for World.start."""
        provisioner = self.world.start("csi-provisioner", *FAST, *arguments, of_go=go)
        self.claim()
        return self.wait_bound()["metadata"]["name"], provisioner

    def wait_bound(self):
        """Waits for the claim's volume, and gives it."""
        _, volume = self.world.bound("data")
        assert self.plugin.source_field in volume["spec"], "it is a volume of the plugin"
        self._volume = volume["metadata"]["name"]
        if not self.world.cluster.real:
            # This, too, kube-controller-manager does.
            self.world.cluster.patch("PersistentVolume", self._volume,
                                     {"metadata": {"annotations": {MIGRATED_TO: self.world.driver}}})
        return self.world.wait("PersistentVolume", self._volume, lambda item: MIGRATED_TO in item["metadata"]["annotations"])

    def remove(self):
        """Deletes the claim, because no other World of the driver may meet its volume."""
        if self._volume:
            self.world.delete("PersistentVolumeClaim", "data")
            self.world.wait_gone("PersistentVolume", self._volume)
            self._volume = None


def older_volume_of(world):
    """Gives the name of the volume that write_volume makes."""
    return f"{world.namespace}-volume"


def write_volume(world, plugin, source=None, metadata=None, migrated=True, **spec):
    """Makes a volume of a plugin that is older than its driver, reserved for the claim "data", and gives its name. `source` and
    `metadata` take the place of the plugin's. `migrated`: kube-controller-manager has the driver take it over."""
    name = older_volume_of(world)
    meta = {"annotations": {}} | fill(plugin.metadata if metadata is None else metadata, world) | {"name": name}
    if migrated:
        meta["annotations"] |= {PROVISIONED_BY: plugin.provisioner, MIGRATED_TO: plugin.driver}
    world.create({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": meta, "spec": {
        "capacity": {"storage": "1Mi"}, "accessModes": ["ReadWriteOnce"], "persistentVolumeReclaimPolicy": "Retain",
        "storageClassName": world.storage_class, "claimRef": {"namespace": world.namespace, "name": "data"},
        plugin.source_field: source or plugin.source, **plugin.spec, **spec}})
    world.wait("PersistentVolume", name, lambda item: item["status"]["phase"] == "Available")
    return name
