"""The calls for a volume that is published: statistics, growth, the volume's folders, its end and that of its sandbox."""
import os
from concurrent import futures

from crust_bench import MIB, asked
from crust_case import BLOCK, GROWS, NOWHERE, STATS, case
from lib.rules import Refused

UNPUBLISH = "RuntimeUnpublishVolume"
STAT = "RuntimeGetVolumeStats"
EXPAND = "RuntimeExpandVolume"


# -- the end of a volume

@case("unpublish-keeps-device", UNPUBLISH, "after OK nobody has the device", BLOCK)
def _(bench):
    device, named = bench.published()
    bench.unpublish(named)
    bench.wait_free(device, 2)


@case("unpublish-twice-fails", UNPUBLISH, "OK for what is not published, and for a sandbox that the handler does not know", BLOCK)
def _(bench):
    _, named = bench.published()
    for _ in range(2):
        bench.unpublish(named)
    bench.unpublish(named | {"sandbox_id": "conformance-no-such-sandbox"})


@case("unpublish-ignores-source", UNPUBLISH, "FAILED_PRECONDITION if another volume is at the target", BLOCK)
def _(bench):
    _, named = bench.published()
    bench.refuses(UNPUBLISH, "FAILED_PRECONDITION", **named | {"host_volume_id": NOWHERE})
    bench.run(named["sandbox_id"], named["host_target_path"], "touch note")


@case("unpublish-of-any-sandbox", UNPUBLISH, "without a sandbox it is that which has the target, or INVALID_ARGUMENT", BLOCK)
def _(bench):
    device, named = bench.published()
    try:
        bench.unpublish(named | {"sandbox_id": ""})
    except Refused as refused:
        assert refused.code == "INVALID_ARGUMENT", str(refused)
        return
    bench.wait_free(device, 2)


@case("target-stays-taken", UNPUBLISH, "another volume may be published at the target then", BLOCK)
def _(bench):
    pod, sandbox = bench.sandbox()
    bench.unpublish(bench.publish(bench.device(), pod.targets[0], sandbox_id=sandbox))
    bench.publish(bench.device(), pod.targets[0], sandbox_id=sandbox, mount_options=["ro"])


@case("sandbox-end-keeps-device", "the end of a sandbox", "soon nobody has its devices, and the sandbox is unknown", BLOCK)
def _(bench):
    pod, sandbox = bench.sandbox()
    devices = [bench.device() for _ in range(2)]
    named = [bench.publish(device, target, sandbox_id=sandbox) for device, target in zip(devices, pod.targets)]
    bench.end(sandbox)
    for device in devices:
        bench.wait_free(device, bench.end_seconds)
    bench.refuses("RuntimePublishVolume", "NOT_FOUND", **bench.request(devices[0], pod.targets[0], sandbox_id=sandbox))
    for each in named:
        bench.unpublish(each)


# -- statistics

@case("stats-wrong", STAT, "bytes and inodes once each, within the device's size", STATS)
@case("condition-wrong", STAT, "a healthy volume is not abnormal", STATS)
def _(bench):
    device, named = bench.published()
    usage, condition = bench.stats(named)
    answer = bench.call(STAT, **asked(named))
    assert len(answer.usage) == len(usage) and set(usage) <= {"BYTES", "INODES"}, answer
    assert "BYTES" in usage, answer
    total = usage["BYTES"].total
    assert device.size / 2 < total <= device.size, f"{total} bytes in total on a device of {device.size}"
    for unit, each in usage.items():
        assert each.used + each.available <= each.total, f"{unit}: {each}"
    assert not condition.abnormal, condition.message


@case("stats-stand-still", STAT, "what is written counts as used", STATS)
def _(bench):
    _, named = bench.published()
    before = bench.stats(named)[0]["BYTES"]
    bench.run(named["sandbox_id"], named["host_target_path"], "head -c 2097152 /dev/urandom >file && sync file")
    now = bench.stats(named)[0]["BYTES"]
    assert now.used >= before.used + 2 * MIB and now.available <= before.available - 2 * MIB, f"{before}, then {now}"


@case("stats-of-nothing", STAT, "NOT_FOUND for a volume that is not in the sandbox, and for an unknown sandbox", STATS)
def _(bench):
    _, named = bench.published()
    bench.refuses(STAT, "NOT_FOUND", **asked(named, host_volume_id=NOWHERE))
    bench.refuses(STAT, "NOT_FOUND", **asked(named, sandbox_id="conformance-no-such-sandbox"))
    bench.unpublish(named)
    bench.refuses(STAT, "NOT_FOUND", **asked(named))


@case("stats-one-at-a-time", STAT, "calls at the same time are all answered", STATS)
def _(bench):
    _, named = bench.published()
    with futures.ThreadPoolExecutor(8) as pool:
        totals = list(pool.map(lambda _: bench.stats(named)[0]["BYTES"].total, range(8)))
    assert len(set(totals)) == 1, totals


# -- growth

def size_at(folder):
    found = os.statvfs(folder)
    return found.f_blocks * found.f_frsize


@case("grows-nothing", EXPAND, "the file system has grown to its device", GROWS)
@case("expand-below", EXPAND, "capacity_bytes is at least what is required", GROWS)
def _(bench):
    pod, sandbox = bench.sandbox()
    device = bench.growing_device()
    with bench.mounted(device) as folder:
        before = size_at(folder)
    named = bench.publish(device, pod.targets[0], sandbox_id=sandbox)
    size = device.size + 128 * MIB
    device.grow(size)
    for _ in range(2):
        capacity = bench.call(EXPAND, **asked(named, required_bytes=size)).capacity_bytes
        assert capacity >= size, f"{capacity} bytes, where {size} are required"
    bench.unpublish(named)
    with bench.mounted(device) as folder:
        now = size_at(folder)
    assert now > before + 100 * MIB, f"the device grew by {128 * MIB} bytes, and the file system from {before} to {now}"


@case("grows-beyond-device", EXPAND, "UNAVAILABLE while the device is smaller than what is required", GROWS)
def _(bench):
    device, named = bench.published()
    bench.refuses(EXPAND, "UNAVAILABLE", **asked(named, required_bytes=2 * device.size))


@case("grows-what-is-nowhere", EXPAND, "NOT_FOUND for a volume that is not in the sandbox, and for an unknown sandbox", GROWS)
def _(bench):
    device, named = bench.published()
    bench.refuses(EXPAND, "NOT_FOUND", **asked(named, host_volume_id=NOWHERE, required_bytes=device.size))
    bench.refuses(EXPAND, "NOT_FOUND", **asked(named, sandbox_id="conformance-no-such-sandbox", required_bytes=device.size))


# -- folders of a volume

@case("sub-path-missing", "a container's mounts", "a folder of the volume, which is made if it is missing", (BLOCK, "SUBPATH"))
def _(bench):
    _, named = bench.published()
    sandbox, target = named["sandbox_id"], named["host_target_path"]
    bench.run(sandbox, f"{target}/deep/folder", "echo inside >note")
    assert bench.run(sandbox, target, "cat deep/folder/note") == "inside\n"


@case("sub-path-escapes", "a container's mounts", "a symlink does not lead out of the volume", (BLOCK, "SUBPATH"))
def _(bench):
    _, named = bench.published()
    sandbox, target = named["sandbox_id"], named["host_target_path"]
    bench.run(sandbox, target, "ln -s /etc out && ln -s ../../../../../../../../etc up")
    for link in ("out", "up"):
        bench.refuses_container(sandbox, f"{target}/{link}", "test -e passwd")
