"""A mount that hangs or is dead affects only its own volume: others are mounted, and the agent starts."""
import contextlib
import errno
import os
import pathlib
import signal

import pytest
from lib import csi_bed, mounts, objects
from lib.hung_exec import HungExec
from lib.lost_mount import LostMount
from lib.standalone import wait_for

pytestmark = [pytest.mark.hangs, pytest.mark.e2e]


def writes(berth, name):
    """Runs a pod on a claim of its own to its end; it must find what it wrote."""
    berth.apply([objects.claim(f"data-{name}"),
                 objects.pod(name, f"echo {name} > /data-{name}/f && sync /data-{name}/f && grep {name} /data-{name}/f",
                             claims=[f"data-{name}"])])
    berth.wait_phase("pod", name, "Succeeded")


@contextlib.contextmanager
def lost(targets, state):
    mounts = [LostMount(target) for target in targets]
    try:
        if state == "dead":
            for mount in mounts:
                mount.die()
        yield
    finally:
        for mount in mounts:
            mount.gone()


@pytest.mark.parametrize("state", ["hung", "dead"])
def test_a_lost_mount_holds_up_no_other_pod(berth, leak_free, state):
    berth.apply([objects.claim("data"), objects.pod("victim", "sleep 1000", claims=["data"])])
    victim = berth.wait_phase("pod", "victim", "Running")
    volume = berth.get("persistentvolumeclaim", "data")["spec"]["volumeName"]
    kubelet = berth.data / "kubelet"
    published = kubelet / "pods" / victim["metadata"]["uid"] / "volumes" / "kubernetes.io~csi" / volume / "mount"
    (staged,) = (kubelet / "plugins" / "kubernetes.io" / "csi" / "local.csi.berth.dev").glob("*/globalmount")
    with lost([published, staged], state):
        writes(berth, "beside")
        # A pod that would get the foreign mount gets an event that says so.
        berth.apply(objects.pod("next", "true", claims=["data"]))
        wait_for("the reason", lambda: any("another mount (fuse from 'lost') stands at" in event["message"]
                                           for event in berth.events("next")))
        berth.kill()
        berth.start()
        writes(berth, "after")
        berth.run("delete", "pod", "victim", "--wait=false")
        writes(berth, "later")
        assert berth.get("pod", "victim"), "its volume is not unmounted yet"
    # Nothing was given up: once the foreign mounts are gone, all work is finished (at once after a restart, otherwise
    # after a backoff).
    berth.kill()
    berth.start()
    berth.wait_gone("pod", "victim")
    berth.wait_phase("pod", "next", "Succeeded")


def server_of(mount_point):
    """Gives the process of the FUSE file system that is mounted there."""
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            words = (process / "cmdline").read_bytes().decode().split("\0")
            if words[0].endswith("fuse_double") and str(mount_point) in words:
                return int(process.name)
    return None


def is_watched(server):
    """Tells whether a node agent knows the server, because it then holds a pidfd of that process."""
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (process / "comm").read_text().strip() == "berth":
                if any(f"\nPid:\t{server}\n" in info.read_text() for info in (process / "fdinfo").iterdir()):
                    return True
    return False


class Users:
    """Makes mounts of one claim of a FUSE volume on the host, one after the other."""

    def __init__(self, bed):
        self.bed = bed
        self.paths = []
        bed.claim("data")
        bed.bound("data")

    def mount(self):
        path = self.bed.folder / f"user-{len(self.paths)}"
        self.bed.berth.run("mount", "data", path, "--timeout", "30")
        self.paths.append(path)
        return path

    def name(self, path):
        return next(item["metadata"]["name"] for item in self.bed.berth.items("hostmounts")
                    if item["spec"]["path"] == str(path))

    def server(self):
        (staged,) = (self.bed.berth.data / "kubelet" / "plugins" / "kubernetes.io" / "csi").glob("*/*/globalmount")
        return server_of(staged)

    def kill_server(self):
        server = self.server()
        os.kill(server, signal.SIGKILL)
        wait_for("its end", lambda: not pathlib.Path(f"/proc/{server}").exists())
        return server


def is_dead(path):
    try:
        os.listdir(path)
    except OSError as error:
        return error.errno == errno.ENOTCONN
    return False


def test_the_death_of_a_fuse_server_is_told_and_the_next_user_gets_a_fresh_mount():
    with csi_bed.made(by_fuse=True) as bed:
        users = Users(bed)
        first = users.mount()
        (first / "file").write_text("what was written")
        wait_for("the agent to know the server", lambda: is_watched(users.server()))
        server = users.kill_server()
        said = bed.says(users.name(first), "its FUSE mount .* is lost")
        assert f"process {server} 'fuse_double'" in said
        assert "killed by signal 9 (SIGKILL)" in said or "how is not known" in said
        explained = bed.berth.run("explain", f"hostmount/{users.name(first)}", check=False).stdout
        assert f"process {server} 'fuse_double'" in explained, explained
        assert is_dead(first), "who has it keeps it"

        second = users.mount()
        assert (second / "file").read_text() == "what was written"
        assert is_dead(first)

        # If a server ends while no node agent runs, the next one finds that at its start.
        bed.berth.kill()
        users.kill_server()
        bed.start_berth()
        bed.says(users.name(second), "nobody serves it")
        third = users.mount()
        assert (third / "file").read_text() == "what was written"

        for path in users.paths:
            bed.berth.run("umount", path, "--timeout", "40")
        assert not [target for target in mounts.targets() if target.startswith(f"{bed.folder}/user-")]
        bed.calm()
        wait_for("nothing to be mounted", lambda: not [t for t in mounts.targets() if "/globalmount" in t
                                                       and t.startswith(str(bed.folder))])


@pytest.mark.security
def test_a_process_that_nobody_can_read_stops_neither_the_watch_nor_explain_nor_an_orderly_end():
    with csi_bed.made(by_fuse=True) as bed, HungExec(bed.folder / "hung") as hung:
        users = Users(bed)
        first = users.mount()
        wait_for("the agent to know the server", lambda: is_watched(users.server()))
        server = users.kill_server()
        assert f"process {server} 'fuse_double'" in bed.says(users.name(first), "its FUSE mount .* is lost")
        users.mount()
        explained = bed.berth.run("explain", f"hostmount/{users.name(first)}", check=False, timeout=30).stdout
        assert f"process {server} 'fuse_double'" in explained, explained
        assert bed.berth.run("explain", "pvc/data", check=False, timeout=30).stdout
        bed.berth.stop(seconds=20)
        assert not hung.expired, "something waited for the process"
