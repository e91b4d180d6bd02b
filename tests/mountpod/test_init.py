"""berth-init, process 1 of a mount pod, registers the pod, stays while its mounts are used, and ends when nothing is
used."""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile

import pytest
from lib import mounts
from lib.fuse_double import FuseDouble
from lib.hung_exec import HungExec
from lib.mount_pod import INIT, POD, UID, MountPod
from lib.standalone import wait_for

pytestmark = pytest.mark.mountpod

NEWER = "0f0e0d0c-7358-40e8-9547-a04345c85be9"


@pytest.fixture
def pod():
    folder = tempfile.mkdtemp(prefix="bt-", dir="/var/tmp")
    pod = MountPod(folder)
    yield pod
    pod.stop()
    mounts.unmount_below(folder)
    shutil.rmtree(folder)


def unmount(target):
    subprocess.run(["umount", target], check=True)


def register_newer_pod(pod):
    new = pod.registrations / ".newer"
    new.write_text(json.dumps({**json.loads(pod.registration().read_text()), "podUID": NEWER}))
    new.rename(pod.registration())


def test_it_stands_alone_and_is_small():
    assert INIT.resolve().stat().st_size < 1 << 20
    headers = subprocess.run(["readelf", "--program-headers", INIT], check=True, capture_output=True, text=True).stdout
    assert "INTERP" not in headers and "LOAD" in headers


def test_it_registers_the_pod_for_each_plugin(pod):
    pod.start(plugins=["kubernetes.io/glusterfs", "kubernetes.io/nfs"])
    pod.wait_for_log("registered for kubernetes.io/nfs")
    assert sorted(os.listdir(pod.registrations)) == ["kubernetes.io~glusterfs.json", "kubernetes.io~nfs.json"]
    for name in os.listdir(pod.registrations):
        file = pod.registrations / name
        assert json.loads(file.read_text()) == {"podNamespace": "kubernetes-storage", "podName": "gluster-xtzwv",
                                                "podUID": UID, "containerName": "gluster"}
        assert file.stat().st_mode & 0o7777 == 0o644
        assert file.stat().st_uid == 0
    pod.signal(signal.SIGTERM)
    assert pod.wait() == 0
    assert os.listdir(pod.registrations) == []


def test_it_replaces_an_older_registration_in_one_step(pod):
    pod.registrations.mkdir()
    pod.registration().write_text('{"podUID": "older"}')
    # An interrupted start of this pod left this file.
    (pod.registrations / f".kubernetes.io~glusterfs.json.tmp-{UID}").write_text("{")
    with open(pod.registration()) as older:
        pod.start()
        # A reader of the old file goes on reading it, and never sees half of the new one.
        assert older.read() == '{"podUID": "older"}'
        assert os.fstat(older.fileno()).st_nlink == 0
    assert pod.registered_uid() == UID
    assert os.listdir(pod.registrations) == ["kubernetes.io~glusterfs.json"]


def test_it_reaps_what_is_left_behind(pod):
    pod.start()
    assert pod.exec("for i in 1 2 3 4 5 6 7 8; do (sh -c 'exit 3' &); done").wait(timeout=60) == 0
    wait_for("the orphans to be gone", lambda: not pod.children())


def test_it_stays_while_the_host_uses_what_it_serves(pod):
    pod.start()
    one, two = pod.serve("one"), pod.serve("two")
    assert set(pod.children().values()) & {"S", "R", "D"}  # daemons that left their parents are kept
    pod.signal(signal.SIGTERM)
    pod.wait_for_log("stays, because these are in use (2)")
    assert f"'{one}'" in pod.said() and f"'{two}'" in pod.said()
    pod.signal(signal.SIGTERM)  # the second one changes nothing
    assert pod.registered_uid() is None  # a pod that ends gets no new mounts
    unmount(one)
    pod.wait_for_log("stays, because these are in use (1)")
    (two / "file").write_text("served on")
    assert (pod.folder / "two-below" / "file").read_text() == "served on"
    assert pod.process.poll() is None
    unmount(two)
    assert pod.wait() == 0


def test_it_does_not_wait_for_what_others_serve(pod):
    pod.start()
    others = FuseDouble(pod.folder / "others", pod.kubelet / "others").start()
    try:
        wait_for("the pod to see it", lambda: str(others.mount_point) in pod.mount_points())
        pod.signal(signal.SIGTERM)
        assert pod.wait() == 0
        assert str(others.mount_point) in mounts.targets()
    finally:
        others.stop()


def test_it_leaves_a_dead_daemons_mount(pod):
    pod.start()
    target = pod.serve("one")
    pod.signal(signal.SIGTERM)
    pod.wait_for_log("stays, because these are in use (1)")
    for pid in pod.children():
        os.kill(int(pid), signal.SIGKILL)
    assert pod.wait() == 0
    assert str(target) in mounts.targets()  # removing the mount is not berth-init's work


def test_it_waits_for_a_utility_that_runs(pod):
    pod.start()
    go = pod.folder / "go"
    os.mkfifo(go)
    utility = pod.exec(f"read line <{go}; exit 7")
    wait_for("the utility to run", lambda: "sh" in pathlib.Path(f"/proc/{first_child(utility.pid)}/comm").read_text())
    pod.signal(signal.SIGTERM)
    pod.wait_for_log("the utility sh (pid ")
    go.write_text("go\n")
    assert utility.wait(timeout=60) == 7
    assert pod.wait() == 0


def first_child(pid):
    return wait_for("a child process", lambda: pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text()).split()[0]


def test_it_leaves_a_newer_pods_registration_alone(pod):
    pod.start()
    target = pod.serve("one")
    register_newer_pod(pod)
    pod.signal(signal.SIGTERM)
    pod.wait_for_log("leaves the registration for kubernetes.io/glusterfs to another pod")
    unmount(target)
    assert pod.wait() == 0
    assert pod.registered_uid() == NEWER


def test_grace_bounds_its_stay(pod):
    pod.start("--grace", "1")
    target = pod.serve("one")
    pod.signal(signal.SIGTERM)
    assert pod.wait() == 0
    assert f"'{target}'" in pod.said()
    assert "ends although these are in use, because --grace is 1 s" in pod.said()


def test_it_passes_signals_to_its_command_and_ends_with_its_code(pod):
    script = "trap 'echo got HUP' HUP; trap 'echo got TERM; exit 5' TERM; echo ready; while :; do sleep 0.05; done"
    pod.start(command=["sh", "-c", script])
    pod.wait_for_log("ready")
    pod.signal(signal.SIGHUP)
    pod.wait_for_log("got HUP")
    target = pod.serve("one")
    pod.signal(signal.SIGTERM)
    pod.wait_for_log("stays, because these are in use (1)")
    # The mount may need the command, so it is not stopped yet.
    assert "got TERM" not in pod.said()
    unmount(target)
    assert pod.wait() == 5
    assert "got TERM" in pod.said()


def test_what_it_serves_outlives_its_command(pod):
    go = pod.folder / "go"
    os.mkfifo(go)
    pod.start(command=["sh", "-c", f"read line <{go}; exit 4"])
    target = pod.serve("one")
    go.write_text("go\n")
    pod.wait_for_log("ended with 4")
    pod.wait_for_log("stays, because these are in use (1)")
    unmount(target)
    assert pod.wait() == 4


def test_it_says_what_keeps_it_from_beginning(pod):
    def refused(*arguments, **keywords):
        code = pod.run(*arguments, **keywords).wait()
        assert code != 0
        assert not pod.registrations.exists() or os.listdir(pod.registrations) == []
        return pod.said()

    for name in POD:
        assert f"${name}" in refused(env={name: ""})
    assert "'/nowhere/mountinfo'" in refused("--host-mountinfo", "/nowhere/mountinfo")
    assert "'/nowhere' is not mounted into this pod" in refused("--kubelet-dir", "/nowhere")
    assert "run '/nowhere/program': No such file" in refused(command=["/nowhere/program"])
    pod.registrations.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "ro", "none", pod.registrations], check=True)
    assert "Read-only file system" in refused()
    beside = subprocess.run([INIT, "--plugin", "p", "--container", "c"], env=POD, capture_output=True, text=True)
    assert beside.returncode == 2
    assert "process 1" in beside.stderr


@pytest.mark.security
def test_a_process_that_nobody_can_read_does_not_stop_it(pod):
    pod.start()
    target = pod.serve("one")
    with HungExec(pod.kubelet / "hung", inside=["nsenter", "--target", str(pod.pid), "--pid", "--mount"]) as hung:
        pod.signal(signal.SIGTERM)
        pod.wait_for_log("the utility python3")
        # The process could serve what was mounted meanwhile, and that is the file for which it waits.
        assert "these are in use (3)" in pod.said() and f"'{target}'" in pod.said()
        unmount(target)
        wait_for("a second look", lambda: pod.said().count("the utility python3") >= 2)
        assert not hung.expired, "something waited for the process"
    assert pod.wait() == 0
