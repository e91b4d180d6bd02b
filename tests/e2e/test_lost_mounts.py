"""A mount that hangs or is dead is one volume's trouble: others are mounted, and the agent starts, all the same."""
import contextlib

import pytest
from lib import objects
from lib.lost_mount import LostMount
from lib.standalone import wait_for

pytestmark = [pytest.mark.honest, pytest.mark.e2e]


def writes(berth, name):
    """A pod on a claim of its own runs to its end and finds what it wrote."""
    berth.apply([objects.claim(f"data-{name}"),
                 objects.pod(name, f"echo {name} > /data-{name}/f && sync && grep {name} /data-{name}/f",
                             claims=[f"data-{name}"])])
    berth.wait_phase("pod", name, "Succeeded")


@contextlib.contextmanager
def lost(targets, state):
    mounts = [LostMount(target) for target in targets]
    try:
        if state == "dead":
            for mount in mounts:
                mount.die()
        yield
    finally:
        for mount in mounts:
            mount.gone()


@pytest.mark.parametrize("state", ["hung", "dead"])
def test_a_lost_mount_holds_up_no_other_pod(berth, leak_free, state):
    berth.apply([objects.claim("data"), objects.pod("victim", "sleep 1000", claims=["data"])])
    victim = berth.wait_phase("pod", "victim", "Running")
    volume = berth.get("persistentvolumeclaim", "data")["spec"]["volumeName"]
    kubelet = berth.data / "kubelet"
    published = kubelet / "pods" / victim["metadata"]["uid"] / "volumes" / "kubernetes.io~csi" / volume / "mount"
    (staged,) = (kubelet / "plugins" / "kubernetes.io" / "csi" / "local.csi.berth.dev").glob("*/globalmount")
    with lost([published, staged], state):
        writes(berth, "beside")
        # A pod that would get what now stands there is told so.
        berth.apply(objects.pod("next", "true", claims=["data"]))
        wait_for("the reason", lambda: any("another mount (fuse from 'lost') stands at" in event["message"]
                                           for event in berth.events("next")))
        berth.kill()
        berth.start()
        writes(berth, "after")
        berth.run("delete", "pod", "victim", "--wait=false")
        writes(berth, "later")
        assert berth.get("pod", "victim"), "its volume is not unmounted yet"
    # Nothing was given up: with the strangers gone all comes to its end (at once after a restart, else after a backoff).
    berth.kill()
    berth.start()
    berth.wait_gone("pod", "victim")
    berth.wait_phase("pod", "next", "Succeeded")
