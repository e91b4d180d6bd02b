"""A disk that is full to its last byte takes no way in: Berth starts, and what fills the disk can be deleted."""
import contextlib
import json
import os
import shutil
import signal
import subprocess

import pytest
from lib import mounts, objects
from lib.standalone import wait_for

pytestmark = [pytest.mark.security, pytest.mark.e2e]

MIB = 1 << 20
CLASS = "here"
FAT = 40 * MIB


@pytest.fixture
def small(new_berth):
    """Gives a Berth, not started, whose data folder is a small file system of its own."""
    berth = new_berth()
    disk = berth.folder / "disk"
    with open(disk, "wb") as image:
        image.truncate(256 * MIB)
    subprocess.run(["mkfs.ext4", "-q", "-m", "0", disk], check=True)
    berth.data.mkdir()
    subprocess.run(["mount", "-o", "loop", disk, berth.data], check=True)
    yield berth
    berth.kill()
    mounts.unmount_below(berth.data)
    subprocess.run(["umount", "--lazy", berth.data], check=False)


def fill(folder):
    """Takes all room of a folder's file system, to the last byte that it gives."""
    with open(folder / "ballast", "ab") as file:
        def took_all():
            for step in (16 * MIB, MIB, 4096, 1):
                with contextlib.suppress(OSError):
                    while free(folder):
                        os.write(file.fileno(), b"x" * step)
            os.fsync(file.fileno())
            return not free(folder)
        wait_for("the disk to be full", took_all)


@contextlib.contextmanager
def frozen(berth):
    """Stops a running Berth and its driver meanwhile. A write of theirs that met a disk on which little is left would have the reserve
    given up, and the filling would take that room as well."""
    children = subprocess.run(["pgrep", "-P", str(berth.process.pid)], capture_output=True, text=True).stdout.split()
    processes = [berth.process.pid, *map(int, children)]
    for process in processes:
        os.kill(process, signal.SIGSTOP)
    try:
        yield
    finally:
        for process in processes:
            os.kill(process, signal.SIGCONT)


def free(folder):
    room = os.statvfs(folder)
    return room.f_bavail * room.f_frsize


def images(berth):
    return [path for path in (berth.data / "pool" / "volumes").iterdir() if path.stat().st_blocks * 512 >= FAT]


def make_fat_claim(berth, name):
    """Makes a claim whose image takes room on the disk."""
    berth.apply([objects.storage_class(CLASS, "ext4", binding="Immediate"), objects.claim(name, "64Mi", CLASS)])
    berth.wait_phase("pvc", name, "Bound")
    path = berth.folder / f"on-{name}"
    berth.run("mount", name, path, "--timeout", "60", timeout=90)
    with open(path / "content", "wb") as content:
        content.write(os.urandom(FAT))
        content.flush()
        os.fsync(content.fileno())
    berth.run("umount", path, "--timeout", "60", timeout=90)


def assert_new_claims_work(berth):
    """The room that deletions keep comes back before new objects are taken again."""
    new = json.dumps(objects.claim("new", "64Mi", CLASS))
    wait_for("a new claim to be taken",
             lambda: berth.run("apply", "-f", "-", stdin=new, check=False).returncode == 0)
    berth.wait_phase("pvc", "new", "Bound")


@pytest.mark.parametrize("ending", ["stop", "kill", None], ids=["stopped", "killed", "running"])
def test_a_claim_is_deleted_on_a_full_disk(small, ending):
    berth = small
    berth.start()
    make_fat_claim(berth, "fat")
    [image] = images(berth)
    if ending:
        getattr(berth, ending)()
        fill(berth.data)
        berth.start()
    else:
        with frozen(berth):
            fill(berth.data)
    berth.run("delete", "pvc", "fat", "--no-wait")
    berth.wait_gone("pvc", "fat")
    wait_for("the image to be gone", lambda: not image.exists())
    wait_for("room on the disk", lambda: free(berth.data) > FAT // 2)
    assert_new_claims_work(berth)
    assert "gave up" in berth.log.read_text(), "the disk was never full"


def test_a_kubeconfig_of_block_agents_that_cannot_be_written_ends_nothing(small):
    """Whatever keeps it from being written: without it only the block agents wait."""
    berth = small
    berth.flags = ["--block-agent-image", "none.invalid/block-agent:1"]
    kubeconfig = berth.data / "block-agent.kubeconfig"
    (kubeconfig / "in-its-place").mkdir(parents=True)
    berth.start()
    assert "the block agents have no kubeconfig of this start" in berth.log.read_text()
    berth.stop()
    shutil.rmtree(kubeconfig)
    berth.start()
    # The node of the first start is still ready, so the API may answer before the file is written.
    wait_for("the kubeconfig", kubeconfig.exists)
    written = kubeconfig.read_text()
    assert json.loads(written)["users"]
    berth.stop()
    kubeconfig.write_text("{}")  # as of an earlier Berth
    fill(berth.data)
    berth.start()
    wait_for("the kubeconfig to be written, for which the reserve is, too", lambda: kubeconfig.read_text() == written)


def test_a_pod_and_its_claim_are_deleted_on_a_full_disk(small):
    berth = small
    berth.start()
    berth.apply([objects.storage_class(CLASS, "ext4", binding="Immediate"), objects.claim("data", "64Mi", CLASS),
                 objects.pod("user", f"head -c {FAT} /dev/urandom > /data/f; sync; sleep 1000", claims=["data"])])
    berth.wait_phase("pod", "user", "Running")
    wait_for("the pod to fill its volume", lambda: images(berth))
    [image] = images(berth)
    berth.kill()
    fill(berth.data)
    berth.start()
    berth.run("delete", "pod", "user", "--grace-period", "1", "--wait=false")
    berth.run("delete", "pvc", "data", "--no-wait")
    berth.wait_gone("pod", "user", seconds=90)
    berth.wait_gone("pvc", "data", seconds=90)
    wait_for("the image to be gone", lambda: not image.exists())
    assert_new_claims_work(berth)


def test_a_pool_leaves_free_what_it_was_told(small):
    small.flags = ["--keep-free", "1Gi"]
    small.start()
    small.apply([objects.storage_class(CLASS, "ext4", binding="Immediate"), objects.claim("none", "64Mi", CLASS)])
    wait_for("the reason", lambda: any("1073741824 are reserved" in event["message"]
                                       for event in small.events("none")))
    small.run("delete", "pvc", "none", "--no-wait")


def test_inline_volumes_get_the_share_of_the_pool_that_it_was_told(small):
    small.flags = ["--inline-share", "0"]
    small.start()
    small.apply(objects.pod("user", "true", mounts=[{"name": "own", "mountPath": "/own"}], volumes=[
        {"name": "own", "csi": {"driver": "local.csi.berth.dev", "volumeAttributes": {"size": "16Mi"}}}]))
    wait_for("the reason", lambda: any("only 0 may be theirs" in event["message"]
                                       for event in small.events("user")))
    small.run("delete", "pod", "user", "--grace-period", "1", "--wait=false")
    small.wait_gone("pod", "user")
