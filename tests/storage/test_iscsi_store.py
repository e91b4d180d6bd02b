"""How a LUN is served: requests of any alignment, identity, growth, lost connections, and a target that forgets."""
import signal

import pytest

from lib.iscsi import call
from lib.standalone import wait_for
from lib.tcp_gate import TcpGate
from lib.tgt import MIB

pytestmark = [pytest.mark.storage]


@pytest.mark.parametrize("block", [512, 4096])
def test_requests_of_any_alignment_change_what_they_say_and_nothing_else(tgt, writers, block):
    tgt.add(1, block=block)
    writer = writers(tgt.portal)
    assert writer.began == f"ready {16 * MIB} {block}"
    expected = bytearray(16 * MIB)
    for byte, (offset, length) in enumerate([(0, 1), (511, 2), (4095, 4098), (100, 300), (8192, 4096), (512, 512),
                                             (MIB - 3, 3 * MIB + 7), (16 * MIB - 1, 1)], start=1):
        assert writer.ask(f"write {offset} {length} {byte}") == "ok"
        assert writer.ask(f"read {offset} {length}") == f"ok {byte}"
        expected[offset:offset + length] = bytes([byte]) * length
    assert writer.ask("flush") == "ok"
    assert tgt.data(1) == expected


def test_requests_outside_of_the_lun_are_refused(tgt, writers):
    tgt.add(1)
    writer = writers(tgt.portal)
    assert writer.ask(f"write {16 * MIB - 1} 2 1") == "EINVAL"
    assert writer.ask(f"read {16 * MIB} 1") == "EINVAL"
    assert tgt.data(1) == bytes(16 * MIB)


def test_a_reader_cannot_write_and_shares_with_other_readers(tgt, writers):
    tgt.add(1)
    readers = [writers(tgt.portal, node=node, readOnly=True) for node in ("node-a", "node-b")]
    for reader in readers:
        assert reader.ask("read 0 4096") == "ok 0"
        assert reader.ask("write 0 512 1") == "EROFS"
    assert writers(tgt.portal, node="node-c").began.startswith("failed FAILED_PRECONDITION")


def test_nodes_that_share_write_whole_blocks_only(tgt, writers):
    tgt.add(1)
    one, two = (writers(tgt.portal, node=node, shared=True) for node in ("node-a", "node-b"))
    assert one.ask("write 0 512 1") == two.ask("write 512 512 2") == "ok"
    assert one.ask("write 5 10 3") == "EINVAL", "two nodes would undo each other's half of a block"
    assert one.quit() == 0
    assert two.ask("write 1024 512 2") == "ok", "the first one's end took the reservation from the other"
    holders = call("holders", tgt.portal, lun=1)
    assert holders["reservation"]["type"] == "WriteExclusiveRegistrantsOnly" and len(holders["holders"]) == 1
    assert writers(tgt.portal, node="node-c").began.startswith("failed FAILED_PRECONDITION"), "anybody may write now"


def test_zeroes_are_not_left_to_a_target_that_does_not_fence_them(tgt, writers):
    """tgtd runs WRITE SAME of any session, whatever is reserved, so that a fenced node could still send it."""
    tgt.add(1, thin=True)
    writer = writers(tgt.portal)
    assert writer.ask("write 0 8192 1") == "ok"
    assert writer.ask("zero 0 4096") == "EOPNOTSUPP"
    assert writer.ask("read 0 4096") == "ok 1"


def test_a_lun_grows_under_its_user(tgt, writers):
    tgt.add(1)
    writer = writers(tgt.portal)
    tgt.grow(1, 24 * MIB)
    assert writer.ask("refresh") == f"ok {24 * MIB}"
    assert writer.ask(f"write {20 * MIB} 4096 9") == "ok"
    assert tgt.data(1)[20 * MIB:20 * MIB + 4096] == b"\x09" * 4096


def test_a_number_that_shows_another_lun_is_not_opened(tgt, writers):
    tgt.add(1).add(2)
    identity = call("info", tgt.portal, lun=1)["identity"]
    began = writers(tgt.portal, lun=2, identity=identity).began
    assert began.startswith("failed DATA_LOSS") and identity in began


def test_a_number_that_shows_another_lun_by_now_is_not_written(tgt, writers, gate):
    tgt.add(1)
    writer = writers(gate.portal)
    assert writer.ask("write 0 4096 1") == "ok"
    # tgtd gives the LUN another serial number and keeps all else, the registration included.
    tgt.adm("--op", "update", "--mode", "logicalunit", "--tid", 1, "--lun", 1, "--params", "scsi_sn=somebody-elses")
    gate.cut()
    assert writer.ask("write 0 4096 2") == "ESHUTDOWN"
    assert tgt.data(1)[:4096] == b"\x01" * 4096


def test_a_lost_connection_is_made_anew_and_the_reservation_stays(tgt, writers, gate):
    tgt.add(1)
    writer = writers(gate.portal)
    for byte in (1, 2, 3):
        gate.cut()
        assert writer.ask(f"write 0 4096 {byte}") == "ok"
    assert tgt.data(1)[:4096] == b"\x03" * 4096
    assert writers(tgt.portal, node="node-b").began.startswith("failed FAILED_PRECONDITION")
    [holder] = call("holders", tgt.portal, lun=1)["holders"]
    assert holder["node"] == "node-a" and holder["reserved"]


def test_writes_under_way_when_the_connection_is_lost_are_all_done(tgt, writers, gate):
    tgt.add(1)
    writer = writers(gate.portal)
    gate.hold()
    writer.send(f"write 0 {4 * MIB} 5")
    wait_for("the write to be on its way", lambda: gate.held > 0)
    gate.cut()
    gate.release()
    assert writer.receive() == "ok"
    assert tgt.data(1)[:4 * MIB] == b"\x05" * (4 * MIB)


def test_the_other_portal_takes_over(tgt, writers, gate):
    tgt.add(1)
    writer = writers([gate.portal, tgt.portal])
    assert writer.ask("write 0 4096 1") == "ok"
    gate.close()
    assert writer.ask("write 0 4096 2") == "ok"
    assert writer.ask("flush") == "ok"


def test_a_target_that_lost_its_registrations_is_never_written_again(tgt, writers):
    """tgtd keeps no registration over its restart (no APTPL), so nobody can tell who was fenced meanwhile."""
    tgt.add(1)
    writer = writers(tgt.portal)
    assert writer.ask("write 0 4096 1") == "ok"
    tgt.kill()
    tgt.start()
    for line in ("write 0 4096 2", "read 0 4096", "flush"):
        assert writer.ask(line) == "ESHUTDOWN"
    assert tgt.data(1)[:4096] == b"\x01" * 4096
    assert call("holders", tgt.portal, lun=1)["holders"] == [], "it registered again"
    assert writers(tgt.portal).ask("write 0 4096 3") == "ok", "a new process of the node serves again"


def test_a_target_that_is_away_for_a_while_only_delays(tgt, writers, gate):
    tgt.add(1)
    writer = writers(gate.portal)
    tgt.process.send_signal(signal.SIGSTOP)
    passed = gate.passed
    writer.send("write 0 4096 1")
    wait_for("the write to be at the target", lambda: gate.passed >= passed + 4096)
    assert not writer.has_answered(), "nobody can have done the write"
    tgt.process.send_signal(signal.SIGCONT)
    assert writer.receive() == "ok"
    assert tgt.data(1)[:4096] == b"\x01" * 4096


def test_nodes_that_share_go_on_after_one_of_them_lost_its_connection(tgt, writers, gate):
    """tgtd can only end that session's commands by a reset, which ends the other node's as well."""
    tgt.add(1)
    second = TcpGate(tgt.portal)
    try:
        one, two = (writers(way.portal, node=node, shared=True) for way, node in ((gate, "node-a"), (second, "node-b")))
        assert one.ask(f"stream 0 {MIB // 4} 1 8") == two.ask(f"stream {8 * MIB} {MIB // 4} 2 8") == "ok"
        for way in (gate, second, gate, second):
            way.cut()
            passed = gate.passed, second.passed
            wait_for("both to go on", lambda: gate.passed > passed[0] + 16 * MIB and second.passed > passed[1] + 16 * MIB)
    finally:
        second.close()
