"""Measures a pod with a claim under a real kubelet, from the creation of both until the pod is Running, beside the same pod with an
emptyDir, and says who takes the time between: the scheduler, the kubelet, or Berth.

    claim and pod ─▶ a node is selected ─▶ Bound ─▶ pod is assigned ─▶ MountVolume ─▶ SetUp has succeeded ─▶ Running
                    scheduler            Berth     scheduler         kubelet        Berth                  kubelet

The scheduler looks only once a second whether the claims that it waits for are bound. The times of the kubelet are those of its own
log, the others are those at which a watcher sees the change.
"""
import datetime
import pathlib
import re
import shutil
import statistics
import tempfile
import time

from lib import objects
from lib.kubernetes import node, programs
from lib.kubernetes.cluster import Cluster
from lib.kubernetes.control_plane import PROGRAMS, ControlPlane
from lib.standalone import wait_for

RUNS = 30
BAR = 0.15  # seconds that Berth may take
SELECTED = "volume.kubernetes.io/selected-node"


class Watcher:
    """Notes when a pod and its claim come so far."""

    def __init__(self, made):
        self.node = made
        self.cluster = made.cluster

    def watch(self, name, claim):
        """Creates the pod, and gives the time of each step in seconds since the creation began."""
        pod = objects.pod(name, "sleep 1000", [claim] if claim else (),
                          **({} if claim else {"volumes": [{"name": "scratch", "emptyDir": {}}],
                                               "mounts": [{"name": "scratch", "mountPath": "/scratch"}]}))
        begin = time.time()
        if claim:
            self.cluster.create(objects.claim(claim, storage_class="local"), "default")
        self.node.create_pod(pod)
        seen = {}

        def look():
            if claim and "bound" not in seen:
                found = self.cluster.get("PersistentVolumeClaim", claim, "default")
                if SELECTED in found["metadata"].get("annotations", {}):
                    seen.setdefault("selected", time.time() - begin)
                if found["status"].get("phase") == "Bound":
                    seen["bound"] = time.time() - begin
            found = self.cluster.get("Pod", name, "default")
            if found["spec"].get("nodeName"):
                seen.setdefault("assigned", time.time() - begin)
            return found["status"].get("phase") == "Running"
        wait_for(f"pod {name} to be Running", look, interval=0.002)
        seen["running"] = time.time() - begin
        if claim:
            seen["mounting"] = self._logged(f"operationExecutor.MountVolume started .*{name}") - begin
            seen["mounted"] = self._logged(f"MountVolume.SetUp succeeded .*{name}") - begin
        return seen

    def _logged(self, pattern):
        """Gives the time of the kubelet's first line that matches, of its log with microseconds."""
        line = next(line for line in self.node.processes["kubelet"].log().splitlines() if re.search(pattern, line))
        month, day, clock = re.search(r"[IWE](\d\d)(\d\d) (\d\d:\d\d:\d\d\.\d+)", line).groups()
        today = datetime.datetime.now(datetime.timezone.utc)
        return datetime.datetime.fromisoformat(f"{today.year}-{month}-{day}T{clock}+00:00").timestamp()

    def remove(self, name, claim):
        self.node.delete_pod(name)
        if claim:
            self.cluster.delete("PersistentVolumeClaim", claim, "default")
            wait_for("the claim to be gone", lambda: self.cluster.get("PersistentVolumeClaim", claim, "default") is None)


def _compare(watcher, runs):
    """Gives the steps of the pods with an emptyDir and of those with a claim, made in turn, after one of each as a warm-up."""
    plain, claimed = [], []
    for number in range(runs + 1):
        for steps, claim in ((plain, None), (claimed, f"data-{number}")):
            name = f"{'claimed' if claim else 'plain'}-{number}-x"
            steps.append(watcher.watch(name, claim))
            watcher.remove(name, claim)
    return plain[1:], claimed[1:]


def measure(root, _, runs=RUNS):
    """Gives (figure, bar, whether it holds)."""
    missing = programs.missing(*PROGRAMS, *node.PROGRAMS)
    if missing:
        raise SystemExit(f"bench: {missing}")
    node.BINARY = root / "build" / "release" / "bin" / "berth"
    folder = pathlib.Path(tempfile.mkdtemp(prefix="bt-", dir="/var/tmp"))
    plane, made = ControlPlane(folder, with_node=True), None
    try:
        plane.start()
        made = node.Node(Cluster(plane.kubeconfig, plane=plane))
        made.start().start_shipped_driver()
        plain, claimed = _compare(Watcher(made), runs)
    finally:
        if made is not None:
            made.end()
        plane.stop()
        shutil.rmtree(folder, ignore_errors=True)

    def median(steps, end, begin=None):
        return statistics.median(each[end] - (each[begin] if begin else 0) for each in steps)
    provisioned, mounted = median(claimed, "bound", "selected"), median(claimed, "mounted", "mounting")
    berth = statistics.median(each["bound"] - each["selected"] + each["mounted"] - each["mounting"] for each in claimed)
    return (f"{berth:.3f} s of Berth's (Bound {provisioned:.3f}, staged and published {mounted:.3f}); Running after "
            f"{median(claimed, 'running'):.2f} s against {median(plain, 'running'):.2f} s with an emptyDir: the scheduler assigned "
            f"the pod {median(claimed, 'assigned', 'bound'):.2f} s after its claim was Bound, and the kubelet began to mount "
            f"{median(claimed, 'mounting', 'assigned'):.2f} s later ({runs} runs)", f"at most {BAR} s of Berth's", berth <= BAR)
