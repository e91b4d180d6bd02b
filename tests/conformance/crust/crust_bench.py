"""The devices, pods and sandboxes that a case works on, which are removed at its end, and the checks that it uses."""
import contextlib
import glob
import hashlib
import os
import pathlib
import subprocess
import time
import uuid

from lib import mounts
from lib.proto_messages import crust
from lib.rules import Refused, Violation
from lib.rules_client import refuses
from sandboxes import BerthSandboxes, NoContainer, Unsupported

MIB = 1 << 20
# Small, but mkfs.xfs makes nothing smaller.
SIZES = {"ext4": 16 * MIB, "xfs": 320 * MIB}
MAKE = {"ext4": ["mkfs.ext4", "-q", "-F", "-m", "0"], "xfs": ["mkfs.xfs", "-q", "-f"]}


class Device:
    """A loop device with a file system, or (file_system "") with nothing."""

    def __init__(self, image, file_system, size):
        self.image = image
        self.file_system = file_system
        self.size = size
        with open(image, "wb") as file:
            file.truncate(size)
        if file_system:
            subprocess.run([*MAKE[file_system], image], check=True, capture_output=True)
        self.path = subprocess.run(["losetup", "--find", "--show", image], check=True, text=True,
                                   capture_output=True).stdout.strip()

    def number(self):
        found = os.stat(self.path).st_rdev
        return f"{os.major(found)}:{os.minor(found)}"

    def is_free(self):
        """Tells whether nobody has it mounted, in whichever mount namespace, and no process (a virtual machine) has it open."""
        try:
            os.close(os.open(self.path, os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC))
        except OSError:
            return False
        for descriptor in glob.glob("/proc/[0-9]*/fd/*"):  # passes over processes that end meanwhile
            with contextlib.suppress(OSError):  # the process ended meanwhile
                if os.readlink(descriptor) == self.path:
                    return False
        return True

    def digest(self):
        return hashlib.sha1(self.image.read_bytes()).hexdigest()

    def grow(self, size):
        os.truncate(self.image, size)
        subprocess.run(["losetup", "--set-capacity", self.path], check=True)
        self.size = size

    def detach(self):
        subprocess.run(["losetup", "--detach", self.path], check=False)


class Bench:
    def __init__(self, client, sandboxes, folder, end_seconds=15):
        """`end_seconds`: how long the devices of a sandbox that has ended may stay busy."""
        self.client = client
        self.end_seconds = end_seconds
        self.sandboxes = sandboxes
        self.folder = pathlib.Path(folder)
        self.undo = []
        self.live = []
        self.pods = []
        self.devices = []

    # -- what a handler offers

    def capabilities(self):
        """Gives the names of the handler's capabilities, and "BLOCK" if it mounts a file system that this suite can make."""
        types = crust.RuntimeCapability.RPC.Type
        found = {types.Name(item.rpc.type) if item.rpc.type in types.values() else str(item.rpc.type)
                 for item in self.call("RuntimeGetCapabilities").capabilities}
        return found | ({"BLOCK"} if set(self.file_systems()) & set(SIZES) else set())

    def file_systems(self):
        return list(self.call("RuntimeGetSupportedFileSystems").file_systems)

    # -- calls, and their inverses at the end

    def call(self, method, **fields):
        return self.client.call(method, **fields)

    def refuses(self, method, *codes, **fields):
        """Checks that the handler answers with one of these codes."""
        refuses(self.client, method, *codes, **fields)

    def device(self, file_system=None, size=None):
        """Makes a device with the file system, or with one that the handler mounts; ext4 rather than xfs, because it may be
        smaller."""
        if file_system is None:
            offered = self.file_systems()
            file_system = next(name for name in SIZES if name in offered)
        device = Device(self.folder / f"{uuid.uuid4()}.img", file_system, size or SIZES.get(file_system, MIB))
        self.devices.append(device)
        return device

    def growing_device(self):
        """As device(), but with xfs where that is offered: a mounted ext4 does not grow where root lacks CAP_SYS_RESOURCE."""
        return self.device("xfs" if "xfs" in self.file_systems() else None)

    def pod(self):
        pod = self.sandboxes.make_pod()
        self.pods.append(pod)
        return pod

    def begin(self, pod):
        sandbox = self.sandboxes.begin(pod)
        self.live.append(sandbox)
        return sandbox

    def sandbox(self):
        """Gives a new pod and its sandbox."""
        pod = self.pod()
        return pod, self.begin(pod)

    def end(self, sandbox):
        self.live.remove(sandbox)
        self.sandboxes.end(sandbox)

    @staticmethod
    def request(device, target, **fields):
        """Gives a request of RuntimePublishVolume; `fields` name a sandbox or a pod, and what else it has."""
        return {"host_volume_id": device.path, "host_target_path": target, "file_system": device.file_system, **fields}

    def publish(self, device, target, **fields):
        request = self.request(device, target, **fields)
        undo = {name: request[name] for name in ("sandbox_id", "pod_uid", "host_volume_id", "host_target_path") if name in request}
        self.undo.append(undo)
        self.call("RuntimePublishVolume", **request)
        return undo

    def published(self, **fields):
        """Gives a device that is published in a new sandbox: (device, what names it in a request)."""
        pod, sandbox = self.sandbox()
        device = self.device()
        return device, self.publish(device, pod.targets[0], sandbox_id=sandbox, **fields)

    def unpublish(self, named):
        self.call("RuntimeUnpublishVolume", **named)

    def stats(self, named):
        """Gives {unit: usage} of a volume, and its condition."""
        answer = self.call("RuntimeGetVolumeStats", **asked(named))
        return {crust.VolumeUsage.Unit.Name(usage.unit): usage for usage in answer.usage}, answer.volume_condition

    # -- inside

    def run(self, sandbox, source, script):
        """Runs a script in a container of the sandbox, in the volume, and gives its output."""
        code, output = self.attempt(sandbox, source, script)
        assert code == 0, f"'{script}' failed in a container with {code}: {output}"
        return output

    def attempt(self, sandbox, source, script):
        try:
            return self.sandboxes.run(sandbox, source, script)
        except NoContainer as refused:
            raise AssertionError(f"a container cannot have {source}: {refused}") from refused

    def refuses_container(self, sandbox, source, script):
        """Checks that no container gets `source`, or that the script fails there."""
        try:
            code, output = self.sandboxes.run(sandbox, source, script)
        except NoContainer:
            return
        assert code != 0, f"a container has {source}: {output}"

    # -- the machine

    def host_mounts(self, device):
        """Gives where this mount namespace, which is the host's, has the device mounted."""
        with open("/proc/self/mountinfo") as table:
            rows = [line.split() for line in table]
        return [row[4] for row in rows if row[2] == device.number() or row[row.index("-") + 2] == device.path]

    @contextlib.contextmanager
    def mounted(self, device):
        """Mounts the device on the host for a moment, while no sandbox has it."""
        folder = self.folder / "host"
        folder.mkdir(exist_ok=True)
        subprocess.run(["mount", device.path, folder], check=True, capture_output=True)
        try:
            yield folder
        finally:
            subprocess.run(["umount", folder], check=True)
        # A program beside this one may just have copied the mount into a mount namespace of its own.
        self.wait_free(device, 30)

    @staticmethod
    def wait_free(device, seconds):
        deadline = time.monotonic() + seconds
        while not device.is_free():
            assert time.monotonic() < deadline, f"{device.path} is still in use after {seconds} s"
            time.sleep(0.02)

    def clean(self):
        """Undoes all that was made, the last first. A handler that breaks a rule may fail here; another case reports that."""
        for named in reversed(self.undo):
            with contextlib.suppress(Refused, Violation):
                self.unpublish(named)
        for sandbox in reversed(self.live):
            with contextlib.suppress(OSError, Unsupported):
                self.sandboxes.end(sandbox)
        for pod in self.pods:
            with contextlib.suppress(OSError, Unsupported):
                self.sandboxes.forget(pod)
        mounts.unmount_below(self.folder)
        for device in self.devices:
            device.detach()
            device.image.unlink()
        for made in (self.undo, self.live, self.pods, self.devices):
            made.clear()


def asked(named, **fields):
    """Gives a request about a published volume."""
    return {name: value for name, value in named.items() if name != "host_target_path"} | fields


def sandboxes_of(handler):
    """Gives the way to begin sandboxes of a lib.crust.Handler."""
    return BerthSandboxes(handler.folder / "oci.sock", handler.run, handler.kubelet, handler.folder / "bundles")
