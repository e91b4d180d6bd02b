"""Kubernetes objects for tests, as plain dictionaries."""
from lib.standalone import IMAGE


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


def pod(name, script, claims=(), mounts=None, devices=None, restart="Never", read_only=(), container=None,
        volumes=(), **spec):
    """A pod that runs a shell script; each claim is mounted at /<claim>, unless `mounts` or `devices` say
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
