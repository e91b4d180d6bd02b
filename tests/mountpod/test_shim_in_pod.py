"""A plain mount(8) on a host without the mount helper: the shim makes the agent run the helper in the registered
pod."""
import json
import os
import signal
import subprocess

import pytest
from lib import mounts, objects
from lib.shims import BERTH, Shims
from lib.standalone import wait_for

pytestmark = [pytest.mark.mountpod, pytest.mark.e2e]

PLUGIN = "example.com/test"
# The helpers, which only the pod has.
HELPER = """#!/bin/sh
echo "in the pod: $FLAVOUR"
mount -t tmpfs -o size=1m berth-test "$2"
"""
TOOL = """#!/bin/sh
echo "${0##*/} in the pod: $*"
case $0 in *fsck*) exit 1 ;; esac  # it repaired something
"""


@pytest.fixture
def shims(berth, tmp_path):
    return Shims(tmp_path, berth.data / "run" / "utilities.sock").install("--plugin", PLUGIN, "mount.berthtest")


def mount_pod(berth):
    """Starts a pod with the helper, and registers it as berth-init would."""
    kubelet = str(berth.data / "kubelet")
    script = f"cat >/bin/mount.berthtest <<'EOF'\n{HELPER}EOF\n" \
             f"cat >/bin/mkfs.berthtest <<'EOF'\n{TOOL}EOF\ncp /bin/mkfs.berthtest /bin/fsck.berthtest; " \
             f"chmod 755 /bin/*.berthtest; touch {kubelet}/ready; exec sleep 1000000"
    berth.apply(objects.pod(
        "mounter", script, mounts=[{"name": "kubelet", "mountPath": kubelet, "mountPropagation": "Bidirectional"}],
        container={"securityContext": {"privileged": True}},
        volumes=[{"name": "kubelet", "hostPath": {"path": kubelet}}]))
    pod = berth.wait_phase("pods", "mounter", "Running")
    wait_for("the helper in the pod", lambda: os.path.exists(f"{kubelet}/ready"))
    registration = berth.data / "kubelet/plugin-containers/example.com~test.json"
    registration.write_text(json.dumps({"podNamespace": "default", "podName": "mounter",
                                        "podUID": pod["metadata"]["uid"], "containerName": "main"}))


def test_a_plain_mount_runs_in_the_registered_pod(berth, shims):
    target = berth.data / "kubelet" / "target"
    target.mkdir()
    alone = shims.run("mount.berthtest", "server:/v", target)
    assert alone.returncode == 32
    assert b"no pod that runs on this node is registered for example.com/test" in alone.stderr

    mount_pod(berth)
    mounted = shims.mount("-t", "berthtest", "server:/v", target)
    assert mounted.returncode == 0, mounted.stderr
    assert str(target) in mounts.targets()
    subprocess.run(["umount", target], check=True)

    spoken = shims.run("mount.berthtest", "server:/v", target, env={"FLAVOUR": "mint 'n lime"})
    assert (spoken.returncode, spoken.stdout) == (0, b"in the pod: mint 'n lime\n"), spoken.stderr
    subprocess.run(["umount", target], check=True)

    elsewhere = shims.run("mount.berthtest", "server:/v", shims.folder)
    assert elsewhere.returncode == 32
    assert b"can mount only below" in elsewhere.stderr


def test_mkfs_and_fsck_run_in_the_registered_pod(berth, shims):
    """As a kubelet formats and checks the device of an iscsi volume."""
    shims.install("--plugin", PLUGIN, "mkfs.berthtest", "fsck.berthtest")
    mount_pod(berth)
    made = shims.host("mkfs", "-t", "berthtest", "-q", "/dev/null")
    assert (made.returncode, made.stdout) == (0, "mkfs.berthtest in the pod: -q /dev/null\n"), made.stderr
    checked = shims.host("fsck", "-T", "-t", "berthtest", "-a", "/dev/null")
    assert checked.returncode == 1, checked.stderr
    assert "fsck.berthtest in the pod: -a /dev/null\n" in checked.stdout


@pytest.fixture
def role(berth, runtime, tmp_path):
    """Runs `berth node --roles utilities` as beside a kubelet; it uses no API."""
    socket = tmp_path / "run" / "utilities.sock"
    with open(tmp_path / "log", "w") as log:
        process = subprocess.Popen([BERTH, "node", "--roles", "utilities", "--utility-socket", socket, "--kubelet-dir",
                                    berth.data / "kubelet", "--container-runtime-endpoint", f"unix://{runtime}"],
                                   stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    process.socket = socket
    wait_for("the role's socket", socket.exists)
    yield process
    process.kill()
    process.wait()


def test_beside_a_kubelet_the_role_runs_it(berth, role, tmp_path):
    (tmp_path / "host").mkdir()
    shims = Shims(tmp_path / "host", role.socket).install("--plugin", PLUGIN, "mount.berthtest", "sleep")
    mount_pod(berth)
    target = berth.data / "kubelet" / "target"
    target.mkdir()
    mounted = shims.mount("-t", "berthtest", "server:/v", target)
    assert mounted.returncode == 0, mounted.stderr
    assert str(target) in mounts.targets()
    subprocess.run(["umount", target], check=True)

    # The role ends without waiting for a utility that runs, and leaves nothing of it.
    seconds = "777333"
    sleeper = subprocess.Popen([shims.sbin / "sleep", seconds], stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
                               env={"BERTH_SHIMS": str(shims.records)})
    wait_for("the utility in the pod", lambda: running("sleep", seconds))
    role.send_signal(signal.SIGTERM)
    assert role.wait(timeout=60) == 0
    assert b"sleep: " in sleeper.communicate(timeout=60)[1]
    assert sleeper.returncode == 1
    wait_for("the utility to be gone", lambda: not running("sleep", seconds))


def running(*words):
    """Tells whether a process has these arguments. The shim itself does not count, because its first word is its
    path."""
    line = "\0".join(words).encode() + b"\0"
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as cmdline:
                if cmdline.read() == line:
                    return True
        except (FileNotFoundError, ProcessLookupError):
            continue
    return False
