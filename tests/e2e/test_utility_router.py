"""A plugin's utilities run in a real container of a real containerd. `plugin_utility` stands in for the plugin."""
import json
import os
import pathlib
import signal
import subprocess

import pytest
from lib import handmade_pod, mounts
from lib.hung_exec import HungExec
from lib.standalone import wait_for

pytestmark = [pytest.mark.mountpod, pytest.mark.e2e]


def utility_of(berth):
    return handmade_pod.Utility(berth.data / "kubelet", berth.folder / "records", berth.runtime_socket)


@pytest.fixture(scope="module")
def registered(module_berth):
    """Gives a Berth with a registered mount pod, and a caller of utilities."""
    berth = module_berth
    berth.apply(handmade_pod.pod("utilities", berth.data / "kubelet"))
    handmade_pod.register(berth, "utilities")
    return utility_of(berth)


def processes(marker):
    """Gives the host's process ids whose command line holds the marker."""
    found = []
    for place in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if marker.encode() in place.read_bytes():
                found.append(int(place.parent.name))
        except OSError:
            pass
    return found


def test_runs_in_the_registered_pod_with_exit_code_and_streams(registered):
    said = registered.run("sh", "-c", "hostname; echo bad >&2; exit 3")
    assert (said["exit_code"], said["out"], said["err"]) == (3, "utilities\n", "bad\n")
    missing = registered.run("mount.nothing", "x")
    assert missing["code"] == "NOT_FOUND"
    assert missing["message"] == "no program 'mount.nothing' in container 'main' of pod default/utilities"


def test_standard_input_and_secrets_reach_the_pod_and_leave_nothing(registered):
    assert registered.run("cat", stdin="what is read")["out"] == "what is read"
    said = registered.run("sh", "-c", "stat -c %a {key}; cat {key}", secret="key=s3cret")
    assert said["out"] == "600\ns3cret"
    runs = registered.kubelet / "plugin-runs"
    assert not runs.exists() or not list(runs.iterdir())


def test_a_daemon_that_keeps_its_streams_is_not_waited_for_and_lives_on(registered):
    said = registered.run("sh", "-c", "sleep 54321 & echo mounted", leaves_daemon=True, timeout_ms=60000)
    assert (said["exit_code"], said["out"]) == (0, "mounted\n")
    # The shell writes its line when it has forked, and its child becomes `sleep` after that.
    (daemon,) = wait_for("the daemon", lambda: processes("sleep\x0054321"))
    registered.run("kill", "-9", registered.run("pidof", "sleep")["out"].split()[0])  # the newest one in the pod
    wait_for("the daemon to end", lambda: daemon not in processes("sleep\x0054321"))


def test_a_hundred_mebibytes_of_output_end_the_run_as_any_other(registered):
    said = registered.run("sh", "-c", "head -c 104857600 /dev/zero; echo well >&2", max_output=1000, timeout_ms=110000)
    assert (said.get("exit_code"), said.get("out_bytes"), said.get("err")) == (0, 1000, "well\n"), said
    full = registered.run("sh", "-c", "head -c 104857600 /dev/zero", max_output=1 << 30, timeout_ms=110000)
    assert (full.get("exit_code"), full.get("out_bytes")) == (0, 104857600), full


def hang(registered, marker, timeout_ms):
    """Starts a run in the pod that ignores SIGTERM, with a child that ignores it, too."""
    script = f"trap '' TERM; (trap '' TERM; while :; do sleep 600; done) & while :; do sleep 600; done; {marker}"
    process = subprocess.Popen(registered.command("run", "--timeout-ms", timeout_ms, "--", "sh", "-c", script),
                               stdout=subprocess.PIPE, text=True)
    wait_for("the hung run to be in the pod", lambda: len(processes(marker)) >= 3)  # with plugin_utility itself
    return process


def test_of_200_runs_one_hangs_and_ends_alone_at_its_deadline(registered):
    """Neither the run nor its child is left on the host. One more run hangs longer, and is ended when the others have
    ended."""
    markers = ["hung-utility-of-the-test", "one-that-hangs-on"]
    hung, hangs_on = hang(registered, markers[0], 10000), hang(registered, markers[1], 500000)
    try:
        others, _ = registered.call("run", "--runs", 198, "--timeout-ms", 300000, "--", "sh", "-c", "echo $$")
        assert [one for one in others if one.get("exit_code") != 0] == []
        said = json.loads(hung.communicate(timeout=200)[0].splitlines()[-1])
        assert hangs_on.poll() is None, "nobody waited for it"
        for pid in processes(markers[1]):
            if pid != hangs_on.pid:
                os.kill(pid, signal.SIGKILL)
        assert json.loads(hangs_on.communicate(timeout=200)[0].splitlines()[-1])["exit_code"] == 137
    finally:
        hung.kill()
        hangs_on.kill()
    assert said["code"] == "DEADLINE_EXCEEDED", said
    assert "in container 'main' of pod default/utilities did not end within 10000 ms" in said["message"]
    assert processes(markers[0]) == []


@pytest.mark.security
def test_a_run_ends_at_its_deadline_beside_a_process_that_nobody_can_read(registered, tmp_path):
    """The process is of no pod of ours, so that nothing asks it."""
    marker = "hung-beside-a-hung-exec"
    with HungExec(tmp_path / "hung") as hung:
        run = hang(registered, marker, 10000)
        try:
            said = json.loads(run.communicate(timeout=100)[0].splitlines()[-1])
        finally:
            run.kill()
        assert said["code"] == "DEADLINE_EXCEEDED", said
        assert processes(marker) == []
        assert not hung.expired, "something waited for the process"


def test_a_pod_that_is_replaced_under_its_name_is_another_one(new_berth):
    berth = new_berth().start()
    utility = utility_of(berth)

    def start(who):
        berth.apply(handmade_pod.pod("tools", utility.kubelet, script=f"echo {who} >/who; sleep 100000"))
        berth.wait_phase("pod", "tools", "Running")

    def where():
        return utility.run("sh", "-c", "cat /who 2>/dev/null || echo host")["out"].strip()

    assert where() == "host"
    start("first")
    handmade_pod.register(berth, "tools")
    wait_for("the first pod", lambda: where() == "first")
    berth.delete("pod", "tools")
    berth.wait_gone("pod", "tools")
    assert where() == "host", "the file that it left is nobody's"
    start("second")
    assert where() == "host", "of the same name, and not registered"
    handmade_pod.register(berth, "tools")
    wait_for("the second pod", lambda: where() == "second")


def test_a_malformed_registration_runs_nothing(registered):
    place = handmade_pod.path(registered.kubelet)
    good = place.read_text()
    try:
        place.write_text(good[:20])
        said, events = registered.call("run", "--", "true")
        assert said[0]["code"] == "FAILED_PRECONDITION" and str(place) in said[0]["message"]
        assert "PluginContainerRefused" in events
    finally:
        place.write_text(good)
    assert registered.run("true")["exit_code"] == 0


@pytest.fixture
def target(registered):
    folder = registered.kubelet / "target"
    folder.mkdir(exist_ok=True)
    yield folder
    mounts.unmount_below(folder)
    folder.rmdir()


def mounted(folder):
    return str(folder) in (line.split()[4] for line in open("/proc/self/mountinfo"))


def test_a_mount_of_the_pods_is_the_hosts_and_goes_the_same_way(registered, target):
    (said,), _ = registered.call("mount", "--type", "tmpfs", "--source", "of-the-pod", "--target", target)
    assert said["code"] == "OK", said
    assert mounted(target)
    assert list((registered.records / "helper-mounts").iterdir())
    assert registered.run("sh", "-c", f"echo x >{target}/f && cat {target}/f")["out"] == "x\n"
    assert (target / "f").read_text() == "x\n"
    (said,), _ = registered.call("unmount", "--target", target)
    assert said["code"] == "OK", said
    assert not mounted(target)
    assert str(target) not in registered.run("cat", "/proc/self/mountinfo")["out"]
    assert not list((registered.records / "helper-mounts").iterdir())


def test_the_mount_of_a_pod_that_is_gone_is_unmounted_lazily_with_an_event(module_berth, registered, target):
    module_berth.apply(handmade_pod.pod("short", registered.kubelet))
    handmade_pod.register(module_berth, "short")
    (said,), _ = registered.call("mount", "--type", "tmpfs", "--source", "of-the-pod", "--target", target)
    assert said["code"] == "OK", said
    module_berth.delete("pod", "short")
    module_berth.wait_gone("pod", "short")
    assert mounted(target), "no daemon serves it that could have died with the pod"
    with open(target / "in-use", "w"):  # an unmount that is not lazy would be refused
        (said,), events = registered.call("unmount", "--target", target)
    assert said["code"] == "OK", said
    assert not mounted(target)
    assert not list((registered.records / "helper-mounts").iterdir())
    [event] = [line for line in events.splitlines() if "PluginContainerGone" in line]
    assert event.startswith("event of Node node-a: ") and str(target) in event and "default/short" in event, event
    handmade_pod.register(module_berth, "utilities")


@pytest.mark.parametrize("propagation", [None, "HostToContainer"])
def test_a_pod_that_does_not_share_mounts_is_told_so(module_berth, registered, target, propagation):
    module_berth.apply(handmade_pod.pod("alone", registered.kubelet, propagation,
                                     script=f"mkdir -p {target}; sleep 100000"))
    handmade_pod.register(module_berth, "alone")
    try:
        (said,), _ = registered.call("mount", "--type", "tmpfs", "--source", "of-the-pod", "--target", target)
        assert said["code"] == "FAILED_PRECONDITION" and "mountPropagation" in said["message"], said
        assert not mounted(target)
        if propagation:  # the mount that only the pod saw was unmounted
            assert str(target) not in registered.run("cat", "/proc/self/mountinfo")["out"]
    finally:
        module_berth.delete("pod", "alone")
        module_berth.wait_gone("pod", "alone")
        handmade_pod.register(module_berth, "utilities")
