"""A sandbox that is a virtual machine gets file systems that somebody has damaged on purpose. They reach the guest's kernel alone: the
host's neither reads nor mounts them, and at most the guest dies of them.

`BERTH_DAMAGED_IMAGES` images of each kind are tried (6)."""
import collections
import contextlib
import json
import os
import pathlib
import shutil
import subprocess
import uuid

import grpc
import pytest
from lib import crust, ipc_call, mounts
from lib.block_trace import BlockTrace, NoTrace
from lib.damaged_file_systems import KINDS, Corpus
from lib.proto_messages import crust as messages
from lib.vm import packages
from lib.vm.machine import available

pytestmark = pytest.mark.guest

IMAGES = int(os.environ.get("BERTH_DAMAGED_IMAGES", "6"))
SECONDS = 300  # a guest may boot in software emulation on a busy machine


@pytest.fixture(scope="module")
def handler(folder):
    if why := available():
        pytest.skip(why)
    kernel, modules = packages.kernel()
    made = crust.Handler(folder / "handler", ["--sandbox", "vm", f"--guest-kernel={kernel}", f"--guest-modules={modules}"])
    made.start()
    yield made
    made.stop()
    left = list((made.run / "machines").glob("*"))
    made.clear()
    assert not left, "a machine is left"


class Guest:
    """A sandbox, and another one where its guest has died."""

    def __init__(self, handler):
        self.handler = handler
        self.pod = str(uuid.uuid4())
        self.target = handler.kubelet / "pods" / self.pod / "volumes" / "kubernetes.io~csi" / "v" / "mount"
        self.target.mkdir(parents=True)
        self.plan = handler.run / "plans" / f"{self.pod}.json"
        self.plan.write_text(json.dumps({"targets": [str(self.target)]}))
        self._begin()

    def _begin(self):
        self.sandbox = uuid.uuid4().hex
        self.bundle = self.handler.folder / "bundles" / self.sandbox
        self.bundle.mkdir(parents=True)
        (self.bundle / "config.json").write_text("{}")
        self._ask("crust.create", uid=self.pod, kind="sandbox", bundle=str(self.bundle))

    def _end(self):
        self._ask("crust.end")
        shutil.rmtree(self.bundle)

    def end(self):
        self._end()
        self.plan.unlink()

    def _ask(self, method, **fields):
        ipc_call.call(self.handler.folder / "oci.sock", method, seconds=SECONDS, sandbox=self.sandbox, **fields)

    def _call(self, method, device, **fields):
        request = getattr(messages, f"{method}Request")(sandbox_id=self.sandbox, host_volume_id=device, **fields)
        with grpc.insecure_channel(f"unix:{self.handler.socket}") as channel:
            channel.unary_unary(f"/crust.v1alpha1.RuntimeAssistedStorageManagement/{method}")(request.SerializeToString(), timeout=SECONDS)

    def use(self, device, fs_type):
        """Has the guest mount the device, look at it and unmount it. Gives "mounted", "refused" or "died"."""
        at = {"host_target_path": str(self.target)}
        outcome = "mounted"
        try:
            self._call("RuntimePublishVolume", device, file_system=fs_type, **at)
            self._call("RuntimeGetVolumeStats", device)
        except grpc.RpcError as failure:
            unknown = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
            outcome = "died" if failure.code() in unknown else "refused"
            print(f"{device}: {failure.details()}")
        if outcome != "died":
            try:
                self._call("RuntimeUnpublishVolume", device, **at)
            except grpc.RpcError:
                outcome = "died"
        if outcome == "died":
            self._end()
            self._begin()
        return outcome


@contextlib.contextmanager
def attached(image):
    device = subprocess.run(["losetup", "--find", "--show", image], check=True, capture_output=True, text=True).stdout.strip()
    try:
        yield device
    finally:
        subprocess.run(["losetup", "--detach", device], check=True)


@contextlib.contextmanager
def host_sees_nothing(device):
    """Checks that no program but QEMU reads the device, and that the host's kernel neither mounts it nor says anything about it."""
    name = pathlib.Path(device).name
    log = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    os.lseek(log, 0, os.SEEK_END)
    try:
        with BlockTrace(device) as trace:
            yield
            programs = trace.programs()
    except NoTrace as why:
        pytest.skip(str(why))
    said = []
    with contextlib.suppress(BlockingIOError):
        while line := os.read(log, 8192):
            said.append(line.decode(errors="replace"))
    os.close(log)
    assert programs and all(program.startswith("qemu") for program in programs), programs
    assert not [line for line in said if f"({name})" in line or f"device {name}" in line]
    assert not list(pathlib.Path("/sys/fs").glob(f"*/{name}"))
    assert device not in [line.split(" - ")[1].split()[1] for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines()]


@pytest.mark.parametrize("fs_type", KINDS)
def test_a_damaged_file_system_reaches_the_guest_alone(folder, handler, fs_type):
    corpus = Corpus(folder)
    guest = Guest(handler)
    try:
        with attached(corpus.whole(fs_type)) as device, host_sees_nothing(device):
            assert guest.use(device, fs_type) == "mounted"
        outcomes = collections.Counter()
        for seed in range(IMAGES):
            with attached(corpus.image(fs_type, seed)) as device, host_sees_nothing(device):
                outcomes[guest.use(device, fs_type)] += 1
        print(fs_type, dict(outcomes))
        assert outcomes["refused"] + outcomes["died"], "no image was damaged enough"
    finally:
        guest.end()
        mounts.detach_loops_below(folder)
