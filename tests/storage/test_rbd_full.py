"""A cluster that is full and a pool whose quota is used up: each call and each write says so, and nothing hangs."""
import json
import subprocess

import pytest
from lib.ceph import Missing
from lib.direct_io import BLOCK
from lib.rbd import MIB, POOL, CallError
from lib.standalone import wait_for

pytestmark = pytest.mark.storage


def flags(ceph):
    [pool] = [pool for pool in json.loads(ceph.ask('{"prefix": "osd dump", "format": "json"}'))["pools"]
              if pool["pool_name"] == POOL]
    return pool["flags_names"].split(",")


def set_full_ratios(ceph, nearly, backfill, full):
    for name, ratio in (("nearfull", nearly), ("backfillfull", backfill), ("full", full)):
        ceph.ask('{"prefix": "osd set-%s-ratio", "ratio": %s}' % (name, ratio))


def set_quota(ceph, most):
    ceph.ask('{"prefix": "osd pool set-quota", "pool": "%s", "field": "max_bytes", "val": "%d"}' % (POOL, most))


@pytest.fixture
def full(ceph, image):
    """Gives a function that makes the cluster full. Its object store has 128 MiB."""
    def fill():
        ceph.rbd(f"""
with rbd.Image(io, '{image}') as opened:
    opened.write(b'x' * {8 * MIB}, 0)""")
        set_full_ratios(ceph, 0.01, 0.02, 0.03)
        wait_for("the pool to be full", lambda: "full" in flags(ceph), interval=0.5)

    yield fill
    set_full_ratios(ceph, 0.85, 0.9, 0.95)
    wait_for("the pool to have space again", lambda: "full" not in flags(ceph), interval=0.5)


@pytest.fixture
def used_up(ceph):
    """Gives a function that makes the pool's quota used up, and one that raises it."""
    try:
        ceph.start_bare_manager()
    except Missing as missing:
        pytest.skip(str(missing))

    def use():
        set_quota(ceph, 1)
        wait_for("the quota to be used up", lambda: "full_quota" in flags(ceph), interval=0.5)

    def end():
        set_quota(ceph, 0)
        wait_for("the pool to have space again", lambda: "full" not in flags(ceph), interval=0.5)

    yield use, end
    end()


def write(served, block):
    """Writes a block in another process, and gives the error message, or ""."""
    dd = subprocess.run(["dd", "if=/dev/urandom", f"of={served.file}", f"bs={BLOCK}", "count=1", f"seek={block}",
                         "oflag=direct", "conv=notrunc", "status=none"], capture_output=True, text=True, timeout=60)
    return dd.stderr if dd.returncode != 0 else ""


def said(ceph, *arguments, **members):
    with pytest.raises(CallError) as raised:
        ceph.call(*arguments, **members)
    assert raised.value.code == "RESOURCE_EXHAUSTED"
    return raised.value.message


def test_a_full_cluster_is_told_in_words_and_can_be_emptied(ceph, image, full):
    ceph.call("create", image=image, size=8 * MIB)
    full()
    other = f"{image}-2"
    assert "is full: add storage to it or delete data" in said(ceph, "create", image=other, size=8 * MIB)
    assert "is full: add storage to it or delete data" in said(ceph, "snapshot", image=image, snapshot=other)
    assert other not in ceph.rbd("print(rbd.RBD().list(io))")
    assert other not in [found["name"] for found in ceph.call("list")["images"]]
    assert ceph.call("delete", image=image) == {}


def test_a_quota_that_is_used_up_is_told_in_words_and_can_be_raised(ceph, image, used_up, serve):
    use, end = used_up
    served = serve("n1").start()
    assert write(served, 0) == ""
    use()
    assert "No space left on device" in write(served, 1)
    assert "quota of the pool is used up: raise it or delete data" in said(
        ceph, "create", image=f"{image}-2", size=8 * MIB)
    end()
    wait_for("writes to pass again", lambda: write(served, 1) == "", seconds=60)
    served.stop()
    assert "the quota of the pool is used up" in (served.folder / "log").read_text()
