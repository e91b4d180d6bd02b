"""The device below a volume of a sandbox stops answering. The volumes' images stand on a disk of their own, whose file
system is frozen, so that the kernel's writes to the volume's device wait."""
import contextlib
import json
import pathlib
import shutil
import subprocess
import tempfile

import pytest
from lib import crust, mounts, objects
from lib.crust import told
from lib.standalone import wait_for

pytestmark = [pytest.mark.crust, pytest.mark.e2e]

WRITES = "while :; do date >> /data/log; sync /data/log; sleep 0.2; done"


@pytest.fixture
def disk():
    """Gives the folder of a mounted disk, which is unmounted and removed at the end."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="bt-", dir="/var/tmp"))
    image, at = folder / "disk", folder / "at"
    at.mkdir()
    with open(image, "wb") as file:
        file.truncate(2 << 30)
    subprocess.run(["mkfs.xfs", "-q", image], check=True)
    subprocess.run(["mount", "-o", "loop", image, at], check=True)
    try:
        yield at
    finally:
        mounts.unmount_below(folder)
        mounts.detach_loops_below(folder)
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def frozen(disk):
    subprocess.run(["fsfreeze", "-f", disk], check=True)
    try:
        yield
    finally:
        subprocess.run(["fsfreeze", "-u", disk], check=True)


def test_a_stalled_device_is_named_until_it_answers_and_says_why_the_pod_does_not_end(disk):
    with crust.place(berth_flags=["--pool", disk / "pool"]) as (berth, handler, _):
        berth.apply(crust.claim("data", storage_class="of-ext4"))
        berth.apply(objects.pod("user", WRITES, ["data"], mounts=[{"name": "data", "mountPath": "/data"}],
                                runtimeClassName="sandboxed", terminationGracePeriodSeconds=2))
        berth.wait_phase("pods", "user", "Running")
        [record] = [volume for path in (handler.folder / "run" / "records" / "sandboxes").glob("*.json")
                    for volume in json.loads(path.read_text())["volumes"]]
        device = record["hostVolumeId"]

        def cause():
            found = berth.explain("pod/user")["cause"] or {}
            return found.get("id"), found.get("link"), device in found.get("summary", "")
        with frozen(disk):
            # The node's agent asks once a minute, and a write may take 30 seconds.
            message, = wait_for("the event", lambda: told(berth, "user", "VolumeConditionAbnormal"), seconds=180)
            assert f"Volume data: device '{device}' does not answer: its ext4 could not be written since 20" in message
            assert cause() == ("volume-stalled", "publish", True)
            berth.run("delete", "pod", "user", "--wait=false")
            wait_for("the deletion to be explained", lambda: cause() == ("volume-stalled", "deletion", True))
            assert handler.stats()[1], "the handler answers"
            assert told(berth, "user", "VolumeConditionAbnormal") == [message]
        berth.wait_gone("pods", "user")
