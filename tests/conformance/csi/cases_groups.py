"""Service GroupController: snapshots of several volumes, taken at one moment."""
from bench import mount
from case import case

GROUPS = ("CREATE_DELETE_VOLUME", "CREATE_DELETE_GET_VOLUME_GROUP_SNAPSHOT")
NOWHERE = "conformance-no-such-thing"


def _refer(snapshot):
    return {"snapshot": {"snapshot_id": snapshot.snapshot_id}}


@case("group-not-idempotent", "CreateVolumeGroupSnapshot", "the same name gives the same group; ALREADY_EXISTS for other volumes",
      GROUPS)
def _(bench):
    volumes, other, name = [bench.create(), bench.create()], bench.create(), bench.name()
    first, second = bench.group(volumes, name), bench.group(volumes, name)
    assert first == second, f"{first}, then {second}"
    bench.refuses("CreateVolumeGroupSnapshot", "ALREADY_EXISTS", name=name,
                  source_volume_ids=[volumes[0].volume_id, other.volume_id])


@case("group-incomplete", "CreateVolumeGroupSnapshot", "a snapshot of each volume, with the id of the group; time and id are required",
      GROUPS)
def _(bench):
    volumes = [bench.create(), bench.create()]
    group = bench.group(volumes)
    assert group.group_snapshot_id and group.HasField("creation_time"), str(group)
    taken = sorted(snapshot.source_volume_id for snapshot in group.snapshots)
    assert taken == sorted(volume.volume_id for volume in volumes), f"they are of {taken}"
    for snapshot in group.snapshots:
        assert snapshot.snapshot_id and snapshot.HasField("creation_time"), str(snapshot)
        assert snapshot.group_snapshot_id == group.group_snapshot_id, str(snapshot)


@case("group-of-nothing", "CreateVolumeGroupSnapshot", "NOT_FOUND if a source is missing, and then there is no snapshot; "
      "INVALID_ARGUMENT without a name or a source", (*GROUPS, "LIST_SNAPSHOTS"))
def _(bench):
    volume = bench.create()
    bench.refuses("CreateVolumeGroupSnapshot", "NOT_FOUND", name=bench.name(), source_volume_ids=[volume.volume_id, NOWHERE])
    left = bench.call("ListSnapshots", source_volume_id=volume.volume_id).entries
    assert not left, f"it left {left}"
    bench.refuses("CreateVolumeGroupSnapshot", "INVALID_ARGUMENT", source_volume_ids=[volume.volume_id])
    bench.refuses("CreateVolumeGroupSnapshot", "INVALID_ARGUMENT", name=bench.name())


@case("group-lost", "GetVolumeGroupSnapshot", "gives the group; NOT_FOUND for none; INVALID_ARGUMENT for other snapshots", GROUPS)
def _(bench):
    group = bench.group([bench.create(), bench.create()])
    asked = bench.group_request(group)
    found = bench.call("GetVolumeGroupSnapshot", **asked).group_snapshot
    assert found.group_snapshot_id == group.group_snapshot_id and len(found.snapshots) == 2, str(found)
    bench.refuses("GetVolumeGroupSnapshot", "INVALID_ARGUMENT", **asked | {"snapshot_ids": asked["snapshot_ids"][:1]})
    bench.refuses("GetVolumeGroupSnapshot", "NOT_FOUND", group_snapshot_id=NOWHERE, snapshot_ids=[NOWHERE])
    bench.refuses("GetVolumeGroupSnapshot", "INVALID_ARGUMENT")


@case("group-member-goes-alone", "DeleteSnapshot", "INVALID_ARGUMENT for a snapshot of a group", (*GROUPS, "CREATE_DELETE_SNAPSHOT"))
def _(bench):
    group = bench.group([bench.create(), bench.create()])
    bench.refuses("DeleteSnapshot", "INVALID_ARGUMENT", snapshot_id=group.snapshots[0].snapshot_id)
    found = bench.call("GetVolumeGroupSnapshot", **bench.group_request(group)).group_snapshot
    assert len(found.snapshots) == 2, str(found)


@case("group-delete-twice", "DeleteVolumeGroupSnapshot", "OK for a group that is gone; INVALID_ARGUMENT for other snapshots", GROUPS)
def _(bench):
    asked = bench.group_request(bench.group([bench.create(), bench.create()]))
    bench.refuses("DeleteVolumeGroupSnapshot", "INVALID_ARGUMENT", **asked | {"snapshot_ids": asked["snapshot_ids"][:1]})
    for _ in range(2):
        bench.call("DeleteVolumeGroupSnapshot", **asked)
    bench.refuses("GetVolumeGroupSnapshot", "NOT_FOUND", **asked)
    bench.refuses("DeleteVolumeGroupSnapshot", "INVALID_ARGUMENT")


@case("group-content", "CreateVolume", "a volume from a snapshot of a group has the content of then", GROUPS)
def _(bench):
    volumes = {name: bench.stage() for name in ("one", "two")}
    paths = {name: bench.publish(volume, name) for name, volume in volumes.items()}
    for name, path in paths.items():
        (path / "note").write_text(f"{name} then")
    group = bench.group(list(volumes.values()))
    for path in paths.values():
        (path / "note").write_text("now")
    for name, volume in volumes.items():
        snapshot = next(item for item in group.snapshots if item.source_volume_id == volume.volume_id)
        copy = bench.stage(bench.create(bench.request(volume_content_source=_refer(snapshot), volume_capabilities=[mount()])))
        assert (bench.publish(copy, f"{name}-copy") / "note").read_text() == f"{name} then"
