"""`berth-rbd serve`: one node writes, and a fenced one writes nothing more, whenever it wakes up."""
import errno
import signal
import subprocess

import pytest
from lib.direct_io import BLOCK
from lib.rbd import MIB, CallError, letters
from lib.standalone import wait_for

pytestmark = pytest.mark.storage


def test_one_node_writes(ceph, image, serve):
    served = serve("n1").start()
    served.write_block(1, b"a")
    assert letters(ceph, image, 3) == ".a."
    refusal = serve("n2").failure()
    assert refusal["code"] == "FAILED_PRECONDITION"
    assert "'n1'" in refusal["message"]
    [holder] = ceph.call("holders", node="n2", image=image)["holders"]
    assert (holder["node"], holder["alive"]) == ("n1", True)
    for call, members in (("delete", {"image": image}),
                          ("create", {"image": f"copy-of-{image}", "size": 8 * MIB, "source": image})):
        with pytest.raises(CallError) as raised:
            ceph.call(call, **members)
        assert raised.value.code == "FAILED_PRECONDITION"
    ceph.call("note", image=image, uuid="5b0c")
    assert ceph.call("grow", image=image, size=16 * MIB)["size"] == 16 * MIB
    served.write_block(2, b"b")
    assert letters(ceph, image, 3) == ".ab"


def test_a_snapshot_is_made_while_a_node_writes(ceph, image, serve):
    """The node makes it for the caller, keeps its lock and writes on. What was written before is in the snapshot, what was
    written later is not, and snapshot and image go in any order."""
    served = serve("n1").start()
    served.write_block(1, b"a")
    names = [f"snap-{number}-of-{image}" for number in range(3)]
    for number, name in enumerate(names):
        made = ceph.call("snapshot", node="n2", image=image, snapshot=name)
        assert made == {"name": name, "size": 8 * MIB, "snapshotOf": image}
        assert ceph.call("snapshot", node="n2", image=image, snapshot=name) == made
        served.write_block(2 + number, b"b")
    [holder] = ceph.call("holders", node="n2", image=image)["holders"]
    assert (holder["node"], holder["alive"]) == ("n1", True)
    assert letters(ceph, image, 5) == ".abbb"
    assert [letters(ceph, name, 5) for name in names] == [".a...", ".ab..", ".abb."]
    # One goes while its image is in use, one with the image before it, and one after that.
    ceph.call("delete", image=names[0])
    served.write_block(0, b"c")
    served.stop()
    ceph.call("fence", node="n2", image=image, target="n1")
    ceph.call("delete", image=names[1])
    ceph.call("delete", image=image)
    assert letters(ceph, names[2], 5) == ".abb."
    ceph.call("delete", image=names[2])
    left = {one["name"] for one in ceph.call("list")["images"]}
    assert not left & {image, *names}
    assert image not in ceph.rbd("print([entry['name'] for entry in rbd.RBD().trash_list(io)])")


def test_a_holder_that_does_not_answer_makes_no_snapshot(ceph, image, serve):
    served = serve("n1").start()
    served.write_block(1, b"a")
    served.stop()

    def refusal():
        with pytest.raises(CallError) as raised:
            ceph.call("snapshot", node="n2", image=image, snapshot=f"snap-of-{image}")
        assert raised.value.code in ("FAILED_PRECONDITION", "DEADLINE_EXCEEDED")
        return "fence its node first" in raised.value.message
    wait_for("the cluster to notice", refusal, seconds=90)
    ceph.call("fence", node="n2", image=image, target="n1")
    ceph.call("snapshot", node="n2", image=image, snapshot=f"snap-of-{image}")
    assert letters(ceph, f"snap-of-{image}", 3) == ".a."
    for name in (image, f"snap-of-{image}"):
        ceph.call("delete", image=name)


def test_a_frozen_node_that_was_fenced_writes_not_one_byte_more(ceph, image, serve):
    first = serve("n1").start()
    first.write_block(0, b"a")
    first.signal(signal.SIGSTOP)
    # Its write reaches the process only when it wakes up. The newcomer never writes block 3.
    late = [subprocess.Popen(["dd", "if=/dev/urandom", f"of={first.file}", f"bs={BLOCK}", "count=1", f"seek={block}",
                              "oflag=direct", "conv=notrunc"], stderr=subprocess.PIPE) for block in (1, 3)]
    fenced = ceph.call("fence", node="n2", image=image, target="n1")["addresses"]
    assert len(fenced) == 1 and fenced[0] in ceph.blocklist()
    assert ceph.call("fence", node="n2", image=image, target="n1")["addresses"] == fenced
    second = serve("n2").start()
    second.write_block(1, b"b")
    # Of the newcomer there is nothing to fence when an old fence is carried out again.
    assert ceph.call("fence", node="n3", image=image, target="n1")["addresses"] == fenced
    second.write_block(2, b"b")
    first.signal(signal.SIGCONT)
    for writer in late:
        writer.communicate(timeout=60)
        assert writer.returncode != 0
    with pytest.raises(OSError) as raised:
        first.write_block(0, b"x")
    assert raised.value.errno in (errno.ESHUTDOWN, errno.EIO)
    assert letters(ceph, image, 5) == "abb.."
    assert fenced[0] in ceph.call("fenced")["nodes"]["n1"]  # beside what other tests have fenced
    first.stop()
    with pytest.raises(CallError) as denied:
        ceph.call("unfence", target="n1", addresses=fenced, cluster=ceph.settings("plain"))
    assert denied.value.code == "PERMISSION_DENIED"
    assert ceph.call("unfence", target="n1", addresses=fenced) == {}
    assert fenced[0] not in ceph.blocklist()
    assert fenced[0] not in ceph.call("fenced")["nodes"].get("n1", [])


def test_a_process_that_was_killed_is_succeeded_on_its_node(ceph, image, serve):
    first = serve("n1").start()
    first.write_block(0, b"a")
    first.stop()
    assert "not fenced" in serve("n2").failure()["message"] or ceph.call("holders", node="n2", image=image)["holders"]
    serve("n1").start().write_block(1, b"b")
    assert letters(ceph, image, 2) == "ab"
