"""What a LUN's server makes of answers that a target seldom gives: lost ones, a power loss, "not ready" and broken ones."""
import pytest

from lib.iscsi import call
from lib.pdu_gate import (PERSISTENT_RESERVE_OUT, PREEMPT, RESERVATION_CONFLICT, SYNCHRONIZE_CACHE, WRITE, WRITE_SAME,
                          PduGate, is_command, lose, sense, status)
from lib.standalone import wait_for
from lib.tgt import MIB

pytestmark = [pytest.mark.storage]
NOT_READY, ILLEGAL_REQUEST, UNIT_ATTENTION = 0x2, 0x5, 0x6
POWER_ON, SOME_RESET, NEXUS_LOSS = 0x2901, 0x2900, 0x2907
STARTING, STANDBY = 0x0401, 0x040B


@pytest.fixture()
def tgt(tgt):
    return tgt.add(1)


@pytest.fixture()
def gate(tgt):
    opened = PduGate(tgt.portal)
    yield opened
    opened.close()


@pytest.mark.parametrize("shared", [False, True], ids=["alone", "shared"])
def test_a_lost_answer_to_the_preempt_of_a_new_session_fences_nobody(tgt, writers, gate, shared):
    writer = writers(gate.portal, shared=shared)
    assert writer.ask("write 0 4096 1") == "ok"
    gate.change(is_command(PERSISTENT_RESERVE_OUT, PREEMPT), lose, times=2)
    gate.cut()
    assert writer.ask("write 0 4096 2") == "ok"
    assert gate.left() == 0, "no answer was lost"
    assert tgt.data(1)[:4096] == b"\x02" * 4096
    assert len(call("holders", tgt.portal, lun=1)["holders"]) == 1, "a registration was left behind"


@pytest.mark.parametrize("code", [POWER_ON, SOME_RESET])
def test_a_flush_fails_after_the_target_lost_writes_that_it_had_answered(writers, gate, code):
    writer = writers(gate.portal)
    assert writer.ask("write 0 4096 1") == writer.ask("flush") == "ok"
    assert writer.ask("write 0 4096 2") == "ok"
    gate.change(is_command(WRITE), sense(UNIT_ATTENTION, code))
    assert writer.ask("write 8192 4096 3") == "ok"
    assert gate.left() == 0
    for _ in range(2):
        assert writer.ask("flush") == "EIO"


def test_a_flush_succeeds_if_all_was_flushed_before_the_power_loss(writers, gate):
    writer = writers(gate.portal)
    assert writer.ask("write 0 4096 1") == writer.ask("flush") == "ok"
    gate.change(is_command(SYNCHRONIZE_CACHE), sense(UNIT_ATTENTION, POWER_ON))
    assert writer.ask("flush") == "ok"
    assert gate.left() == 0


def test_a_new_session_and_its_greeting_lose_nothing(writers, gate):
    """tgtd greets each session with "power on, reset, or bus device reset occurred"."""
    writer = writers(gate.portal)
    assert writer.ask("write 0 4096 1") == "ok"
    gate.cut()
    gate.change(is_command(WRITE), sense(UNIT_ATTENTION, NEXUS_LOSS))
    assert writer.ask("write 4096 4096 1") == writer.ask("flush") == "ok"
    assert gate.left() == 0


def test_a_lun_that_is_not_ready_yet_only_delays(tgt, writers, gate):
    writer = writers(gate.portal)
    gate.change(is_command(WRITE), sense(NOT_READY, STARTING), times=5)
    assert writer.ask("write 0 4096 7") == "ok"
    assert gate.left() == 0 and tgt.data(1)[:4096] == b"\x07" * 4096


def test_a_lun_in_standby_at_one_portal_is_used_by_the_other(tgt, writers, gate):
    writer = writers([gate.portal, tgt.portal])
    gate.change(lambda cdb: cdb[0] == WRITE, sense(NOT_READY, STANDBY), times=1_000_000)
    assert writer.ask("write 0 4096 7") == writer.ask("flush") == "ok"
    assert writer.ask(f"write {8 * MIB} 4096 7") == "ok"


def test_a_lun_that_is_in_standby_from_the_start_is_opened_by_the_other_portal(tgt, writers, gate):
    """The first portal admits the node, and its commands of reservations are refused."""
    gate.change(lambda cdb: cdb[0] == PERSISTENT_RESERVE_OUT, sense(NOT_READY, STANDBY), times=1_000_000)
    writer = writers([gate.portal, tgt.portal], ticket=call("holders", tgt.portal, lun=1)["ticket"])
    assert writer.began.startswith("ready"), writer.began
    assert writer.ask("write 0 4096 7") == "ok"


@pytest.mark.parametrize("portals", [1, 2])
def test_a_lun_that_never_gets_ready_is_told_in_time(tgt, writers, gate, portals):
    gate.change(lambda cdb: cdb[0] == PERSISTENT_RESERVE_OUT, sense(NOT_READY, STANDBY), times=1_000_000)
    writer = writers([gate.portal] * portals, ticket=call("holders", tgt.portal, lun=1)["ticket"])
    assert writer.began.startswith("failed UNAVAILABLE"), writer.began


def test_a_portal_that_answers_no_more_is_left_for_the_other_one(tgt, writers, gate):
    """Its connection stays open, as with a portal whose process hangs."""
    writer = writers([gate.portal, tgt.portal])
    assert writer.ask("write 0 4096 1") == "ok"
    gate.hold()
    writer.send("write 0 4096 2")
    wait_for("the write to be on its way", lambda: gate.held > 0)
    assert writer.receive() == "ok"
    before = tgt.data(1)
    assert before[:4096] == b"\x02" * 4096
    assert writer.ask("write 0 4096 3") == "ok"
    passed = gate.passed
    gate.release()  # the old write arrives on a session that has no registration any more
    wait_for("the old write to arrive", lambda: gate.passed > passed)
    assert writer.ask("read 0 4096") == "ok 3"
    assert tgt.data(1)[:4096] == b"\x03" * 4096


def test_zeroing_ends_only_if_the_target_does_not_know_it(tgt, writers, gate):
    gate.change(is_command(WRITE_SAME), status(RESERVATION_CONFLICT))  # as if the target fenced it, which tgtd does not
    writer = writers(gate.portal)
    assert writer.ask("write 0 65536 1") == writer.ask("zero 0 4096") == "ok"
    gate.change(is_command(WRITE_SAME), sense(ILLEGAL_REQUEST, 0x2100))  # a block out of range
    assert writer.ask("zero 4096 4096") == "EIO"
    assert writer.ask("zero 8192 4096") == "ok"
    assert writer.ask("read 8192 4096") == "ok 0" and writer.ask("read 12288 4096") == "ok 1"
    gate.change(is_command(WRITE_SAME), sense(ILLEGAL_REQUEST, 0x2000))  # an unknown command
    assert writer.ask("zero 12288 4096") == writer.ask("zero 12288 4096") == "EOPNOTSUPP"
    assert gate.left() == 0
