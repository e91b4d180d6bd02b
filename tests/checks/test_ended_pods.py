"""What tests do when containerd lost the end of a pod's output: the pod runs again, and after three losses the test says so."""
import types

import pytest
from lib import ended_pods
from lib.failure import Failure

pytestmark = [pytest.mark.checks]
LOSS = ('time="2026-11-29T12:28:17Z" level=error msg="Failed to pipe stdout of container \\"{}\\"" '
        'error="read /proc/self/fd/18: file already closed"\n')


class Bed:
    """A Berth whose containerd lost the output of the first `lossy` containers. The container `number` writes its number."""

    def __init__(self, folder, lossy, phase="Succeeded"):
        self.runtime_socket = folder / "containerd.sock"
        self.containerd_log = folder / "containerd.log"
        self.containerd_log.write_text(LOSS.format("of-another-pod"))
        self.lossy, self.phase = lossy, phase
        self.number = 0
        self.present = False

    def apply(self, manifest):
        assert not self.present, "the pod of the attempt before is deleted first"
        self.present = True
        self.number += 1
        if self.number <= self.lossy:
            with self.containerd_log.open("a") as log:
                log.write(LOSS.format(f"c{self.number}"))

    def wait_phase(self, kind, name, *phases, seconds):
        return {"status": {"phase": self.phase,
                           "containerStatuses": [{"name": "main", "containerID": f"containerd://c{self.number}"}]}}

    def run(self, verb, *words):
        if verb == "delete":
            self.present = False
        lost = verb == "logs" and self.number <= self.lossy
        return types.SimpleNamespace(stdout="" if lost else f"{self.number}\n")

    def describe(self, kind, name):
        return f"{kind} {name}"


def run(bed, **arguments):
    return ended_pods.run_to_end(bed, {"metadata": {"name": "user"}}, **arguments)[1]


def test_a_pod_whose_output_is_whole_runs_once(tmp_path):
    assert run(Bed(tmp_path, lossy=0)) == "1\n"


def test_a_pod_whose_output_was_lost_runs_again(tmp_path):
    assert run(Bed(tmp_path, lossy=2)) == "3\n"


def test_after_three_losses_the_test_says_so(tmp_path):
    with pytest.raises(Failure, match="lost output of pod user 3 times.*\n.*c3"):
        run(Bed(tmp_path, lossy=3))


def test_a_pod_that_failed_does_not_run_again(tmp_path):
    with pytest.raises(AssertionError, match="pods user"):
        run(Bed(tmp_path, lossy=1, phase="Failed"))


def test_a_loss_on_another_node_is_found(tmp_path):
    (tmp_path / "node").mkdir()
    (tmp_path / "node" / "containerd.log").write_text(LOSS.format("c1"))
    assert run(Bed(tmp_path, lossy=0), sockets=[tmp_path / "node" / "containerd.sock"]) == "2\n"
