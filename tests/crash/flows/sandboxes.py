"""Flows of volumes that the CRUST handler mounts in pods' sandboxes, and that the host never mounts."""
import signal

from data import check, larger_than, stay, write
from survivor import beside_handler
from flows.lives import grow, has
from lib import crust as crust_lib
from lib import mounts, objects

MOUNTS = [{"name": "data", "mountPath": "/data"}, {"name": "data", "mountPath": "/part", "subPath": "some/part"}]
SANDBOXED = {"runtimeClassName": "sandboxed", "securityContext": {"fsGroup": 4321}, "mounts": MOUNTS}
# At its first start the container writes and fails; at the next it finds what it wrote.
TWICE = f"""if test -e /data/blob; then {check('/data')} && {check('/data/some/part')}
            else {write('/part')} && {write('/data')} && false; fi"""

GROWN = f"{check('/data')} && {check('/part')} && {larger_than('/data', 330000)} && test $(stat -c %g /data) = 4321"


def begin(s):
    s.handler.start(env=s.environment)
    s.create(crust_lib.runtime_class("sandboxed", s.handler.socket))
    s.create(crust_lib.storage_class("deferred"))


def end(s):
    """Checks that the handler has forgotten each sandbox, and stops it in order, again if a crash interrupts that."""
    def ended():
        process = s.handler.process
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            process.wait(30)
        return process.returncode == 0
    s.quiet()
    # If containerd was killed and does not report a sandbox's end, the handler finds it by itself within a minute.
    s.step("the handler to know no sandbox", lambda: not s.handler.records() and not s.handler.holders()
           and not s.handler.marks(), seconds=120)
    s.gone("storageclasses", "deferred")
    s.gone("runtimeclasses", "sandboxed")
    s.step("the handler to end", ended)
    s.handler.process = None


def on_host(s):
    """Gives the mount points at which the host has a volume's file system; none may be in the kubelet's folder."""
    return [target for target in mounts.targets() if target.startswith(f"{s.berth.data}/kubelet/")
            and "/kubernetes.io~csi/" in target]


@beside_handler
def crust(s):
    """A container with a group and a subPath writes, and is started again, and the volume grows under it. Another
    sandbox finds what was written. Then a pod without a sandbox, which has waited for the volume, gets it."""
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
