"""What waits in the pool to be removed, and whose it is."""
import json

import pytest
from lib.rbd import MIB, CallError
from lib.rbd_unrecorded import Unrecorded

pytestmark = pytest.mark.storage


def in_trash(ceph, image):
    """How many images are in librbd's trash whose name begins so."""
    return int(ceph.rbd(
        f"print(sum(entry['name'].startswith('{image}') for entry in rbd.RBD().trash_list(io)))"))


def write_record(ceph, records, key, value):
    ceph.rbd(f"""
with rados.WriteOpCtx() as op:
    op.new(0)
    io.set_omap(op, ({key!r},), ({value.encode()!r},))
    io.operate_write_op(op, '{records}')""")


def fill_trash(ceph, image, count):
    """Puts images into the trash that Berth moved there, and that have no copies any more."""
    ceph.rbd(f"""
for number in range({count}):
    name = f'{image}-{{number}}'
    rbd.RBD().create(io, name, {MIB}, old_format=False)
    with rbd.Image(io, name, read_only=True) as opened:
        id = opened.id()
    rbd.RBD().trash_move(io, name, 0)
    with rados.WriteOpCtx() as op:
        op.new(0)
        io.set_omap(op, (id,), (name.encode(),))
        io.operate_write_op(op, 'berth.trash')""")
    assert in_trash(ceph, image) == count


def test_a_list_removes_nothing_and_a_creation_little(ceph, image):
    fill_trash(ceph, image, 6)
    ceph.call("list")
    assert in_trash(ceph, image) == 6
    ceph.call("create", image=image, size=MIB)
    assert in_trash(ceph, image) >= 2
    ceph.call("delete", image=image)
    assert in_trash(ceph, image) == 0


def test_an_image_on_its_way_to_the_trash_keeps_its_record(ceph, image):
    """Another call purges after a deletion has recorded the image, and before it has moved it."""
    ceph.call("create", image=image, size=MIB)
    ceph.call("snapshot", image=image, snapshot=f"snap-of-{image}")
    internal = ceph.rbd(f"print(rbd.Image(io, '{image}', read_only=True).id())").strip()
    write_record(ceph, "berth.trash", internal, image)
    ceph.call("delete", image="no-such-image")  # purges
    ceph.rbd(f"rbd.RBD().trash_move(io, '{image}', 0)")
    ceph.call("delete", image=f"snap-of-{image}")
    assert in_trash(ceph, image) == 0


def record(members):
    """The text as Berth writes it, which it compares before it changes the record."""
    return json.dumps(members, sort_keys=True, separators=(",", ":"))


def attempt(number, **other):
    """The record of an attempt to make an image that died."""
    return record({"state": "making", "size": MIB, "made": MIB, "madeAs": f"berth_making_{number}"} | other)


@pytest.mark.parametrize("call", ["create", "delete"])
def test_an_image_of_others_survives_an_attempt_of_that_name(ceph, image, call):
    """Berth recorded that it makes the image, and died; then another one made an image of that name."""
    write_record(ceph, "berth.images", image, attempt(1))
    ceph.rbd(f"rbd.RBD().create(io, '{image}', {8 * MIB})")
    if call == "create":
        with pytest.raises(CallError) as raised:
            ceph.call("create", image=image, size=MIB)
        assert raised.value.code == "ALREADY_EXISTS"
    else:
        ceph.call("delete", image=image)
    assert int(ceph.rbd(f"print(rbd.Image(io, '{image}', read_only=True).size())")) == 8 * MIB


@pytest.mark.parametrize("call", ["create", "delete"])
def test_what_an_attempt_left_is_removed(ceph, image, call):
    """It died when the image was complete, and had not its name yet."""
    number = int(image.rpartition("-")[2])
    made_as = f"berth_making_{number}"
    ceph.rbd(f"rbd.RBD().create(io, '{made_as}', {8 * MIB}, old_format=False)")
    internal = ceph.rbd(f"print(rbd.Image(io, '{made_as}', read_only=True).id())").strip()
    write_record(ceph, "berth.images", image, attempt(number, id=internal))
    ceph.call(call, image=image, **({"size": MIB} if call == "create" else {}))
    names = ceph.rbd("print(rbd.RBD().list(io))")
    assert made_as not in names
    assert (f"'{image}'" in names) == (call == "create")


def test_the_point_of_a_copy_goes_with_an_attempt_that_is_deleted(ceph, image):
    """What a copy leaves at its source would keep the source in the trash for ever."""
    ceph.call("create", image=image, size=MIB)
    ceph.rbd(f"""
with rbd.Image(io, '{image}') as opened:
    opened.create_snap('berth.copy-of-{image}')""")
    write_record(ceph, "berth.images", f"copy-of-{image}", attempt(2, source=image))
    ceph.call("delete", image=f"copy-of-{image}")
    ceph.call("delete", image=image)
    assert in_trash(ceph, image) == 0
    assert f"'{image}'" not in ceph.rbd("print(rbd.RBD().list(io))")


def test_an_image_that_was_partly_deleted_never_exists_again(ceph, image):
    """A second deletion comes while Ceph still takes the client of the first one for alive."""
    ceph.call("create", image=image, size=MIB)
    internal = ceph.rbd(f"print(rbd.Image(io, '{image}', read_only=True).id())").strip()
    write_record(ceph, "berth.images", image, record({"state": "deleting", "size": MIB, "made": MIB, "id": internal}))
    user = Unrecorded(ceph, image, lock=False)
    with pytest.raises(CallError) as raised:
        ceph.call("delete", image=image)
    assert raised.value.code == "FAILED_PRECONDITION"
    user.close()
    assert image not in [found["name"] for found in ceph.call("list")["images"]]
    ceph.call("delete", image=image)
    assert f"'{image}'" not in ceph.rbd("print(rbd.RBD().list(io))")
