"""`berth-iscsi call wipe`: the LUN of a deleted volume is overwritten, and nobody else's is."""
import json
import signal
import subprocess

import pytest

from lib.iscsi import PROGRAM, call, request
from lib.standalone import wait_for
from lib.tgt import MIB

pytestmark = [pytest.mark.storage]
SIZE = 128 * MIB
FRONT, MIDDLE = b"the front of old data", b"the middle of old data"


@pytest.fixture
def lun(tgt):
    tgt.add(1, size=SIZE)


def fill(tgt):
    with open(tgt.file(1), "r+b") as data:
        data.write(FRONT)
        data.seek(SIZE // 2 + 12345)
        data.write(MIDDLE)
        data.seek(SIZE - 4096)
        data.write(b"x" * 4096)


def members(tgt):
    return {"lun": 1, "identity": call("info", tgt.portal, lun=1)["identity"], "node": "Operator"}


def reserved(tgt, **cluster):
    return call("info", tgt.portal, lun=1, cluster=cluster)["reserved"]


def error_of(tgt, **more):
    return call("wipe", tgt.portal, **members(tgt) | more)["error"]["code"]


def wipe(tgt):
    """Wipes the LUN to its end, in as many calls as it takes: a call ends early if the target is slow."""
    left = SIZE
    while left > 0:
        answer = call("wipe", tgt.portal, **members(tgt) | {"from": left})
        assert answer["from"] < left and answer["done"] == (answer["from"] == 0) and not answer["kept"]
        left = answer["from"]


@pytest.mark.parametrize("thin", [False, True])
def test_a_lun_is_zeroes_and_free_at_the_end(tgt, thin):
    tgt.add(1, size=SIZE, thin=thin)
    call("claim", tgt.portal, **members(tgt), size=SIZE)
    fill(tgt)
    wipe(tgt)
    assert tgt.data(1) == bytes(SIZE)
    assert reserved(tgt) == "" and call("holders", tgt.portal, lun=1)["holders"] == []
    assert "error" not in call("claim", tgt.portal, **members(tgt), size=SIZE, cluster={"owner": "owner-2"})


def is_killed_while_it_wipes(tgt):
    wiping = subprocess.Popen([PROGRAM, "call"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    wiping.stdin.write(json.dumps({"call": "wipe", "from": SIZE} | request(tgt.portal, **members(tgt))).encode())
    wiping.stdin.close()

    def has_begun():
        with open(tgt.file(1), "rb") as data:
            data.seek(SIZE - 4096)
            return data.read() == bytes(4096)

    wait_for("the first zeroes", has_begun, interval=0.001)
    tgt.process.send_signal(signal.SIGSTOP)
    killed = wiping.poll() is None and tgt.data(1).startswith(FRONT)
    wiping.kill()
    wiping.wait()
    tgt.process.send_signal(signal.SIGCONT)
    return killed


@pytest.mark.usefixtures("lun")
def test_a_wipe_that_was_killed_leaves_a_lun_that_nobody_gets_and_goes_on(tgt):
    for _ in range(10):  # until it is killed in the midst
        call("claim", tgt.portal, **members(tgt), size=SIZE)
        fill(tgt)
        if is_killed_while_it_wipes(tgt):
            break
    assert tgt.data(1).startswith(FRONT), "the front is overwritten last"
    assert reserved(tgt, owner="owner-2") == "used"
    assert "error" in call("claim", tgt.portal, **members(tgt), size=SIZE, cluster={"owner": "owner-2"})
    wipe(tgt)
    assert tgt.data(1) == bytes(SIZE) and reserved(tgt) == ""


@pytest.mark.usefixtures("lun")
def test_what_is_not_reserved_for_the_volume_is_not_written(tgt, writers):
    fill(tgt)
    before = tgt.data(1)
    assert call("wipe", tgt.portal, **members(tgt)) == {"from": 0, "done": True, "kept": True}
    tgt.file(1).write_bytes(bytes(SIZE))
    call("claim", tgt.portal, **members(tgt), size=SIZE)
    fill(tgt)
    assert error_of(tgt, cluster={"owner": "owner-2"}) in ("FAILED_PRECONDITION", "ABORTED")
    assert error_of(tgt, identity="naa.somebody-elses") == "DATA_LOSS"
    assert error_of(tgt, **{"from": SIZE - 1}) == "INVALID_ARGUMENT"
    writer = writers(tgt.portal, node="node-b")
    assert error_of(tgt) in ("FAILED_PRECONDITION", "ABORTED")
    assert writer.quit() == 0
    assert tgt.data(1) == before


@pytest.mark.usefixtures("lun")
def test_a_lun_that_does_not_become_blank_stays_reserved(tgt):
    call("claim", tgt.portal, **members(tgt), size=SIZE)
    fill(tgt)
    assert error_of(tgt, **{"from": 0}) == "INTERNAL"
    assert reserved(tgt) == "guard"
