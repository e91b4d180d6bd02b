"""Pods that run to their end, and what they wrote.

containerd before 1.6.22 and 1.7.3, so Debian 12's, too, closes the pipe of a container's output when the container has ended,
even if it has not read everything. What was still in the pipe is in no log, then or later. It was mended by containerd's commit
34a93a0c, "task: don't `close()` io before `cancel()`". Such a containerd writes an error to its own log before it says that the
container has ended, so a look afterwards shows for certain whether an output is whole.
"""
import pathlib

from lib.failure import Failure

ATTEMPTS = 3
LOSS = "Failed to pipe std"


def find_losses(pod, sockets):
    """Gives the lines in which a containerd says that it lost output of the pod's containers. Each socket is in the folder
    of a containerd that tools/own_containerd started."""
    statuses = pod["status"].get("initContainerStatuses", []) + pod["status"].get("containerStatuses", [])
    ids = [status["containerID"].removeprefix("containerd://") for status in statuses if status.get("containerID")]
    logs = [pathlib.Path(socket).parent / "containerd.log" for socket in sockets]
    lines = [line for log in logs for line in log.read_text(errors="replace").splitlines() if LOSS in line]
    return [line for line in lines if any(container in line for container in ids)]


def judge_end(berth, name, phase="Succeeded", seconds=60):
    """Waits for the end of a pod, which must have that phase, and gives (the pod, its output). The phase follows from the
    exit codes of all its containers."""
    ended = berth.wait_phase("pods", name, "Succeeded", "Failed", seconds=seconds)
    output = berth.run("logs", name).stdout
    assert ended["status"]["phase"] == phase, f"{output}\n{berth.describe('pods', name)}"
    return ended, output


def run_to_end(berth, manifest, phase="Succeeded", seconds=60, sockets=()):
    """Applies a pod, waits for its end, and gives (the pod, its output). The pod stays. One whose output containerd lost is
    deleted and runs again, so its script has to do the same when it runs twice. `sockets`: of the containerds of further
    nodes."""
    name = manifest["metadata"]["name"]
    for attempt in range(ATTEMPTS):
        if attempt > 0:
            berth.run("delete", "pod", name)
        berth.apply(manifest)
        ended, output = judge_end(berth, name, phase, seconds)
        losses = find_losses(ended, [berth.runtime_socket, *sockets])
        if not losses:
            return ended, output
    raise Failure(f"containerd lost output of pod {name} {ATTEMPTS} times in turn; the last time:\n" + "\n".join(losses))
