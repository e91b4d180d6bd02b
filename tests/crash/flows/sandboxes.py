"""Volumes that the CRUST handler mounts in pods' sandboxes, and the host never does."""
import signal

from data import check, larger_than, stay, write
from survivor import beside_handler
from flows.lives import grow, has
from lib import crust as crust_lib
from lib import mounts, objects

MOUNTS = [{"name": "data", "mountPath": "/data"}, {"name": "data", "mountPath": "/part", "subPath": "some/part"}]
SANDBOXED = {"runtimeClassName": "sandboxed", "securityContext": {"fsGroup": 4321}, "mounts": MOUNTS}
# The first time it writes and ends in failure; once started again it finds what it wrote.
TWICE = f"""if test -e /data/blob; then {check('/data')} && {check('/data/some/part')}
            else {write('/part')} && {write('/data')} && false; fi"""

GROWN = f"{check('/data')} && {check('/part')} && {larger_than('/data', 330000)} && test $(stat -c %g /data) = 4321"


def begin(s):
    s.handler.start(env=s.environment)
    s.create(crust_lib.runtime_class("sandboxed", s.handler.socket))
    s.create(crust_lib.storage_class("deferred"))


def end(s):
    """The handler has forgotten each sandbox, and ends in order; if a crash cuts that short, once more."""
    def ended():
        process = s.handler.process
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            process.wait(30)
        return process.returncode == 0
    s.quiet()
    # Of an end that a killed containerd does not tell it of it learns by itself, within a minute.
    s.step("the handler to know no sandbox", lambda: not s.handler.records() and not s.handler.holders()
           and not s.handler.marks(), seconds=120)
    s.gone("storageclasses", "deferred")
    s.gone("runtimeclasses", "sandboxed")
    s.step("the handler to end", ended)
    s.handler.process = None


def on_host(s):
    """Where the host has a volume's file system mounted: nothing of the kubelet's folder may be."""
    return [target for target in mounts.targets() if target.startswith(f"{s.berth.data}/kubelet/")
            and "/kubernetes.io~csi/" in target]


@beside_handler
def crust(s):
    """A container with a group and a subPath writes, and is started again; the volume grows under it; another sandbox
    finds what was written, and gives the volume to a pod of the host that waits for it."""
    begin(s)
    s.create(crust_lib.claim("data", mode="ReadWriteOnce"))
    s.running(objects.pod("user", stay(TWICE), ["data"], restart="OnFailure", **SANDBOXED))
    assert not on_host(s), on_host(s)
    grow(s, "data", "400Mi")
    s.step("the claim to have grown", lambda: has(s, "data", "400Mi"))
    assert not on_host(s), on_host(s)
    s.gone("pods", "user")
    s.quiet()
    s.running(objects.pod("reader", stay(GROWN), ["data"], restart="OnFailure", **SANDBOXED))
    s.create(objects.pod("plain", GROWN, ["data"], restart="OnFailure", mounts=MOUNTS))
    s.step("the pod of the host to be refused the volume", lambda: s.told("plain", "two kernels"))
    assert not on_host(s), on_host(s)
    s.gone("pods", "reader")
    s.succeeded("plain")
    s.gone("pods", "plain")
    s.gone("persistentvolumeclaims", "data")
    s.nothing_left()
    end(s)
