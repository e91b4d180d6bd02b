"""A mount pod made by hand: a privileged pod of busybox that sees the kubelet folder and /dev, and its registration."""
import json

from lib import objects

PLUGIN = "example.com/by-hand"


def pod(name, kubelet, propagation="Bidirectional", script="sleep 100000"):
    """`propagation` None: the pod does not see the kubelet folder."""
    mounts, volumes = [], []
    if propagation:
        mounts = [{"name": "kubelet", "mountPath": str(kubelet), "mountPropagation": propagation}]
        volumes = [{"name": "kubelet", "hostPath": {"path": str(kubelet), "type": "Directory"}}]
    return objects.pod(name, script, mounts=mounts, volumes=volumes, terminationGracePeriodSeconds=1,
                       container={"securityContext": {"privileged": True}})


def registration(running):
    """Gives the registration of a running pod, as a dictionary."""
    meta = running["metadata"]
    return {"podNamespace": meta["namespace"], "podName": meta["name"], "podUID": meta["uid"], "containerName": "main"}


def path(kubelet, plugin=PLUGIN):
    return kubelet / "plugin-containers" / (plugin.replace("/", "~") + ".json")


def register(berth, name, plugin=PLUGIN):
    """Waits until a pod runs, registers it, and gives its container's id."""
    running = berth.wait_phase("pod", name, "Running")
    place = path(berth.data / "kubelet", plugin)
    fresh = place.with_name("." + place.name)
    fresh.write_text(json.dumps(registration(running)))
    fresh.rename(place)
    return running["status"]["containerStatuses"][0]["containerID"].partition("://")[2]
