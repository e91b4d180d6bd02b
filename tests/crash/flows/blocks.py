"""Flows of a storage cluster's volumes, which the block operator makes and the block agent attaches."""
import os
import shutil

from data import check, larger_than, stay, write
from survivor import beside_agent
from flows.flexvolumes import ask_to_grow, await_growth
from lib import block_agent, objects, standalone

OUT_OF_SERVICE = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}
HERE = {"nodeSelector": {"kubernetes.io/hostname": "node-a"}}


def images(s):
    return s.berth.folder / "images"


def begin(s, claims="Retain"):
    """Makes a storage cluster with its class, and starts the agent."""
    images(s).mkdir(exist_ok=True)
    s.agent.start(env=s.environment)
    make_cluster(s, block_agent.storage_cluster("main", images(s)), claims)


def make_cluster(s, cluster, claims):
    cluster["spec"]["cleanup"] = {"claims": claims, "unmapTimeoutSeconds": 5}
    s.create(cluster)
    s.create(objects.storage_class("of-main", provisioner="block.berth.dev", binding="Immediate",
                                   parameters={"cluster": "main"}))
    s.step("the cluster to be ready",
           lambda: s.api.get("storageclusters", "main").get("status", {}).get("phase") == "Ready")


def end(s):
    """Checks that nothing is mapped, fenced, recorded or in the folder, and that the driver is removed with its
    agent."""
    nothing_used(s)
    s.step("the devices to be gone", lambda: not block_agent.loops_of(images(s)))
    s.step("the images to be gone", lambda: not [path for path in images(s).rglob("*") if path.is_file()])
    remove_agent(s)
    shutil.rmtree(images(s))


def nothing_used(s):
    s.nothing_left()
    s.quiet()
    s.step("the agent to have nothing on record", lambda: not s.agent.records())
    s.step("the fences to be gone", lambda: not s.api.items("volumefences"))
    s.step("no node to owe anything", lambda: not s.api.items("nodecleanups"))


def remove_agent(s):
    s.gone("storageclasses", "of-main")
    stop(s)
    shutil.rmtree(s.berth.data / "volume-plugins" / "berth.dev~block")
    store = s.berth.data / "kubelet" / "plugins" / "kubernetes.io" / "flexvolume"
    # os.walk takes a folder that is removed meanwhile for an empty one.
    s.step("the copies of the driver to be gone", lambda: not any(files for _, _, files in os.walk(store)))
    shutil.rmtree(s.berth.data / "block-agent")


def stop(s):
    """Stops the agent in order, and again if a crash interrupts that."""
    def ended():
        process = s.agent.process
        if process.poll() is None:
            if not standalone.hears_sigterm(process.pid):
                return False  # the agent was only just started
            process.terminate()
            process.wait(30)
        return process.returncode == 0
    s.step("the agent to end", ended)
    s.agent.process = None


def entries_of(s, volume):
    return (s.api.get("volumefences", volume) or {}).get("attachments", [])


def name_of(s, claim):
    return s.volume_of(claim)["metadata"]["name"]


def image_of(s, claim):
    return s.volume_of(claim)["spec"]["flexVolume"]["options"]["image"]


@beside_agent
def block(s):
    """A volume is made, written, grown, copied, restored and shared. A node that is out of service has it, and it is detached
    there."""
    begin(s)
    s.create(objects.claim("data", "16Mi", "of-main"))
    s.running(objects.pod("writer", stay(write("/data")), ["data"], **HERE))
    # Its ext4 grows for the next pod, where the kernel does not let it grow while it is mounted.
    ask_to_grow(s, "32Mi")
    s.step("the agent to have grown it", lambda: s.agent.size_of(name_of(s, "data")) == 32 << 20)
    s.gone("pods", "writer")
    s.quiet()
    source = {"dataSource": {"kind": "PersistentVolumeClaim", "name": "data"}}
    s.create(objects.claim("copy", "32Mi", "of-main", accessModes=["ReadWriteMany"], **source))
    s.run(objects.pod("reader", f"{check('/copy')} && {larger_than('/copy', 20000)}", ["copy"], **HERE))
    s.gone("pods", "reader")
    s.gone("persistentvolumeclaims", "copy")
    snapshot(s, "32Mi")
    kept(s)
    await_growth(s, "32Mi")
    taken(s)
    s.run(objects.pod("last", check("/data"), ["data"], **HERE))
    s.gone("pods", "last")
    s.gone("persistentvolumeclaims", "data")
    s.nothing_left()
    s.gone("storageclusters", "main")
    end(s)


def snapshot(s, size):
    """Makes a snapshot of claim "data", and restores a volume of `size` from it."""
    s.create(objects.block_snapshot("monday", "data"))
    s.step("the snapshot", lambda: s.api.get("blocksnapshots", "monday").get("status", {}).get("readyToUse"))
    s.create(objects.claim("restored", size, "of-main", **objects.restored_from("monday")))
    s.run(objects.pod("restorer", check("/restored"), ["restored"], **HERE))
    s.gone("pods", "restorer")
    s.gone("blocksnapshots", "monday")
    s.gone("persistentvolumeclaims", "restored")
    s.step("the restored volume to be gone", lambda: len(s.api.items("persistentvolumes")) == 1)


def kept(s):
    """A pod takes a volume over whose fence has the entry of a pod that is gone, on a node that is switched off."""
    volume = name_of(s, "data")
    used_elsewhere(s, volume)
    take_over(s, volume)
    s.gone("nodecleanups", "node-x")
    s.gone("nodes", "node-x")


def used_elsewhere(s, volume):
    s.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-x"}, "spec": {"unschedulable": True}})
    s.create({"apiVersion": "storage.berth.dev/v1alpha1", "kind": "VolumeFence", "metadata": {"name": volume},
              "attachments": [{"node": "node-x", "podNamespace": "default", "pod": "db", "podUID": "a-uid",
                               "mountDir": "/var/lib/kubelet/pods/a-uid", "readOnly": False, "clusterName": "main"}]})


def take_over(s, volume):
    s.create(objects.pod("db", stay(check("/data")), ["data"], **HERE))
    s.step("node-x to be asked to take the volume off", lambda: s.api.get("nodecleanups", "node-x"))
    s.done("node-x to be out of service",
           lambda: s.api.patch("nodes", "node-x", {"spec": {"taints": [OUT_OF_SERVICE]}}))
    s.step("the pod to have the volume", lambda: [e["node"] for e in entries_of(s, volume)] == ["node-a"]
           and s.phase("db") == "Running", seconds=150)


def taken(s):
    """Takes the volume from a pod that has it, as 'berth fence break --dangerous' does."""
    volume = name_of(s, "data")
    image = image_of(s, "data")
    entry, = entries_of(s, volume)
    # Without the mark the agent could find the use in the fence, and drop its NodeCleanup before the fence is gone.
    mark = {"metadata": {"annotations": {"block.berth.dev/broken-pods": f"{entry['podUID']},"}}}
    s.done("the fence to be marked", lambda: s.api.patch("volumefences", volume, mark))
    s.create({"apiVersion": "storage.berth.dev/v1alpha1", "kind": "NodeCleanup", "metadata": {"name": "node-a"},
              "entries": [{"volume": volume, "clusterName": "main", "image": image, "reason": "a test",
                           "attachment": entry}]})
    s.gone("volumefences", volume)
    # If Berth is killed meanwhile, the pod asks for the volume again; the agent then has a record of it, and the
    # image's lock keeps it out.
    s.step("the agent to have taken it off",
           lambda: set(s.agent.records()) <= {volume} and s.agent.size_of(volume) is None
           and not s.api.items("nodecleanups"))
    s.gone("pods", "db")
    s.quiet()


def delete_cluster(s, pod):
    """Deletes the cluster, and its claim "data" with it, under a pod that uses the volume."""
    s.delete_soon("storageclusters", "main")
    s.step("the volume to be forced off", lambda: not s.agent.records())
    s.gone("pods", pod)
    s.gone("persistentvolumeclaims", "data")
    s.step("the cluster to be gone", lambda: s.api.get("storageclusters", "main") is None)


@beside_agent
def block_cluster(s):
    """A cluster is deleted with its claims, one of which a pod uses."""
    begin(s, claims="Delete")
    s.create(objects.claim("data", "16Mi", "of-main"))
    s.running(objects.pod("user", stay(write("/data")), ["data"], **HERE))
    delete_cluster(s, "user")
    end(s)
