"""The driver ceph-csi, with the real Ceph cluster of the tests: volumes of CephFS, which ceph-fuse mounts."""
import json

from lib import ceph
from lib.drivers import driver
from lib.drivers.driver import CLAIMS, CLONES, FUSE, GROWTH, NODE, SHARED, SNAPSHOTS
from lib.kubernetes import programs

CLUSTER = "of-the-tests"
# The driver writes and reads files in /etc, so it gets an /etc of its own. What it mounts below the kubelet's folder is seen by all,
# because that folder is shared, as it is for a driver in a pod. $1: its folder; the rest: its command.
IN_OWN_ETC = r"""
set -e
folder=$1; shift
mkdir -p "$folder/etc"
mount -t tmpfs tmpfs "$folder/etc"
mkdir "$folder/etc/upper" "$folder/etc/work"
mount -t overlay overlay -o "lowerdir=/etc,upperdir=$folder/etc/upper,workdir=$folder/etc/work" /etc
mkdir -p /etc/ceph /etc/ceph-csi-config
cp "$folder/config.json" /etc/ceph-csi-config/
exec "$@"
"""


class CephCsi(driver.Driver):
    """Either kind of ceph-csi."""

    kind = ""

    def __init__(self, folder):
        super().__init__(folder)
        self.cluster = None

    def check(self):
        driver.find("cephcsi")
        try:
            ceph.fetch(manager=True)
        except ceph.Missing as missing:
            raise driver.Missing(str(missing)) from None

    def version(self):
        return programs.version_of(driver.find("cephcsi"))

    def begin(self):
        self.cluster = ceph.CephCluster(self.folder / "ceph", manager=True).start()
        (self.folder / "config.json").write_text(json.dumps([
            {"clusterID": CLUSTER, "monitors": [self.cluster.monitor], "cephFS": {"subvolumeGroup": "csi"}}]))

    def end(self):
        if self.cluster is not None:
            self.cluster.stop()

    def command(self, socket, kubelet):
        return ["unshare", "--mount", "--propagation", "unchanged", "sh", "-c", IN_OWN_ETC, "sh", self.folder,
                driver.find("cephcsi"), f"--type={self.kind}", "--controllerserver", "--nodeserver", f"--endpoint=unix://{socket}",
                f"--nodeid={NODE}", f"--drivername={self.name}", f"--pluginpath={kubelet}/plugins",
                f"--stagingpath={kubelet}/plugins/kubernetes.io/csi", f"--csi-addons-endpoint=unix://{self.folder}/addons.sock", "--v=4"]

    def environment(self):
        return {"PATH": self.cluster.path_with_ceph_fuse()}

    def parameters(self):
        return {"clusterID": CLUSTER}

    def snapshot_parameters(self):
        return {"clusterID": CLUSTER}

    def secrets(self):
        key = self.cluster.keys["client.admin"]
        return {"adminID": "admin", "adminKey": key, "userID": "admin", "userKey": key}


class CephFs(CephCsi):
    name = "cephfs.csi.ceph.com"
    title = "ceph-csi, CephFS with ceph-fuse"
    offers = frozenset({CLAIMS, CLONES, FUSE, GROWTH, SHARED, SNAPSHOTS})
    kind = "cephfs"

    def parameters(self):
        return super().parameters() | {"fsName": "fs", "mounter": "fuse"}

    def left(self):
        groups = json.loads(self.cluster.ask('{"prefix": "fs subvolumegroup ls", "vol_name": "fs", "format": "json"}', "mgr"))
        if not groups:
            return []
        answer = self.cluster.ask('{"prefix": "fs subvolume ls", "vol_name": "fs", "group_name": "csi", "format": "json"}', "mgr")
        return [each["name"] for each in json.loads(answer)]
