"""Flows of volumes that are filled from a snapshot, a volume or by a populator."""
from data import check, check_device, stay, write, write_device
from lib import objects


def snapshot(s):
    """A snapshot is taken of a volume in use, a claim is restored from it while its source is deleted, and everything
    is deleted."""
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


def kept_snapshot(s):
    """A snapshot outlives its objects, is imported again by its handle, and is deleted."""
    s.create(objects.snapshot_class("keep", policy="Retain"))
    s.create(objects.claim("data"))
    s.run(objects.pod("writer", write("/data"), ["data"]))
    s.gone("pods", "writer")
    s.create(objects.snapshot("monday", "data", "keep"))
    content = s.step("the snapshot to be ready", lambda: next(
        (item for item in s.api.items("volumesnapshotcontents") if item.get("status", {}).get("readyToUse")), None))
    s.gone("persistentvolumeclaims", "data")
    s.gone("volumesnapshots", "monday")
    s.gone("volumesnapshotcontents", content["metadata"]["name"])
    s.create(objects.snapshot_content("by-hand", content["status"]["snapshotHandle"], "tuesday"))
    s.create(objects.snapshot("tuesday", content="by-hand"))
    s.step("the snapshot to be ready again",
           lambda: s.api.get("volumesnapshots", "tuesday").get("status", {}).get("readyToUse"))
    s.gone("volumesnapshots", "tuesday")
    s.step("the snapshot's content to be gone", lambda: not s.api.items("volumesnapshotcontents"))
    s.gone("volumesnapshotclasses", "keep")
    s.nothing_left()


def group_snapshot(s):
    """Snapshots are taken of two volumes at one moment, of which one is in use; a claim is restored from each, and
    everything is deleted."""
    s.create(objects.group_class("group"))
    for name in ("one", "two"):
        s.create(objects.labelled(objects.claim(name, "32Mi"), app="shop"))
    s.run(objects.pod("writer", write("/one"), ["one"]))
    s.gone("pods", "writer")
    s.running(objects.pod("user", stay(write("/two")), ["two"]))
    s.create(objects.group_snapshot("monday", "group", app="shop"))
    s.step("the group to be ready",
           lambda: s.api.get("volumegroupsnapshots", "monday").get("status", {}).get("readyToUse"))
    of_claims = s.step("a snapshot of each volume", lambda: _members(s))
    s.gone("pods", "user")
    for name in ("one", "two"):
        s.gone("persistentvolumeclaims", name)
        source = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": of_claims[name]}
        s.create(objects.claim(f"{name}-copy", "32Mi", dataSource=source))
        s.run(objects.pod(f"reads-{name}", check(f"/{name}-copy"), [f"{name}-copy"]))
    s.gone("volumegroupsnapshots", "monday")
    for plural in ("volumegroupsnapshotcontents", "volumesnapshots", "volumesnapshotcontents"):
        s.step(f"{plural} to be gone", lambda plural=plural: not s.api.items(plural))
    for name in ("one", "two"):
        s.gone("pods", f"reads-{name}")
        s.gone("persistentvolumeclaims", f"{name}-copy")
    s.gone("volumegroupsnapshotclasses", "group")
    s.nothing_left()


def _members(s):
    """Gives the ready snapshot of each claim, once there are two."""
    found = {item["spec"]["source"].get("persistentVolumeClaimName"): item["metadata"]["name"]
             for item in s.api.items("volumesnapshots") if item.get("status", {}).get("readyToUse")}
    return found if {"one", "two"} <= found.keys() else None


def device(claim):
    return [{"name": claim, "devicePath": f"/dev/{claim}"}]


def clone(s):
    """A raw block volume is cloned, and its source is deleted while the copy is in use."""
    s.create(objects.claim("data", "32Mi", block=True))
    s.run(objects.pod("writer", write_device("/dev/data"), ["data"], devices=device("data")))
    s.gone("pods", "writer")
    s.create(objects.claim("copy", "32Mi", block=True, dataSource={"kind": "PersistentVolumeClaim", "name": "data"}))
    s.running(objects.pod("reader", stay(check_device("/dev/copy")), ["copy"], devices=device("copy")))
    s.gone("persistentvolumeclaims", "data")
    s.gone("pods", "reader")
    s.run(objects.pod("again", check_device("/dev/copy"), ["copy"], devices=device("copy")))
    s.gone("pods", "again")
    s.gone("persistentvolumeclaims", "copy")
    s.nothing_left()


def populator(s):
    """A claim's data source is of a kind that only a populator knows. The populator fills the volume of a claim of
    its own, and gives that volume to the first claim."""
    s.create(objects.claim("wanted", dataSourceRef={"apiGroup": "example.com", "kind": "Seed", "name": "seed"}))
    s.create(objects.claim("prime"))
    s.run(objects.pod("fills", write("/prime"), ["prime"]))
    s.gone("pods", "fills")
    volume = s.volume_of("prime")["metadata"]["name"]
    wanted = s.step("the claim", lambda: s.api.get("persistentvolumeclaims", "wanted"))["metadata"]
    taken = {"name": "wanted", "uid": wanted["uid"], "resourceVersion": None}
    s.done("the volume to be the other claim's",
           lambda: s.api.patch("persistentvolumes", volume, {"spec": {"claimRef": taken}}))
    s.step("the claim to have it", lambda: s.volume_of("wanted")["metadata"]["name"] == volume)
    s.gone("persistentvolumeclaims", "prime")
    s.run(objects.pod("reader", check("/wanted"), ["wanted"]))
    s.gone("pods", "reader")
    s.gone("persistentvolumeclaims", "wanted")
    s.nothing_left()
