"""A call that is killed at any moment leaves nothing half made, and can be made again."""
import ast
import signal
import time

import pytest
from lib.rbd import MIB, STEPS, CallError, begin, letters
from lib.standalone import wait_for

pytestmark = pytest.mark.storage
# Seconds after the start of the call; a call takes about 0.3 s.
MOMENTS = [0.05, 0.08, 0.11, 0.14, 0.17, 0.2, 0.25, 0.3]


def kill_call(ceph, seconds, *arguments, **members):
    process = begin(ceph.request(*arguments, **members))
    time.sleep(seconds)
    process.kill()
    process.communicate()


def again(ceph, *arguments, **members):
    """Makes the call again, until the lock of the one that was killed has lapsed."""
    def probe():
        try:
            return [ceph.call(*arguments, **members)]
        except CallError as error:
            assert error.code in ("FAILED_PRECONDITION", "ABORTED"), error
            print(error)  # shown if the test fails
            return None
    [result] = wait_for(f"{arguments} to pass", probe, seconds=90, interval=1)
    return result


@pytest.mark.parametrize("seconds", MOMENTS)
def test_a_creation_that_was_killed(ceph, image, seconds):
    kill_call(ceph, seconds, "create", image=image, size=8 * MIB)
    assert again(ceph, "create", image=image, size=8 * MIB)["size"] == 8 * MIB
    assert int(ceph.rbd(f"print(rbd.Image(io, '{image}').size())")) == 8 * MIB


@pytest.mark.parametrize("seconds", [0.1, 0.2, 0.3, 0.4])
def test_a_snapshot_that_was_killed_under_a_node_that_writes(ceph, image, serve, seconds):
    served = serve("n1").start()
    served.write_block(1, b"a")
    snapshot = f"snap-of-{image}"
    kill_call(ceph, seconds, "snapshot", image=image, snapshot=snapshot)
    served.write_block(2, b"b")
    assert again(ceph, "snapshot", image=image, snapshot=snapshot)["snapshotOf"] == image
    # The killed call may have made it.
    assert letters(ceph, snapshot, 4) in (".a..", ".ab.")
    served.write_block(3, b"c")
    served.stop()
    ceph.call("fence", node="n2", image=image, target="n1")
    for name in (image, snapshot):
        again(ceph, "delete", image=name)
    assert image not in ceph.rbd("print([entry['name'] for entry in rbd.RBD().trash_list(io)])")


@pytest.mark.parametrize("call, use", [("create", "lock"), ("snapshot", "lock"), ("grow", "lock"), ("delete", "lock"),
                                       ("delete", "watch")])
def test_the_first_call_after_one_that_died_passes_and_fences_the_dead_client(ceph, image, call, use):
    # A call has the lock for some milliseconds, so that it may be through with it when it is killed.
    for number in range(10):
        name = f"{image}-{number}"
        members = {"create": {"size": 8 * MIB}, "snapshot": {"snapshot": f"snap-of-{name}"}, "grow": {"size": 16 * MIB},
                   "delete": {}}[call] | {"image": name}
        if call != "create":
            ceph.call("create", image=name, size=8 * MIB)
        if ceph.kill_with_use(use, "berth_making_" if call == "create" else name, call, **members):
            break
        again(ceph, call, **members)
    else:
        pytest.fail(f"none of the calls of {call} died with the {use}")
    fenced = set(ceph.blocklist())
    ceph.call(call, **members)
    assert len(set(ceph.blocklist()) - fenced) == 1
    if call != "delete":
        size = 16 * MIB if call == "grow" else 8 * MIB
        assert ceph.call("info", image=members.get("snapshot", name))["size"] == size
        # Nobody has the lock any more, so that a use and the deletion need no fence.
        for made in (name, members.get("snapshot", name)):
            ceph.call("delete", image=made)
    assert name not in ceph.rbd("print(rbd.RBD().list(io))")


@pytest.mark.parametrize("call", ["grow", "snapshot", "delete"])
def test_a_server_that_is_frozen_is_not_taken_for_a_call_that_died(ceph, image, serve, call):
    served = serve("n1").start()
    served.write_block(0, b"a")
    fenced = ceph.blocklist()
    members = {"grow": {"size": 16 * MIB}, "snapshot": {"snapshot": f"snap-of-{image}"}, "delete": {}}[call]
    served.signal(signal.SIGSTOP)
    begun = time.monotonic()
    with pytest.raises(CallError) as raised:
        ceph.call(call, image=image, **members)
    assert raised.value.code == "FAILED_PRECONDITION"
    assert time.monotonic() - begun < 10
    served.signal(signal.SIGCONT)
    served.write_block(1, b"b")
    assert ceph.blocklist() == fenced
    assert letters(ceph, image, 3) == "ab."
    if call != "delete":
        ceph.call(call, image=image, **members)


def in_pool(ceph):
    """The names of images in the pool: those that are listed, in the trash, and in Berth's records; and the recorded clients."""
    out = ceph.rbd("""
def keys(place):
    with rados.ReadOpCtx() as read:
        entries, _ = io.get_omap_vals(read, "", "", 1000)
        try:
            io.operate_read_op(read, place)
        except rados.ObjectNotFound:
            return []
        return [key for key, _ in entries]
print({"listed": rbd.RBD().list(io), "trash": [entry["name"] for entry in rbd.RBD().trash_list(io)]}
      | {place: keys(place) for place in ("berth.images", "berth.clients", "berth.trash")})""")
    return {place: sorted(names) for place, names in ast.literal_eval(out).items()}


def count_points(ceph, image):
    """How many snapshots of librbd the image has from which copies are made, as (listed ones, ones that wait in its trash)."""
    return ast.literal_eval(ceph.rbd(f"""
with rbd.Image(io, '{image}', read_only=True) as opened:
    trash = [one['namespace'] == rbd.RBD_SNAP_NAMESPACE_TYPE_TRASH for one in opened.list_snaps()]
print((trash.count(False), trash.count(True)))"""))


@pytest.mark.parametrize("call, step", [(call, step) for call in ("snapshot", "create") for step in STEPS
                                        if (call, step) != ("snapshot", "grown")])
def test_a_copy_that_died_at_a_step_is_made_once_by_the_next_call(ceph, image, serve, call, step):
    """A snapshot of a volume, and a larger volume that is made from a snapshot."""
    served = serve("n1").start()
    served.write_block(1, b"a")
    served.stop()
    ceph.call("fence", node="n2", image=image, target="n1")
    origin = image
    if call == "create":
        origin = f"snap-of-{image}"
        ceph.call("snapshot", image=image, snapshot=origin)
    without = in_pool(ceph)
    for number in range(10):
        name = f"copy-{number}-of-{image}"
        members = {"image": image, "snapshot": name} if call == "snapshot" else {
            "image": name, "size": 16 * MIB, "source": origin}
        if ceph.kill_at_step(step, name, origin, call, **members):
            break
        again(ceph, call, **members)
        ceph.call("delete", image=name)
    else:
        pytest.fail(f"none of the calls of {call} died when it was {step}")

    answer = ceph.call(call, **members)
    assert (answer["name"], answer["size"], answer.get("snapshotOf", "")) == (
        name, *((8 * MIB, image) if call == "snapshot" else (16 * MIB, "")))
    assert letters(ceph, name, 3) == ".a."
    internal = ceph.rbd(f"print(rbd.Image(io, '{name}', read_only=True).id())")
    assert ceph.call(call, **members) == answer
    assert ceph.rbd(f"print(rbd.Image(io, '{name}', read_only=True).id())") == internal, "it is made once"
    assert in_pool(ceph) == without | {place: sorted([*without[place], name]) for place in ("listed", "berth.images")}
    assert count_points(ceph, origin) == (0, 1), "that of the one copy waits for the copy's end"

    # What is in use by nobody needs no fence, and nothing of the call that died keeps the origin in the trash.
    for made in (name, image, origin):
        ceph.call("delete", image=made)
    assert in_pool(ceph) == {place: [found for found in names if found not in (image, origin)] for place, names in without.items()}
