"""A table of the documented rules of each kind: names, a minimal valid object, columns, and the rules that differ
from kind to kind."""
import copy
import dataclasses

DRIVER = "conformance.example.com"
# No node has this label, so no pod runs.
NOWHERE = {"conformance.example.com/nowhere": "true"}


@dataclasses.dataclass(frozen=True, eq=False)
class Kind:
    kind: str
    api_version: str
    plural: str
    namespaced: bool
    columns: tuple            # names in their order; "*" in front: with -o wide only
    body: dict = dataclasses.field(default_factory=dict)  # a minimal object, without metadata
    short: tuple = ()
    status: bool = False      # has /status
    delete_gives_object: bool = False
    unconditional_update: bool = True   # PUT without a resourceVersion
    create_on_update: bool = False      # PUT of what is missing
    generation: object = None           # of a new object; None: unset
    optional: bool = False              # comes with add-ons; not on every cluster

    @property
    def group(self):
        return self.api_version.rpartition("/")[0]

    @property
    def version(self):
        return self.api_version.rpartition("/")[2]

    @property
    def singular(self):
        return self.kind.lower()

    @property
    def resource(self):
        """Gives the name that messages use."""
        return f"{self.plural}.{self.group}" if self.group else self.plural

    @property
    def qualified_kind(self):
        return f"{self.kind}.{self.group}" if self.group else self.kind

    @property
    def root(self):
        return f"/apis/{self.api_version}" if self.group else f"/api/{self.api_version}"

    def path(self, ns=None, name=None, sub=None):
        parts = [self.root]
        if self.namespaced and ns:
            parts += ["namespaces", ns]
        parts.append(self.plural)
        return "/".join(parts + [part for part in (name, sub) if part])

    def new(self, name, ns=None, **fields):
        """Gives a minimal object, in which `fields` replace those of the body."""
        metadata = {"name": name}
        if self.namespaced and ns:
            metadata["namespace"] = ns
        made = {"apiVersion": self.api_version, "kind": self.kind, "metadata": metadata,
                **copy.deepcopy(self.body), **fields}
        if self.kind == "Event" and ns:
            # An event is in the namespace of the object that it is about.
            made["involvedObject" if self.group == "" else "regarding"]["namespace"] = ns
        return made

    def __str__(self):
        return self.kind if self.kind != "Event" or not self.group else "events.k8s.io-Event"


def columns(text):
    return tuple(part.strip() for part in text.split("|"))


POD_SPEC = {"containers": [{"name": "main", "image": "conformance.example.com/none:1"}], "nodeSelector": NOWHERE,
            "schedulerName": DRIVER}
VOLUME_SPEC = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": DRIVER,
               "persistentVolumeReclaimPolicy": "Retain", "csi": {"driver": DRIVER, "volumeHandle": "handle"}}
CLAIM_SPEC = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
              "storageClassName": DRIVER}
STORAGE = "storage.k8s.io/v1"

KINDS = (
    Kind("Namespace", "v1", "namespaces", False, columns("Name|Status|Age"), short=("ns",), status=True,
         delete_gives_object=True),
    Kind("Node", "v1", "nodes", False,
         columns("Name|Status|Roles|Age|Version|*Internal-IP|*External-IP|*OS-Image|*Kernel-Version"
                 "|*Container-Runtime"), short=("no",), status=True),
    Kind("Pod", "v1", "pods", True,
         columns("Name|Ready|Status|Restarts|Age|*IP|*Node|*Nominated Node|*Readiness Gates"), {"spec": POD_SPEC},
         short=("po",), status=True, delete_gives_object=True, generation=1),
    Kind("PersistentVolume", "v1", "persistentvolumes", False,
         columns("Name|Capacity|Access Modes|Reclaim Policy|Status|Claim|StorageClass|VolumeAttributesClass|Reason"
                 "|Age|*VolumeMode"), {"spec": VOLUME_SPEC}, short=("pv",), status=True, delete_gives_object=True),
    Kind("PersistentVolumeClaim", "v1", "persistentvolumeclaims", True,
         columns("Name|Status|Volume|Capacity|Access Modes|StorageClass|VolumeAttributesClass|Age|*VolumeMode"),
         {"spec": CLAIM_SPEC}, short=("pvc",), status=True, delete_gives_object=True),
    Kind("Secret", "v1", "secrets", True, columns("Name|Type|Data|Age"), {"data": {"key": "dmFsdWU="}}),
    Kind("ConfigMap", "v1", "configmaps", True, columns("Name|Data|Age"), {"data": {"key": "value"}}, short=("cm",)),
    Kind("ServiceAccount", "v1", "serviceaccounts", True, columns("Name|Age"), short=("sa",),
         delete_gives_object=True),
    Kind("Endpoints", "v1", "endpoints", True, columns("Name|Endpoints|Age"),
         {"subsets": [{"addresses": [{"ip": "10.0.0.7"}], "ports": [{"port": 1, "protocol": "TCP"}]}]}, short=("ep",),
         create_on_update=True),
    Kind("Event", "v1", "events", True,
         columns("Last Seen|Type|Reason|Object|*Subobject|*Source|Message|*First Seen|*Count|*Name"),
         {"involvedObject": {"kind": "Pod", "name": "some-pod", "apiVersion": "v1"}, "reason": "Tested",
          "message": "a test", "type": "Normal", "source": {"component": "conformance"}, "count": 3,
          "firstTimestamp": "2024-01-01T00:00:00Z", "lastTimestamp": "2024-01-01T00:00:00Z"}, short=("ev",),
         create_on_update=True),
    Kind("Event", "events.k8s.io/v1", "events", True,
         columns("Last Seen|Type|Reason|Object|*Subobject|*Source|Message|*First Seen|*Count|*Name"),
         {"regarding": {"kind": "Pod", "name": "some-pod", "apiVersion": "v1"}, "reason": "Tested",
          "note": "a test", "type": "Normal", "action": "Testing", "eventTime": "2024-01-01T00:00:00.000000Z",
          "reportingController": "conformance.example.com/test", "reportingInstance": "one"}, short=("ev",),
         create_on_update=True),
    Kind("Lease", "coordination.k8s.io/v1", "leases", True, columns("Name|Holder|Age"),
         {"spec": {"holderIdentity": "me", "leaseDurationSeconds": 40}}, unconditional_update=False,
         create_on_update=True),
    Kind("StorageClass", STORAGE, "storageclasses", False,
         columns("Name|Provisioner|ReclaimPolicy|VolumeBindingMode|AllowVolumeExpansion|Age"),
         {"provisioner": DRIVER}, short=("sc",), delete_gives_object=True),
    Kind("VolumeAttachment", STORAGE, "volumeattachments", False, columns("Name|Attacher|PV|Node|Attached|Age"),
         {"spec": {"attacher": DRIVER, "nodeName": "conformance-nowhere",
                   "source": {"persistentVolumeName": "conformance-none"}}}, status=True, delete_gives_object=True,
         unconditional_update=False),
    Kind("CSINode", STORAGE, "csinodes", False, columns("Name|Drivers|Age"),
         {"spec": {"drivers": [{"name": DRIVER, "nodeID": "node", "topologyKeys": []}]}}, delete_gives_object=True,
         unconditional_update=False),
    Kind("CSIDriver", STORAGE, "csidrivers", False,
         columns("Name|AttachRequired|PodInfoOnMount|StorageCapacity|TokenRequests|RequiresRepublish|Modes|Age"),
         {"spec": {}}, delete_gives_object=True, unconditional_update=False),
    Kind("CSIStorageCapacity", STORAGE, "csistoragecapacities", True, columns("Name|Created At"),
         {"storageClassName": DRIVER, "capacity": "1Gi"}, unconditional_update=False),
    Kind("VolumeAttributesClass", STORAGE, "volumeattributesclasses", False, columns("Name|DriverName|Age"),
         {"driverName": DRIVER, "parameters": {"iops": "100"}}, short=("vac",), delete_gives_object=True),
    Kind("RuntimeClass", "node.k8s.io/v1", "runtimeclasses", False, columns("Name|Handler|Age"),
         {"handler": "runc"}, unconditional_update=False, create_on_update=True),
    Kind("DaemonSet", "apps/v1", "daemonsets", True,
         columns("Name|Desired|Current|Ready|Up-to-date|Available|Node Selector|Age|*Containers|*Images|*Selector"),
         {"spec": {"selector": {"matchLabels": {"app": "conformance"}},
                   "template": {"metadata": {"labels": {"app": "conformance"}},
                                "spec": {"containers": POD_SPEC["containers"], "nodeSelector": NOWHERE}}}},
         short=("ds",), status=True, generation=1),
    Kind("ControllerRevision", "apps/v1", "controllerrevisions", True, columns("Name|Controller|Revision|Age"),
         {"revision": 7, "data": {"spec": {}}}),
    Kind("VolumeSnapshot", "snapshot.storage.k8s.io/v1", "volumesnapshots", True,
         columns("Name|ReadyToUse|SourcePVC|SourceSnapshotContent|RestoreSize|SnapshotClass|SnapshotContent"
                 "|CreationTime|Age"),
         {"spec": {"source": {"persistentVolumeClaimName": "none"}, "volumeSnapshotClassName": DRIVER}},
         short=("vs",), status=True, unconditional_update=False, generation=1, optional=True),
    Kind("VolumeSnapshotContent", "snapshot.storage.k8s.io/v1", "volumesnapshotcontents", False,
         columns("Name|ReadyToUse|RestoreSize|DeletionPolicy|Driver|VolumeSnapshotClass|VolumeSnapshot"
                 "|VolumeSnapshotNamespace|Age"),
         {"spec": {"deletionPolicy": "Retain", "driver": DRIVER, "source": {"snapshotHandle": "handle"},
                   "volumeSnapshotRef": {"name": "none", "namespace": "conformance-none"}}},
         short=("vsc", "vscs"), status=True, unconditional_update=False, generation=1, optional=True),
    Kind("VolumeSnapshotClass", "snapshot.storage.k8s.io/v1", "volumesnapshotclasses", False,
         columns("Name|Driver|DeletionPolicy|Age"), {"driver": DRIVER, "deletionPolicy": "Retain"},
         short=("vsclass", "vsclasses"), unconditional_update=False, generation=1, optional=True),
    Kind("VolumeGroupSnapshot", "groupsnapshot.storage.k8s.io/v1", "volumegroupsnapshots", True,
         columns("Name|ReadyToUse|VolumeGroupSnapshotClass|VolumeGroupSnapshotContent|CreationTime|Age"),
         {"spec": {"source": {"selector": {"matchLabels": {"app": "none"}}}, "volumeGroupSnapshotClassName": DRIVER}},
         short=("vgs",), status=True, unconditional_update=False, generation=1, optional=True),
    Kind("VolumeGroupSnapshotContent", "groupsnapshot.storage.k8s.io/v1", "volumegroupsnapshotcontents", False,
         columns("Name|ReadyToUse|DeletionPolicy|Driver|VolumeGroupSnapshotClass|VolumeGroupSnapshotNamespace"
                 "|VolumeGroupSnapshot|Age"),
         {"spec": {"deletionPolicy": "Retain", "driver": DRIVER,
                   "source": {"groupSnapshotHandles": {"volumeGroupSnapshotHandle": "group", "volumeSnapshotHandles": ["one"]}},
                   "volumeGroupSnapshotRef": {"name": "none", "namespace": "conformance-none"}}},
         short=("vgsc", "vgscs"), status=True, unconditional_update=False, generation=1, optional=True),
    Kind("VolumeGroupSnapshotClass", "groupsnapshot.storage.k8s.io/v1", "volumegroupsnapshotclasses", False,
         columns("Name|Driver|DeletionPolicy|Age"), {"driver": DRIVER, "deletionPolicy": "Retain"},
         short=("vgsclass", "vgsclasses"), unconditional_update=False, generation=1, optional=True),
)

BUILT_IN = tuple(kind for kind in KINDS if not kind.optional)

CRD = Kind("CustomResourceDefinition", "apiextensions.k8s.io/v1", "customresourcedefinitions", False, (),
           short=("crd", "crds"), status=True, unconditional_update=False, generation=1)


def of(name, group=None):
    """Gives the kind of this name: of the core group, unless only another group has it or another is asked for."""
    for kind in (*KINDS, CRD):
        if kind.kind == name and (group is None or kind.group == group):
            return kind
    raise KeyError(name)


CONFIG_MAP = of("ConfigMap")
SECRET = of("Secret")
POD = of("Pod")
NODE = of("Node")
NAMESPACE = of("Namespace")
VOLUME = of("PersistentVolume")
CLAIM = of("PersistentVolumeClaim")
STORAGE_CLASS = of("StorageClass")
ATTACHMENT = of("VolumeAttachment")
DAEMON_SET = of("DaemonSet")
LEASE = of("Lease")
EVENT = of("Event")
SERVICE_ACCOUNT = of("ServiceAccount")
