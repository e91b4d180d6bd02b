"""The race of nodes for one volume, with witnesses: each block holds the turn and the node that wrote it last.

Each turn is a fail-over. The node that has the volume is frozen, cut off, killed, or left alone in good health, amid its
writes. The next node fences it and serves the volume, and the old one wakes up at some moment and goes on. No block may
show an earlier turn once the new node has written all of them.

A storage (witness_iscsi.py, witness_rbd.py) says how a node gets the volume, how it is fenced, and what is in the volume.
"""
import itertools
import os
import random
import signal
import subprocess
import sys
import time

from lib.export import Export
from lib.standalone import ROOT, Failure, wait_for

sys.path.insert(0, str(ROOT / "tests" / "doubles"))
from block_stamper import BLOCK, MARK, STAMP  # noqa: E402

STAMPER = ROOT / "tests" / "doubles" / "block_stamper.py"
NODES = 4
WRITERS = 2
REPORT_EACH = 100  # turns
MOST_SLEEPERS = 2


def die_during(process, moment):
    """Kills a call of a program after so many seconds, at whatever it has come to."""
    time.sleep(moment)
    process.kill()
    process.communicate()


def try_while_late(patience, function):
    """Calls it again for so many seconds if the storage did not answer in time, as the operator and the agent do."""
    deadline = time.monotonic() + patience
    while True:
        try:
            return function()
        except Failure as failure:
            late = any(code in str(failure) for code in ("DEADLINE_EXCEEDED", "UNAVAILABLE"))
            if not late or time.monotonic() > deadline:
                raise


class Node:
    """A node that serves the volume, and writes to it. `way` is its connection, which can be held up."""

    def __init__(self, race, turn, right):
        self.turn = turn
        self.name = f"node-{turn % NODES}"
        self.way = race.storage.open_way()
        self.stamper = None
        self.export = Export(race.folder / f"turn{turn}", race.storage.program,
                             race.storage.settings(self.name, right, self.way), race.storage.inside(self.way))
        try:
            try_while_late(race.storage.patience, self.export.start)
            self.stamper = subprocess.Popen(
                [sys.executable, "-I", "-S", STAMPER, self.export.file, str(turn), self.name, str(WRITERS)],
                stdout=subprocess.PIPE, start_new_session=True)
        except BaseException:
            self.end()
            raise

    def wait_for_claim(self):
        line = self.stamper.stdout.readline().decode()
        if line != "claimed\n":
            raise Failure(f"turn {self.turn}: {self.name} could not write: {line!r}\n{self.log()}")

    def log(self):
        return (self.export.folder / "log").read_text()

    def freeze(self):
        self.export.signal(signal.SIGSTOP)

    def wake(self):
        self.export.signal(signal.SIGCONT)
        self.way.release()

    def wait_for_refusal(self):
        """Each of its writes has been refused, or its process is dead."""
        wait_for(f"the writes of turn {self.turn} to be refused", lambda: self.stamper.poll() is not None)

    def end(self):
        self.export.stop()
        self.way.close()
        if self.stamper is not None:
            try:
                os.killpg(self.stamper.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            self.stamper.wait()
            self.stamper.stdout.close()
        if self.export.process is not None:
            self.export.process.stdout.close()


class Race:
    def __init__(self, storage, folder, seed):
        self.storage = storage
        self.folder = folder
        self.random = random.Random(seed)
        self.present = None
        self.sleepers = []  # nodes that lost the LUN, and have not woken up yet
        self.checked = 0
        self.mishaps = dict.fromkeys(["freeze", "kill", "none", "cut", "cut and freeze"], 0)
        self.late_starts = self.died_fences = 0

    def run(self, turns):
        try:
            for turn in itertools.count(1):
                self.fail_over(turn)
                if turn % REPORT_EACH == 0:
                    print(self.report(turn), flush=True)
                if turn >= turns:
                    break
            while self.sleepers:
                self.wake_one()
            self.check()
        finally:
            for node in [*self.sleepers, *([self.present] if self.present else [])]:
                node.end()

    def report(self, turns):
        return (f"{turns} fail-overs, {self.mishaps}, {self.late_starts} late starts, {self.died_fences} killed fences, "
                f"{self.checked} blocks checked: 0 double writes")

    def fail_over(self, turn):
        old, late_right = self.present, None
        if old is not None:
            if self.random.random() < 0.3:
                late_right = self.storage.right_of(old.name)
            self.harm(old)
        right = self.fence(old.name if old else "node-0", f"node-{turn % NODES}")
        if old is not None:
            self.sleepers.append(old)
            self.present = None
            if self.random.random() < 0.3:
                self.wake_one()  # while the next one starts
        self.present = Node(self, turn, right)
        if self.sleepers and self.random.random() < 0.3:
            self.sleepers[-1].wake()  # while the next one writes for the first time
        self.present.wait_for_claim()
        if late_right is not None:
            self.start_late(old.name, late_right)
        while len(self.sleepers) > self.random.randint(0, MOST_SLEEPERS):
            self.wake_one()
        self.check()

    def harm(self, node):
        mishap = self.random.choice(list(self.mishaps))
        self.mishaps[mishap] += 1
        if "cut" in mishap:
            node.way.hold()
            if self.random.random() < 0.7:
                wait_for("writes to be on their way", lambda: node.way.held > 0)
        if "freeze" in mishap:
            node.freeze()
        if mishap == "kill":
            node.export.process.kill()

    def fence(self, target, node):
        """Gives the right of the new node, which holds the VolumeFence in a cluster."""
        for _ in range(20):
            listed = self.storage.list_clients(node, target)
            if self.random.random() < 0.15:
                self.died_fences += 1
                die_during(self.storage.begin_fence(node, target, listed), self.random.random() * self.storage.fence_seconds)
                continue
            right = try_while_late(self.storage.patience, lambda: self.storage.fence(node, target, listed))
            if right is not None:
                return right
        raise Failure(f"fence {target}: others always came in between")

    def start_late(self, node, right):
        """A start that began before the fence must not get the volume."""
        self.late_starts += 1
        late = Export(self.folder / f"late{self.late_starts}", self.storage.program, self.storage.settings(node, right, None))
        code = late.failure()["code"]
        if code not in ("ABORTED", "FAILED_PRECONDITION"):
            raise Failure(f"a late start of {node}: {code}")

    def wake_one(self):
        """A node that lost the LUN goes on with what it was doing."""
        node = self.sleepers.pop(self.random.randrange(len(self.sleepers)))
        try:
            node.wake()
            node.wait_for_refusal()
        finally:
            node.end()
        if all(other.name != node.name for other in self.sleepers):
            self.storage.lift_fence(node.name)

    def check(self):
        """Each block was written last by the node that has the LUN now."""
        turn, name = self.present.turn, self.present.name.encode()
        data = self.storage.read()
        for at in range(0, len(data), BLOCK):
            mark, found, number, node = STAMP.unpack_from(data, at)
            if (mark, found, node.rstrip(b"\0")) != (MARK, turn, name):
                raise Failure(f"turn {turn} of {name}: block {at // BLOCK} was written by {node} in turn {found}, "
                              f"write {number:#x}")
        self.checked += len(data) // BLOCK
