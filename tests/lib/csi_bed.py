"""A standalone Berth without a container runtime, and the CSI driver double beside the shipped driver; volumes are
mounted on the host, as `berth mount` does."""
import contextlib
import pathlib
import re
import shutil
import tempfile

from lib import csi_double, mounts, objects, standalone
from lib.standalone import wait_for

CLASS = "of-the-double"


def is_mounted(path):
    return str(path) in mounts.targets()


@contextlib.contextmanager
def made(by_fuse=False):
    """Gives a running Bed in a folder of its own. At the end it is stopped, and what a failed test left is removed.
    `by_fuse`: volumes are staged by FUSE."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="bt-", dir="/var/tmp"))
    bed = Bed(folder, by_fuse)
    try:
        yield bed.start()
    finally:
        bed.stop()
        mounts.unmount_below(folder)
        shutil.rmtree(folder, ignore_errors=True)


class Bed:
    """A Berth and the double, with the steps that tests take on them."""

    def __init__(self, folder, by_fuse=False):
        self.folder = folder
        self.berth = standalone.Standalone(folder, folder / "no-runtime.sock")
        self.registry = self.berth.data / "kubelet" / "plugins_registry"
        self.double = csi_double.CsiDouble(folder / "double", self.registry, by_fuse)
        self.berth.flags = ["--csi-driver", self.double.socket]
        self.mounted = {}

    def start(self):
        self.registry.mkdir(parents=True)
        self.double.start()
        self.start_berth()
        self.berth.apply(objects.storage_class(CLASS, binding="Immediate", provisioner=csi_double.NAME))
        return self

    def start_berth(self):
        self.berth.start(wait=False)
        wait_for("the API", self.berth.answers)
        self.wait_registered()

    def wait_registered(self):
        wait_for("the double to be registered", lambda: csi_double.NAME in self.drivers())

    def drivers(self):
        nodes = self.berth.items("csinodes")
        return {driver["name"]: driver for node in nodes for driver in node["spec"].get("drivers") or []}

    def stop(self):
        self.berth.kill()
        self.double.stop()

    # -- steps that a person takes

    def claim(self, name, size="64Mi", **spec):
        self.berth.apply(objects.claim(name, size, CLASS, **spec))

    def bound(self, name):
        """Waits until a claim is bound, and gives its volume."""
        claim = self.berth.wait_phase("pvc", name, "Bound", seconds=40)
        return self.berth.get("pv", claim["spec"]["volumeName"])

    def mount(self, claim, *flags, seconds=30):
        path = self.folder / f"on-{claim}"
        self.berth.run("mount", claim, path, *flags, "--timeout", str(seconds))
        return path

    def ask_mount(self, claim):
        """Runs 'berth mount' without waiting for the mount."""
        self.berth.run("mount", claim, self.folder / f"on-{claim}", "--timeout", "1", check=False)

    def wait_mounted(self, claim, seconds=40):
        wait_for(f"claim {claim} to be mounted", lambda: is_mounted(self.folder / f"on-{claim}"), seconds)

    def ask_umount(self, claim):
        self.berth.run("umount", self.folder / f"on-{claim}", "--timeout", "1", check=False)

    def mount_fails(self, claim, *flags, seconds=2):
        """Runs 'berth mount', which must give up, and returns its error. The request stays."""
        path = self.folder / f"on-{claim}"
        failed = self.berth.run("mount", claim, path, *flags, "--timeout", str(seconds), check=False)
        assert failed.returncode != 0, "it was mounted"
        assert not is_mounted(path)
        return failed.stderr

    def umount(self, claim, seconds=40):
        self.berth.run("umount", self.folder / f"on-{claim}", "--timeout", str(seconds))

    def umount_fails(self, claim, seconds=2):
        failed = self.berth.run("umount", self.folder / f"on-{claim}", "--timeout", str(seconds), check=False)
        assert failed.returncode != 0, "it is gone"
        return failed.stderr

    def wait_umounted(self, claim, seconds=40):
        """Waits until Berth has ended an umount that has failed before."""
        wait_for(f"the mount of claim {claim} to be gone",
                 lambda: all(item["spec"]["claimName"] != claim for item in self.berth.items("hostmounts")), seconds)

    def host_mount(self, claim):
        """Gives the name of the HostMount that 'berth mount' made."""
        return next(item["metadata"]["name"] for item in self.berth.items("hostmounts")
                    if item["spec"]["claimName"] == claim)

    def says(self, name, pattern, seconds=20):
        """Waits for an event about the object whose message matches the pattern."""
        def heard():
            return [e["message"] for e in self.berth.items("events") if e["involvedObject"]["name"] == name
                    and re.search(pattern, e["message"])]
        return wait_for(f"an event of '{name}' about '{pattern}'", heard, seconds)[0]

    # -- checks

    def content(self, handle):
        """Gives the driver's folder that holds a volume's data."""
        return self.double.data / "volumes" / handle

    def calm(self):
        """Prepares for the next test: makes the driver run and keep to the rules, and removes what the test before
        left."""
        self.double.be_wrong()
        if not self.double.alive():
            self.double.start()
        self.berth.remove_everything(seconds=60)
        self.double.forget_calls()
