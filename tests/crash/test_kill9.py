"""kill -9 in each phase of the main job: after a restart the job ends right, the data is intact, nothing leaks.

The phases are the fault points that the job passes: it runs once to learn them, and then once for each with a
crash there. A new fault point is walked by being there.
"""
import pathlib
import shutil
import tempfile

import pytest
from lib import leaks, objects, standalone

pytestmark = [pytest.mark.crash, pytest.mark.main]


class Survivor:
    """Takes each step until it succeeds, starting Berth again whenever it has ended."""

    def __init__(self, berth):
        self.berth = berth
        self.restarts = 0

    def revive(self):
        if self.berth.process.poll() is not None:
            self.restarts += 1
            self.berth.start()

    def step(self, what, action, seconds=60):
        last = None

        def attempt():
            nonlocal last
            self.revive()
            try:
                return action() is not False
            except standalone.Failure as failure:
                last = failure
                return False

        try:
            standalone.wait_for(what, attempt, seconds, interval=0.1)
        except standalone.Failure as failure:
            raise AssertionError(f"{failure}\n{last}\n{self.berth.log_tail(80)}") from None


def ended(berth, name):
    pod = berth.get("pods", name)
    phase = (pod or {}).get("status", {}).get("phase")
    assert phase != "Failed", berth.describe("pods", name)
    return phase == "Succeeded"


def gone(berth, kind, name):
    if berth.get(kind, name) is None:
        return True
    berth.run("delete", kind, name, "--no-wait", "--ignore-not-found")
    return False


def main_job(survivor):
    """Claim, writer, reader, and everything deleted."""
    berth = survivor.berth
    first = objects.pod("first", "echo precious > /data/note; sync; cat /data/note", ["data"])
    second = objects.pod("second", "cat /data/note", ["data"])
    survivor.step("the claim to be applied", lambda: berth.apply(objects.claim("data")))
    survivor.step("the first pod to be applied", lambda: berth.apply(first))
    survivor.step("the first pod to end", lambda: ended(berth, "first"))
    survivor.step("the first pod to be gone", lambda: gone(berth, "pods", "first"))
    survivor.step("the second pod to be applied", lambda: berth.apply(second))
    survivor.step("the second pod to end", lambda: ended(berth, "second"))
    survivor.step("the data to be there",
                  lambda: berth.run("logs", "second").stdout == "precious\n")
    survivor.step("the second pod to be gone", lambda: gone(berth, "pods", "second"))
    survivor.step("the claim to be gone", lambda: gone(berth, "pvc", "data"))
    survivor.step("the volume to be gone", lambda: not berth.items("pv"))
    survivor.step("the attachment to be gone", lambda: not berth.items("volumeattachments"))


def run_with(runtime, environment):
    """One main job under the given faults, from an empty folder; how often Berth was started again."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="bt-", dir="/var/tmp"))
    once = folder / "crashed"
    once.mkdir()
    berth = standalone.Standalone(folder, runtime)
    before = leaks.Snapshot(berth)
    try:
        berth.start(env=environment | {"BERTH_FAULT_ONCE": str(once)}, wait=False)
        survivor = Survivor(berth)
        survivor.step("Berth to be ready", berth._ready)
        main_job(survivor)
        berth.stop()
        left = before.leaked_since()
        assert not left, f"{environment}: left behind:\n" + "\n".join(left) + f"\n{berth.log_tail(60)}"
        crashed = list(once.iterdir())
        shutil.rmtree(folder)
        return survivor.restarts, len(crashed)
    finally:
        berth.kill()


def test_each_fault_point_of_the_main_job(runtime, tmp_path):
    log = tmp_path / "points"
    assert run_with(runtime, {"BERTH_FAULT_LOG": str(log)}) == (0, 0)
    points = sorted(set(log.read_text().split()))
    assert len(points) >= 20, points
    failures = []
    for point in points:
        try:
            _, crashed = run_with(runtime, {"BERTH_FAULTS": f"{point}=crash"})
            if crashed == 0:
                failures.append(f"{point}: was not passed again")
        except (AssertionError, standalone.Failure) as failure:
            failures.append(f"{point}: {failure}")
    print(f"walked {len(points)} fault points: {' '.join(points)}")
    assert not failures, f"{len(failures)} of {len(points)} points:\n" + "\n\n".join(failures)


class Killing(Survivor):
    """Kills Berth during each step, a little later each time."""

    def __init__(self, berth):
        super().__init__(berth)
        self.steps = 0

    def step(self, what, action, seconds=60):
        self.steps += 1
        self.revive()
        self.berth.kill_soon(0.03 * self.steps)
        super().step(what, action, seconds)


def test_kill_at_moments_that_no_point_names(runtime):
    folder = pathlib.Path(tempfile.mkdtemp(prefix="bt-", dir="/var/tmp"))
    berth = standalone.Standalone(folder, runtime)
    before = leaks.Snapshot(berth)
    try:
        berth.start()
        killing = Killing(berth)
        main_job(killing)
        Survivor(berth).step("Berth to be up", berth._ready)
        berth.stop()
        assert killing.restarts >= 3
        left = before.leaked_since()
        assert not left, "left behind:\n" + "\n".join(left)
        shutil.rmtree(folder)
    finally:
        berth.kill()
