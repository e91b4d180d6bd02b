"""Service Node: staging and publishing, with a look at what is really mounted."""
import os
import re

from bench import SIZE, mount
from case import case
from driver import csi

from lib.rules import Refused

MAKES = "CREATE_DELETE_VOLUME"
STAGES = (MAKES, "NODE_STAGE_UNSTAGE_VOLUME")
# KEP-2857 is not part of the specification yet, so only drivers that say that they have it are asked for it.
DEFERS = (MAKES, "NODE_RUNTIME_ASSISTED_MOUNT")
DEFERRING = {"runtime_supported_filesystems": ["btrfs", "ext2", "ext3", "ext4", "nfs", "xfs"]}
# File systems that several kernels may have mounted at the same time.
PARALLEL = ("ceph", "cifs", "gfs2", "glusterfs", "lustre", "nfs", "nfs4", "ocfs2", "smb3")
NOWHERE = "conformance-no-such-thing"


@case("node-id-empty", "NodeGetInfo", "node_id is required")
def _(bench):
    assert bench.call("NodeGetInfo").node_id


@case("node-id-too-long", "NodeGetInfo", "node_id has at most 256 bytes")
@case("max-volumes-negative", "NodeGetInfo", "max_volumes_per_node is not negative")
def _(bench):
    bench.call("NodeGetInfo")  # checked with each answer


@case("topology-key-invalid", "NodeGetInfo", "a segment's key is [prefix/]name, its value at most 63 characters")
def _(bench):
    word = r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"
    for key, value in bench.call("NodeGetInfo").accessible_topology.segments.items():
        assert re.fullmatch(rf"([a-z0-9.-]{{1,63}}/)?{word}", key), f"key {key!r}"
        assert not value or re.fullmatch(word, value), f"value {value!r}"


# -- staging

@case("stage-twice-mounts-twice", "NodeStageVolume", "the same call again changes nothing", STAGES)
def _(bench):
    volume = bench.stage()
    before = len(bench.mounts(bench.staging(volume)))
    bench.call("NodeStageVolume", **bench.stage_request(volume))
    now = len(bench.mounts(bench.staging(volume)))
    assert now == before, f"{before} mounts at the staging path, then {now}"


@case("stage-ignores-conflict", "NodeStageVolume", "ALREADY_EXISTS with another capability", STAGES)
def _(bench):
    volume = bench.stage()
    bench.refuses("NodeStageVolume", "ALREADY_EXISTS",
                  **bench.stage_request(volume, volume_capability=mount("SINGLE_NODE_READER_ONLY")))


@case("stage-unknown", "NodeStageVolume", "NOT_FOUND for no volume; INVALID_ARGUMENT for what is missing", STAGES)
def _(bench):
    volume = bench.create()
    request = bench.stage_request(volume)
    bench.refuses("NodeStageVolume", "NOT_FOUND", **request | {"volume_id": NOWHERE})
    bench.refuses("NodeStageVolume", "INVALID_ARGUMENT", **request | {"volume_id": ""})
    bench.refuses("NodeStageVolume", "INVALID_ARGUMENT", **request | {"staging_target_path": ""})
    del request["volume_capability"]
    bench.refuses("NodeStageVolume", "INVALID_ARGUMENT", **request)


@case("unstage-leaves-mount", "NodeUnstageVolume", "OK when nothing is mounted", STAGES)
def _(bench):
    volume = bench.stage()
    path = bench.staging(volume)
    bench.call("NodeUnstageVolume", volume_id=volume.volume_id, staging_target_path=path)
    assert not bench.mounts(path), "something is still mounted there"


@case("unstage-twice-fails", "NodeUnstageVolume", "OK for what is not staged", STAGES)
def _(bench):
    volume = bench.stage()
    for _ in range(2):
        try:
            bench.call("NodeUnstageVolume", volume_id=volume.volume_id, staging_target_path=bench.staging(volume))
        except Refused as refused:
            raise AssertionError(str(refused)) from refused
    bench.refuses("NodeUnstageVolume", "INVALID_ARGUMENT", staging_target_path=bench.staging(volume))


# -- publishing

@case("publishes-nothing", "NodePublishVolume", "OK when the volume is mounted at target_path", MAKES)
@case("mounts-elsewhere", "NodePublishVolume", "OK when the volume is mounted at target_path", MAKES)
def _(bench):
    path = bench.publish(bench.stage())
    assert path.is_dir(), "there is no such folder"
    assert bench.mounts(path), "nothing is mounted there"
    (path / "note").write_text("it works")


@case("publishes-other-volume", "NodePublishVolume", "the volume at target_path is volume_id", MAKES)
def _(bench):
    first = bench.stage()
    (bench.publish(first, "first") / "note").write_text("the first's")
    other = bench.publish(bench.stage(), "second")
    assert not (other / "note").exists(), "it shows another volume's file"
    (other / "other").write_text("the second's")
    bench.unpublish(first, bench.target("first"))
    again = bench.publish(first, "again")
    assert (again / "note").read_text() == "the first's" and not (again / "other").exists()


@case("ignores-readonly", "NodePublishVolume", "readonly is honoured", MAKES)
def _(bench):
    path = bench.publish(bench.stage(), readonly=True)
    try:
        (path / "note").write_text("no")
    except OSError:
        return
    raise AssertionError("a file could be written")


@case("publish-twice-mounts-twice", "NodePublishVolume", "the same call again changes nothing", MAKES)
def _(bench):
    volume = bench.stage()
    path = bench.publish(volume)
    before = len(bench.mounts(path))
    bench.publish(volume)
    now = len(bench.mounts(path))
    assert now == before, f"{before} mounts at the target path, then {now}"


@case("publish-ignores-conflict", "NodePublishVolume", "ALREADY_EXISTS at the same target with other arguments", MAKES)
def _(bench):
    volume = bench.stage()
    bench.publish(volume)
    bench.refuses("NodePublishVolume", "ALREADY_EXISTS", **bench.publish_request(volume, readonly=True))


@case("publish-unstaged", "NodePublishVolume", "FAILED_PRECONDITION without staging", STAGES)
def _(bench):
    volume = bench.create()
    bench.refuses("NodePublishVolume", "FAILED_PRECONDITION", **bench.publish_request(volume))
    bench.refuses("NodePublishVolume", "NOT_FOUND", **bench.publish_request(volume) | {"volume_id": NOWHERE})
    bench.refuses("NodePublishVolume", "INVALID_ARGUMENT", **bench.publish_request(volume) | {"target_path": ""})


@case("unpublish-leaves-mount", "NodeUnpublishVolume", "OK when nothing is mounted", MAKES)
@case("unpublish-leaves-target", "NodeUnpublishVolume", "the driver deletes target_path", MAKES)
def _(bench):
    volume = bench.stage()
    path = bench.publish(volume)
    bench.unpublish(volume, path)
    assert not bench.mounts(path), "something is still mounted there"
    assert not os.path.lexists(path), "target_path is still there"


@case("unpublish-twice-fails", "NodeUnpublishVolume", "OK for what is not published", MAKES)
def _(bench):
    volume = bench.stage()
    path = bench.publish(volume)
    for _ in range(2):
        try:
            bench.unpublish(volume, path)
        except Refused as refused:
            raise AssertionError(str(refused)) from refused
    bench.refuses("NodeUnpublishVolume", "INVALID_ARGUMENT", volume_id=volume.volume_id)


@case("data-stays", "NodeUnpublishVolume", "a volume keeps its data until it is deleted", MAKES)
def _(bench):
    volume = bench.stage()
    path = bench.publish(volume)
    (path / "note").write_text("precious")
    bench.unpublish(volume, path)
    if "NODE_STAGE_UNSTAGE_VOLUME" in bench.capabilities():
        bench.call("NodeUnstageVolume", volume_id=volume.volume_id, staging_target_path=bench.staging(volume))
    bench.stage(volume)
    assert (bench.publish(volume) / "note").read_text() == "precious"


@case("node-expand-below", "NodeExpandVolume", "capacity_bytes is within the range",
      (MAKES, "EXPAND_VOLUME", "NODE_EXPAND_VOLUME"))
def _(bench):
    volume = bench.create()
    grown = bench.call("ControllerExpandVolume", volume_id=volume.volume_id,
                       capacity_range={"required_bytes": 2 * SIZE}, volume_capability=mount())
    path = bench.publish(bench.stage(volume))
    if grown.node_expansion_required:
        has = bench.call("NodeExpandVolume", volume_id=volume.volume_id, volume_path=str(path),
                         staging_target_path=bench.staging(volume),
                         capacity_range={"required_bytes": 2 * SIZE}).capacity_bytes
        assert has == 0 or has >= 2 * SIZE, f"{has} bytes, where {2 * SIZE} are required"
    bench.refuses("NodeExpandVolume", "NOT_FOUND", volume_id=NOWHERE, volume_path=str(path))


@case("stats-negative", "NodeGetVolumeStats", "numbers are not negative", (MAKES, "NODE_GET_VOLUME_STATS"))
@case("stats-of-elsewhere", "NodeGetVolumeStats", "NOT_FOUND where the volume is not", (MAKES, "NODE_GET_VOLUME_STATS"))
def _(bench):
    volume = bench.stage()
    path = bench.publish(volume)
    usage = bench.call("NodeGetVolumeStats", volume_id=volume.volume_id, volume_path=str(path)).usage
    assert usage and all(item.total > 0 for item in usage), usage
    bench.refuses("NodeGetVolumeStats", "NOT_FOUND", volume_id=volume.volume_id, volume_path=bench.target("nowhere"))
    bench.refuses("NodeGetVolumeStats", "INVALID_ARGUMENT", volume_id=volume.volume_id)


# -- deferring the mount to a container runtime

def deferred(bench, volume, name="target", **fields):
    """Publishes the volume so that the runtime has to mount it, and gives what it has to mount. The target's path is
    bench.target(name)."""
    request = bench.publish_request(volume, name, **DEFERRING, **fields)
    bench.undo.append(("NodeUnpublishVolume", {k: request[k] for k in ("volume_id", "target_path")}))
    answer = bench.call("NodePublishVolume", **request)
    assert answer.HasField("runtime_mount_info"), "no runtime_mount_info, although the runtime can mount anything"
    return answer.runtime_mount_info


def mounted_anywhere(source):
    with open("/proc/self/mountinfo") as table:
        return [line.split()[4] for line in table if line.rpartition(" - ")[2].split()[1] == source]


@case("stage-mounts-before-deferral", "KEP-2857, NodeStageVolume",
      "a driver that can defer mounts nothing as it stages", (*DEFERS, "NODE_STAGE_UNSTAGE_VOLUME"))
def _(bench):
    assert not bench.mounts(bench.staging(bench.stage())), "something is mounted at the staging path"


@case("deferral-said-to-anyone", "KEP-2857, NodeGetCapabilities",
      "the capability is said only to callers that know it, because others may refuse a driver with it", DEFERS)
def _(bench):
    said = [item.rpc.type for item in bench.call("NodeGetCapabilities").capabilities]
    assert csi.NodeServiceCapability.RPC.RUNTIME_ASSISTED_MOUNT not in said, said


@case("defers-unasked", "KEP-2857, NodePublishVolume", "without a runtime that can mount it, the driver mounts the volume", DEFERS)
def _(bench):
    volume = bench.stage()
    request = bench.publish_request(volume)
    bench.undo.append(("NodeUnpublishVolume", {k: request[k] for k in ("volume_id", "target_path")}))
    assert not bench.call("NodePublishVolume", **request).HasField("runtime_mount_info")
    assert bench.mounts(bench.target()), "nothing is mounted at the target path"


@case("defers-and-mounts", "KEP-2857, NodePublishVolume", "what is deferred is not mounted", DEFERS)
@case("deferred-without-source", "KEP-2857, NodePublishVolume", "source is required", DEFERS)
@case("deferred-type-not-offered", "KEP-2857, NodePublishVolume", "the runtime can mount what is deferred", DEFERS)
@case("deferred-answer-changes", "KEP-2857, NodePublishVolume", "the same call has the same answer", DEFERS)
@case("deferred-target-stays", "KEP-2857, NodeUnpublishVolume", "the target is gone, and it is OK twice", DEFERS)
def _(bench):
    volume = bench.stage()
    info = deferred(bench, volume)
    assert info.source and info.type in DEFERRING["runtime_supported_filesystems"], info
    assert not bench.mounts(bench.target()), "something is mounted at the target path"
    assert not mounted_anywhere(info.source), f"{info.source} is mounted at {mounted_anywhere(info.source)}"
    again = deferred(bench, volume)
    assert again == info, f"the same call is answered differently: {info}, then {again}"
    bench.unpublish(volume, bench.target())
    bench.unpublish(volume, bench.target())
    assert not os.path.lexists(bench.target()), "target_path is still there"


@case("defers-writable", "KEP-2857, NodePublishVolume", "readonly is among the options of what is deferred", DEFERS)
def _(bench):
    assert "ro" in deferred(bench, bench.stage(), readonly=True).options


@case("defers-what-nobody-mounts", "KEP-2857, NodePublishVolume",
      "a file system that the runtime cannot mount is mounted by the driver", DEFERS)
def _(bench):
    volume = bench.stage()
    request = bench.publish_request(volume, runtime_supported_filesystems=["conformancefs"])
    bench.undo.append(("NodeUnpublishVolume", {k: request[k] for k in ("volume_id", "target_path")}))
    answer = bench.call("NodePublishVolume", **request)
    assert not answer.HasField("runtime_mount_info"), answer
    assert bench.mounts(bench.target()), "nothing is mounted at the target path"


@case("mounts-what-is-deferred", "KEP-2857, NodePublishVolume",
      "a volume is mounted on the host or deferred, never both, unless several kernels may have its file system mounted", DEFERS)
def _(bench):
    many = {"volume_capability": mount("SINGLE_NODE_MULTI_WRITER")} \
        if "NODE_SINGLE_NODE_MULTI_WRITER" in bench.capabilities() else {}
    volume = bench.stage()
    if deferred(bench, volume, "sandbox", **many).type in PARALLEL:
        return
    bench.refuses("NodePublishVolume", "FAILED_PRECONDITION", **bench.publish_request(volume, "host", **many))
    bench.refuses("NodePublishVolume", "FAILED_PRECONDITION",
                  **bench.publish_request(volume, "second", **DEFERRING, **many))
    bench.refuses("NodePublishVolume", "ALREADY_EXISTS", **bench.publish_request(volume, "sandbox", **many))
    bench.unpublish(volume, bench.target("sandbox"))
    bench.publish(volume, "host", **many)
    bench.refuses("NodePublishVolume", "FAILED_PRECONDITION",
                  **bench.publish_request(volume, "sandbox", **DEFERRING, **many))


@case("stats-of-deferred", "KEP-2857, NodeGetVolumeStats",
      "what is deferred has no numbers of the driver's", (*DEFERS, "NODE_GET_VOLUME_STATS"))
@case("stats-without-source", "KEP-2857, NodeGetVolumeStats", "what is deferred has a source", (*DEFERS, "NODE_GET_VOLUME_STATS"))
@case("stats-guessed", "KEP-2857, NodeGetVolumeStats",
      "FAILED_PRECONDITION for what is deferred, if the runtime has no statistics", (*DEFERS, "NODE_GET_VOLUME_STATS"))
def _(bench):
    volume = bench.stage()
    info = deferred(bench, volume)
    asked = {"volume_id": volume.volume_id, "volume_path": bench.target()}
    answer = bench.call("NodeGetVolumeStats", **asked, runtime_supports_stats=True)
    assert answer.source == info.source, answer
    assert not answer.usage and not answer.HasField("volume_condition"), answer
    bench.refuses("NodeGetVolumeStats", "FAILED_PRECONDITION", **asked)


@case("expand-of-deferred", "KEP-2857, NodeExpandVolume", "what is deferred has a source",
      (*DEFERS, "EXPAND_VOLUME", "NODE_EXPAND_VOLUME"))
@case("expand-guessed", "KEP-2857, NodeExpandVolume", "FAILED_PRECONDITION for what is deferred, if the runtime cannot grow it",
      (*DEFERS, "EXPAND_VOLUME", "NODE_EXPAND_VOLUME"))
def _(bench):
    volume = bench.stage()
    info = deferred(bench, volume)
    grown = bench.call("ControllerExpandVolume", volume_id=volume.volume_id,
                       capacity_range={"required_bytes": 2 * SIZE}, volume_capability=mount())
    if not grown.node_expansion_required:
        return
    asked = {"volume_id": volume.volume_id, "volume_path": bench.target(),
             "staging_target_path": bench.staging(volume), "capacity_range": {"required_bytes": 2 * SIZE}}
    bench.refuses("NodeExpandVolume", "FAILED_PRECONDITION", **asked)
    answer = bench.call("NodeExpandVolume", **asked, runtime_supports_expand=True)
    assert answer.source == info.source and answer.capacity_bytes >= 2 * SIZE, answer
