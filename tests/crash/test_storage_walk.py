"""The crash walk (test_crash_walk.py) for volumes of real storages: RBD images of a Ceph cluster and LUNs of an iSCSI
target, both in user space. The block agent, the block operator and the I/O proxy crash at each of their durable steps,
once with each storage; the other processes' points are walked by the cheaper flows.

Each flow ends right only if the data are intact, the other node's writes are refused, and neither the node nor the
storage has anything left: no image, client, reservation, fence, blocklist entry, device, mount or process.

One run crashes at a part of the points, drawn by the commit's seed. BERTH_CRASH_WALK=all crashes at all of them.
BERTH_STORAGE_POINTS, a pattern, crashes only at points that match.
"""
import fnmatch
import os
import pathlib
import tempfile

import pytest
import storages
import walk
from flows import STORAGE_FLOWS
from lib import ceph, rbd, tgt
from test_crash_walk import ALL, SEED, draw_part, failures_of, note_for_the_end, repairs

pytestmark = [pytest.mark.crash, pytest.mark.storage]

PART = 40  # one run crashes at one of so many points
POINTS = os.environ.get("BERTH_STORAGE_POINTS", "*")
# Of the process that has the operator and the API; the others are other controllers' points.
OPERATORS = ["blockoperator.*", "block.*", "kube.*.storageclusters.*", "kube.*.volumefences.*", "kube.*.nodecleanups.*",
             "kube.*.blocksnapshots.*"]
# What only these flows pass: fences that the storage enforces, and the processes behind the I/O proxy.
NEEDED = {"block-agent/blockagent.storage_fence.before", "block-agent/blockagent.storage_fence.after",
          "block-agent/blockagent.free.before", "block-agent/blockagent.note.after",
          "io-proxy/block.proxy_daemon.started", "io-proxy/block.proxy_export.shown", "io-proxy/block.proxy_daemon.end",
          "up/blockoperator.create.after", "up/blockoperator.delete.before", "up/blockoperator.copy.before",
          "up/blockoperator.snapshot.before", "up/blockoperator.snapshot.after",
          "up/blockoperator.fence.before", "up/blockoperator.unfence.before"}


@pytest.fixture(scope="module")
def learned():
    """Gives what each flow passes, as results of the walk."""
    storages.CEPH = rbd.RbdCluster(pathlib.Path(tempfile.mkdtemp(prefix="bc-", dir="/var/tmp")) / "ceph")
    try:
        try:
            storages.CEPH.start()
            tgt.unpacked()
        except (ceph.Missing, tgt.Missing) as missing:
            pytest.skip(str(missing))
        results = walk.run([walk.Job(flow) for flow in STORAGE_FLOWS])
        assert not failures_of(results), "\n".join(failures_of(results))
        yield results
    finally:
        storages.CEPH.stop()
        storages.CEPH.folder.parent.rmdir()
        storages.CEPH = None


def concerns(point):
    role, _, name = point.partition("/")
    return role in ("block-agent", "io-proxy") or any(fnmatch.fnmatchcase(name, pattern) for pattern in OPERATORS)


def walks(learned):
    """Assigns each point to one flow of each storage that passes it: the one that has the fewest points so far."""
    jobs = []
    for kind in storages.KINDS:
        flows = {result.job.flow: result for result in learned if STORAGE_FLOWS[result.job.flow].storage == kind}
        taken = dict.fromkeys(flows, 0)
        for point in sorted({point for result in flows.values() for point in result.points if concerns(point)}):
            flow = min((name for name, result in flows.items() if point in result.points), key=taken.get)
            taken[flow] += 1
            jobs.append(walk.Job(flow, point=point))
    return jobs


def test_each_durable_step_with_a_real_storage(learned, capsys):
    jobs = walks(learned)
    passed = {job.point for job in jobs}
    assert passed >= NEEDED, f"no flow passes {sorted(NEEDED - passed)}"
    known_jobs = len(jobs)
    jobs = [job for job in jobs if fnmatch.fnmatchcase(job.point, POINTS)]
    if not ALL and POINTS == "*":
        jobs = draw_part(jobs, PART)
    with capsys.disabled():
        results = walk.run(jobs)
        print(f"\n{len(passed)} fault points of storages, {len(jobs)} of {known_jobs} crashes (seed {SEED}), in "
              + ", ".join(f"{result.job.flow} ({result.seconds:.0f} s)" for result in learned))
        second = []
        if ALL:  # what is passed only after a crash, because it repairs
            known = set().union(*(result.points for result in learned))
            second = walk.run([job for job in repairs(results, known) if concerns(job.then)])
            print(f"{len(second)} second crashes: {', '.join(sorted(result.job.then for result in second)) or 'none'}")
        missed = [str(result.job) for result in results if not result.crashed and not result.failure]
        print(f"{len(missed)} were not passed again: {', '.join(missed) or 'none'}")
    failures = failures_of(results) + failures_of(second)
    note_for_the_end(f"crash walk of storages: {len(jobs)} of {known_jobs} crashes, drawn by seed {SEED}"
                     + ("" if ALL else "; ./dev test --all walks all of them"))
    assert not failures, f"{len(failures)} of {len(jobs) + len(second)}:\n" + "\n\n".join(failures)
    # Some points depend on the order of threads.
    assert len(missed) <= len(jobs) // 4, missed
