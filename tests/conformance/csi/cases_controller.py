"""Service Controller: volumes, attaching, snapshots."""
from bench import MIB, SIZE, mount
from case import case

from lib.rules import Refused

MAKES = "CREATE_DELETE_VOLUME"
ATTACHES = (MAKES, "PUBLISH_UNPUBLISH_VOLUME")
SNAPSHOTS = (MAKES, "CREATE_DELETE_SNAPSHOT")
NOWHERE = "conformance-no-such-thing"


# -- CreateVolume

@case("create-ignores-missing", "CreateVolume", "INVALID_ARGUMENT without a name, or without capabilities", MAKES)
def _(bench):
    bench.refuses("CreateVolume", "INVALID_ARGUMENT", **bench.request() | {"name": ""})
    without = bench.request() | {"volume_capabilities": []}
    try:
        bench.create(without)
    except Refused as refused:
        assert refused.code == "INVALID_ARGUMENT", refused
    else:
        raise AssertionError("CreateVolume gave OK without volume_capabilities")


@case("create-not-idempotent", "CreateVolume", "the same name gives the same volume", MAKES)
def _(bench):
    request = bench.request()
    first, second = bench.create(request), bench.create(request)
    assert first.volume_id == second.volume_id, f"'{first.volume_id}', then '{second.volume_id}'"


@case("two-names-one-volume", "CreateVolume", "a volume is identified by its id", MAKES)
def _(bench):
    first, second = bench.create(), bench.create()
    assert first.volume_id != second.volume_id, f"two names gave volume '{first.volume_id}'"


@case("create-ignores-conflict", "CreateVolume", "ALREADY_EXISTS for a name with other properties", MAKES)
def _(bench):
    request = bench.request()
    bench.create(request)
    larger = request | {"capacity_range": {"required_bytes": 4 * SIZE}}
    bench.refuses("CreateVolume", "ALREADY_EXISTS", **larger)


@case("empty-volume-id", "CreateVolume", "volume_id is required", MAKES)
def _(bench):
    assert bench.create().volume_id, "no volume_id"


@case("oversized-volume-id", "Size Limits", "a string has at most 128 bytes", MAKES)
@case("oversized-context", "Size Limits", "a map has at most 4 KiB", MAKES)
@case("invalid-utf8", "Size Limits", "strings are UTF-8", MAKES)
@case("capacity-negative", "CreateVolume", "capacity_bytes is not negative", MAKES)
def _(bench):
    bench.create()  # checked with each answer


@case("capacity-below-required", "CreateVolume", "capacity_bytes is within the range", MAKES)
def _(bench):
    has = bench.create().capacity_bytes
    assert has == 0 or has >= SIZE, f"{has} bytes, where {SIZE} are required"


@case("capacity-above-limit", "CreateVolume", "capacity_bytes is within the range", MAKES)
def _(bench):
    limit = SIZE + 16 * MIB
    request = bench.request() | {"capacity_range": {"required_bytes": SIZE, "limit_bytes": limit}}
    has = bench.create(request).capacity_bytes
    assert has <= limit, f"{has} bytes, where {limit} is the limit"
    impossible = bench.request() | {"capacity_range": {"required_bytes": 2 * SIZE, "limit_bytes": SIZE}}
    bench.refuses("CreateVolume", "INVALID_ARGUMENT", "OUT_OF_RANGE", **impossible)


def _copy(bench, **source):
    return bench.create(bench.request(volume_content_source=source))


@case("ignores-source", "CreateVolume", "a volume from a source says so", (MAKES, "CLONE_VOLUME"))
def _(bench):
    source = bench.create()
    copy = _copy(bench, volume={"volume_id": source.volume_id})
    assert copy.HasField("content_source"), "content_source is missing"


@case("other-source", "CreateVolume", "content_source is the one asked for", (MAKES, "CLONE_VOLUME"))
def _(bench):
    source = bench.create()
    copy = _copy(bench, volume={"volume_id": source.volume_id})
    assert copy.content_source.volume.volume_id == source.volume_id, f"it names {copy.content_source}"


@case("source-missing", "CreateVolume", "NOT_FOUND for a source that is not there", (MAKES, "CLONE_VOLUME"))
def _(bench):
    bench.refuses("CreateVolume", "NOT_FOUND",
                  **bench.request(volume_content_source={"volume": {"volume_id": NOWHERE}}))


@case("wrong-topology", "CreateVolume", "the volume is reachable where it is required",
      (MAKES, "VOLUME_ACCESSIBILITY_CONSTRAINTS"))
def _(bench):
    here = bench.call("NodeGetInfo").accessible_topology
    assert here.segments, "NodeGetInfo gives no topology"
    required = {"requisite": [{"segments": dict(here.segments)}]}
    volume = bench.create(bench.request(accessibility_requirements=required))
    places = [dict(place.segments) for place in volume.accessible_topology]
    assert not places or dict(here.segments) in places, f"required {dict(here.segments)}, and it is at {places}"
    elsewhere = {"requisite": [{"segments": {key: "conformance-nowhere" for key in here.segments}}]}
    bench.refuses("CreateVolume", "RESOURCE_EXHAUSTED", **bench.request(accessibility_requirements=elsewhere))


# -- DeleteVolume and others

@case("delete-twice-fails", "DeleteVolume", "OK for a volume that is gone; INVALID_ARGUMENT without an id", MAKES)
def _(bench):
    volume = bench.create()
    for _ in range(2):
        try:
            bench.call("DeleteVolume", volume_id=volume.volume_id)
        except Refused as refused:
            raise AssertionError(str(refused)) from refused
    bench.refuses("DeleteVolume", "INVALID_ARGUMENT")


@case("delete-keeps", "DeleteVolume", "OK when the volume is gone", (MAKES, "LIST_VOLUMES"))
def _(bench):
    volume = bench.create()
    assert volume.volume_id in _listed(bench), "ListVolumes does not know it"
    bench.call("DeleteVolume", volume_id=volume.volume_id)
    assert volume.volume_id not in _listed(bench), "ListVolumes still has it"


def _listed(bench, page=0, pages=1000):
    found, token = [], ""
    for _ in range(pages):
        answer = bench.call("ListVolumes", max_entries=page, starting_token=token)
        assert page == 0 or len(answer.entries) <= page, f"{len(answer.entries)} entries, where {page} are asked for"
        found += [entry.volume.volume_id for entry in answer.entries]
        token = answer.next_token
        if not token:
            return found
    raise AssertionError(f"{pages} pages, and each names another one")


@case("deletes-in-use", "DeleteVolume", "FAILED_PRECONDITION, and its data stays, if it is in use and cannot be deleted",
      MAKES)
def _(bench):
    volume = bench.stage()
    path = bench.publish(volume)
    (path / "note").write_text("precious")
    try:
        bench.call("DeleteVolume", volume_id=volume.volume_id)
    except Refused as refused:
        assert refused.code == "FAILED_PRECONDITION", str(refused)
        assert (path / "note").read_text() == "precious", "it refused, and the data is gone"
        return
    # The specification lets a driver delete a volume under its user. Then it has to be gone.
    bench.refuses("ValidateVolumeCapabilities", "NOT_FOUND", volume_id=volume.volume_id, volume_capabilities=[mount()])


@case("confirms-anything", "ValidateVolumeCapabilities", "NOT_FOUND for no volume; a right one is confirmed", MAKES)
def _(bench):
    bench.refuses("ValidateVolumeCapabilities", "NOT_FOUND", volume_id=NOWHERE, volume_capabilities=[mount()])
    volume = bench.create()
    bench.refuses("ValidateVolumeCapabilities", "INVALID_ARGUMENT", volume_id=volume.volume_id)
    answer = bench.call("ValidateVolumeCapabilities", volume_id=volume.volume_id, volume_capabilities=[mount()],
                        volume_context=dict(volume.volume_context))
    assert answer.confirmed.volume_capabilities, f"not confirmed: {answer.message}"


@case("accepts-bad-token", "ListVolumes", "pages of at most max_entries; ABORTED for a token that it never gave",
      (MAKES, "LIST_VOLUMES"))
def _(bench):
    made = {bench.create().volume_id for _ in range(3)}
    paged = _listed(bench, page=2)
    assert made <= set(paged) and len(paged) == len(set(paged)), f"made {made}, listed {paged}"
    bench.refuses("ListVolumes", "ABORTED", starting_token=NOWHERE)


@case("endless-pages", "ListVolumes", "the last page has no next_token", (MAKES, "LIST_VOLUMES"))
def _(bench):
    bench.create()
    _listed(bench)


@case("free-negative", "GetCapacity", "available_capacity is not negative", "GET_CAPACITY")
def _(bench):
    bench.call("GetCapacity")  # checked with each answer


@case("expand-below", "ControllerExpandVolume", "capacity_bytes is within the range; again the same",
      (MAKES, "EXPAND_VOLUME"))
def _(bench):
    volume = bench.create()
    for _ in range(2):
        has = bench.call("ControllerExpandVolume", volume_id=volume.volume_id,
                         capacity_range={"required_bytes": 2 * SIZE}, volume_capability=mount()).capacity_bytes
        assert has >= 2 * SIZE, f"{has} bytes, where {2 * SIZE} are required"
    bench.refuses("ControllerExpandVolume", "NOT_FOUND", volume_id=NOWHERE,
                  capacity_range={"required_bytes": SIZE})
    bench.refuses("ControllerExpandVolume", "INVALID_ARGUMENT", capacity_range={"required_bytes": SIZE})


# -- attaching

@case("attaches-twice", "ControllerPublishVolume", "FAILED_PRECONDITION for a second node of a single-node volume",
      (*ATTACHES, "SECOND_NODE"))
def _(bench):
    volume = bench.create()
    bench.attach(volume)
    bench.refuses("ControllerPublishVolume", "FAILED_PRECONDITION", volume_id=volume.volume_id,
                  node_id=bench.second_node, volume_capability=mount())


@case("attaches-anywhere", "ControllerPublishVolume", "NOT_FOUND for an unknown node or volume", ATTACHES)
def _(bench):
    volume = bench.create()
    bench.refuses("ControllerPublishVolume", "NOT_FOUND", volume_id=volume.volume_id, node_id=NOWHERE,
                  volume_capability=mount())
    bench.refuses("ControllerPublishVolume", "NOT_FOUND", volume_id=NOWHERE,
                  node_id=bench.call("NodeGetInfo").node_id, volume_capability=mount())


@case("publish-context-changes", "ControllerPublishVolume", "the same call gives the same context", ATTACHES)
def _(bench):
    volume = bench.create()
    first, second = dict(bench.attach(volume)), dict(bench.attach(volume))
    assert first == second, f"{first}, then {second}"


@case("oversized-publish-context", "Size Limits", "a map has at most 4 KiB", ATTACHES)
def _(bench):
    bench.attach(bench.create())  # checked with each answer


@case("detach-twice-fails", "ControllerUnpublishVolume", "OK for what is not attached", ATTACHES)
def _(bench):
    volume = bench.create()
    bench.attach(volume)
    node = bench.call("NodeGetInfo").node_id
    for _ in range(2):
        try:
            bench.call("ControllerUnpublishVolume", volume_id=volume.volume_id, node_id=node)
        except Refused as refused:
            raise AssertionError(str(refused)) from refused


@case("detach-lies", "ControllerUnpublishVolume", "OK when it is detached: it can be attached elsewhere, and deleted",
      ATTACHES)
def _(bench):
    volume = bench.create()
    bench.attach(volume)
    node = bench.call("NodeGetInfo").node_id
    bench.call("ControllerUnpublishVolume", volume_id=volume.volume_id, node_id=node)
    try:
        if bench.second_node:
            bench.attach(volume, bench.second_node)
            bench.call("ControllerUnpublishVolume", volume_id=volume.volume_id, node_id=bench.second_node)
        bench.call("DeleteVolume", volume_id=volume.volume_id)
    except Refused as refused:
        raise AssertionError(f"detached, and yet: {refused}") from refused


# -- snapshots

@case("snapshot-not-idempotent", "CreateSnapshot", "the same name gives the same snapshot", SNAPSHOTS)
def _(bench):
    volume, other, name = bench.create(), bench.create(), bench.name()
    first, second = bench.snapshot(volume, name), bench.snapshot(volume, name)
    assert first.snapshot_id == second.snapshot_id, f"'{first.snapshot_id}', then '{second.snapshot_id}'"
    bench.refuses("CreateSnapshot", "ALREADY_EXISTS", source_volume_id=other.volume_id, name=name)


@case("snapshot-of-nothing", "CreateSnapshot", "NOT_FOUND for no source", SNAPSHOTS)
def _(bench):
    bench.refuses("CreateSnapshot", "NOT_FOUND", source_volume_id=NOWHERE, name=bench.name())


@case("snapshot-without-time", "CreateSnapshot", "creation_time is required", SNAPSHOTS)
def _(bench):
    assert bench.snapshot(bench.create()).HasField("creation_time"), "it is missing"


@case("snapshot-delete-twice", "DeleteSnapshot", "OK for a snapshot that is gone", SNAPSHOTS)
def _(bench):
    snapshot = bench.snapshot(bench.create())
    for _ in range(2):
        bench.call("DeleteSnapshot", snapshot_id=snapshot.snapshot_id)
    bench.refuses("DeleteSnapshot", "INVALID_ARGUMENT")


@case("snapshot-content", "CreateVolume", "a volume from a snapshot has the content of then", SNAPSHOTS)
def _(bench):
    volume = bench.stage()
    path = bench.publish(volume)
    (path / "note").write_text("then")
    snapshot = bench.snapshot(volume)
    (path / "note").write_text("now")
    copy = bench.stage(_copy(bench, snapshot={"snapshot_id": snapshot.snapshot_id}))
    restored = bench.publish(copy, "restored")
    assert (restored / "note").read_text() == "then"
    assert (path / "note").read_text() == "now"
