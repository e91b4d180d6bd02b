"""The flows that are walked. Each begins with nothing and ends with nothing, and may be killed anywhere in between.

A flow is a function of a Survivor: every step is repeated until it succeeds, so it must bear that.
"""
import hashlib

from survivor import DRIVER
from lib import objects

LINES = 20000
BLOB = "".join(f"{i}\n" for i in range(1, LINES + 1)).encode()
WRITE = "seq 1 %d > {0}/blob && sync" % LINES
CHECK = f"echo '{hashlib.sha256(BLOB).hexdigest()}  {{0}}/blob' | sha256sum -c -"


def write(folder):
    return WRITE.format(folder)


def check(folder):
    """Fails the pod if the data is not what `write` wrote."""
    return CHECK.format(folder)


def stay(script):
    """Runs a script, says so, and stays until told to end."""
    return f"({script}) >/dev/null && echo ready && trap 'exit 0' TERM && while :; do sleep 0.1; done"


def main_job(s):
    """Claim, writer, reader, and everything deleted."""
    s.create(objects.claim("data"))
    s.run(objects.pod("first", write("/data"), ["data"]))
    s.gone("pods", "first")
    s.run(objects.pod("second", check("/data"), ["data"]))
    s.gone("pods", "second")
    s.gone("persistentvolumeclaims", "data")
    s.nothing_left()


def deletion(s):
    """A claim is deleted while a pod uses it, then the pod; another claim of the pod keeps its data."""
    s.create(objects.claim("doomed"))
    s.create(objects.claim("kept"))
    s.running(objects.pod("user", stay(f"{write('/doomed')} && {write('/kept')}"), ["doomed", "kept"]))
    s.delete_soon("persistentvolumeclaims", "doomed")
    s.gone("pods", "user")
    s.gone("persistentvolumeclaims", "doomed")
    s.run(objects.pod("reader", check("/kept"), ["kept"]))
    s.gone("pods", "reader")
    s.gone("persistentvolumeclaims", "kept")
    s.nothing_left()


def grow(s, claim, storage):
    wanted = {"spec": {"resources": {"requests": {"storage": storage}}}}
    s.done(f"claim {claim} to ask for {storage}", lambda: s.api.patch("persistentvolumeclaims", claim, wanted))


def has(s, claim, storage):
    return s.api.get("persistentvolumeclaims", claim)["status"].get("capacity", {}).get("storage") == storage


def larger_than(folder, kib):
    return f"test $(df -k {folder} | tail -1 | awk '{{print $2}}') -gt {kib}"


def expansion(s):
    """ext4 grows between two pods, xfs under a pod that uses it."""
    s.create(objects.claim("idle"))
    s.run(objects.pod("first", write("/idle"), ["idle"]))
    s.gone("pods", "first")
    s.quiet()
    grow(s, "idle", "96Mi")
    s.step("the volume to have grown",
           lambda: s.volume_of("idle")["spec"]["capacity"]["storage"] == "96Mi")
    s.running(objects.pod("second", stay(f"{check('/idle')} && {larger_than('/idle', 70000)}"), ["idle"]))
    s.step("claim idle to have grown", lambda: has(s, "idle", "96Mi"))
    s.gone("pods", "second")
    s.gone("persistentvolumeclaims", "idle")
    s.create(objects.storage_class("xfs", "xfs"))
    s.create(objects.claim("used", "320Mi", "xfs"))
    s.running(objects.pod("user", stay(write("/used")), ["used"]))
    grow(s, "used", "400Mi")
    s.step("claim used to have grown", lambda: has(s, "used", "400Mi"))
    s.gone("pods", "user")
    s.run(objects.pod("third", f"{check('/used')} && {larger_than('/used', 300000)}", ["used"]))
    s.gone("pods", "third")
    s.gone("persistentvolumeclaims", "used")
    s.gone("storageclasses", "xfs")
    s.nothing_left()


def snapshot(s):
    """A volume in use is snapshot, a claim restored from that while its source goes, and all of it deleted."""
    s.create(objects.snapshot_class("snap"))
    s.create(objects.claim("data"))
    s.running(objects.pod("user", stay(write("/data")), ["data"]))
    s.create(objects.snapshot("monday", "data", "snap"))
    s.step("the snapshot to be ready",
           lambda: s.api.get("volumesnapshots", "monday").get("status", {}).get("readyToUse"))
    s.gone("pods", "user")
    s.gone("persistentvolumeclaims", "data")
    source = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "monday"}
    s.create(objects.claim("copy", dataSource=source))
    s.run(objects.pod("reader", check("/copy"), ["copy"]))
    s.gone("volumesnapshots", "monday")
    s.step("the snapshot's content to be gone", lambda: not s.api.items("volumesnapshotcontents"))
    s.gone("pods", "reader")
    s.gone("persistentvolumeclaims", "copy")
    s.gone("volumesnapshotclasses", "snap")
    s.nothing_left()


def dead_node(s, claim):
    """A node whose agent does not answer any more, and has said before that it uses the claim's volume."""
    s.create({"apiVersion": "v1", "kind": "Node", "metadata": {
        "name": "node-b", "annotations": {"volumes.kubernetes.io/controller-managed-attach-detach": "true"}}})
    in_use = [f"kubernetes.io/csi/{DRIVER}^{s.handle_of(claim)}"]
    silent = [{"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}]
    status = {"status": {"volumesInUse": in_use, "conditions": silent}}
    s.done("node-b to have gone silent", lambda: s.api.patch("nodes", "node-b", status, "status"))


def attached_to(s, node):
    return any(item["spec"]["nodeName"] == node and item.get("status", {}).get("attached")
               for item in s.api.items("volumeattachments"))


def fail_over(s):
    """A pod's node dies. Its volume goes nowhere until a person vouches for that (the out-of-service taint); then
    it is detached by force, and a pod on the living node finds its data."""
    s.create(objects.claim("data"))
    s.run(objects.pod("writer", write("/data"), ["data"]))
    s.gone("pods", "writer")
    dead_node(s, "data")
    s.create(objects.pod("lost", "true", ["data"], nodeName="node-b"))
    s.step("the volume to be attached to the dead node", lambda: attached_to(s, "node-b"))
    s.create(objects.pod("heir", check("/data"), ["data"], nodeSelector={"kubernetes.io/hostname": "node-a"}))
    s.delete_soon("pods", "lost")
    s.step("the volume to be where it was", lambda: attached_to(s, "node-b") and not attached_to(s, "node-a"))
    taint = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}
    s.done("node-b to be out of service", lambda: s.api.patch("nodes", "node-b", {"spec": {"taints": [taint]}}))
    s.gone("pods", "lost")
    s.step("the volume to be detached from it", lambda: not attached_to(s, "node-b"))
    s.succeeded("heir")
    s.gone("pods", "heir")
    s.gone("nodes", "node-b")
    s.gone("persistentvolumeclaims", "data")
    s.nothing_left()


FLOWS = {flow.__name__: flow for flow in (main_job, deletion, expansion, snapshot, fail_over)}
