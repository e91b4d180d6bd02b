"""What a sidecar asks the API server for, by verb: counted in its audit log for claims that are made one after the other."""
import collections

import pytest
from lib import objects
from lib.kubernetes import compatibility
from lib.kubernetes.world import NODE, RIGHTS, rules_of
from lib.standalone import wait_for

pytestmark = pytest.mark.kubernetes

GO_PROGRAMS = ("csi-provisioner", "csi-attacher")
COUNT = 20

_found = {}  # (side, what) → {request: how many}


class Count:
    """Counts the requests of a program while something is done."""

    def __init__(self, world, account):
        self.world = world
        self.account = account

    def __enter__(self):
        self.before = len(self.world.cluster.requests_of(self.world.namespace, self.account))
        return self

    def __exit__(self, *_):
        requests = self.world.cluster.requests_of(self.world.namespace, self.account)[self.before:]
        # The election's lease is renewed by the clock.
        self.counted = collections.Counter(
            f"{verb} {resource}" for verb, resource, _ in requests if not (resource == "leases" and verb == "get")
            and not (verb == "watch"))


def note(side, what, counted):
    """Keeps the counts of a side for the page, and gives the sum for one object, without leases."""
    _found[side, what] = counted
    return sum(number for request, number in counted.items() if "leases" not in request) / COUNT


@pytest.fixture(scope="module", autouse=True)
def page():
    yield
    lines = ["| | program | requests | which |", "| --- | --- | --- | --- |"]
    for (side, what), counted in sorted(_found.items(), key=lambda entry: (entry[0][1], -ord(entry[0][0][0]))):
        each = ", ".join(f"{request} {number / COUNT:.2f}" for request, number in sorted(counted.items()))
        lines.append(f"| {what} | {'Go' if side == 'go' else 'Berth'} | {sum(counted.values()) / COUNT:.1f} | {each} |")
    compatibility.add_note(f"Requests to the API server, for each of {COUNT} objects made one after the other", [
        "Counted in the audit log, without leader election, so without leases. With it, Berth's provisioner also writes what it is about to",
        "ask the driver for: one update of a Lease for all claims that are served at the time. Go's events are limited to a rate, so some",
        "of those of a claim are counted with its deletion.", "", *lines])


@pytest.fixture(params=["go", "berth"])
def side(request):
    return request.param


def start(world, side, program):
    """Starts the program of a side, without leader election, so that no lease is renewed in the count."""
    return world.start(program, of_go=side == "go", elect=False)


def test_of_claims(real_world, side):
    """The requests for a claim that is bound and deleted are at most one more than the Go program's."""
    world = real_world
    world.make_class()
    sidecar = start(world, side, "csi-provisioner")
    world.claim("first")
    world.bound("first")
    with Count(world, "csi-provisioner") as making:
        for number in range(COUNT):
            world.claim(f"data-{number}")
            world.bound(f"data-{number}")
    volumes = [world.get("PersistentVolumeClaim", f"data-{number}")["spec"]["volumeName"] for number in range(COUNT)]
    with Count(world, "csi-provisioner") as deleting:
        for number, volume in enumerate(volumes):
            world.delete("PersistentVolumeClaim", f"data-{number}")
            world.wait_gone("PersistentVolume", volume)
    sidecar.stop()
    made, deleted = note(side, "a claim is bound", making.counted), note(side, "a volume is deleted", deleting.counted)
    assert made <= 3.2 and deleted <= 3.4, (making.counted, deleting.counted)


def test_of_attachments(real_world, side):
    """The requests for an attachment that is made and deleted are at most the Go program's."""
    world = real_world
    world.make_class()
    provisioner = world.start("csi-provisioner", of_go=False, elect=False)
    for number in range(COUNT):
        world.claim(f"data-{number}")
    volumes = [world.bound(f"data-{number}")[1]["metadata"]["name"] for number in range(COUNT)]
    provisioner.stop()
    sidecar = start(world, side, "csi-attacher")
    wait_for("it to serve", lambda: sidecar.get("/metrics")[1])
    names = [f"{world.namespace}-{number}" for number in range(COUNT)]
    with Count(world, "csi-attacher") as counting:
        for name, volume in zip(names, volumes):
            world.create(objects.attachment(name, world.driver, NODE, volume))
            world.wait("VolumeAttachment", name, lambda item: (item.get("status") or {}).get("attached"))
        for name in names:
            world.delete("VolumeAttachment", name)
            world.wait_gone("VolumeAttachment", name)
    sidecar.stop()
    # The Go program now and then writes a status twice.
    assert note(side, "an attachment is made and deleted", counting.counted) <= {"go": 6.9, "berth": 5.0}[side], counting.counted


def threads_of(process):
    with open(f"/proc/{process.pid}/status") as status:
        return int(next(line.split()[1] for line in status if line.startswith("Threads:")))


def test_threads_at_rest(real_world):
    """One Berth in all five roles has at most 40 threads, also some time after 100 claims were made at once."""
    world = real_world
    world.make_class()
    rules = [rule for program in RIGHTS for rule in rules_of(*RIGHTS[program])]
    berth = world.start("controller", "--roles=provisioner,attacher,resizer,snapshotter,snapshot-controller", of_go=False, rules=rules)
    for number in range(100):
        world.claim(f"data-{number}")
    for number in range(100):
        world.bound(f"data-{number}")
    wait_for("threads to end", lambda: threads_of(berth.process) <= 40, 60)
    berth.stop()
