"""Each flow runs once to learn which fault points it passes, and then once for each of them with a crash there. The
flow must end right, its data must be intact, and nothing may be left. New points and new flows in flows/ are walked
without being listed.

Each point is walked in one of the flows that pass it, spread evenly over them, in a folder in which Berth has been
used before. Points that only a first start passes are walked in an empty folder. Points that are only passed after a
crash, because they repair what it interrupted, are walked by a second crash.

One run crashes at a sixth of the points. They are chosen by a seed from the commit, so that each commit has others.
BERTH_CRASH_WALK=all crashes at all of them, and then every point must have been passed or have its reason in
unwalked.py. BERTH_CRASH_WALK=full crashes at each point in each flow that passes it. BERTH_RANDOM_KILLS is the number of
kills at random moments, and BERTH_CRASH_SEED replaces both seeds.
"""
import math
import os
import pathlib
import random
import subprocess

import pytest
import unwalked
import walk
from flows import FLOWS
from lib.standalone import BINARY

pytestmark = pytest.mark.crash

FULL = os.environ.get("BERTH_CRASH_WALK") == "full"
ALL = FULL or os.environ.get("BERTH_CRASH_WALK") == "all"
PART = 6  # one run crashes at one of so many points
KILLS = int(os.environ.get("BERTH_RANDOM_KILLS", "200" if FULL else "25"))


def seed_of_commit():
    """Gives a seed that depends on the commit, or 1 if the tree is no git checkout."""
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=pathlib.Path(__file__).parent, capture_output=True,
                            text=True)
    return int(commit.stdout[:8], 16) if commit.returncode == 0 else 1


SEED = int(os.environ.get("BERTH_CRASH_SEED") or seed_of_commit())
KILL_SEED = int(os.environ.get("BERTH_CRASH_SEED", "1"))
# Further processes that are killed at random moments of a flow.
BESIDE = {"crust": ["crust-handler", "containerd"]}


def note_for_the_end(line):
    """Makes tools/run_tests print the line once more at the end of the run."""
    if "BERTH_TEST_NOTES" in os.environ:
        with open(os.environ["BERTH_TEST_NOTES"], "a") as notes:
            notes.write(line + "\n")


def draw_part(jobs, part=PART):
    """Chooses one of `part` jobs by the seed."""
    return random.Random(SEED).sample(jobs, math.ceil(len(jobs) / part))


def failures_of(results):
    return [f"{result.job}: {result.failure}" for result in results if result.failure]


def missed_of(results):
    return [f"{result.job}: not passed again" for result in results
            if not result.crashed and not result.failure and not unwalked.is_by_chance(name_of(result.job.point))]


@pytest.fixture(scope="module")
def learned():
    """Gives the points that each flow passes, and its duration in seconds: by flow, and under None for a flow from an
    empty folder."""
    results = walk.run([walk.Job("main_job", fresh=True)])
    results += walk.run([walk.Job(flow) for flow in FLOWS])
    assert not failures_of(results), "\n".join(failures_of(results))
    return {None if result.job.fresh else result.job.flow: result for result in results}


def walks(learned):
    """Assigns each point to the flow that has the fewest points so far among those that pass it, or to each of these
    flows."""
    jobs = {flow: [] for flow in FLOWS}
    passing = {}
    for flow in FLOWS:
        for point in learned[flow].points:
            passing.setdefault(point, []).append(flow)
    for point, flows in sorted(passing.items(), key=lambda item: (len(item[1]), item[0])):
        for flow in flows if FULL else [min(flows, key=lambda flow: len(jobs[flow]))]:
            jobs[flow].append(walk.Job(flow, point=point))
    first_start = [walk.Job("main_job", fresh=True, point=point)
                   for point in learned[None].points if point not in passing]
    return [*(job for flow in FLOWS for job in jobs[flow]), *first_start]


def repairs(results, known):
    """Makes jobs with a second crash at each point that a flow passes only after a crash."""
    jobs = {}
    for result in results:
        for point in result.points:
            if point not in known and not result.failure:
                jobs.setdefault(point, walk.Job(result.job.flow, result.job.fresh, result.job.point, then=point))
    return [jobs[point] for point in sorted(jobs)]


def name_of(point):
    """Gives the point's name without its role."""
    return point.partition("/")[2]


def test_each_fault_point_of_each_flow(learned, capsys):
    jobs = walks(learned)
    passed = set().union(*(result.points for result in learned.values()))
    assert {job.point for job in jobs} == passed
    known_jobs = len(jobs)
    if not ALL:
        jobs = draw_part(jobs)
    with capsys.disabled():
        results = walk.run(jobs)
        second = walk.run(repairs(results, passed))
    # Which points are passed after a crash often depends on timing, so a flow may miss the second crash.
    failures = failures_of(results) + missed_of(results) + failures_of(second)
    repaired = {result.job.then for result in second if result.crashed}
    seen = passed | {point for result in [*results, *second] for point in result.points}
    listed = subprocess.run([BINARY, "faults", "list"], capture_output=True, text=True, check=True).stdout.split()
    assert {name_of(point) for point in seen} <= set(listed)
    never = [name for name in listed if name not in {name_of(point) for point in seen}]
    with capsys.disabled():
        print(f"\n{len(passed)} fault points, {len(jobs)} of {known_jobs} crashes (seed {SEED}) in {len(FLOWS)} flows: "
              + ", ".join(f"{flow} passes {len(learned[flow].points)}" for flow in FLOWS))
        print(f"{len(repaired)} more of what repairs, by a second crash: {', '.join(sorted(repaired)) or 'none'}")
        print(f"{len(never)} of {len(listed)} are never passed, by reason:")
        for pattern, names in unwalked.by_pattern(never).items():
            print(f"  {pattern} ({len(names)}): {unwalked.REASONS.get(pattern, names)}")
    assert len(passed) >= 150, sorted(passed)
    note_for_the_end(f"crash walk: {len(jobs)} of {known_jobs} crashes, drawn by seed {SEED}"
                     + ("" if ALL else "; ./dev test --all walks all of them"))
    # Points that only a repair passes are certain to be passed only if all of the crashes are made.
    unexplained = unwalked.by_pattern(never).get(unwalked.NONE, []) if ALL else []
    assert not unexplained, f"neither a flow passes them nor does unwalked.py say why: {unexplained}"
    assert not failures, f"{len(failures)} of {len(jobs)}:\n" + "\n\n".join(failures)


def test_kills_at_random_moments(learned, capsys):
    chance = random.Random(KILL_SEED)
    jobs = []
    for _ in range(KILLS):
        flow = chance.choice(list(FLOWS))
        role = chance.choice(["up", "up", "csi-driver", *BESIDE.get(flow, [])])
        jobs.append(walk.Job(flow, kill=(chance.uniform(0, learned[flow].seconds), role)))
    with capsys.disabled():
        results = walk.run(jobs)
    failures = failures_of(results)
    hit = sum(result.crashed for result in results)
    with capsys.disabled():
        print(f"\n{hit} of {KILLS} random kills hit a process (seed {KILL_SEED})")
    assert not failures, f"{len(failures)} of {len(jobs)}:\n" + "\n\n".join(failures)
    assert hit == KILLS
