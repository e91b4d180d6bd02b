"""Pods with volumes in their sandboxes come and go under an unmodified kubelet, while the proxy, the handler, containerd and the kubelet
are killed. BERTH_SANDBOX_PODS is the number of pods."""
import concurrent.futures
import contextlib
import copy
import os
import pathlib
import random
import threading
import time

import pytest
from lib import mounts, objects, who_sees
from lib.kubernetes import programs, runtimes
from lib.kubernetes.cluster import Cluster
from lib.kubernetes.control_plane import PROGRAMS, running_plane
from lib.kubernetes.crust_node import HOSTPATH, CrustNode, allowing
from lib.kubernetes.node import PROGRAMS as NODE_PROGRAMS
from lib.standalone import wait_for

pytestmark = [pytest.mark.kubernetes, pytest.mark.guest]

PODS = int(os.environ.get("BERTH_SANDBOX_PODS", "12"))
# What each claim's volume is: of the shipped driver, or a device of the hostpath driver.
CLAIMS = {"ext4": "ext4", "xfs": "xfs", "hostpath-ext4": "ext4", "hostpath-xfs": "xfs"}
SECONDS = 300


@pytest.fixture(scope="module")
def node():
    missing = programs.missing(*PROGRAMS, *NODE_PROGRAMS, "hostpathplugin") or runtimes.missing(runtimes.FOLDERS)
    if missing:
        pytest.skip(missing)
    with running_plane(with_node=True) as plane:
        made = CrustNode(Cluster(plane.kubeconfig, plane=plane), runtimes.find(runtimes.FOLDERS))
        try:
            made.start()
            made.start_shipped_driver()
            made.start_hostpath()
            yield made
        finally:
            made.end()


def with_own_client(node):
    """Gives the node as another thread may use it, because a client is one thread's."""
    mine = copy.copy(node)
    mine.cluster = Cluster(node.cluster.kubeconfig, plane=node.cluster.plane)
    return mine


class Killer:
    """Kills a part of the node every few seconds, and starts it again."""

    def __init__(self, node, seed):
        node = with_own_client(node)
        self._random = random.Random(seed)
        self._parts = {"proxy": self._restart_proxy, "hostpath's proxy": self._restart_hostpath_proxy, "handler": self._restart_handler,
                       "kubelet": node.restart_kubelet}
        self._node = node
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.kills = []
        self.failure = None

    def _restart_proxy(self):
        self._node.proxy().kill()
        self._node.start_proxy()

    def _restart_hostpath_proxy(self):
        self._node.proxy(HOSTPATH).kill()
        self._node.start_proxy(HOSTPATH, self._node.hostpath_endpoint)

    def _restart_handler(self):
        self._node.handler.kill()
        self._node.handler.start()

    def _run(self):
        try:
            while not self._stop.wait(self._random.uniform(1, 6)):
                part = self._random.choice(sorted(self._parts))
                self.kills.append(part)
                self._parts[part]()
        except Exception as failure:  # told at the end
            self.failure = failure

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        self._stop.set()
        self._thread.join()


def pod(name, claim, count):
    """Gives a pod that finds what COUNT pods before it wrote, and adds to it; it may be started again at any moment."""
    script = (f"grep -q ' /all {CLAIMS[claim]} ' /proc/mounts && n=$(cat /all/part/n 2>/dev/null || echo 0) && "
              f"if test $n = {count}; then echo {count + 1} > /part/n && sync /part/n; else test $n = {count + 1}; fi")
    return objects.pod(name, script, [claim], restart="OnFailure", runtimeClassName="sandboxed", securityContext={"fsGroup": 2345},
                       mounts=[{"name": claim, "mountPath": "/part", "subPath": "part"}, {"name": claim, "mountPath": "/all"}])


def live_through(node, claim, pods):
    """Has one pod after the other use a claim."""
    node = with_own_client(node)
    for count in range(pods):
        name = f"{claim}-{count}"
        node.create_pod(pod(name, claim, count))
        node.wait_pod(name, "Succeeded", SECONDS)
        node.delete_pod(name, SECONDS)


def test_pods_come_and_go_while_all_parts_are_killed(node, capsys):
    """Pods use volumes one after the other and lose nothing, no process of the host ever has such a volume mounted, and nothing is left,
    while each part of the node is killed again and again."""
    made = {}
    for claim, fs_type in CLAIMS.items():
        provisioner = {"provisioner": HOSTPATH} if claim.startswith("hostpath") else {}
        node.cluster.create(allowing(objects.storage_class(claim, fs_type, **provisioner)))
        if provisioner:
            made[claim] = node.make_hostpath_volume(claim, fs_type, 320)
            node.cluster.create(made[claim])
        node.cluster.create(objects.claim(claim, "320Mi", claim, accessModes=["ReadWriteOncePod"]), "default")

    def allowed(sighting):
        return who_sees.is_of_sandbox(sighting, node.handler, r"/[0-9a-f]{64}")

    def devices():
        found = set()
        for loop in mounts.loops_below(node.folder):
            with contextlib.suppress(OSError):
                found.add(pathlib.Path(f"/sys/block/{pathlib.Path(loop).name}/dev").read_text().strip())
        return found

    seed = random.randrange(1 << 32)
    began = time.monotonic()
    with who_sees.Watch(devices, allowed) as watch, Killer(node, seed) as killer, \
            concurrent.futures.ThreadPoolExecutor(len(CLAIMS)) as workers:
        lives = [workers.submit(live_through, node, claim, -(-PODS // len(CLAIMS))) for claim in CLAIMS]
        for life in concurrent.futures.as_completed(lives):
            life.result()
    with capsys.disabled():
        print(f"\n{PODS} pods in {time.monotonic() - began:.0f} s, {len(killer.kills)} kills (seed {seed}), {watch.looks} looks at all "
              f"mount tables, {watch.seen} sightings in sandboxes")
    assert killer.failure is None
    assert watch.looks > 3 and watch.seen > 3
    assert not watch.strange, "\n".join(watch.strange.values())
    for claim in CLAIMS:
        node.cluster.delete("PersistentVolumeClaim", claim, "default")
    node.wait_until_free()
    for volume in made.values():
        node.delete_hostpath_volume(volume)
    wait_for("the loop devices to be gone", lambda: not mounts.loops_below(node.folder), 60)
