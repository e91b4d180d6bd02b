"""Measures how long a volume is away when its node loses power: from the power-off until a pod on another node has read the data.

    power off ─▶ the Node is unreachable, its pods are evicted ─▶ their time to end is over ─▶ the new pod has the data
                 node lifecycle                                 terminationGracePeriodSeconds   Berth and the runtime

The new pod is made when the old one is evicted, as a Deployment does. Kubernetes alone waits six minutes for the old node's word
before it detaches a volume (maxWaitForUnmountDuration of kube-controller-manager).
"""
import datetime
import pathlib
import shutil
import statistics
import tempfile
import time

from lib import mounts, objects, standalone
from lib.iscsi_site import iscsi_site
from lib.rbd_site import rbd_site
from lib.standalone import wait_for
from lib.storage_site import STAY, FurtherStorageNode

RUNS = 2
MOST, OWN = 60, 5  # seconds
EVICTED_AT_ONCE = [{"key": f"node.kubernetes.io/{reason}", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 0}
                   for reason in ("unreachable", "not-ready")]


def _begin(site, name, node):
    site.berth.apply(objects.pod(name, STAY, ["data"], mounts=[{"name": "data", "mountPath": "/data"}],
                                 nodeSelector={"kubernetes.io/hostname": node}, tolerations=EVICTED_AT_ONCE))


def _fail_over(site, further):
    """Gives the seconds from the power-off to the data, and those since the old pod's time to end was over."""
    _begin(site, "one", further.name)
    site.berth.wait_phase("pods", "one", "Running", seconds=90)
    assert site.read("one") == ["one"]
    began = time.time()
    further.switch_off()
    over = wait_for("the eviction", lambda: site.berth.get("pods", "one")["metadata"].get("deletionTimestamp"), seconds=120,
                    interval=0.05)
    _begin(site, "two", "node-a")
    site.berth.wait_phase("pods", "two", "Running", seconds=120)
    assert site.read("two") == ["one", "two"]
    end = time.time()
    over = datetime.datetime.fromisoformat(over.replace("Z", "+00:00")).timestamp()
    return end - began, end - max(over, began)


def _measure_storage(open_site, runtime):
    took = []
    with open_site(runtime) as site:
        for _ in range(RUNS):
            site.prepare()
            site.claim("data", site.size, site.storage_class)
            further = FurtherStorageNode(site.berth)
            try:
                further.start()
                took.append(_fail_over(site, further))
            finally:
                further.remove()
                site.berth.run("delete", "pod", "one", "--grace-period=0", "--wait=false", check=False)
                site.berth.run("delete", "node", further.name, check=False)
            site.clean()
    return took


def measure(*_):
    """Gives (figure, bar, whether it holds)."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="bt-", dir="/var/tmp"))
    runtime = standalone.own_containerd("start", folder)
    try:
        found = {"Ceph RBD": _measure_storage(rbd_site, runtime), "iSCSI": _measure_storage(iscsi_site, runtime)}
    finally:
        standalone.own_containerd("stop", folder)
        mounts.unmount_below(folder)
        shutil.rmtree(folder, ignore_errors=True)
    text = "; ".join(f"{name} {statistics.median(whole for whole, _ in took):.1f} s, of which Berth's and the new pod's start "
                     f"{statistics.median(own for _, own in took):.1f} s (at most {max(own for _, own in took):.1f})"
                     for name, took in found.items())
    worst = [max(each[index] for took in found.values() for each in took) for index in (0, 1)]
    return (f"{text}; {RUNS} runs each", f"under {MOST} s, of which Berth's part under {OWN} s", worst[0] < MOST and worst[1] < OWN)
