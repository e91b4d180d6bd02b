"""Walks flows by jobs, three at a time, each in a place of its own."""
import dataclasses
import multiprocessing
import os
import queue
import time
import traceback

from flows import FLOWS, STORAGE_FLOWS, SWITCH_FLOWS
from place import Place

WORKERS = int(os.environ.get("BERTH_CRASH_WORKERS", "3"))
# Points that depend on the order of threads are not passed each time.
TRIES = 4
ALL_FLOWS = FLOWS | STORAGE_FLOWS | SWITCH_FLOWS


@dataclasses.dataclass(frozen=True)
class Job:
    flow: str
    fresh: bool = False     # from an empty folder
    point: str = ""         # a crash at this point, as ROLE/NAME; "": learn which points are passed
    then: str = ""          # a second crash at this point
    kill: tuple = None      # (moment, role)

    def __str__(self):
        start = " from an empty folder" if self.fresh else ""
        then = f", then at {self.then}" if self.then else ""
        what = f"a crash at {self.point}{then}" if self.point else f"{self.kill[1]} killed at {self.kill[0]:.3f} s" \
            if self.kill else "learning"
        return f"{self.flow}{start}: {what}"


@dataclasses.dataclass
class Result:
    job: Job
    points: list = dataclasses.field(default_factory=list)  # the points that were passed
    seconds: float = 0
    crashed: bool = False
    failure: str = ""


def _do(place, job):
    result = Result(job)
    log = place.folder / "points"
    log.unlink(missing_ok=True)
    try:
        flow = ALL_FLOWS[job.flow]
        place.prepare(flow, job.fresh)
        began = time.monotonic()
        for attempt in range(TRIES if job.point or job.kill else 1):
            # A kill after the flow's end hits no process.
            kill = job.kill and (job.kill[0] / 2**attempt, job.kill[1])
            result.crashed = place.run(flow, crashes=[point for point in (job.point, job.then) if point],
                                       kill=kill, log=log)
            if result.crashed:
                break
            place.prepare(flow, job.fresh)
        result.seconds = time.monotonic() - began
        result.points = sorted(set(log.read_text().split()))
    except Exception as error:  # the worker goes on; the test reports the failure
        result.failure = str(error) if isinstance(error, AssertionError) else traceback.format_exc()
    return result


def _work(jobs, results):
    with Place() as place:
        for job in iter(jobs.get, None):
            results.put(_do(place, job))


def run(jobs):
    """Gives the jobs' results in any order."""
    jobs = list(jobs)
    context = multiprocessing.get_context("fork")
    todo, done = context.Queue(), context.Queue()
    for job in [*jobs, *[None] * WORKERS]:
        todo.put(job)
    workers = [context.Process(target=_work, args=(todo, done)) for _ in range(min(WORKERS, len(jobs)))]
    for worker in workers:
        worker.start()
    results = []
    while len(results) < len(jobs):
        try:
            results.append(done.get(timeout=1))
        except queue.Empty:
            assert any(worker.is_alive() for worker in workers), \
                f"the workers ended with {len(jobs) - len(results)} jobs to do"
            continue
        if os.environ.get("BERTH_CRASH_VERBOSE"):
            last = results[-1]
            end = f"FAILED {last.failure}" if last.failure else "killed" if last.crashed else "not killed"
            print(f"{last.seconds:6.2f} s {last.job}: {end}", flush=True)
    for worker in workers:
        worker.join()
    return results
