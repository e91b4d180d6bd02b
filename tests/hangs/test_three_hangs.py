"""A mount, driver or mkfs that hangs delays no other volume."""
import os
import pathlib
import subprocess
import tempfile

import pytest
from lib import fuse_double, hangs
from lib.standalone import wait_for

pytestmark = pytest.mark.hangs


@pytest.fixture
def three():
    folder = pathlib.Path(tempfile.mkdtemp(prefix="bt-", dir="/var/tmp"))
    three = hangs.Hangs(folder)
    try:
        yield three.start()
    finally:
        three.stop()


def test_a_hung_mount_driver_and_mkfs_delay_no_other_volume(three):
    without = three.lives("free", 5)
    three.hang()
    during = three.lives("beside", 10)
    # They hung all the time, and each message says what it waits for.
    said = wait_for("the hung mount to be told", lambda: "no answer within" in str(three.messages()["on-fuse"]) and
                    three.messages(), seconds=60)
    assert all(status.get("phase") != "Mounted" for status in said.values())
    assert not three.bed.double.calls("NodeStageVolume", "done")
    assert three.reached.exists() and three.flag.exists()
    print(f"claim to mount without hangs: {hangs.describe(without)}; beside three: {hangs.describe(during)}")
    three.cure()
    # The driver mounts outside of Berth's mount namespace here, so the test only checks that its call goes on.
    wait_for("the driver's call to be done", lambda: three.bed.double.calls("NodeStageVolume", "done"), seconds=90)
    for claim in ("on-fuse", "on-mkfs"):
        wait_for(f"{claim} to be mounted", lambda: three.messages()[claim].get("phase") == "Mounted", seconds=90)
    for path in three.targets().values():
        three.bed.berth.run("umount", path, "--timeout", "60", timeout=90)


@pytest.fixture
def fuse(tmp_path):
    fuse = fuse_double.FuseDouble(tmp_path / "fuse", tmp_path / "mounted").start()
    yield fuse
    fuse.stop()


def test_the_file_system_fails_as_it_is_told(fuse):
    note = fuse.mount_point / "note"
    note.write_text("precious")
    assert note.read_text() == "precious"
    fuse.be_wrong("corrupts:read")
    assert note.read_bytes()[1:] == b"recious" and note.read_bytes()[:1] != b"p"
    fuse.be_wrong("error:read")
    with pytest.raises(OSError):
        note.read_text()
    fuse.be_wrong("full:write")
    with pytest.raises(OSError):
        note.write_text("more")
    fuse.be_wrong("hangs")
    stuck = subprocess.Popen(["stat", "-f", fuse.mount_point], stdout=subprocess.DEVNULL)
    with pytest.raises(subprocess.TimeoutExpired):
        stuck.wait(0.3)
    fuse.be_wrong()
    assert stuck.wait(30) == 0
    fuse.be_wrong("dies")
    with pytest.raises(OSError):
        os.listdir(fuse.mount_point)
    assert fuse.process.wait(30) == 1
