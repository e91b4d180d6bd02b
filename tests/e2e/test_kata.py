"""`berth kata-handler` in front of a real Kata, where one is installed: a container in a virtual machine has the volume, and the shim
gives its numbers. Elsewhere the double of a Kata stands in: crust_wrong/test_kata_handler.py."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import uuid

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "conformance" / "crust"))

from lib import mounts  # noqa: E402
from lib.standalone import BINARY, wait_for  # noqa: E402

from crust_bench import Device  # noqa: E402
from crust_client import CrustClient  # noqa: E402

pytestmark = [pytest.mark.guest, pytest.mark.e2e]

RUNTIME_TYPE = "io.containerd.kata.v2"
IMAGE = os.environ.get("BERTH_KATA_IMAGE", "docker.io/library/busybox:latest")
MIB = 1 << 20


def crictl(*arguments):
    return subprocess.run(["crictl", *map(str, arguments)], check=True, capture_output=True, text=True, timeout=300).stdout.strip()


def find_kata():
    """Gives the name of containerd's runtime handler for Kata. Skips the test, with the reason, where there is none."""
    for program in ("containerd-shim-kata-v2", "containerd", "crictl"):
        if shutil.which(program) is None:
            pytest.skip(f"no Kata is installed: there is no {program}")
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        pytest.skip("Kata needs /dev/kvm, which is not here")
    try:
        config = json.loads(crictl("info"))["config"]["containerd"]["runtimes"]
    except (subprocess.SubprocessError, KeyError, ValueError) as why:
        pytest.skip(f"no containerd answers crictl: {why}")
    for name, runtime in config.items():
        if runtime.get("runtimeType") == RUNTIME_TYPE:
            return name
    pytest.skip(f"containerd has no runtime with the type {RUNTIME_TYPE}")
    return None


@pytest.fixture(name="folder")
def work_folder():
    # Short, because Kata finds no volume whose target path is longer than 189 bytes.
    path = pathlib.Path(f"/var/tmp/bt-{uuid.uuid4().hex[:6]}")
    path.mkdir()
    yield path
    mounts.unmount_below(path)
    mounts.detach_loops_below(path)
    shutil.rmtree(path, ignore_errors=True)


def test_a_container_in_a_virtual_machine_has_the_volume(folder):
    runtime = find_kata()
    uid = str(uuid.uuid4())
    target = folder / "kubelet" / "pods" / uid / "volumes" / "c" / "v"
    target.mkdir(parents=True)
    socket = folder / "kata.sock"
    with open(folder / "log", "wb") as log:
        handler = subprocess.Popen([BINARY, "kata-handler", "--socket", socket, "--data", folder / "data", "--kubelet",
                                    folder / "kubelet"], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    device = Device(folder / "image", "ext4", 64 * MIB)
    sandbox = None
    try:
        wait_for("the handler to listen", socket.exists)
        client = CrustClient(socket, 60)
        (folder / "pod.json").write_text(json.dumps(
            {"metadata": {"name": "berth-kata", "namespace": "default", "uid": uid, "attempt": 0}, "linux": {}}))
        sandbox = crictl("runp", "--runtime", runtime, folder / "pod.json")
        named = {"sandbox_id": sandbox, "host_volume_id": device.path}
        client.call("RuntimePublishVolume", **named, host_target_path=str(target), file_system="ext4", fsgroup_gid=4242)
        (folder / "container.json").write_text(json.dumps({
            "metadata": {"name": "c"}, "image": {"image": IMAGE}, "command": ["/bin/sh", "-c", "echo inside >/v/note; sleep 1000"],
            "mounts": [{"container_path": "/v", "host_path": str(target)}], "linux": {}}))
        crictl("pull", IMAGE)
        container = crictl("create", sandbox, folder / "container.json", folder / "pod.json")
        crictl("start", container)
        wait_for("the container to have written", lambda: crictl("exec", container, "ls", "/v").find("note") >= 0)
        assert crictl("exec", container, "stat", "-c", "%g", "/v") == "4242"
        assert not list(target.iterdir()), "the host's folder was shared, and not the volume"
        usage = client.call("RuntimeGetVolumeStats", **named).usage
        assert any(0 < each.total <= device.size for each in usage)
        assert not device.is_free()
        crictl("stopp", sandbox)
        client.call("RuntimeUnpublishVolume", **named, host_target_path=str(target))
        assert device.is_free()
        client.close()
    finally:
        if sandbox is not None:
            crictl("rmp", "--force", sandbox)
        handler.terminate()
        handler.wait(30)
        device.detach()
