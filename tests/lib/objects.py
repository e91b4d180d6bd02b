"""Kubernetes objects for tests, as plain dictionaries."""
from lib.standalone import IMAGE


def is_ready(item):
    """Tells whether a Node or a pod has the condition Ready."""
    return any(each["type"] == "Ready" and each["status"] == "True" for each in item.get("status", {}).get("conditions") or [])


def claim(name, storage="64Mi", storage_class=None, block=False, **spec):
    body = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": storage}}, **spec}
    if storage_class is not None:
        body["storageClassName"] = storage_class
    if block:
        body["volumeMode"] = "Block"
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": name}, "spec": body}


def storage_class(name, fs_type=None, binding="WaitForFirstConsumer", provisioner="local.csi.berth.dev", **fields):
    parameters = {"csi.storage.k8s.io/fstype": fs_type} if fs_type else {}
    return {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": name},
            "provisioner": provisioner, "parameters": parameters, "volumeBindingMode": binding,
            "allowVolumeExpansion": True, **fields}


def attributes_class(name, driver, **parameters):
    return {"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttributesClass", "metadata": {"name": name},
            "driverName": driver, "parameters": parameters}


def attachment(name, attacher, node, volume):
    """Gives a VolumeAttachment of a PersistentVolume."""
    return {"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": name},
            "spec": {"attacher": attacher, "nodeName": node, "source": {"persistentVolumeName": volume}}}


def snapshot_class(name, driver="local.csi.berth.dev", policy="Delete", annotations=None):
    return {"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotClass",
            "metadata": {"name": name, "annotations": annotations or {}}, "driver": driver, "deletionPolicy": policy}


def snapshot(name, claim=None, snapshot_class=None, content=None):
    """Gives a VolumeSnapshot of a claim, or of a content for an existing snapshot."""
    source = {"persistentVolumeClaimName": claim} if claim else {"volumeSnapshotContentName": content}
    spec = {"source": source} | ({"volumeSnapshotClassName": snapshot_class} if snapshot_class else {})
    return {"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshot", "metadata": {"name": name},
            "spec": spec}


def block_snapshot(name, claim):
    """Gives a snapshot of a claim whose volume is of the block agent."""
    return {"apiVersion": "storage.berth.dev/v1alpha1", "kind": "BlockSnapshot", "metadata": {"name": name},
            "spec": {"persistentVolumeClaimName": claim}}


def restored_from(snapshot):
    """Gives what a claim's spec needs to be restored from a BlockSnapshot."""
    return {"dataSourceRef": {"apiGroup": "storage.berth.dev", "kind": "BlockSnapshot", "name": snapshot}}


def group_class(name, driver="local.csi.berth.dev", policy="Delete"):
    return {"apiVersion": "groupsnapshot.storage.k8s.io/v1", "kind": "VolumeGroupSnapshotClass", "metadata": {"name": name},
            "driver": driver, "deletionPolicy": policy}


def group_snapshot(name, group_class=None, content=None, **labels):
    """Gives a VolumeGroupSnapshot of the claims with these labels, or of a content for an existing group."""
    source = {"volumeGroupSnapshotContentName": content} if content else {"selector": {"matchLabels": labels}}
    spec = {"source": source} | ({"volumeGroupSnapshotClassName": group_class} if group_class else {})
    return {"apiVersion": "groupsnapshot.storage.k8s.io/v1", "kind": "VolumeGroupSnapshot", "metadata": {"name": name},
            "spec": spec}


def group_content(name, handle, snapshot_handles, group, namespace, driver, policy="Delete"):
    """Gives a content for a group that exists in the driver, to be bound to the named VolumeGroupSnapshot."""
    return {"apiVersion": "groupsnapshot.storage.k8s.io/v1", "kind": "VolumeGroupSnapshotContent", "metadata": {"name": name},
            "spec": {"source": {"groupSnapshotHandles": {"volumeGroupSnapshotHandle": handle,
                                                         "volumeSnapshotHandles": snapshot_handles}},
                     "driver": driver, "deletionPolicy": policy,
                     "volumeGroupSnapshotRef": {"name": group, "namespace": namespace}}}


def labelled(item, **labels):
    """Gives the object with these labels."""
    return item | {"metadata": item["metadata"] | {"labels": labels}}


def snapshot_content(name, handle, snapshot, driver="local.csi.berth.dev", policy="Delete"):
    """Gives a content for a snapshot that exists in the driver, to be bound to the named VolumeSnapshot."""
    return {"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotContent", "metadata": {"name": name},
            "spec": {"source": {"snapshotHandle": handle}, "driver": driver, "deletionPolicy": policy,
                     "volumeSnapshotRef": {"name": snapshot, "namespace": "default"}}}


def pod(name, script, claims=(), mounts=None, devices=None, restart="Never", read_only=(), container=None,
        volumes=(), **spec):
    """Gives a pod that runs a shell script. Each claim is mounted at /<claim>, unless `mounts` or `devices` say
    otherwise."""
    if mounts is None:
        mounts = [] if devices else [{"name": c, "mountPath": f"/{c}"} for c in claims]
    body = {"name": "main", "image": IMAGE, "command": ["/bin/sh", "-c", script], "volumeMounts": mounts,
            **(container or {})}
    if devices:
        body["volumeDevices"] = devices
    sources = [{"name": c, "persistentVolumeClaim": {"claimName": c, "readOnly": c in read_only}} for c in claims]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {"restartPolicy": restart, "terminationGracePeriodSeconds": 2, "containers": [body],
                     "volumes": sources + list(volumes), **spec}}
