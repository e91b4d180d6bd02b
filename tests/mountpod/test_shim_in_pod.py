"""A plain mount(8) on a host that has no such mount helper: the shim has it run in the pod that is registered."""
import json
import os
import subprocess

import pytest
from lib import objects
from lib.shims import Shims
from lib.standalone import wait_for

pytestmark = [pytest.mark.mountpod, pytest.mark.e2e]

PLUGIN = "example.com/test"
# What only the pod has.
HELPER = """#!/bin/sh
echo "in the pod: $FLAVOUR"
mount -t tmpfs -o size=1m berth-test "$2"
"""


@pytest.fixture
def shims(berth, tmp_path):
    return Shims(tmp_path, berth.data / "run" / "utilities.sock").install("--plugin", PLUGIN, "mount.berthtest")


def mount_pod(berth):
    """A pod with the helper, registered as berth-init would."""
    kubelet = str(berth.data / "kubelet")
    script = f"cat >/bin/mount.berthtest <<'EOF'\n{HELPER}EOF\n" \
             f"chmod 755 /bin/mount.berthtest; touch {kubelet}/ready; exec sleep 1000000"
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
    with open("/proc/self/mountinfo") as table:
        assert any(f" {target} " in line and " tmpfs berth-test " in line for line in table)
    subprocess.run(["umount", target], check=True)

    spoken = shims.run("mount.berthtest", "server:/v", target, env={"FLAVOUR": "mint 'n lime"})
    assert (spoken.returncode, spoken.stdout) == (0, b"in the pod: mint 'n lime\n"), spoken.stderr
    subprocess.run(["umount", target], check=True)

    elsewhere = shims.run("mount.berthtest", "server:/v", shims.folder)
    assert elsewhere.returncode == 32
    assert b"can mount only below" in elsewhere.stderr
