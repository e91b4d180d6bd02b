"""`berth-iscsi serve`: a LUN as a file, by FUSE."""
import errno
import os
import signal

import pytest

from lib.export import Export
from lib.iscsi import PROGRAM, call, settings_to_serve
from lib.pdu_gate import PERSISTENT_RESERVE_OUT, PduGate, is_command, lose
from lib.standalone import wait_for
from lib.tcp_gate import TcpGate
from lib.tgt import MIB

pytestmark = [pytest.mark.storage]
SECRET = "a-secret-of-some-length"


@pytest.fixture()
def tgt(tgt):
    return tgt.add(1)


@pytest.fixture()
def exports(tgt, tmp_path):
    made = []

    def make(**members):
        made.append(Export(tmp_path / f"export{len(made)}", PROGRAM, settings_to_serve(tgt.portal, **members)))
        return made[-1]

    yield make
    for export in made:
        export.stop()


def write(export, data, offset):
    file = export.open()
    try:
        os.pwrite(file, data, offset)
        os.fsync(file)
    finally:
        os.close(file)


def test_a_lun_is_a_file_that_reads_writes_and_grows(tgt, exports):
    export = exports().start()
    assert export.call("export.status")["size"] == os.stat(export.file).st_size == 16 * MIB
    file = export.open()
    try:
        data = os.urandom(3 * MIB)
        assert os.pwrite(file, data, MIB + 1) == len(data)
        os.fsync(file)
        assert os.pread(file, len(data), MIB + 1) == data == tgt.data(1)[MIB + 1:4 * MIB + 1]
        tgt.grow(1, 24 * MIB)
        assert export.call("export.resize")["size"] == os.fstat(file).st_size == 24 * MIB
        assert os.pwrite(file, b"end", 24 * MIB - 3) == 3
    finally:
        os.close(file)
    assert "error" not in export.call("export.quit")
    assert export.process.wait(timeout=60) == 0
    assert tgt.data(1).endswith(b"end")
    assert call("info", tgt.portal, lun=1)["reserved"] == "guard"


def test_a_frozen_server_writes_nothing_after_its_fence(tgt, exports):
    old = exports(node="node-a").start()
    write(old, b"\x01" * MIB, 0)
    # No descriptor of the file is open meanwhile: a child process would close it, and wait for the frozen server.
    old.signal(signal.SIGSTOP)
    assert call("fence", tgt.portal, lun=1, node="node-b", target="node-a")["keys"] != []
    write(exports(node="node-b").start(), b"\x02" * MIB, 0)
    before = tgt.data(1)
    old.signal(signal.SIGCONT)
    for offset in (0, 8 * MIB):
        with pytest.raises(OSError) as failure:
            write(old, b"\x01" * 4096, offset)
        assert failure.value.errno == errno.EIO
    assert tgt.data(1) == before


def test_an_end_that_cannot_give_the_lun_back_is_told(tgt, exports):
    gate = PduGate(tgt.portal)
    try:
        export = exports(cluster={"portals": [gate.portal]}).start()
        write(export, b"data", 0)
        gate.change(is_command(PERSISTENT_RESERVE_OUT), lose, times=1_000_000)
        export.call("export.quit")
        assert export.process.wait(timeout=60) == 1
        assert "give the reservation back" in export.process.stdout.read().decode()
    finally:
        gate.close()
    call("fence", tgt.portal, lun=1, target="node-a")
    assert call("info", tgt.portal, lun=1)["reserved"] == "guard"


def test_what_keeps_it_from_serving_is_told_in_one_line(tgt, exports):
    exports(node="node-a").start()
    assert exports(node="node-b").failure()["code"] == "FAILED_PRECONDITION"
    assert exports(node="node-b", identity="naa.somebody-elses").failure()["code"] == "DATA_LOSS"
    for member in ("identity", "ticket"):
        assert exports(node="node-b", **{member: ""}).failure()["code"] == "INVALID_ARGUMENT"


def test_a_refusal_is_in_the_log_also_after_another_failure_and_the_secret_is_not(tgt, exports):
    tgt.require_chap("berth", SECRET)
    gate = TcpGate(tgt.portal)
    try:
        export = exports(cluster={"portals": [gate.portal], "chapUser": "berth", "chapPassword": SECRET}).start()
        tgt.require_chap("other", "another-secret-of-it")
        tgt.adm("--op", "unbind", "--mode", "account", "--tid", 1, "--user", "berth")
        log = export.folder / "log"
        gate.hold()
        gate.cut()
        wait_for("a new login that nobody answers", lambda: "did not answer in time" in log.read_text())
        gate.release()
        wait_for("the new login to be refused", lambda: "refuses the CHAP user" in log.read_text())
        assert SECRET not in log.read_text()
    finally:
        gate.close()


@pytest.mark.parametrize("chap, code", [({}, "UNAUTHENTICATED"), ({"chapUser": "berth", "chapPassword": "a-wrong-secret-here"}, "UNAUTHENTICATED"),
                                        ({"chapUser": "berth", "chapPassword": SECRET}, None)], ids=["none", "wrong", "right"])
def test_only_the_right_chap_secret_serves(tgt, exports, chap, code):
    tgt.require_chap("berth", SECRET)
    export = exports(cluster=chap)
    if code is None:
        write(export.start(), b"data", 0)
        assert tgt.data(1)[:4] == b"data"
    else:
        assert export.failure()["code"] == code
