"""Flows of a volume whose utilities are only in a mount pod."""
from data import check, stay, write
from lib import objects
from lib.fuse_double import PROGRAM

PLUGIN = "kubernetes.io/glusterfs"
# A file system of the tests stands in for GlusterFS: it serves a folder of the host from within the mount pod.
MOUNT = """#!/bin/sh
setsid /double/fuse_double --folder /share --mount-point "$2" --switches /none --source "$1" --type glusterfs &
until grep -q " $2 fuse" /proc/self/mountinfo /proc/mounts; do sleep 0.02; done
"""
REGISTRATION = ('{"podNamespace": "$POD_NAMESPACE", "podName": "$POD_NAME", "podUID": "$POD_UID", '
                '"containerName": "main"}')


def host_path(name, path):
    return {"name": name, "hostPath": {"path": str(path)}}


def mount_pod(s, share):
    """Makes a pod that registers itself for the plugin, as berth-init does."""
    kubelet = s.berth.data / "kubelet"
    file = kubelet / "plugin-containers" / f"{PLUGIN.replace('/', '~')}.json"
    script = f"""
mkdir -p {file.parent}
cat > /bin/mount.glusterfs <<'END'
{MOUNT}END
chmod 755 /bin/mount.glusterfs
cat > {file.parent}/.new <<END
{REGISTRATION}
END
mv {file.parent}/.new {file}
trap 'exit 0' TERM
echo ready
while :; do sleep 0.1; done
"""
    fields = {"POD_NAMESPACE": "metadata.namespace", "POD_NAME": "metadata.name", "POD_UID": "metadata.uid"}
    container = {
        "securityContext": {"privileged": True},
        "env": [{"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}} for name, path in fields.items()]}
    libraries = ("/lib", "/lib64", "/usr/lib")
    volumes = [host_path("kubelet", kubelet), host_path("share", share), host_path("double", PROGRAM.parent),
               *(host_path(f"lib{n}", path) for n, path in enumerate(libraries))]
    mounted = [{"name": "kubelet", "mountPath": str(kubelet), "mountPropagation": "Bidirectional"},
               {"name": "share", "mountPath": "/share"}, {"name": "double", "mountPath": "/double"},
               *({"name": f"lib{n}", "mountPath": path, "readOnly": True} for n, path in enumerate(libraries))]
    return objects.pod("utilities", script, mounts=mounted, volumes=volumes, container=container, restart="Always")


def helper_mount(s):
    """Makes a mount pod and, one after the other, two pods whose volume its utility mounts, and deletes everything."""
    share = s.berth.folder / "share"
    share.mkdir(exist_ok=True)
    endpoints = {"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "servers"},
                 "subsets": [{"addresses": [{"ip": "192.0.2.7"}], "ports": [{"port": 1}]}]}
    volume = {"name": "data", "glusterfs": {"endpoints": "servers", "path": "scratch"}}
    mounted = [{"name": "data", "mountPath": "/data"}]
    s.create(endpoints)
    s.running(mount_pod(s, share))
    s.running(objects.pod("user", stay(write("/data")), volumes=[volume], mounts=mounted))
    s.gone("pods", "user")
    s.run(objects.pod("next", check("/data"), volumes=[volume], mounts=mounted))
    s.gone("pods", "next")
    s.gone("pods", "utilities")
    s.gone("endpoints", "servers")
    for path in share.iterdir():
        path.unlink()
    share.rmdir()
    s.nothing_left()
