"""The calls of berth-rbd on a real Ceph cluster: what each gives, that it can be repeated, and its errors."""
import json
import re
import subprocess

import pytest
from lib.rbd import MIB, POOL, CallError, begin

pytestmark = pytest.mark.storage


def code_of(ceph, *arguments, **members):
    with pytest.raises(CallError) as raised:
        ceph.call(*arguments, **members)
    return raised.value.code


def names_of(ceph):
    return {image["name"]: image for image in ceph.call("list")["images"]}


def test_an_image_is_made_once(ceph, image):
    made = ceph.call("create", image=image, size=8 * MIB + 1)
    assert made == {"name": image, "size": 8 * MIB + 4096, "snapshotOf": ""}
    assert ceph.call("create", image=image, size=8 * MIB + 1) == made
    assert names_of(ceph)[image] == made
    assert code_of(ceph, "create", image=image, size=16 * MIB) == "ALREADY_EXISTS"
    info = ceph.call("info", image=image)
    assert info["size"] == made["size"]
    assert set(info["features"].split(",")) == {"layering", "exclusive-lock", "object-map", "fast-diff"}
    witness = ceph.rbd(f"print(rbd.Image(io, '{image}', read_only=True).stat()['size'])")
    assert int(witness) == made["size"]


def test_an_image_grows_and_never_shrinks(ceph, image):
    ceph.call("create", image=image, size=8 * MIB)
    assert ceph.call("grow", image=image, size=16 * MIB)["size"] == 16 * MIB
    assert ceph.call("grow", image=image, size=12 * MIB)["size"] == 16 * MIB
    assert names_of(ceph)[image]["size"] == 16 * MIB
    # The claim that it was made for asks again with the first size.
    assert ceph.call("create", image=image, size=8 * MIB)["size"] == 16 * MIB
    assert code_of(ceph, "grow", image="absent", size=MIB) == "NOT_FOUND"


def test_a_deleted_image_is_gone(ceph, image):
    ceph.call("create", image=image, size=8 * MIB)
    assert ceph.call("delete", image=image) == {}
    assert ceph.call("delete", image=image) == {}
    assert image not in names_of(ceph)
    assert image not in ceph.rbd("print(rbd.RBD().list(io))")
    assert code_of(ceph, "info", image=image) == "NOT_FOUND"
    ceph.call("create", image=image, size=4 * MIB)


def write(ceph, image, content):
    ceph.rbd(f"""
with rbd.Image(io, '{image}') as opened:
    opened.write({content!r}, 0)""")


def read(ceph, image, length):
    out = ceph.rbd(f"""
with rbd.Image(io, '{image}', read_only=True) as opened:
    print(opened.read(0, {length}).hex())""")
    return bytes.fromhex(out.strip())


def test_a_snapshot_keeps_what_was_there(ceph, image):
    snapshot = f"snap-of-{image}"
    ceph.call("create", image=image, size=8 * MIB)
    write(ceph, image, b"before")
    made = ceph.call("snapshot", image=image, snapshot=snapshot)
    assert made == {"name": snapshot, "size": 8 * MIB, "snapshotOf": image}
    write(ceph, image, b"after!")
    assert ceph.call("snapshot", image=image, snapshot=snapshot) == made
    assert read(ceph, snapshot, 6) == b"before"
    assert names_of(ceph)[snapshot] == made
    assert code_of(ceph, "snapshot", image=snapshot, snapshot=image) == "ALREADY_EXISTS"
    assert code_of(ceph, "grow", image=snapshot, size=16 * MIB) == "FAILED_PRECONDITION"
    assert code_of(ceph, "create", image=snapshot, size=8 * MIB) == "ALREADY_EXISTS"
    assert code_of(ceph, "snapshot", image="absent", snapshot="s") == "NOT_FOUND"


def test_snapshots_outlive_their_image_and_copies_their_snapshot(ceph, image):
    snapshot, copy = f"snap-of-{image}", f"copy-of-{image}"
    ceph.call("create", image=image, size=8 * MIB)
    write(ceph, image, b"first")
    ceph.call("snapshot", image=image, snapshot=snapshot)
    ceph.call("delete", image=image)
    assert image not in names_of(ceph)
    assert code_of(ceph, "create", image=copy, size=4 * MIB, source=snapshot) == "OUT_OF_RANGE"
    made = ceph.call("create", image=copy, size=16 * MIB, source=snapshot)
    assert made == {"name": copy, "size": 16 * MIB, "snapshotOf": ""}
    assert ceph.call("create", image=copy, size=16 * MIB, source=snapshot) == made
    assert code_of(ceph, "create", image=copy, size=16 * MIB) == "ALREADY_EXISTS"
    assert code_of(ceph, "create", image=f"{copy}-2", size=16 * MIB, source="absent") == "NOT_FOUND"
    ceph.call("delete", image=snapshot)
    assert read(ceph, copy, 5) == b"first"
    # The name is free again although copies still need the image.
    ceph.call("create", image=image, size=4 * MIB)
    ceph.call("delete", image=image)
    ceph.call("delete", image=copy)
    trash = ceph.rbd("print([entry['name'] for entry in rbd.RBD().trash_list(io)])")
    assert trash == "[]\n"


def test_images_of_others_are_neither_taken_nor_deleted(ceph, image):
    ceph.rbd(f"rbd.RBD().create(io, '{image}', {8 * MIB})")
    assert code_of(ceph, "create", image=image, size=8 * MIB) == "ALREADY_EXISTS"
    assert code_of(ceph, "delete", image=image) == "FAILED_PRECONDITION"
    assert image not in names_of(ceph)
    assert image in ceph.rbd("print(rbd.RBD().list(io))")


def test_an_image_that_an_administrator_removed_is_not_there(ceph, image):
    ceph.call("create", image=image, size=8 * MIB)
    ceph.rbd(f"rbd.RBD().remove(io, '{image}')")
    assert image not in names_of(ceph)
    assert ceph.call("create", image=image, size=4 * MIB)["size"] == 4 * MIB


def test_the_note_of_mkfs_stays_with_the_image(ceph, image):
    ceph.call("create", image=image, size=8 * MIB)
    assert ceph.call("readNote", image=image) == {"uuid": ""}
    ceph.call("note", image=image, uuid="5b0c")
    assert ceph.call("readNote", image=image) == {"uuid": "5b0c"}
    assert ceph.rbd(f"print(rbd.Image(io, '{image}').metadata_get('berth.formatting'))") == "5b0c\n"
    ceph.call("note", image=image, uuid="")
    assert ceph.call("readNote", image=image) == {"uuid": ""}
    assert code_of(ceph, "note", image="absent", uuid="5b0c") == "NOT_FOUND"
    assert code_of(ceph, "readNote", image="absent") == "NOT_FOUND"


def test_wrong_requests_are_refused(ceph, image):
    assert code_of(ceph, "create", image="../x", size=MIB) == "INVALID_ARGUMENT"
    assert code_of(ceph, "create", image=image, size=0) == "INVALID_ARGUMENT"
    assert code_of(ceph, "create", image=image, size=MIB, source=image) == "INVALID_ARGUMENT"
    assert code_of(ceph, "format", image=image) == "INVALID_ARGUMENT"
    assert code_of(ceph, "list", node="") == "INVALID_ARGUMENT"


# Run with the folder of the configuration, the pool, and the name of a data object of an image. Freezes the process whose id it then
# reads for a second, as a slow cluster would, once that object is gone.
FREEZE_WITHOUT = """
import os, signal, sys, time, rados
_, folder, pool, name = sys.argv
with rados.Rados(conffile=folder + "/ceph.conf", name="client.admin") as cluster:
    with cluster.open_ioctx(pool) as io:
        print("ready", flush=True)
        process = int(input())
        while True:
            os.kill(process, signal.SIGSTOP)
            try:
                io.stat(name)
            except rados.ObjectNotFound:
                break
            os.kill(process, signal.SIGCONT)
            time.sleep(0.0005)
        time.sleep(1.1)
        os.kill(process, signal.SIGCONT)
"""


def test_a_deletion_that_takes_long_says_how_far_it_is(ceph, image):
    ceph.call("create", image=image, size=400 * MIB)
    prefix = ceph.rbd(f"""
with rbd.Image(io, '{image}') as opened:
    for at in range(100):
        opened.write(b'x', at * {4 * MIB})
    print(opened.stat()['block_name_prefix'])""").strip()
    with subprocess.Popen(["/usr/bin/python3", "-c", FREEZE_WITHOUT, ceph.folder, POOL, f"{prefix}.{50:016x}"], text=True,
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=ceph.environment) as freezing:
        assert freezing.stdout.readline() == "ready\n"
        deletion = begin(ceph.request("delete", image=image))
        freezing.communicate(f"{deletion.pid}\n", timeout=60)
    answer, said = deletion.communicate(timeout=60)
    assert json.loads(answer) == {}
    parts = re.findall(r'^{"progress": ([\d.]+)}$', said.decode(), re.MULTILINE)
    assert parts and all(0 < float(part) <= 1 for part in parts)
    assert image not in names_of(ceph)
