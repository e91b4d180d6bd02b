"""The in-tree plugins that CSI drivers have replaced: what a class and a volume of each look like, and its driver's answers.

In these texts @NAMESPACE@ is the namespace of a case, and @VOLUME@ the name of the volume that the driver is asked for."""
import dataclasses

BETA_ZONE, BETA_REGION = "failure-domain.beta.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/region"
ZONE, REGION = "topology.kubernetes.io/zone", "topology.kubernetes.io/region"
PORTWORX_SECRET = {"openstorage.io/auth-secret-name": "px", "openstorage.io/auth-secret-namespace": "@NAMESPACE@"}


def allowed(*zones, key=ZONE):
    """Gives a class's allowedTopologies."""
    return [{"matchLabelExpressions": [{"key": key, "values": list(zones)}]}]


@dataclasses.dataclass(frozen=True)
class InTreePlugin:
    name: str
    driver: str  # that replaces it
    source_field: str  # of a PersistentVolume's spec
    source: dict  # of a volume that is older than the driver
    node_id: str  # of NODE of the cases, as the driver names it
    handle: str  # of a volume that the driver makes
    node_topology: dict = dataclasses.field(default_factory=dict)  # the driver's labels of that node; none: it has no topology
    parameters: dict = dataclasses.field(default_factory=dict)  # of a class
    allowed_topologies: list = dataclasses.field(default_factory=list)
    context: dict = dataclasses.field(default_factory=dict)  # of a volume that the driver makes
    places: list = dataclasses.field(default_factory=list)  # its accessible topology
    metadata: dict = dataclasses.field(default_factory=dict)  # of the older volume
    spec: dict = dataclasses.field(default_factory=dict)  # of the older volume, beside its source
    node_grows: bool = True  # the node has a part in a volume's growth

    @property
    def provisioner(self):
        return f"kubernetes.io/{self.name}"


AWS_EBS = InTreePlugin(
    name="aws-ebs", driver="ebs.csi.aws.com", source_field="awsElasticBlockStore",
    source={"volumeID": "aws://us-east-1a/vol-0123456789abcdef0", "fsType": "xfs", "partition": 2, "readOnly": True},
    node_id="i-0123456789abcdef0", handle="vol-@VOLUME@", node_topology={"topology.ebs.csi.aws.com/zone": "us-east-1a"},
    parameters={"type": "io1", "iopsPerGB": "10", "fsType": "xfs", "zones": "us-east-1b,us-east-1a"},
    context={"partition": "1"}, places=[{"topology.ebs.csi.aws.com/zone": "us-east-1a"}],
    metadata={"labels": {BETA_ZONE: "us-east-1a", BETA_REGION: "us-east-1"}})

# A volume with two zones is a regional disk.
GCE_PD = InTreePlugin(
    name="gce-pd", driver="pd.csi.storage.gke.io", source_field="gcePersistentDisk",
    source={"pdName": "disk-1", "fsType": "ext4", "partition": 1},
    node_id="projects/p/zones/us-central1-a/instances/n", handle="projects/p/regions/us-central1/disks/@VOLUME@",
    node_topology={"topology.gke.io/zone": "us-central1-a"},
    parameters={"type": "pd-ssd", "replication-type": "regional-pd", "fstype": "ext4", "zones": "us-central1-b,us-central1-a"},
    places=[{"topology.gke.io/zone": "us-central1-a"}, {"topology.gke.io/zone": "us-central1-b"}],
    metadata={"labels": {ZONE: "us-central1-a__us-central1-b", REGION: "us-central1"}},
    spec={"accessModes": ["ReadWriteOnce", "ReadOnlyMany"]})

AZURE_DISK = InTreePlugin(
    name="azure-disk", driver="disk.csi.azure.com", source_field="azureDisk",
    source={"diskName": "disk-1", "diskURI": "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/disks/disk-1",
            "cachingMode": "ReadWrite", "fsType": "ext4", "kind": "Managed", "readOnly": False},
    node_id="vm-1", handle="/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/disks/@VOLUME@",
    node_topology={"topology.disk.csi.azure.com/zone": "eastus-1"},
    parameters={"storageaccounttype": "Premium_LRS", "kind": "Managed", "cachingMode": "ReadOnly", "fsType": "ext4"},
    # "0" is a failure domain of a region without zones.
    allowed_topologies=allowed("eastus-1", "0"), context={"cachingMode": "ReadOnly", "fsType": "ext4"},
    places=[{"topology.disk.csi.azure.com/zone": "eastus-1"}],
    spec={"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
        {"key": "topology.disk.csi.azure.com/zone", "operator": "In", "values": ["eastus-1"]}]}]}}})

# The secret's namespace is that of the claim, because the source names none.
AZURE_FILE = InTreePlugin(
    name="azure-file", driver="file.csi.azure.com", source_field="azureFile",
    source={"secretName": "azure-storage-account-account-secret", "shareName": "share-1", "readOnly": True},
    node_id="vm-1", handle="group#account#share#@VOLUME@#default",
    parameters={"skuName": "Standard_LRS", "location": "eastus"},
    metadata={"annotations": {"kubernetes.io/azure-file-resource-group": "group"}},
    spec={"accessModes": ["ReadWriteMany"], "mountOptions": ["dir_mode=0777"]}, node_grows=False)

# The plugin knows a volume by its path, and the driver by an id.
VSPHERE_VOLUME = InTreePlugin(
    name="vsphere-volume", driver="csi.vsphere.vmware.com", source_field="vsphereVolume",
    source={"volumePath": "[store] kubevols/volume-1.vmdk", "fsType": "ext4", "storagePolicyName": "gold"},
    node_id="421f-vm", handle="id-of-@VOLUME@",
    node_topology={"topology.csi.vmware.com/zone": "zone-a", "topology.csi.vmware.com/region": "region-1"},
    parameters={"diskformat": "thin", "datastore": "store", "storagePolicyName": "gold", "fstype": "ext4", "iopsLimit": "100",
                "hostFailuresToTolerate": "1"},
    allowed_topologies=allowed("zone-a", key=BETA_ZONE), context={"initialvolumefilepath": "[store] kubevols/@VOLUME@.vmdk"},
    places=[{"topology.csi.vmware.com/zone": "zone-a", "topology.csi.vmware.com/region": "region-1"}],
    metadata={"labels": {ZONE: "zone-a", REGION: "region-1"}})

CINDER = InTreePlugin(
    name="cinder", driver="cinder.csi.openstack.org", source_field="cinder",
    source={"volumeID": "0dc3a8b1", "fsType": "ext4", "readOnly": True},
    node_id="vm-1", handle="@VOLUME@", node_topology={"topology.cinder.csi.openstack.org/zone": "nova"},
    parameters={"type": "fast", "availability": "nova", "fsType": "ext4"}, allowed_topologies=allowed("nova"),
    places=[{"topology.cinder.csi.openstack.org/zone": "nova"}],
    spec={"nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
        {"key": BETA_ZONE, "operator": "In", "values": ["nova"]},
        {"key": BETA_REGION, "operator": "In", "values": ["region-1"]}]}]}}})

PORTWORX_VOLUME = InTreePlugin(
    name="portworx-volume", driver="pxd.portworx.com", source_field="portworxVolume",
    source={"volumeID": "px-1", "fsType": "ext4"}, node_id="px-node-1", handle="px-@VOLUME@",
    parameters={"repl": "2", "fs": "ext4", **PORTWORX_SECRET}, metadata={"annotations": PORTWORX_SECRET})

ALL = (AWS_EBS, GCE_PD, AZURE_DISK, AZURE_FILE, VSPHERE_VOLUME, CINDER, PORTWORX_VOLUME)
