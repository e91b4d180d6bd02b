"""`berth-iscsi serve`: a LUN as a file, by FUSE."""
import errno
import os
import signal

import pytest

from lib.export import Export
from lib.iscsi import PROGRAM, call, request
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
        cluster = members.get("cluster", {})
        identity = call("info", tgt.portal, lun=1, cluster=cluster)["identity"]
        settings = {"lun": 1, "identity": identity} | members
        made.append(Export(tmp_path / f"export{len(made)}", PROGRAM, request(tgt.portal, **settings)))
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


def test_what_keeps_it_from_serving_is_told_in_one_line(tgt, exports):
    exports(node="node-a").start()
    assert exports(node="node-b").failure()["code"] == "FAILED_PRECONDITION"
    assert exports(node="node-b", identity="naa.somebody-elses").failure()["code"] == "DATA_LOSS"
    assert exports(node="node-b", identity="").failure()["code"] == "INVALID_ARGUMENT"


def test_the_secret_is_neither_in_the_arguments_nor_in_the_environment_nor_in_the_log(tgt, exports):
    tgt.require_chap("berth", SECRET)
    export = exports(cluster={"chapUser": "berth", "chapPassword": SECRET}).start()
    for name in ("cmdline", "environ"):
        with open(f"/proc/{export.process.pid}/{name}", "rb") as shown:
            assert SECRET.encode() not in shown.read()
    assert SECRET not in (export.folder / "log").read_text()
