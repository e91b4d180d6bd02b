"""An agent that itself runs in a container has a mount namespace of its own, to which the host's mounts propagate,
and the host's process ids. Without a registered pod it mounts on the host, and runs everything else in its
container."""
import json
import os
import pathlib
import subprocess

import pytest
from lib.mounts import let_go_of_others
from lib.standalone import ROOT, wait_for

pytestmark = [pytest.mark.mountpod, pytest.mark.e2e]

# Process 1 of the "host": its kubelet folder is shared, as the agent's container needs it, and no other.
HOST = """
mount --bind "$0" "$0"
mount --make-rshared "$0"
exec sleep infinity
"""
# The agent's container, which has a program that the host lacks.
AGENT = """
mount -t tmpfs of-the-agent /usr/local/sbin
printf '#!/bin/sh\\necho from the image\\n' >/usr/local/sbin/only-in-the-image
chmod 755 /usr/local/sbin/only-in-the-image
exec sleep infinity
"""


def child_that_sleeps(process):
    """Gives the process id of its child once the child is set up."""
    children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    sleeps = children and b"sleep" in pathlib.Path(f"/proc/{children[0]}/cmdline").read_bytes().split(b"\0")[0]
    return int(children[0]) if sleeps else None


def mounts_of(pid):
    return [line.split()[4] for line in pathlib.Path(f"/proc/{pid}/mountinfo").read_text().splitlines()]


class Agent:
    def __init__(self, folder):
        self.folder = folder
        self.kubelet = folder / "kubelet"
        self.kubelet.mkdir()
        quiet = {"stdin": subprocess.DEVNULL}
        self.processes = [subprocess.Popen(["unshare", "--pid", "--fork", "--mount-proc", "--propagation", "private",
                                            "--kill-child", "sh", "-ec", HOST, self.kubelet], **quiet)]
        self.host = wait_for("the host's namespaces", lambda: child_that_sleeps(self.processes[0]))
        let_go_of_others(self.host, own=folder)
        self.processes.append(subprocess.Popen(
            ["nsenter", "--target", str(self.host), "--pid", "--mount", "unshare", "--mount", "--propagation", "slave",
             "sh", "-ec", AGENT], **quiet))
        self.pid = wait_for("the agent's namespace", lambda: child_that_sleeps(self.processes[1]))

    def call(self, verb, *arguments, containerized=True):
        flag = ["--containerized"] if containerized else []
        done = subprocess.run(
            ["nsenter", "--target", str(self.pid), "--pid", "--mount", ROOT / "build" / "bin" / "plugin_utility",
             "--kubelet", self.kubelet, "--data", self.folder / "records", "--runtime", "/run/no-runtime.sock",
             "--plugin", "example.com/by-hand", *flag, verb, *map(str, arguments)],
            capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stdout + done.stderr
        return json.loads(done.stdout)

    def stop(self):
        for process in reversed(self.processes):
            process.kill()
            process.wait()


@pytest.fixture
def agent(tmp_path):
    made = Agent(tmp_path)
    yield made
    made.stop()


def test_a_mount_is_made_and_undone_in_the_hosts_namespace(agent):
    target = agent.kubelet / "target"
    target.mkdir()
    said = agent.call("mount", "--type", "tmpfs", "--source", "by-the-agent", "--target", target)
    assert said["code"] == "OK", said
    assert str(target) in mounts_of(agent.host), "what is mounted in a container alone never gets there"
    assert str(target) in mounts_of(agent.pid), "it came by propagation"
    said = agent.call("unmount", "--target", target)
    assert said["code"] == "OK", said
    assert str(target) not in mounts_of(agent.host) + mounts_of(agent.pid)


def test_only_mount_and_umount_leave_the_agents_namespace(agent):
    target = agent.folder / "not-shared"
    target.mkdir()
    assert agent.call("run", "--", "mount", "-t", "tmpfs", "by-the-agent", target)["exit_code"] == 0
    assert str(target) in mounts_of(agent.host)
    assert str(target) not in mounts_of(agent.pid)
    assert agent.call("run", "--", "umount", target)["exit_code"] == 0
    assert str(target) not in mounts_of(agent.host)

    where = agent.call("run", "--", "readlink", "/proc/self/ns/mnt")["out"].strip()
    assert where == os.readlink(f"/proc/{agent.pid}/ns/mnt") != os.readlink(f"/proc/{agent.host}/ns/mnt")
    assert agent.call("run", "--", "only-in-the-image")["out"] == "from the image\n"

    # An agent on the host enters no other mount namespace.
    assert agent.call("run", "--", "mount", "-t", "tmpfs", "by-the-agent", target, containerized=False)["exit_code"] == 0
    assert str(target) in mounts_of(agent.pid)
    assert str(target) not in mounts_of(agent.host)
