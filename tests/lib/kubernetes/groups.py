"""Two claims of which group snapshots are taken, on volumes of a driver that takes them."""
import itertools

from lib import objects
from lib.kubernetes.csi_proxy import Proxied
from lib.kubernetes.hostpath import group_driver
from lib.standalone import wait_for

SHOP = ("orders", "stock")  # the claims
SIZE = "8Mi"  # the smallest volume that each of the drivers makes
RETRIES = ("--retry-interval-start=200ms", "--retry-interval-max=1s")


class Shop:
    def __init__(self, world, driver):
        self.world = world
        self.driver = driver
        self.handles = []
        world.cluster.install_groups()
        world.make_class()
        world.start("csi-provisioner", "--feature-gates=Topology=false", of_go=False, elect=False)
        for claim in SHOP:
            world.create(objects.labelled(objects.claim(claim, SIZE, world.storage_class), app="shop"))
        for claim in SHOP:
            _, volume = world.bound(claim)
            self.handles.append(volume["spec"]["csi"]["volumeHandle"])
            world.names[self.handles[-1]] = f"HANDLE-{claim}"
        for handles in itertools.permutations(self.handles):
            world.names[f"[{' '.join(handles)}]"] = "[HANDLES]"

    @classmethod
    def of(cls, new_world, folder):
        """Makes it in a world that new_world gives, with a CsiProxy before its driver (world.double.proxy)."""
        world = new_world(double=lambda name: Proxied(group_driver(new_world, folder, name), folder / "proxy.sock"), on_node=False)
        return cls(world, world.double)

    # -- the programs

    def start_controller(self, of_go=None):
        return self.world.start("snapshot-controller", *RETRIES, "-v=4", of_go=of_go)

    def wait_known(self, controller, content):
        """Waits until the Go snapshot-controller has a group's content in its own store, which it fills object by object after it
        has begun to work: initializeCaches reads the contents of single snapshots in place of those of groups. A group that is
        deleted before leaves its content for ever."""
        line = f"synchronizing VolumeGroupSnapshotContent[{content}]"
        wait_for(f"the Go snapshot-controller to know '{content}'", lambda: line in controller.log())

    def start_snapshotter(self, of_go=None):
        """Starts csi-snapshotter, and waits until it leads."""
        sidecar = self.world.start("csi-snapshotter", "--timeout=5s", *RETRIES, of_go=of_go)
        self.world.wait("Lease", "external-snapshotter-leader-" + self.world.driver.replace(".", "-"),
                        lambda item: sidecar.host_name in (item["spec"].get("holderIdentity") or ""))
        return sidecar

    def start_snapshotter_of(self, node):
        """Starts the csi-snapshotter of a node."""
        return self.world.start("csi-snapshotter", "--timeout=5s", *RETRIES, "--node-deployment", elect=False,
                                env={"NODE_NAME": node})

    # -- the group

    def make_class(self, policy="Delete", **annotations):
        """Makes the class of groups, and gives its name."""
        world = self.world
        kind = f"groups-{world.namespace}"
        world.names[kind] = "GROUP-CLASS"
        group_class = objects.group_class(kind, world.driver, policy)
        group_class["metadata"]["annotations"] = annotations
        world.create(group_class)
        return kind

    def take_group(self, name, policy="Delete"):
        self.world.create(objects.group_snapshot(name, self.make_class(policy), app="shop"))

    def ready(self, name):
        """Waits until a group and its snapshots are ready, and gives (it, its content, {claim: (snapshot, its content)})."""
        world = self.world
        group = world.wait("VolumeGroupSnapshot", name, is_ready, seconds=90)
        content = world.wait("VolumeGroupSnapshotContent", group["status"]["boundVolumeGroupSnapshotContentName"], is_done)
        world.names[content["status"]["volumeGroupSnapshotHandle"]] = "GROUP-HANDLE"
        members = {}
        for snapshot in self.members():
            snapshot = world.wait("VolumeSnapshot", snapshot["metadata"]["name"], is_ready)
            member = world.wait("VolumeSnapshotContent", snapshot["status"]["boundVolumeSnapshotContentName"], is_ready)
            claim = snapshot["spec"]["source"]["persistentVolumeClaimName"]
            world.names[snapshot["metadata"]["name"]] = f"SNAPSHOT-{claim}"
            world.names[member["metadata"]["name"]] = f"CONTENT-{claim}"
            world.names[member["status"]["snapshotHandle"]] = f"SNAPSHOT-HANDLE-{claim}"
            members[claim] = (snapshot, member)
        assert sorted(members) == sorted(SHOP), members
        return world.get("VolumeGroupSnapshot", name), content, members

    def members(self):
        return self.world.cluster.items("VolumeSnapshot", self.world.namespace)

    def delete(self, name, group, members):
        """Deletes a group, and waits until nothing of it is left in the API."""
        world = self.world
        world.delete("VolumeGroupSnapshot", name)
        world.wait_gone("VolumeGroupSnapshot", name, seconds=90)
        world.wait_gone("VolumeGroupSnapshotContent", group["status"]["boundVolumeGroupSnapshotContentName"])
        for snapshot, content in members.values():
            world.wait_gone("VolumeSnapshot", snapshot["metadata"]["name"])
            world.wait_gone("VolumeSnapshotContent", content["metadata"]["name"])

    def content_for_comparison(self, content):
        """Gives a content without times as numbers, and with its lists in the order of the claims."""
        spec, status = content["spec"], content.get("status") or {}
        status.pop("creationTime", None)
        if handles := spec["source"].get("volumeHandles"):
            handles.sort(key=lambda handle: self.world.names[handle])
        if info := status.get("volumeSnapshotInfoList"):
            info.sort(key=lambda each: self.world.names[each["volumeHandle"]])
            for each in info:
                each.pop("creationTime", None)
        return content


def is_ready(item):
    return (item.get("status") or {}).get("readyToUse")


def is_done(content):
    """Tells whether a content is ready and its csi-snapshotter has written all that it writes."""
    annotations = content["metadata"].get("annotations") or {}
    return is_ready(content) and not any(name.endswith("-being-created") for name in annotations)
