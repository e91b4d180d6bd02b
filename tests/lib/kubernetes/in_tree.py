"""Volumes of an in-tree plugin, which a CSI driver has replaced."""
from lib import objects

FAST = ("--timeout=5s", "--retry-interval-start=200ms", "--retry-interval-max=1s")
DRIVER = "ebs.csi.aws.com"


class Plugin:
    """The plugin that DRIVER replaces, with a class of the plugin in a World of that driver."""

    def __init__(self, world):
        self.world = world
        self._volume = None
        world.create(objects.storage_class(world.storage_class, binding="Immediate", provisioner="kubernetes.io/aws-ebs"))

    def bound(self, go=None):
        """Makes a claim, and gives (its volume, which is one of the plugin; the provisioner). `go`: as for World.start."""
        # The double's topology is none of the plugin's zones, and a volume without a zone cannot be one of the plugin.
        provisioner = self.world.start("csi-provisioner", *FAST, "--feature-gates=Topology=false", of_go=go)
        claim = objects.claim("data", "1Mi", self.world.storage_class)
        if not self.world.cluster.real:
            # On a real cluster kube-controller-manager has the driver take the claim over. Here a person does.
            claim["metadata"]["annotations"] = {"pv.kubernetes.io/migrated-to": self.world.driver,
                                                "volume.kubernetes.io/storage-resizer": self.world.driver}
        self.world.create(claim)
        _, volume = self.world.bound("data")
        assert "awsElasticBlockStore" in volume["spec"], "it is a volume of the plugin"
        self._volume = volume["metadata"]["name"]
        return self._volume, provisioner

    def remove(self):
        """Deletes the claim, because no other World of the driver may meet its volume."""
        if self._volume:
            self.world.delete("PersistentVolumeClaim", "data")
            self.world.wait_gone("PersistentVolume", self._volume)
            self._volume = None
