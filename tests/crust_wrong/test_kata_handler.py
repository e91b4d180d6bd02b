"""`berth kata-handler`: it keeps the rules of CRUST that an unmodified Kata can keep, and bears whatever a shim answers."""
import os
import pathlib
import stat
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "conformance" / "crust"))

from lib import mounts  # noqa: E402
from lib.kata import KataDouble, KataHandler  # noqa: E402
from lib.rules import Refused, broken_rules  # noqa: E402
from lib.standalone import wait_for  # noqa: E402

import cases_fs_group  # noqa: E402,F401
import cases_offer  # noqa: E402,F401
import cases_pod  # noqa: E402,F401
import cases_publish  # noqa: E402,F401
import cases_upkeep  # noqa: E402,F401
from crust_bench import MIB, Bench, asked  # noqa: E402
from crust_case import CASES  # noqa: E402
from crust_client import CrustClient  # noqa: E402
from sandboxes import CommandSandboxes  # noqa: E402

pytestmark = [pytest.mark.guest, pytest.mark.conformance]

# Kata mounts a volume with the first container, and not before.
LATER = "there are numbers, or a group, only when a container has the volume: see the tests below"
# The cases that Kata cannot keep (docs/adr/0045).
NOT_OF_KATA = {
    "ignores-unknown-option": "Kata refuses the option with the container",
    "sub-path-unoffered": "Kata shares the host's folder; the node agent leaves no volume with a subPath to it",
    "stats-wrong": LATER, "condition-wrong": LATER, "stats-stand-still": LATER, "stats-one-at-a-time": LATER, "pod-stats": LATER,
    "fs-group-ignored": LATER, "fs-group-always-skips": LATER, "fs-group-mismatch-ignored": LATER,
}
GID = 4242
FOLDER = stat.S_ISGID | 0o770
IDLE = "echo here >note && sync && exec sleep 1000"


class Place:
    def __init__(self, folder, flags=()):
        folder.mkdir()
        self.double = KataDouble(folder / "kata")
        self.handler = KataHandler(folder / "handler", self.double, flags).start()
        (folder / "work").mkdir()
        self.containers = []  # (sandbox, number) of those that were left running
        self.bench = Bench(CrustClient(self.handler.socket, 60), CommandSandboxes(self.double.command), folder / "work", end_seconds=60)

    def restart(self):
        self.handler.kill()
        self.handler.start()
        self.bench.client.reconnect()

    def start(self, sandbox, target):
        number = self.double.start(sandbox, target, IDLE)
        self.containers.append((sandbox, number))
        return number

    def running(self, **fields):
        """Gives (device, what names it, the number of a container that has it)."""
        device, named = self.bench.published(**fields)
        return device, named, self.start(named["sandbox_id"], named["host_target_path"])

    def clean(self):
        self.double.be_wrong()
        for sandbox, number in self.containers:
            if sandbox in self.bench.live:
                self.double.stop(sandbox, number)
        self.containers.clear()
        self.bench.clean()

    def close(self):
        self.clean()
        left = self.handler.records(), self.double.told()
        self.bench.client.close()
        self.handler.stop()
        assert left == ([], []), f"left behind: {left}"


@pytest.fixture(name="place", scope="module")
def kata_place(folder):
    place = Place(folder / "go")
    yield place
    place.close()


@pytest.fixture(name="growing", scope="module")
def growing_place(folder):
    """A handler that is told that the agent has a resize."""
    place = Place(folder / "growing", ["--capabilities", "VOLUME_STATS,VOLUME_RESIZE"])
    yield place
    place.close()


@pytest.fixture(autouse=True)
def clean(request):
    yield
    for name in {"place", "growing"} & set(request.fixturenames):
        request.getfixturevalue(name).clean()


def refused(code, call, *arguments, **fields):
    with pytest.raises(Refused) as error:
        call(*arguments, **fields)
    assert error.value.code == code, str(error.value)
    return error.value.text


def test_it_keeps_the_rules_that_kata_can_keep(place):
    cases = [case for case in CASES if case.name not in NOT_OF_KATA]
    offers = place.bench.capabilities()
    assert list(broken_rules(place.bench, offers, cases)) == []
    assert len([case for case in cases if not case.missing(offers)]) > 30
    assert set(NOT_OF_KATA) <= {case.name for case in CASES}


def test_it_offers_what_kata_has(place, folder):
    assert place.bench.capabilities() == {"BLOCK", "FS_GROUP_CHANGE_POLICY_ALWAYS", "FS_GROUP_CHANGE_POLICY_ROOT_MISMATCH",
                                          "VOLUME_STATS", "POD_VOLUMES"}
    rust = Place(folder / "rust", ["--runtime", "rust"])
    assert rust.bench.capabilities() == {"BLOCK", "POD_VOLUMES"}
    rust.close()


def test_a_running_container_has_numbers_and_keeps_the_device(place):
    device, named, number = place.running()
    usage, condition = place.bench.stats(named)
    assert device.size / 2 < usage["BYTES"].total <= device.size and usage["INODES"].used > 0
    assert not condition.abnormal
    place.bench.run(named["sandbox_id"], named["host_target_path"], "cat note")
    assert "is still in use" in refused("FAILED_PRECONDITION", place.bench.unpublish, named)
    place.double.stop(named["sandbox_id"], number)
    place.bench.unpublish(named)
    place.bench.wait_free(device, 2)


def test_an_fs_group_is_applied_with_the_container(place):
    device = place.bench.device()
    with place.bench.mounted(device) as folder:
        (folder / "file").write_text("")
        os.chmod(folder / "file", 0o644)
    pod, sandbox = place.bench.sandbox()
    named = place.bench.publish(device, pod.targets[0], sandbox_id=sandbox, fsgroup_gid=GID)
    place.bench.run(sandbox, pod.targets[0], f"test $(stat -c %g file) = {GID} && test $(stat -c %a file) = 664")
    place.bench.unpublish(named)
    with place.bench.mounted(device) as folder:
        os.chown(folder / "file", 0, 0)
        assert folder.stat().st_mode & FOLDER == FOLDER
    named = place.bench.publish(device, pod.targets[0], sandbox_id=sandbox, fsgroup_gid=GID, fsgroup_policy="OnRootMismatch")
    place.bench.run(sandbox, pod.targets[0], "test $(stat -c %g file) = 0")
    place.bench.unpublish(named)


def test_each_sandbox_of_a_pod_has_its_volume(place):
    pod = place.bench.pod()
    device = place.bench.device()
    named = place.bench.publish(device, pod.targets[0], pod_uid=pod.uid)
    for i in range(2):
        sandbox = place.bench.begin(pod)
        number = place.start(sandbox, pod.targets[0])
        assert place.bench.stats(named)[0]["BYTES"].total > 0
        place.double.stop(sandbox, number)
        assert place.bench.run(sandbox, pod.targets[0], f"cat note && touch {i} && ls -x 0") == "here\n0\n"
        place.bench.end(sandbox)
    place.bench.unpublish(named)
    assert pod.targets[0] not in mounts.targets()


@pytest.mark.parametrize("switch, code", [("stats-garbage", "INTERNAL"), ("stats-truncated", "UNAVAILABLE"),
                                          ("stats-refused", "UNAVAILABLE"), ("stats-too-much", "INTERNAL")])
def test_a_wrong_answer_of_the_shim_is_no_number(place, switch, code):
    _, named, _ = place.running()
    place.double.be_wrong(switch)
    refused(code, place.bench.stats, named)
    place.double.be_wrong()
    assert place.bench.stats(named)[0]


def test_a_shim_that_hangs_is_a_condition(place):
    _, named, _ = place.running()
    place.double.be_wrong("stats-hang")
    usage, condition = place.bench.stats(named)
    assert not usage and condition.abnormal and "did not answer" in condition.message


def test_a_sandbox_whose_shim_died_keeps_its_device(place):
    device, named, _ = place.running()
    sandbox = named["sandbox_id"]
    place.double.kill_shim(sandbox)
    refused("UNAVAILABLE", place.bench.stats, named)
    refused("FAILED_PRECONDITION", place.bench.unpublish, named)
    holders = [int(pid.name) for pid in pathlib.Path("/proc").glob("[0-9]*") if has_open(pid, device.path)]
    assert holders
    for holder in holders:
        os.killpg(holder, 9)
    wait_for("the device to be free", device.is_free)
    place.bench.unpublish(named)
    place.bench.live.remove(sandbox)


def has_open(process, path):
    try:
        return any(os.readlink(descriptor) == path for descriptor in process.glob("fd/*"))
    except OSError:
        return False


def test_a_restart_changes_nothing(place):
    device, named, number = place.running()
    place.restart()
    assert place.bench.stats(named)[0]
    place.double.stop(named["sandbox_id"], number)
    place.restart()
    place.bench.run(named["sandbox_id"], named["host_target_path"], "cat note")
    place.bench.unpublish(named)
    place.bench.wait_free(device, 2)


def test_kata_does_not_let_a_volume_grow(place, growing):
    _, named, _ = place.running()
    assert "staged next" in refused("FAILED_PRECONDITION", place.bench.call, "RuntimeExpandVolume", **asked(named, required_bytes=MIB))
    device, named, _ = growing.running()
    device.grow(device.size + 16 * MIB)
    for switch in ("", "resize-lies"):
        growing.double.be_wrong(switch)
        refused("FAILED_PRECONDITION", growing.bench.call, "RuntimeExpandVolume", **asked(named, required_bytes=device.size))


def test_an_agent_that_has_a_resize_lets_a_volume_grow(growing):
    growing.double.be_wrong("resize-works")
    pod, sandbox = growing.bench.sandbox()
    device = growing.bench.growing_device()
    named = growing.bench.publish(device, pod.targets[0], sandbox_id=sandbox)
    growing.start(sandbox, pod.targets[0])
    before = growing.bench.stats(named)[0]["BYTES"].total
    size = device.size + 128 * MIB
    refused("UNAVAILABLE", growing.bench.call, "RuntimeExpandVolume", **asked(named, required_bytes=size))
    device.grow(size)
    for _ in range(2):
        assert growing.bench.call("RuntimeExpandVolume", **asked(named, required_bytes=size)).capacity_bytes == size
    assert growing.bench.stats(named)[0]["BYTES"].total > before + 100 * MIB
