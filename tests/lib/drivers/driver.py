"""What a test has to know of a driver that others wrote, and where its program is."""
import os
import pathlib
import shutil

FOLDER = os.environ.get("BERTH_DRIVERS")

# What drivers offer.
ATTACH, BLOCK, CLAIMS, CLONES, FUSE, GROWTH, INLINE, SHARED, SNAPSHOTS = (
    "attach", "block", "claims", "clones", "fuse", "growth", "inline", "shared", "snapshots")

NODE = "node-a"
CLASS = "of-the-driver"
SECRET = "of-the-driver"


class Missing(Exception):
    """Something that the driver needs is not on this machine."""


def find(name):
    """Gives the path of a program or folder of BERTH_DRIVERS."""
    if not FOLDER:
        raise Missing("BERTH_DRIVERS names no folder of drivers")
    path = pathlib.Path(FOLDER) / name
    if not path.exists():
        raise Missing(f"{FOLDER} has no {name}")
    return path


def on_this_machine(*names):
    """Checks that programs of Debian are installed."""
    absent = [name for name in names if shutil.which(name) is None]
    if absent:
        raise Missing(f"this machine has no {', '.join(absent)}")


class Driver:
    """One driver. A class below says how it is started and what it offers; its instance has a folder for one module of tests."""

    name = ""  # as the driver itself gives it
    title = ""  # for people
    offers = frozenset()
    found = ""  # what was learned from it, for the page

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)

    def check(self):
        """Raises Missing if it cannot run here."""
        raise NotImplementedError

    def version(self):
        """Gives its version, from the program itself where the program tells it."""
        raise NotImplementedError

    def begin(self):
        """Starts the storage behind the driver."""

    def end(self):
        """Stops it."""

    def command(self, socket, kubelet):
        """Gives the command that serves the driver at a socket. `kubelet`: the folder of the node agent."""
        raise NotImplementedError

    def environment(self):
        return {}

    def parameters(self):
        """Gives the parameters of its StorageClass."""
        return {}

    def snapshot_parameters(self):
        return {}

    def secrets(self):
        """Gives the data of the Secret that its classes name."""
        return {}

    def attributes(self):
        """Gives the attributes of a volume that a pod defines in place."""
        return {}

    def left(self):
        """Gives the names of all volumes and snapshots that its storage holds."""
        raise NotImplementedError

    def csi_driver(self):
        """Gives the fields of its CSIDriver object."""
        return {"attachRequired": ATTACH in self.offers, "podInfoOnMount": INLINE in self.offers, "fsGroupPolicy": "File",
                "volumeLifecycleModes": [mode for mode, what in (("Persistent", CLAIMS), ("Ephemeral", INLINE)) if what in self.offers]}

    def more_objects(self):
        """Gives what else the driver needs in the API: objects, or files with them."""
        return []
