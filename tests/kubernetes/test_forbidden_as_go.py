"""What a provisioner that may not list, watch or update snapshots costs the API server and its log. A restore needs none of these rights."""
import collections
import time

import pytest
from lib import objects
from lib.kubernetes.world import RIGHTS, rules_of
from lib.standalone import wait_for

GO_PROGRAMS = ("csi-provisioner",)
FAST = ("--timeout=10s", "--retry-interval-start=200ms", "--retry-interval-max=1s")
CONTROLLER = ("--retry-interval-start=200ms", "--feature-gates=CSIVolumeGroupSnapshot=false")
GROUP = "snapshot.storage.k8s.io"
WATCHED_FOR = 70
# How often the provisioner may ask in that time, by verb. A first wait of half a second that doubles up to two minutes leaves it 8 tries of
# an informer, and it looks once for snapshots that an earlier process has held.
MOST = {"list": 10, "watch": 8, "update": 1}


@pytest.fixture
def snapshot(world):
    """A snapshot of a bound claim, whose makers have ended."""
    world.make_class()
    makers = [world.start("csi-provisioner", of_go=False, elect=False, further=[
        {"apiGroups": [GROUP], "resources": ["volumesnapshotclasses"], "verbs": ["get", "list", "watch"]}]),
              world.start("snapshot-controller", *CONTROLLER, of_go=False),
              world.start("csi-snapshotter", *CONTROLLER, of_go=False)]
    world.claim("data")
    world.bound("data")
    kind = f"snapshots-{world.namespace}"
    world.create(objects.snapshot_class(kind, world.driver))
    world.create(objects.snapshot("snap", "data", kind))
    world.wait("VolumeSnapshot", "snap", lambda item: (item.get("status") or {}).get("readyToUse"), 90)
    for maker in makers:
        maker.stop()
    return {"apiGroup": GROUP, "kind": "VolumeSnapshot", "name": "snap"}


@pytest.mark.parametrize("verbs", [("get",), ("get", "list")], ids=["to-list", "to-watch"])
def test_snapshots_are_forbidden(world, snapshot, verbs):
    """Without the right to list or to watch snapshots, and to update them, a claim and a restore are bound, what is refused is asked for
    ever more rarely, and each refusal is logged once."""
    rules = [rule | {"verbs": list(verbs)} if rule["resources"] == ["volumesnapshots"] else rule
             for rule in rules_of(*RIGHTS["csi-provisioner"])]
    before = world.cluster.plane.audit_size() if world.cluster.real else 0
    provisioner = world.start("csi-provisioner", *FAST, rules=rules)
    begin = time.monotonic()
    world.claim("restored", dataSource=snapshot)
    world.bound("restored")
    world.claim("further")
    world.bound("further")
    if not world.cluster.real:
        return  # without roles nothing is refused
    wait_for("some time to pass", lambda: time.monotonic() - begin > WATCHED_FOR, WATCHED_FOR + 60)
    made = world.cluster.plane.requests_of(f"system:serviceaccount:{world.namespace}:csi-provisioner", before)
    refused = {(verb, resource) for verb, resource, code in made if code == 403}
    assert ("update", "volumesnapshots") in refused and {resource for _, resource in refused} == {"volumesnapshots"}
    counts = collections.Counter(verb for verb, resource, _ in made if resource == "volumesnapshots" and verb != "get")
    # The Go program watches only where it may list, and then asks for the watch 12 times in this time.
    if not world.of_go:
        assert all(count <= MOST[verb] for verb, count in counts.items()), counts
        assert len(provisioner.refusals()) == 2, "a list or a watch, and an update are refused, and each is logged once"
