"""A node that was fenced from a LUN writes not one byte more, whatever it was doing: frozen, cut off or killed. The LUN is tgtd's,
which has no PREEMPT AND ABORT, or that of Linux's kernel, which has."""
import signal

import pytest

from lib import lio as linuxs_target
from lib.iscsi import call, settings_to_serve
from lib.standalone import wait_for
from lib.tcp_gate import TcpGate
from lib.tgt import MIB

pytestmark = [pytest.mark.storage]

OLD, NEW = 1, 2  # the bytes that the old and the new node write
AREA = 4 * MIB   # the newcomer writes below, and the rest of the LUN never


UNITS = 20  # of LIO: more than there are tests


@pytest.fixture(scope="module")
def lio():
    with linuxs_target.running(UNITS) as made:
        yield made


@pytest.fixture(params=["tgt", pytest.param("lio", marks=pytest.mark.vm)])
def tgt(request, tgt):
    return tgt.add(1) if request.param == "tgt" else request.getfixturevalue("lio").take()


def take_over(tgt, writers):
    """Fences node-a; node-b then serves the LUN and writes. Gives node-b's process."""
    assert len(call("fence", tgt.portal, lun=1, node="node-b", target="node-a")["keys"]) == 1
    newcomer = writers(tgt.portal, node="node-b")
    assert newcomer.began.startswith("ready"), newcomer.began
    assert newcomer.ask(f"write 0 {AREA} {NEW}") == newcomer.ask("flush") == "ok"
    return newcomer


def test_two_nodes_cannot_write_at_once(tgt, writers):
    writer = writers(tgt.portal, node="node-a")
    began = writers(tgt.portal, node="node-b").began
    assert began.startswith("failed FAILED_PRECONDITION") and "another node holds" in began
    assert writer.ask("write 0 4096 1") == "ok"


def test_a_frozen_node_that_wakes_up_writes_nothing(tgt, writers):
    old = writers(tgt.portal, node="node-a")
    # Eight threads write without a pause, some of them where the newcomer never does.
    assert old.ask(f"stream {2 * MIB} {MIB} {OLD} 8") == "ok"
    wait_for("the old node's writes", lambda: tgt.data(1)[9 * MIB] == OLD)
    old.signal(signal.SIGSTOP)
    newcomer = take_over(tgt, writers)
    before = tgt.data(1)
    assert before[:AREA] == bytes([NEW]) * AREA
    old.signal(signal.SIGCONT)
    assert set(old.ask("wait").split()) == {"ESHUTDOWN"}
    assert tgt.data(1) == before
    assert old.ask("write 8388608 4096 1") == "ESHUTDOWN", "it registered again"
    assert newcomer.ask(f"read 0 {AREA}") == f"ok {NEW}"


def test_writes_that_were_on_their_way_are_refused(tgt, writers, gate):
    """The network holds back what the old node has sent, on a connection that stays open."""
    old = writers(gate.portal, node="node-a")
    assert old.ask("write 0 4096 1") == "ok"
    gate.hold()
    assert old.ask(f"stream {2 * MIB} {MIB // 4} {OLD} 16") == "ok"
    wait_for("many writes to be on their way", lambda: gate.held > 0)
    old.signal(signal.SIGSTOP)
    newcomer = take_over(tgt, writers)
    before, passed = tgt.data(1), gate.passed
    gate.release()  # the node's kernel sends what it has, although the process is frozen
    wait_for("the old node's writes to arrive", lambda: gate.passed >= passed + gate.held)
    old.signal(signal.SIGCONT)
    assert set(old.ask("wait").split()) == {"ESHUTDOWN"}
    assert tgt.data(1) == before
    assert newcomer.ask(f"read 0 {AREA}") == f"ok {NEW}"


def test_writes_that_were_on_their_way_are_refused_also_when_the_newcomer_has_ended(tgt, writers, gate):
    """No node has the volume, and what was on its way arrives then."""
    old = writers(gate.portal, node="node-a")
    gate.hold()
    assert old.ask(f"stream {2 * MIB} {MIB // 4} {OLD} 16") == "ok"
    wait_for("many writes to be on their way", lambda: gate.held > 0)
    assert take_over(tgt, writers).quit() == 0
    before, passed = tgt.data(1), gate.passed
    gate.release()
    wait_for("the old node's writes to arrive", lambda: gate.passed >= passed + gate.held)
    assert set(old.ask("wait").split()) == {"ESHUTDOWN"}
    assert tgt.data(1) == before


def test_writes_that_were_on_their_way_are_refused_before_anybody_took_over(tgt, writers, gate):
    old = writers(gate.portal, node="node-a")
    gate.hold()
    assert old.ask(f"stream {2 * MIB} {MIB // 4} {OLD} 16") == "ok"
    wait_for("many writes to be on their way", lambda: gate.held > 0)
    call("fence", tgt.portal, lun=1, node="node-b", target="node-a")
    before, passed = tgt.data(1), gate.passed
    gate.release()
    wait_for("the old node's writes to arrive", lambda: gate.passed >= passed + gate.held)
    assert set(old.ask("wait").split()) == {"ESHUTDOWN"}
    assert tgt.data(1) == before


def test_a_node_that_was_cut_off_stays_fenced_when_the_network_is_back(tgt, writers, gate):
    old = writers(gate.portal, node="node-a")
    assert old.ask("write 0 4096 1") == "ok"
    gate.hold()
    old.send(f"write {8 * MIB} 4096 1")
    wait_for("the write to be on its way", lambda: gate.held > 0)
    take_over(tgt, writers)
    before = tgt.data(1)
    gate.cut()  # what was on its way is lost, and the node logs in anew
    gate.release()
    assert old.receive() == "ESHUTDOWN"
    assert tgt.data(1) == before


def test_a_node_that_was_killed_is_taken_over_only_by_a_fence(tgt, writers):
    old = writers(tgt.portal, node="node-a")
    assert old.ask(f"stream {2 * MIB} {MIB} {OLD} 8") == "ok"
    old.kill()
    assert writers(tgt.portal, node="node-b").began.startswith("failed FAILED_PRECONDITION")
    take_over(tgt, writers)


def test_a_killed_process_is_followed_by_the_next_one_of_its_node(tgt, writers):
    old = writers(tgt.portal, node="node-a")
    assert old.ask("write 0 4096 1") == "ok"
    old.kill()
    assert writers(tgt.portal, node="node-a").ask("write 0 4096 2") == "ok"
    assert [one["node"] for one in call("holders", tgt.portal, lun=1)["holders"]] == ["node-a"]


def test_the_next_process_of_a_node_locks_a_frozen_one_out(tgt, writers):
    old = writers(tgt.portal, node="node-a")
    old.signal(signal.SIGSTOP)
    new = writers(tgt.portal, node="node-a")
    assert new.ask("write 0 4096 2") == "ok"
    old.signal(signal.SIGCONT)
    assert old.ask("write 0 4096 1") == "ESHUTDOWN"
    assert new.ask("write 4096 4096 2") == "ok", "the old process took the LUN back"


def test_a_fenced_nodes_next_process_does_not_take_the_lun_back(tgt, writers):
    """Its agent was frozen, or its proxy begins the process anew by itself, when another node had the LUN already."""
    started_late = settings_to_serve(tgt.portal, node="node-a")
    old = writers(tgt.portal, node="node-a")
    assert old.ask("write 0 4096 1") == "ok"
    during = settings_to_serve(tgt.portal, node="node-a")
    newcomer = take_over(tgt, writers)
    assert newcomer.quit() == 0
    before = tgt.data(1)
    for settings in (started_late, during):
        began = writers(tgt.portal, node="node-a", ticket=settings["ticket"]).began
        assert began.startswith("failed ABORTED"), began
    assert tgt.data(1) == before
    assert call("holders", tgt.portal, lun=1)["holders"] == []


def test_a_start_before_a_fence_that_found_nothing_is_void(tgt, writers):
    ticket = call("holders", tgt.portal, lun=1)["ticket"]
    fenced = call("fence", tgt.portal, lun=1, node="node-b", target="node-a", keys=[])
    assert fenced["keys"] == [] and fenced["ticket"] != ticket
    assert writers(tgt.portal, node="node-a", ticket=ticket).began.startswith("failed ABORTED")
    assert writers(tgt.portal, node="node-b", ticket=fenced["ticket"]).began.startswith("ready")


def test_a_fence_hits_the_processes_that_were_listed(tgt, writers):
    writers(tgt.portal, node="node-a").kill()
    listed = call("fenceTargets", tgt.portal, lun=1, node="node-b", target="node-a")
    assert len(listed["keys"]) == 1
    next_one = writers(tgt.portal, node="node-a")
    fenced = call("fence", tgt.portal, lun=1, node="node-b", target="node-a", keys=listed["keys"])
    assert fenced["keys"] == []
    assert next_one.ask("write 0 4096 1") == "ok"
    again = call("fenceTargets", tgt.portal, lun=1, node="node-b", target="node-a")["keys"]
    assert call("fence", tgt.portal, lun=1, node="node-b", target="node-a", keys=again)["keys"] == again
    assert next_one.ask("write 0 4096 1") == "ESHUTDOWN"


def test_a_node_gives_back_what_its_killed_process_held(tgt, writers):
    writers(tgt.portal, node="node-a").kill()
    assert writers(tgt.portal, node="node-b").began.startswith("failed FAILED_PRECONDITION")
    assert len(call("fence", tgt.portal, lun=1, node="node-a", target="node-a")["keys"]) == 1
    assert call("info", tgt.portal, lun=1)["reserved"] == "guard"
    assert writers(tgt.portal, node="node-b").ask("write 0 4096 1") == "ok"


@pytest.mark.parametrize("tgt", ["tgt"], indirect=True)
def test_a_late_start_does_not_join_nodes_that_share(tgt, writers):
    other = writers(tgt.portal, node="node-b", shared=True)
    ticket = call("holders", tgt.portal, lun=1)["ticket"]
    call("fence", tgt.portal, lun=1, node="node-b", target="node-a", keys=[])
    assert writers(tgt.portal, node="node-a", shared=True, ticket=ticket).began.startswith("failed ABORTED")
    assert other.ask("write 0 4096 1") == "ok"
    assert writers(tgt.portal, node="node-c", shared=True).began.startswith("ready")


@pytest.mark.vm
def test_linuxs_target_is_refused_for_nodes_that_share(lio, writers):
    unit = lio.take()
    began = writers(unit.portal, node="node-a", shared=True).began
    assert began.startswith("failed UNIMPLEMENTED") and "Linux's target (LIO)" in began
    assert call("holders", unit.portal, lun=1)["reservation"]["type"] == "None"
    assert writers(unit.portal, node="node-b").ask("write 0 4096 1") == "ok"


def test_volumes_go_from_node_to_node_many_times_without_one_late_write(tgt, writers):
    """Each node in turn is frozen or cut off amid its writes, and wakes up after the next one has begun."""
    gates, late = [], None
    try:
        for turn in range(12):
            node, byte = f"node-{turn}", turn + 1
            gates.append(TcpGate(tgt.portal))
            if turn:
                call("fence", tgt.portal, lun=1, node=node, target=f"node-{turn - 1}")
            writer = writers(gates[-1].portal, node=node)
            assert writer.began.startswith("ready"), writer.began
            assert writer.ask(f"write 0 {16 * MIB} {byte}") == writer.ask("flush") == "ok"
            if late:
                gates[-2].release()
                late.signal(signal.SIGCONT)
                assert set(late.ask("wait").split()) == {"ESHUTDOWN"}
            assert tgt.data(1) == bytes([byte]) * 16 * MIB, f"the node of turn {turn - 1} wrote late"
            # The next turn finds this byte, unless the writes below are late.
            passed = gates[-1].passed
            assert writer.ask(f"stream 0 {MIB // 2} {byte} 16") == "ok"
            wait_for("the writes to begin", lambda: gates[-1].passed > passed + MIB)
            if turn % 2:
                gates[-1].hold()
                wait_for("writes to be on their way", lambda: gates[-1].held > 0)
            writer.signal(signal.SIGSTOP)
            late = writer
    finally:
        for gate in gates:
            gate.close()
