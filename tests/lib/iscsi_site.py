"""A standalone Berth with a StorageClass of the LUNs of a real iSCSI target."""
import contextlib
import pathlib
import tempfile

from lib.iscsi import call
from lib.standalone import Standalone, wait_for
from lib.storage_site import NAMESPACE, StorageSite
from lib.tgt import MIB, TARGET, Tgt

USER, PASSWORD, SECRET = "berth", "a-secret-of-some-length", "berth-iscsi"
CHAP = {"chapUser": USER, "chapPassword": PASSWORD}
# The last one has room for XFS, because a mounted ext4 grows only with a capability that containers lack.
SIZES = {1: 40 * MIB, 2: 48 * MIB, 3: 56 * MIB, 4: 320 * MIB}


class IscsiSite(StorageSite):
    """Its StorageCluster and StorageClass have one name."""

    storage_class = "san"
    size = "32Mi"  # of a claim that there is room for

    def __init__(self, berth, tgt):
        super().__init__(berth)
        self.tgt = tgt

    def settings(self, luns=(1, 2), allow=None, **more):
        return {"iscsi": {"portals": [self.tgt.portal], "target": TARGET,
                          "luns": {"allow": allow or [self.identity(lun) for lun in luns]},
                          "chapSecretRef": {"name": SECRET, "namespace": NAMESPACE}, **more}}

    def call(self, name, volume="", lun=1, **members):
        """As another node."""
        return call(name, self.tgt.portal, lun=lun, node="tester", cluster=CHAP | {"owner": volume or "nobody"}, **members)

    def units(self, volume=""):
        return {unit["lun"]: unit for unit in self.call("list", volume)["luns"]}

    def identity(self, lun):
        return self.units()[lun]["identity"]

    def holders(self, volume, lun=1):
        return [one["node"] for one in self.call("holders", volume, lun=lun, nodes=["node-a", "node-b"])["holders"]]

    def reset_luns(self):
        """Makes all LUNs as new: blank, with their first size, and without a reservation."""
        self.tgt.kill()
        for lun, size in SIZES.items():
            self.tgt.file(lun).unlink()
            with open(self.tgt.file(lun), "wb") as data:
                data.truncate(size)
        self.tgt.start()

    def prepare(self, fs_type="ext4"):
        """Makes what a claim needs."""
        self.secret(SECRET, username=USER, password=PASSWORD)
        self.cluster("san", fs_type)
        self.wait_ready("san")

    def clean(self):
        """Takes all away, and makes the LUNs as new."""
        self.berth.remove_everything(seconds=90)
        wait_for("all volumes to go", lambda: not self.berth.items("persistentvolumes"), seconds=60)
        wait_for("no records", lambda: not self.agent.records(), seconds=30)
        self.reset_luns()


@contextlib.contextmanager
def iscsi_site(runtime):
    """Gives a started IscsiSite. lib.tgt.Missing: a package of the target could not be fetched."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="bt-", dir="/var/tmp"))
    tgt = Tgt(folder / "tgt")
    berth = Standalone(folder, runtime)
    made = None
    try:
        for lun, size in SIZES.items():
            tgt.add(lun, size=size)
        tgt.start()
        tgt.require_chap(USER, PASSWORD)
        berth.start()
        berth.keep_port()
        made = IscsiSite(berth, tgt)
        made.start()
        yield made
        made.agent.stop()
        berth.stop()
    finally:
        if made is not None:
            made.end()
        berth.kill()
        tgt.stop()
