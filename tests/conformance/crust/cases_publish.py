"""RuntimePublishVolume: what is mounted in the sandbox, and what is refused."""
import contextlib
import os
import subprocess
from concurrent import futures

import grpc
from google.protobuf import json_format

from crust_bench import MIB
from crust_case import BLOCK, NOWHERE, case
from lib.proto_messages import crust
from lib.rules import Refused

PUBLISH = "RuntimePublishVolume"
CONTROL = "with\ncontrol"


def refuses_publish(bench, code, changed, *more, code_too=None):
    """Checks that a publish with these fields changed is refused, and that it leaves the device free."""
    pod, sandbox = bench.sandbox()
    device = bench.device()
    for fields in (changed, *more):
        bench.refuses(PUBLISH, code, *([code_too] if code_too else []),
                      **bench.request(device, pod.targets[0], sandbox_id=sandbox) | fields)
    bench.wait_free(device, 2)


def known_label():
    """Gives a label that the host's policy knows, if the host has one."""
    try:
        return os.getxattr("/", "security.selinux").rstrip(b"\0").decode()
    except OSError:
        return "system_u:object_r:container_file_t:s0"


@case("publishes-nothing", PUBLISH, "after OK the containers have the volume, and nobody needs to mount it", BLOCK)
def _(bench):
    pod, sandbox = bench.sandbox()
    device = bench.device()
    with bench.mounted(device) as folder:
        (folder / "note").write_text("from before")
    named = bench.publish(device, pod.targets[0], sandbox_id=sandbox)
    assert bench.run(sandbox, pod.targets[0], "cat note && echo inside >other") == "from before"
    bench.unpublish(named)
    with bench.mounted(device) as folder:
        assert (folder / "other").read_text() == "inside\n"


@case("mounts-on-the-host", PUBLISH, "the host's mount table shows neither device nor target", BLOCK)
def _(bench):
    device, named = bench.published()
    assert not bench.host_mounts(device), f"{device.path} is mounted at {bench.host_mounts(device)}"
    with open("/proc/self/mountinfo") as table:
        assert named["host_target_path"] not in [line.split()[4] for line in table], "something is mounted at the target"


@case("publish-twice-fails", PUBLISH, "the same call again is OK", BLOCK)
@case("publish-twice-mounts-twice", PUBLISH, "the same call again changes nothing: one unpublish ends both", BLOCK)
def _(bench):
    pod, sandbox = bench.sandbox()
    device = bench.device()
    for _ in range(3):
        named = bench.publish(device, pod.targets[0], sandbox_id=sandbox, mount_options=["noatime"])
    bench.unpublish(named)
    bench.wait_free(device, 2)


@case("publish-ignores-conflict", PUBLISH, "FAILED_PRECONDITION at the same target with other arguments", BLOCK)
def _(bench):
    pod, sandbox = bench.sandbox()
    device = bench.device()
    bench.publish(device, pod.targets[0], sandbox_id=sandbox)
    request = bench.request(device, pod.targets[0], sandbox_id=sandbox)
    bench.refuses(PUBLISH, "FAILED_PRECONDITION", **request | {"mount_options": ["noatime"]})
    other = bench.device()
    bench.refuses(PUBLISH, "FAILED_PRECONDITION", **request | {"host_volume_id": other.path})
    bench.wait_free(other, 2)


@case("accepts-empty-fields", PUBLISH, "INVALID_ARGUMENT for what is missing", BLOCK)
def _(bench):
    refuses_publish(bench, "INVALID_ARGUMENT", {"sandbox_id": ""}, {"host_volume_id": ""}, {"host_target_path": ""})
    refuses_publish(bench, "INVALID_ARGUMENT", {"file_system": ""}, code_too="FAILED_PRECONDITION")


@case("accepts-unclean-target", PUBLISH,
      "INVALID_ARGUMENT for a target that is relative, not normalized, not printable or too long", BLOCK)
def _(bench):
    pod = bench.pod()
    target = pod.targets[0]
    refuses_publish(bench, "INVALID_ARGUMENT", *({"host_target_path": path} for path in (
        target.removeprefix("/"), f"{target}/../mount", target.replace("/volumes/", "/volumes//"), f"{target}/",
        f"{target}{CONTROL}", f"{target}/{'x' * 5000}")))


@case("accepts-foreign-target", PUBLISH, "PERMISSION_DENIED for a target of another pod, or of none", BLOCK)
def _(bench):
    foreign = bench.pod().targets[0]
    refuses_publish(bench, "PERMISSION_DENIED", {"host_target_path": foreign}, {"host_target_path": "/etc"})


@case("accepts-control-characters", PUBLISH, "INVALID_ARGUMENT for an option or a device that is not printable", BLOCK)
def _(bench):
    refuses_publish(bench, "INVALID_ARGUMENT", {"mount_options": [CONTROL]}, {"mount_options": [""]},
                    {"host_volume_id": f"/dev/{CONTROL}"})


@case("accepts-too-much", PUBLISH, "INVALID_ARGUMENT for more than 128 options, or one of more than 1,024 bytes", BLOCK)
def _(bench):
    refuses_publish(bench, "INVALID_ARGUMENT", {"mount_options": ["noatime"] * 10_000}, {"mount_options": ["x" * 100_000]},
                    {"host_volume_id": "/dev/" + "x" * 5000})


@case("accepts-bad-label", PUBLISH, "INVALID_ARGUMENT for a label that is not printable, too long, or for each file and none", BLOCK)
def _(bench):
    refuses_publish(bench, "INVALID_ARGUMENT", {"selinux_label": CONTROL}, {"selinux_label": "x" * 5000})
    if "SELINUX_RELABEL" in bench.capabilities():
        refuses_publish(bench, "INVALID_ARGUMENT", *({"selinux_label": label, "selinux_relabel": True} for label in (
            "label", "user:role", "user::type", CONTROL)))


@case("relabel-refused", PUBLISH, "a label for each file is OK, also where the sandbox has no SELinux", (BLOCK, "SELINUX_RELABEL"))
def _(bench):
    pod, sandbox = bench.sandbox()
    device = bench.device()
    for _ in range(2):
        named = bench.publish(device, pod.targets[0], sandbox_id=sandbox, selinux_label=known_label(), selinux_relabel=True)
    bench.run(sandbox, pod.targets[0], "echo inside >note")
    bench.unpublish(named)
    bench.wait_free(device, 2)


@case("ignores-unknown-option", PUBLISH, "an option that the file system does not know is refused", BLOCK)
def _(bench):
    refuses_publish(bench, "INVALID_ARGUMENT", {"mount_options": ["conformance-no-such-option"]}, code_too="FAILED_PRECONDITION")


@case("unknown-sandbox", PUBLISH, "NOT_FOUND for a sandbox that the handler does not know, INVALID_ARGUMENT if it is no id", BLOCK)
def _(bench):
    refuses_publish(bench, "NOT_FOUND", {"sandbox_id": "conformance-no-such-sandbox"})
    refuses_publish(bench, "INVALID_ARGUMENT", *({"sandbox_id": name} for name in ("../..", "a/b", "x" * 5000, CONTROL)),
                    code_too="NOT_FOUND")


@case("missing-device", PUBLISH, "NOT_FOUND where there is no device, INVALID_ARGUMENT where it is no block device", BLOCK)
def _(bench):
    refuses_publish(bench, "NOT_FOUND", {"host_volume_id": NOWHERE})
    refuses_publish(bench, "INVALID_ARGUMENT", {"host_volume_id": "/dev/null"}, {"host_volume_id": "/etc"},
                    {"host_volume_id": "relative"})


@case("formats-empty-device", PUBLISH, "a device without that file system is refused and not written", BLOCK)
def _(bench):
    pod, sandbox = bench.sandbox()
    device = bench.device(file_system="", size=16 * MIB)
    before = device.digest()
    with contextlib.suppress(Refused):
        bench.publish(device, pod.targets[0], sandbox_id=sandbox, file_system=bench.device().file_system)
        raise AssertionError("OK, although the device is empty")
    assert device.digest() == before, "the device was written"


@case("publishes-over-host-mount", PUBLISH, "FAILED_PRECONDITION while something is mounted on the host at the target", BLOCK)
def _(bench):
    pod, sandbox = bench.sandbox()
    subprocess.run(["mount", "-t", "tmpfs", "conformance", pod.targets[0]], check=True)
    try:
        bench.refuses(PUBLISH, "FAILED_PRECONDITION", **bench.request(bench.device(), pod.targets[0], sandbox_id=sandbox))
    finally:
        subprocess.run(["umount", "--lazy", pod.targets[0]], check=True)


# -- options

@case("writes-to-readonly", PUBLISH, "a device that is published with 'ro' is not written", BLOCK)
def _(bench):
    pod, sandbox = bench.sandbox()
    device = bench.device()
    before = device.digest()
    bench.unpublish(bench.publish(device, pod.targets[0], sandbox_id=sandbox, mount_options=["ro"]))
    assert device.digest() == before, "the device was written"


@case("ignores-readonly", PUBLISH, "containers cannot write to what is published with 'ro'", BLOCK)
def _(bench):
    _, named = bench.published(mount_options=["ro"])
    code, _ = bench.attempt(named["sandbox_id"], named["host_target_path"], "touch note")
    assert code != 0, "a file could be written"


@case("ignores-option-order", PUBLISH, "of 'ro' and 'rw' the last one counts", BLOCK)
def _(bench):
    for options, writes in ((["ro", "rw"], True), (["rw", "ro"], False)):
        _, named = bench.published(mount_options=options)
        code, _ = bench.attempt(named["sandbox_id"], named["host_target_path"], "touch note")
        assert (code == 0) == writes, f"with {options} a file could {'not ' if writes else ''}be written"


@case("ignores-options", PUBLISH, "mount options are honoured", BLOCK)
def _(bench):
    _, named = bench.published(mount_options=["noexec"])
    script = "printf '#!/bin/sh\\n' >program && chmod +x program && ! ./program"
    bench.run(named["sandbox_id"], named["host_target_path"], script)


# -- several calls

@case("mixes-up-volumes", PUBLISH, "each target of a sandbox has its own volume", BLOCK)
def _(bench):
    pod, sandbox = bench.sandbox()
    devices = [bench.device() for _ in range(2)]
    named = [bench.publish(device, target, sandbox_id=sandbox) for device, target in zip(devices, pod.targets)]
    for i, target in enumerate(pod.targets[:2]):
        bench.run(sandbox, target, f"echo {i} >note")
    assert [bench.run(sandbox, target, "cat note") for target in pod.targets[:2]] == ["0\n", "1\n"]
    bench.unpublish(named[0])
    bench.wait_free(devices[0], 2)
    assert bench.run(sandbox, pod.targets[1], "cat note") == "1\n"


@case("two-calls-at-once", PUBLISH, "calls at the same time are done one after the other", BLOCK)
def _(bench):
    pod, sandbox = bench.sandbox()
    devices = [bench.device() for _ in range(2)]
    with futures.ThreadPoolExecutor(4) as pool:
        calls = [pool.submit(bench.publish, device, target, sandbox_id=sandbox)
                 for device, target in zip(devices * 2, pod.targets[:2] * 2)]
        named = [call.result() for call in calls]
    for each in named[:2]:
        bench.unpublish(each)
    for device in devices:
        bench.wait_free(device, 2)


@case("given-up-call", PUBLISH, "a call that the caller gave up can be repeated", BLOCK)
def _(bench):
    pod, sandbox = bench.sandbox()
    device = bench.device()
    request = json_format.ParseDict(bench.request(device, pod.targets[0], sandbox_id=sandbox), crust.RuntimePublishVolumeRequest())
    # Several times, because it is not known when a handler begins, nor how long it takes.
    for seconds in (0.01, 0.1, 1):
        call = bench.client.stub(PUBLISH).future(request)
        with contextlib.suppress(grpc.RpcError, grpc.FutureTimeoutError):
            call.result(timeout=seconds)
        call.cancel()
    bench.unpublish(bench.publish(device, pod.targets[0], sandbox_id=sandbox))
    bench.wait_free(device, 2)
