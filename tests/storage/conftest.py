"""Targets and clients of the storage tests."""
import pytest

from lib.iscsi import Writer
from lib.tcp_gate import TcpGate
from lib.tgt import Missing, Tgt


@pytest.fixture()
def tgt(tmp_path):
    """A target without LUNs."""
    try:
        target = Tgt(tmp_path / "tgt")
    except Missing as missing:
        pytest.skip(f"tgtd is not there: {missing}")
    yield target.start()
    target.stop()


@pytest.fixture()
def writers():
    """Gives a function that makes Writers. At the end it ends those that still run."""
    started = []

    def make(*arguments, **members):
        started.append(Writer(*arguments, **members))
        return started[-1]

    yield make
    for writer in started:
        writer.kill()


@pytest.fixture()
def gate(tgt):
    """A way to the target that can be held up and cut."""
    opened = TcpGate(tgt.portal)
    yield opened
    opened.close()
