"""Flows of a volume's life: it is made, used, grown, and deleted."""
from data import check, larger_than, stay, write
from survivor import DRIVER
from lib import objects


def main_job(s):
    """Makes a claim, a pod that writes, a pod that reads, and deletes everything."""
    s.create(objects.claim("data"))
    s.run(objects.pod("first", write("/data"), ["data"]))
    s.gone("pods", "first")
    # It writes below a subPath, which is a mount of its own.
    blob = [{"name": "data", "mountPath": "/part/blob", "subPath": "blob"}]
    s.run(objects.pod("second", check("/part"), ["data"], mounts=blob))
    s.gone("pods", "second")
    s.gone("persistentvolumeclaims", "data")
    s.nothing_left()


def deletion(s):
    """A claim is deleted while a pod uses it, and then the pod. Another claim of the pod keeps its data."""
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


def inline(s):
    """An inline volume is made and deleted with its pod. Only the driver knows it, so the comparison with the state
    before the flow shows that its image is gone."""
    scratch = {"name": "scratch", "csi": {"driver": DRIVER, "fsType": "ext4", "volumeAttributes": {"size": "64Mi"}}}
    mounted = [{"name": "scratch", "mountPath": "/scratch"}]
    s.running(objects.pod("user", stay(f"{write('/scratch')} && {check('/scratch')}"), volumes=[scratch],
                          mounts=mounted))
    s.gone("pods", "user")
    s.run(objects.pod("next", "test ! -e /scratch/blob", volumes=[scratch], mounts=mounted))
    s.gone("pods", "next")
    s.nothing_left()


def host_mount(s):
    """A claim is mounted on the host twice. A pod in between finds what was written on the host."""
    s.create(objects.claim("data"))
    for turn in ("first", "second"):
        path = s.berth.folder / turn
        s.create({"apiVersion": "storage.berth.dev/v1alpha1", "kind": "HostMount", "metadata": {"name": turn},
                  "spec": {"nodeName": "node-a", "claimName": "data", "path": str(path)}})
        s.step("the claim to be mounted on the host",
               lambda turn=turn: (s.api.get("hostmounts", turn) or {}).get("status", {}).get("phase") == "Mounted")
        file = path / "file"
        if turn == "first":
            file.write_text("from the host")
        assert file.read_text() == "from the host"
        s.gone("hostmounts", turn)
        s.run(objects.pod(f"pod-{turn}", "grep -q 'from the host' /data/file", ["data"]))
        s.gone("pods", f"pod-{turn}")
    s.gone("persistentvolumeclaims", "data")
    s.nothing_left()


def grow(s, claim, storage):
    wanted = {"spec": {"resources": {"requests": {"storage": storage}}}}
    s.done(f"claim {claim} to ask for {storage}", lambda: s.api.patch("persistentvolumeclaims", claim, wanted))


def has(s, claim, storage):
    return s.api.get("persistentvolumeclaims", claim)["status"].get("capacity", {}).get("storage") == storage


def resize_status(s, claim):
    return s.api.get("persistentvolumeclaims", claim)["status"].get("allocatedResourceStatuses", {}).get("storage")


def expansion(s):
    """ext4 grows between two pods, after a request for more than there is. xfs grows under a pod that uses it, and
    between two pods."""
    s.create(objects.claim("idle"))
    s.run(objects.pod("first", write("/idle"), ["idle"]))
    s.gone("pods", "first")
    s.quiet()
    grow(s, "idle", "4Pi")
    s.step("the driver to have refused", lambda: resize_status(s, "idle") == "ControllerResizeInfeasible")
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
    s.quiet()
    grow(s, "used", "480Mi")
    s.step("the volume to have grown again", lambda: s.volume_of("used")["spec"]["capacity"]["storage"] == "480Mi")
    s.run(objects.pod("third", f"{check('/used')} && {larger_than('/used', 380000)}", ["used"]))
    s.gone("pods", "third")
    s.gone("persistentvolumeclaims", "used")
    s.gone("storageclasses", "xfs")
    s.nothing_left()
