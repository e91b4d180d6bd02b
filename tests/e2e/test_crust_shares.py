"""The design's case of a share. A CSI driver gives source and type of a share, here of a real GlusterFS server. The
sandbox has it by a FUSE file system whose server is a process beside the handler. The host has no client; the test's
mount utility mounts one over /usr, in its own namespace."""
import contextlib
import os
import pathlib
import signal
import tempfile

import pytest
from lib import crust, debian_root, gluster, mount_pods, mounts, objects
from lib.crust import shell, told
from lib.csi_double import NAME, CsiDouble
from lib.standalone import wait_for

pytestmark = [pytest.mark.crust, pytest.mark.e2e]

UTILITY = """\
#!/bin/sh
set -e
mount -t overlay overlay -o lowerdir={root}/usr:/usr /usr
mount -t tmpfs tmpfs /var/log
mkdir /var/log/glusterfs
exec /usr/sbin/mount.glusterfs "$@"
"""
CLASS = "of-the-share"
MOUNTS = [{"name": "shared", "mountPath": "/data"}, {"name": "shared", "mountPath": "/part", "subPath": "some/part"}]


@pytest.fixture(scope="module")
def server():
    made = gluster.GlusterServer(pathlib.Path(tempfile.mkdtemp(prefix="bt-", dir="/var/tmp")))
    try:
        yield made.start()
    except debian_root.Missing as missing:
        pytest.skip(str(missing))
    finally:
        made.stop()


@pytest.fixture(scope="module")
def double(server):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="bt-", dir="/var/tmp"))
    made = CsiDouble(folder / "d", share=(server.volume("shared"), "glusterfs"))
    yield made
    made.stop()


@pytest.fixture(scope="module")
def place(double):
    utility = double.folder / "mount.glusterfs"
    utility.write_text(UTILITY.format(root=debian_root.cached(mount_pods.packages("glusterfs"))))
    utility.chmod(0o755)
    with crust.place([f"--utility-file-systems=glusterfs={utility}"], ["--csi-driver", double.socket]) as (berth, handler, _):
        double.registration_folder = berth.data / "kubelet" / "plugins_registry"
        double.start()
        wait_for("the driver to be registered", lambda: [
            d for node in berth.items("csinodes") for d in node["spec"].get("drivers") or [] if d["name"] == NAME])
        berth.apply(crust.storage_class(CLASS, provisioner=NAME, binding="Immediate"))
        yield berth, handler


@pytest.fixture
def berth(place):
    return place[0]


@pytest.fixture
def handler(place):
    return place[1]


@pytest.fixture(autouse=True)
def leaves_nothing(berth, handler):
    with crust.leaving_nothing(berth, handler):
        yield
    wait_for("the file systems' servers to end", lambda: not servers(handler))
    assert not namespaces(handler)


def servers(handler):
    """Gives {pid: its mount table} of the processes that serve this handler's mounts, and not those of other tests."""
    found = {}
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            argv = process.joinpath("cmdline").read_bytes().split(b"\0")
            if argv[0].endswith(b"/glusterfs") and os.fsencode(handler.folder / "data" / "utilities" / "at") in argv:
                found[int(process.name)] = process.joinpath("mountinfo").read_text()
    return found


def namespaces(handler):
    """Gives the namespaces in which mount utilities run or ran."""
    return [path.name for path in (handler.folder / "data" / "utilities").iterdir() if path.name != "at"]


def run(berth, handler, name, script="true", claim="shared"):
    berth.apply(objects.pod(name, script + "; trap exit TERM; sleep 1000 & wait", [claim], mounts=MOUNTS,
                            runtimeClassName="sandboxed"))
    pod = crust.wait_begun(berth.wait_phase("pods", name, "Running"))
    # Where the host's mounts are private, a server keeps copies of other tests' mounts as long as it lives.
    for pid in servers(handler):
        mounts.let_go_of_others(pid, own=handler.folder)
    return pod


def clients(table, server):
    """Gives the mounts of this server's volumes, because other tests have theirs on this host."""
    return [line for line in table.splitlines() if f" fuse.glusterfs {server.address}:" in line]


def host_clients(server):
    return clients(pathlib.Path("/proc/self/mountinfo").read_text(), server)


def test_two_pods_share_what_only_their_sandboxes_have(berth, handler, server):
    berth.apply(crust.claim("shared", storage_class=CLASS, mode="ReadWriteMany"))
    run(berth, handler, "one", "echo kept > /data/note; echo beneath > /part/inner; sync /data/note /part/inner")
    assert server.read("shared", "note") == "kept\n" and server.read("shared", "some/part/inner") == "beneath\n"
    run(berth, handler, "two")
    assert shell(berth, "two", "cat /data/note /part/inner") == "kept\nbeneath\n"
    assert clients(shell(berth, "two", "cat /proc/self/mountinfo"), server)
    for name in "one", "two":
        assert str(handler.socket) in told(berth, name, "RuntimeAssistedMount")[0]
        assert not told(berth, name, "SandboxMountAccessMode"), "the file system is made for several"
    # Neither the host nor the namespaces of the server processes have the mount.
    tables = servers(handler)
    assert len(tables) == 2 and not any(clients(table, server) for table in tables.values())
    assert not host_clients(server)
    assert not namespaces(handler)
    # The servers keep no mount of the host busy, and go on when the handler ends.
    assert not [line for table in tables.values() for line in table.splitlines() if line.split()[4].startswith(str(berth.data))]
    handler.kill()
    shell(berth, "one", "echo more > /data/note; sync /data/note")
    handler.start()
    wait_for("the other client's cache to end", lambda: shell(berth, "two", "cat /data/note") == "more\n")
    berth.run("delete", "pod", "one")
    assert shell(berth, "two", "cat /data/note") == "more\n"


def test_what_the_server_refuses_is_told(berth, handler, double, server):
    share = double.share
    double.stop()
    double.share = (share[0].rpartition("/")[0] + "/nowhere", "glusterfs")
    double.start()
    try:
        berth.apply(crust.claim("shared", storage_class=CLASS, mode="ReadWriteMany"))
        berth.apply(objects.pod("one", "true", ["shared"], runtimeClassName="sandboxed"))
        message = wait_for("the pod's event", lambda: told(berth, "one", "FailedMount"))[0]
        assert "mount.glusterfs exited with 1" in message and "/nowhere" in message
        assert not host_clients(server)
        berth.run("delete", "pod", "one")
    finally:
        double.stop()
        double.share = share
        double.start()


def test_a_server_that_dies_is_told_and_the_next_pod_has_the_share(berth, handler):
    berth.apply(crust.claim("shared", storage_class=CLASS, mode="ReadWriteMany"))
    run(berth, handler, "one", "echo kept > /data/note; sync /data/note")
    [server] = servers(handler)
    os.kill(server, signal.SIGKILL)
    message = wait_for("the pod's event", lambda: told(berth, "one", "VolumeConditionAbnormal"), seconds=90)[0]
    assert "the file system has failed" in message
    berth.run("delete", "pod", "one")
    run(berth, handler, "two")
    assert shell(berth, "two", "cat /data/note") == "kept\n"
