"""The crash walk (test_crash_walk.py) for a provisioner whose place another program takes. `berth controller` with leader
election crashes at each fault point that it passes, in each flow that passes it, and at random moments. Each time another
program takes the lease and works as the Go provisioner does, and then Berth comes back.

Each flow ends right only if the driver has one volume for each claim and none for a claim that is gone, if no intent is
left, and if nothing of Berth was on a claim or volume while the other program led.

One run crashes at a sixth of the points, drawn by the commit's seed. BERTH_CRASH_WALK=all crashes at all of them.
BERTH_RANDOM_KILLS is the number of kills.
"""
import os
import random

import pytest
import walk
from controllers import ROLE
from flows import SWITCH_FLOWS
from test_crash_walk import ALL, KILL_SEED, SEED, draw_part, failures_of, missed_of, note_for_the_end, repairs

pytestmark = [pytest.mark.crash, pytest.mark.dropin]

KILLS = int(os.environ.get("BERTH_RANDOM_KILLS", "25" if ALL else "8"))
# What the walk is about: the record of what is asked for, and each step from it to a volume and back.
NEEDED = {f"{ROLE}/{name}.{place}" for place in ("before", "after")
          for name in ("provisioner.intents", "rpc.csi.CreateVolume", "rpc.csi.DeleteVolume", "kube.update.leases",
                       "kube.create.persistentvolumes", "kube.delete.persistentvolumes")}


@pytest.fixture(scope="module")
def learned():
    """Gives what each flow passes, as results of the walk."""
    results = walk.run([walk.Job(flow) for flow in SWITCH_FLOWS])
    assert not failures_of(results), "\n".join(failures_of(results))
    return results


def is_of_controller(point):
    return point.startswith(f"{ROLE}/")


def test_another_program_takes_over_at_each_fault_point(learned, capsys):
    jobs = [walk.Job(result.job.flow, point=point) for result in learned for point in result.points if is_of_controller(point)]
    passed = {job.point for job in jobs}
    assert passed >= NEEDED, f"no flow passes {sorted(NEEDED - passed)}"
    known_jobs = len(jobs)
    if not ALL:
        jobs = draw_part(jobs)
    with capsys.disabled():
        results = walk.run(jobs)
        second = walk.run([job for job in repairs(results, passed) if is_of_controller(job.then)])
        print(f"\n{len(passed)} fault points of a provisioner, {len(jobs)} of {known_jobs} crashes (seed {SEED}), in "
              + ", ".join(f"{result.job.flow} ({result.seconds:.0f} s)" for result in learned))
        print(f"{len(second)} second crashes: {', '.join(sorted(result.job.then for result in second)) or 'none'}")
    failures = failures_of(results) + missed_of(results) + failures_of(second)
    note_for_the_end(f"crash walk of switches: {len(jobs)} of {known_jobs} crashes, drawn by seed {SEED}"
                     + ("" if ALL else "; ./dev test --all walks all of them"))
    assert not failures, f"{len(failures)} of {len(jobs) + len(second)}:\n" + "\n\n".join(failures)


def test_another_program_takes_over_at_random_moments(learned, capsys):
    chance = random.Random(KILL_SEED)
    jobs = []
    for _ in range(KILLS):
        result = chance.choice(learned)
        jobs.append(walk.Job(result.job.flow, kill=(chance.uniform(0, result.seconds), ROLE)))
    with capsys.disabled():
        results = walk.run(jobs)
        hit = sum(result.crashed for result in results)
        print(f"\n{hit} of {KILLS} random kills hit the provisioner (seed {KILL_SEED})")
    failures = failures_of(results)
    assert not failures, f"{len(failures)} of {len(jobs)}:\n" + "\n\n".join(failures)
    assert hit == KILLS
