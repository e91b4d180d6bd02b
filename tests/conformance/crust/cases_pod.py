"""POD_VOLUMES: volumes that are published for a pod, before it has a sandbox."""
import os
import pathlib
import subprocess

from crust_bench import MIB, asked
from crust_case import NOWHERE, PODS, case
from lib import mounts

PUBLISH = "RuntimePublishVolume"


def published(bench, **fields):
    """Publishes a device for a new pod, and gives (device, pod, what names it in a request)."""
    pod = bench.pod()
    device = bench.device()
    return device, pod, bench.publish(device, pod.targets[0], pod_uid=pod.uid, **fields)


@case("pod-and-sandbox", "every call", "INVALID_ARGUMENT for a request that names a pod and a sandbox", PODS)
def _(bench):
    pod, sandbox = bench.sandbox()
    device = bench.device()
    both = {"sandbox_id": sandbox, "pod_uid": pod.uid, "host_volume_id": device.path}
    bench.refuses(PUBLISH, "INVALID_ARGUMENT", **bench.request(device, pod.targets[0], **both))
    bench.refuses("RuntimeUnpublishVolume", "INVALID_ARGUMENT", **both, host_target_path=pod.targets[0])
    if "VOLUME_STATS" in bench.capabilities():
        bench.refuses("RuntimeGetVolumeStats", "INVALID_ARGUMENT", **both)
    if "VOLUME_RESIZE" in bench.capabilities():
        bench.refuses("RuntimeExpandVolume", "INVALID_ARGUMENT", **both, required_bytes=MIB)


@case("pod-target-unchecked", PUBLISH, "PERMISSION_DENIED for a target of another pod", PODS)
def _(bench):
    pod, other = bench.pod(), bench.pod()
    bench.refuses(PUBLISH, "PERMISSION_DENIED", **bench.request(bench.device(), other.targets[0], pod_uid=pod.uid))
    bench.refuses(PUBLISH, "INVALID_ARGUMENT", **bench.request(bench.device(), pod.targets[0], pod_uid="../.."))


@case("pod-without-placeholder", PUBLISH, "an empty file system is mounted at the target, and not the volume", PODS)
def _(bench):
    device, pod, _ = published(bench)
    target = pathlib.Path(pod.targets[0])
    assert str(target) in mounts.targets(), "nothing is mounted at the target"
    assert not os.listdir(target), os.listdir(target)
    assert not bench.host_mounts(device), "the device is mounted on the host"


@case("pod-sandbox-without-volume", PUBLISH, "a sandbox of the pod has the volume as soon as it has begun", PODS)
def _(bench):
    device, pod, named = published(bench)
    sandbox = bench.begin(pod)
    bench.run(sandbox, pod.targets[0], "echo inside >note")
    bench.unpublish(named)
    bench.wait_free(device, 2)
    with bench.mounted(device) as folder:
        assert (folder / "note").read_text() == "inside\n"


@case("pod-publish-not-idempotent", PUBLISH,
      "the same call again is OK; FAILED_PRECONDITION with other arguments once a sandbox has it", PODS)
def _(bench):
    device, pod, named = published(bench)
    bench.publish(device, pod.targets[0], pod_uid=pod.uid)
    bench.begin(pod)
    bench.publish(device, pod.targets[0], pod_uid=pod.uid)
    bench.refuses(PUBLISH, "FAILED_PRECONDITION",
                  **bench.request(device, pod.targets[0], pod_uid=pod.uid, mount_options=["noatime"]))
    assert mounts.targets().count(pod.targets[0]) == 1, "there is not one placeholder"
    bench.unpublish(named)


@case("pod-keeps-placeholder", "RuntimeUnpublishVolume", "the placeholder is gone, and no further sandbox has the volume", PODS)
def _(bench):
    device, pod, named = published(bench)
    bench.refuses("RuntimeUnpublishVolume", "FAILED_PRECONDITION", **named | {"host_volume_id": NOWHERE})
    for _ in range(2):
        bench.unpublish(named)
        assert pod.targets[0] not in mounts.targets(), "the placeholder is still mounted"
    bench.begin(pod)
    bench.wait_free(device, 2)


@case("pod-stats", "RuntimeGetVolumeStats", "the pod's volume has numbers while a sandbox has it", (*PODS, "VOLUME_STATS"))
def _(bench):
    device, pod, named = published(bench)
    bench.begin(pod)
    usage, _ = bench.stats(named)
    assert 0 < usage["BYTES"].total <= device.size, usage
    bench.refuses("RuntimeGetVolumeStats", "NOT_FOUND", **asked(named, host_volume_id=NOWHERE))


@case("pod-sub-path", "a container's mounts", "a folder of the placeholder, mounted elsewhere, means the volume's",
      (*PODS, "SUBPATH"))
def _(bench):
    _, pod, _ = published(bench)
    folder = pathlib.Path(pod.targets[0]) / "part"
    folder.mkdir()
    # Where the kubelet mounts it. The target is KUBELET/pods/UID/volumes/PLUGIN/NAME...
    home, _, rest = pod.targets[0].partition("/volumes/")
    elsewhere = pathlib.Path(home) / "volume-subpaths" / rest.split("/")[1] / "container" / "0"
    elsewhere.mkdir(parents=True)
    subprocess.run(["mount", "--bind", folder, elsewhere], check=True)
    try:
        sandbox = bench.begin(pod)
        bench.run(sandbox, elsewhere, "echo inside >note")
        assert bench.run(sandbox, pod.targets[0], "cat part/note") == "inside\n"
    finally:
        subprocess.run(["umount", elsewhere], check=True)
