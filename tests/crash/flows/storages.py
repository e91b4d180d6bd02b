"""Flows of the volumes of a real storage, in user space: RBD images of a Ceph cluster, and LUNs of an iSCSI target."""
from data import check, larger_than, stay, write
from survivor import beside_storage
from flows.blocks import (HERE, OUT_OF_SERVICE, delete_cluster, image_of, make_cluster, name_of, nothing_used, remove_agent,
                          snapshot, take_over, taken, used_elsewhere)
from flows.flexvolumes import ask_to_grow, await_growth
from lib import objects
from lib.standalone import Failure
from lib.storage_site import NAMESPACE
from storages import MIB, OTHER, SECRET


def begin(s):
    """Starts the proxy and the agent, and makes a storage cluster with its class. The claims go with the cluster."""
    s.proxy.start(env=s.environment, wait=False)
    s.agent.start(env=s.environment)
    s.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    s.done("the secret to be there", lambda: make_secret(s))
    make_cluster(s, {"apiVersion": "storage.berth.dev/v1alpha1", "kind": "StorageCluster", "metadata": {"name": "main"},
                     "spec": {"backend": s.storage.backend()}}, "Delete")
    s.create(objects.claim("data", mib(s.storage.size), "of-main"))


def make_secret(s):
    code, answer = s.api.call("POST", f"/api/v1/namespaces/{NAMESPACE}/secrets", {
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET, "namespace": NAMESPACE},
        "data": s.storage.secret()})
    if code == 409:
        code, answer = s.api.call("PATCH", f"/api/v1/namespaces/{NAMESPACE}/secrets/{SECRET}",
                                  {"data": s.storage.secret()}, "application/merge-patch+json")
    if code >= 400:
        raise Failure(f"{code}: {answer}")


def mib(size):
    return f"{size // MIB}Mi"


def end(s):
    """Checks that nothing is left anywhere."""
    nothing_used(s)
    s.step("the proxy to have nothing", lambda: not s.proxy.left())
    s.step("nothing to be left in the storage", lambda: not s.storage.left() or fail(s.storage.left()))
    remove_agent(s)


def fail(what):
    raise Failure(str(what))


def life(s):
    """A volume is made, written, grown, copied and restored, and goes with its cluster."""
    begin(s)
    s.running(objects.pod("writer", stay(write("/data")), ["data"], **HERE))
    grown = s.storage.grown
    ask_to_grow(s, mib(grown))
    s.storage.grow(grown)
    s.step("the agent to have grown it", lambda: s.agent.size_of(name_of(s, "data")) == grown)
    s.gone("pods", "writer")
    s.quiet()
    # Its ext4 grows for the next pod, where the kernel does not let it grow while it is mounted.
    s.run(objects.pod("reader", f"{check('/data')} && {larger_than('/data', s.storage.size // 1024)}", ["data"], **HERE))
    s.gone("pods", "reader")
    await_growth(s, mib(grown))
    s.quiet()
    if s.storage.copies:
        source = {"dataSource": {"kind": "PersistentVolumeClaim", "name": "data"}}
        s.create(objects.claim("copy", mib(grown), "of-main", **source))
        s.run(objects.pod("copied", check("/copy"), ["copy"], **HERE))
        s.gone("pods", "copied")
        s.gone("persistentvolumeclaims", "copy")
        # Ceph takes half a minute to remove a copy of an image whose client was killed just before.
        s.step("the copy to be gone", lambda: len(s.api.items("persistentvolumes")) == 1)
    s.running(objects.pod("last", stay(check("/data")), ["data"], **HERE))
    if s.storage.copies:
        snapshot(s, mib(grown))  # while a pod has the volume
    delete_cluster(s, "last")
    end(s)


def fail_over(s):
    """Another node writes to a volume when it is given up. It writes no more once a pod here has the volume. Then the
    volume is taken from this pod, too, and the claim is deleted while the other node has the volume again."""
    begin(s)
    s.run(objects.pod("writer", write("/data"), ["data"], **HERE))
    s.gone("pods", "writer")
    s.quiet()
    s.step("the agent to have nothing on record", lambda: not s.agent.records())
    volume = name_of(s, "data")
    other = lend(s)
    take_over(s, volume)
    give_back(s, other)
    taken(s)
    s.step("the agent to have nothing on record", lambda: not s.agent.records())
    other = lend(s)
    s.done("the other node to be out of service",
           lambda: s.api.patch("nodes", OTHER, {"spec": {"taints": [OUT_OF_SERVICE]}}))
    s.gone("persistentvolumeclaims", "data")
    s.nothing_left()
    give_back(s, other)
    s.gone("storageclusters", "main")
    end(s)


def lend(s):
    """Makes another node write to the volume of the claim, and gives its process."""
    image = image_of(s, "data")
    other = s.step("the other node to have the image", lambda: s.storage.serve_elsewhere(image))
    other.write()
    used_elsewhere(s, name_of(s, "data"))
    return other


def give_back(s, other):
    """Checks that the other node's process can write no more, and lets the node do what its agent would do."""
    try:
        other.write()
    except OSError:
        pass
    else:
        raise AssertionError(f"the other node still writes\n{s.log_tail()}")
    s.step("the storage to know the fence", lambda: s.storage.may_be_fenced(OTHER))
    s.storage.end()
    s.gone("nodecleanups", OTHER)
    s.step("the fence of the other node to be lifted", lambda: is_lifted(s))
    s.gone("nodes", OTHER)


def is_lifted(s):
    """Lets the node be back, which gets taints because no kubelet reports for it."""
    if s.api.get("nodes", OTHER)["spec"].get("taints"):
        s.api.patch("nodes", OTHER, {"spec": {"taints": None}})
    return OTHER not in s.storage.fenced()


@beside_storage("rbd")
def rbd(s):
    life(s)


@beside_storage("rbd")
def rbd_fail_over(s):
    fail_over(s)


@beside_storage("iscsi")
def iscsi(s):
    life(s)


@beside_storage("iscsi")
def iscsi_fail_over(s):
    fail_over(s)
