"""A standalone Berth with a StorageClass of volumes in a real Ceph pool."""
import contextlib
import pathlib
import tempfile

from lib.rbd import POOL, RbdCluster
from lib.standalone import Standalone, wait_for
from lib.storage_site import NAMESPACE, StorageSite

USER, SECRET = "berth", "berth-ceph"


class RbdSite(StorageSite):
    """Its StorageCluster and StorageClass have one name."""

    storage_class = "ceph"
    size = "320Mi"  # of a claim that there is room for

    def __init__(self, berth, ceph):
        super().__init__(berth)
        self.ceph = ceph
        self.key = ceph.users[USER]
        self.call = ceph.call  # as another node

    def settings(self, **more):
        return {"rbd": {"monitors": [self.ceph.monitor], "pool": POOL, "user": USER, "access": "Proxy",
                        "secretRef": {"name": SECRET, "namespace": NAMESPACE}, **more}}

    def secret(self, name=SECRET, key=None):
        super().secret(name, key=key or self.key)

    def cluster(self, name="ceph", fs_type="xfs", **more):
        super().cluster(name, fs_type, **more)

    def status(self, name="ceph"):
        return super().status(name)

    def claim(self, name, size="320Mi", storage_class="ceph", **spec):
        return super().claim(name, size, storage_class, **spec)

    def prepare(self, fs_type="xfs"):
        """Makes what a claim needs."""
        self.secret()
        self.cluster(fs_type=fs_type)
        self.wait_ready("ceph")

    def clean(self):
        """Takes all away, and checks that nothing is left."""
        self.berth.remove_everything(seconds=90)
        wait_for("all volumes to go", lambda: not self.berth.items("persistentvolumes"), seconds=60)
        assert self.images() == {}, "an image is left"
        wait_for("no records", lambda: not self.agent.records(), seconds=30)

    def holders(self, volume):
        """Gives the nodes that have the image."""
        return [one["node"] for one in self.call("holders", image=volume)["holders"]]

    def images(self):
        return {image["name"]: image["size"] for image in self.call("list")["images"]}


@contextlib.contextmanager
def rbd_site(runtime):
    """Gives a started RbdSite. lib.ceph.Missing: a package of Ceph could not be fetched."""
    ceph = RbdCluster(pathlib.Path(tempfile.mkdtemp(prefix="bc-", dir="/var/tmp")) / "ceph")
    berth = Standalone(tempfile.mkdtemp(prefix="bt-", dir="/var/tmp"), runtime)
    made = None
    try:
        ceph.start()
        berth.start()
        made = RbdSite(berth, ceph)
        made.start()
        yield made
        made.agent.stop()
        berth.stop()
    finally:
        if made is not None:
            made.end()
        berth.kill()
        ceph.stop()
