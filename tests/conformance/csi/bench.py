"""The volumes and folders that a case works on, which are removed at its end, and the checks that it uses."""
import json
import pathlib
import shutil
import subprocess
import uuid

from driver import csi

from lib.rules import Refused, Violation
from lib.rules_client import refuses

MIB = 1 << 20
SIZE = 64 * MIB


def mount(mode="SINGLE_NODE_WRITER", flags=()):
    return {"mount": {"mount_flags": list(flags)}, "access_mode": {"mode": mode}}


class Bench:
    def __init__(self, driver, folder, second_node="", parameters=None, secrets=None):
        self.driver = driver
        self.folder = pathlib.Path(folder)
        self.second_node = second_node
        self.parameters = parameters or {}
        self.secrets = secrets or {}
        self.undo = []

    # -- what a driver offers

    def capabilities(self):
        """Gives the names of the driver's capabilities, of all services, and "SECOND_NODE" if the suite knows a
        second node."""
        found = {"SECOND_NODE"} if self.second_node else set()
        for item in self.driver.call("GetPluginCapabilities").capabilities:
            if item.HasField("service"):
                found.add(csi.PluginCapability.Service.Type.Name(item.service.type))
        if "CONTROLLER_SERVICE" in found:
            for item in self.driver.call("ControllerGetCapabilities").capabilities:
                found.add(csi.ControllerServiceCapability.RPC.Type.Name(item.rpc.type))
        if "GROUP_CONTROLLER_SERVICE" in found:
            for item in self.driver.call("GroupControllerGetCapabilities").capabilities:
                found.add(csi.GroupControllerServiceCapability.RPC.Type.Name(item.rpc.type))
        for item in self.driver.call("NodeGetCapabilities", runtime_supports_mount=True).capabilities:
            found.add("NODE_" + csi.NodeServiceCapability.RPC.Type.Name(item.rpc.type))
        return found

    # -- calls, and their inverses at the end

    def call(self, method, **fields):
        return self.driver.call(method, **fields)

    def refuses(self, method, *codes, **fields):
        """Checks that the driver answers with one of these codes."""
        refuses(self, method, *codes, **fields)

    def request(self, name=None, size=SIZE, **fields):
        """Gives a CreateVolume request."""
        return {"name": name or self.name(), "volume_capabilities": [mount()], "parameters": self.parameters,
                "secrets": self.secrets, "capacity_range": {"required_bytes": size}, **fields}

    @staticmethod
    def name():
        return f"conformance-{uuid.uuid4()}"

    def create(self, request=None):
        volume = self.call("CreateVolume", **(request or self.request())).volume
        self.undo.append(("DeleteVolume", {"volume_id": volume.volume_id, "secrets": self.secrets}))
        return volume

    def snapshot(self, volume, name=None):
        snapshot = self.call("CreateSnapshot", source_volume_id=volume.volume_id, name=name or self.name()).snapshot
        self.undo.append(("DeleteSnapshot", {"snapshot_id": snapshot.snapshot_id}))
        return snapshot

    def group(self, volumes, name=None):
        """Takes a snapshot of each volume at one moment."""
        group = self.call("CreateVolumeGroupSnapshot", name=name or self.name(),
                          source_volume_ids=[volume.volume_id for volume in volumes]).group_snapshot
        self.undo.append(("DeleteVolumeGroupSnapshot", self.group_request(group)))
        return group

    @staticmethod
    def group_request(group):
        """Gives a request about the group."""
        return {"group_snapshot_id": group.group_snapshot_id,
                "snapshot_ids": [snapshot.snapshot_id for snapshot in group.snapshots]}

    def attach(self, volume, node=None, **fields):
        node = node or self.call("NodeGetInfo").node_id
        request = {"volume_id": volume.volume_id, "node_id": node, "volume_capability": mount(),
                   "volume_context": dict(volume.volume_context), **fields}
        answer = self.call("ControllerPublishVolume", **request)
        self.undo.append(("ControllerUnpublishVolume", {"volume_id": volume.volume_id, "node_id": node}))
        return answer.publish_context

    def staging(self, volume):
        """Makes and gives the staging path of a volume."""
        path = self.folder / "staging" / volume.volume_id
        path.mkdir(parents=True, exist_ok=True)
        return str(path)

    def target(self, name="target"):
        """Gives a path to publish at, and makes its parent."""
        parent = self.folder / "pods"
        parent.mkdir(exist_ok=True)
        return str(parent / name)

    def stage_request(self, volume, **fields):
        return {"volume_id": volume.volume_id, "staging_target_path": self.staging(volume),
                "volume_capability": mount(), "volume_context": dict(volume.volume_context),
                "publish_context": self.contexts.get(volume.volume_id, {}), **fields}

    def publish_request(self, volume, name="target", **fields):
        return {"volume_id": volume.volume_id, "staging_target_path": self.staging(volume),
                "target_path": self.target(name), "volume_capability": mount(),
                "volume_context": dict(volume.volume_context),
                "publish_context": self.contexts.get(volume.volume_id, {}), **fields}

    @property
    def contexts(self):
        return self.__dict__.setdefault("_contexts", {})

    def stage(self, volume=None):
        """Makes a volume, and attaches and stages it as far as the driver has these steps."""
        offers = self.capabilities()
        volume = volume or self.create()
        if "PUBLISH_UNPUBLISH_VOLUME" in offers:
            self.contexts[volume.volume_id] = dict(self.attach(volume))
        if "NODE_STAGE_UNSTAGE_VOLUME" in offers:
            request = self.stage_request(volume)
            self.undo.append(("NodeUnstageVolume", {k: request[k] for k in ("volume_id", "staging_target_path")}))
            self.call("NodeStageVolume", **request)
        return volume

    def publish(self, volume, name="target", **fields):
        """Publishes the volume, and gives the path."""
        request = self.publish_request(volume, name, **fields)
        self.undo.append(("NodeUnpublishVolume", {k: request[k] for k in ("volume_id", "target_path")}))
        self.call("NodePublishVolume", **request)
        return pathlib.Path(request["target_path"])

    def unpublish(self, volume, path):
        self.call("NodeUnpublishVolume", volume_id=volume.volume_id, target_path=str(path))

    # -- the machine

    @staticmethod
    def mounts(path):
        """Gives the mounts at exactly that path, lowest first: their options, and those of their file systems."""
        with open("/proc/self/mountinfo") as table:
            rows = [line.split() for line in table]
        return [set(row[5].split(",")) | set(row[-1].split(",")) for row in rows if row[4] == str(path)]

    def clean(self):
        """Undoes all that was made, the last first. A driver that breaks a rule may fail here; another case reports
        that."""
        for method, fields in reversed(self.undo):
            try:
                self.call(method, **fields)
            except (Refused, Violation):
                pass
        self.undo.clear()
        self.contexts.clear()
        with open("/proc/self/mountinfo") as table:
            left = [line.split()[4] for line in table if line.split()[4].startswith(f"{self.folder}/")]
        for path in sorted(left, reverse=True):
            subprocess.run(["umount", "--lazy", path], check=False)
        for entry in self.folder.iterdir():
            shutil.rmtree(entry, ignore_errors=True)


def json_option(text):
    return json.loads(text) if text else {}
