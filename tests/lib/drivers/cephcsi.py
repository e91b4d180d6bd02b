"""The driver ceph-csi, with the real Ceph cluster of the tests: volumes of CephFS, which ceph-fuse mounts."""
import json

from lib import ceph
from lib.drivers import driver
from lib.drivers.driver import CLAIMS, CLONES, FUSE, GROWTH, NODE, SHARED, SNAPSHOTS
from lib.kubernetes import programs

CLUSTER = "of-the-tests"
# The driver writes and reads files in /etc and /tmp/csi, so it gets folders of its own there. Its root is private, so that nobody else
# sees them. The kubelet's folder is a mount of its own and stays shared, as for a driver in a pod. $1: the driver's folder; $2: the
# kubelet's; the rest: its command.
IN_OWN_ETC = r"""
set -e
folder=$1; mountpoint -q "$2"; shift 2
mount --make-private /
mkdir -p "$folder/etc" /tmp/csi
mount -t tmpfs tmpfs /tmp/csi
mkdir /tmp/csi/keys
mount -t tmpfs tmpfs "$folder/etc"
mkdir "$folder/etc/upper" "$folder/etc/work"
mount -t overlay overlay -o "lowerdir=/etc,upperdir=$folder/etc/upper,workdir=$folder/etc/work" /etc
mkdir -p /etc/ceph /etc/ceph-csi-config
cp "$folder/config.json" /etc/ceph-csi-config/
exec "$@"
"""


class CephFs(driver.Driver):
    name = "cephfs.csi.ceph.com"
    title = "ceph-csi, CephFS with ceph-fuse"
    offers = frozenset({CLAIMS, CLONES, FUSE, GROWTH, SHARED, SNAPSHOTS})

    def __init__(self, folder):
        super().__init__(folder)
        self.cluster = None

    def check(self):
        driver.find("cephcsi")
        try:
            ceph.unpacked(ceph.PACKAGES | ceph.MANAGER_PACKAGES)
        except ceph.Missing as missing:
            raise driver.Missing(str(missing)) from None

    def version(self):
        return programs.version_of(driver.find("cephcsi"))

    def begin(self):
        self.cluster = ceph.CephCluster(self.folder / "ceph", manager=True).start()
        self.cluster.ask('{"prefix": "fs subvolumegroup create", "vol_name": "fs", "group_name": "csi"}', "mgr")
        (self.folder / "config.json").write_text(json.dumps([
            {"clusterID": CLUSTER, "monitors": [self.cluster.monitor], "cephFS": {"subvolumeGroup": "csi"}}]))

    def end(self):
        if self.cluster is not None:
            self.cluster.stop()

    def command(self, socket, kubelet):
        return ["unshare", "--mount", "--propagation", "unchanged", "sh", "-c", IN_OWN_ETC, "sh", self.folder, kubelet,
                driver.find("cephcsi"), "--type=cephfs", "--controllerserver", "--nodeserver", f"--endpoint=unix://{socket}",
                f"--nodeid={NODE}", f"--drivername={self.name}", f"--pluginpath={kubelet}/plugins",
                f"--stagingpath={kubelet}/plugins/kubernetes.io/csi", f"--csi-addons-endpoint=unix://{self.folder}/addons.sock", "--v=4"]

    def environment(self):
        return {"PATH": self.cluster.path_with_ceph_fuse(), "LD_LIBRARY_PATH": self.cluster.environment["LD_LIBRARY_PATH"]}

    def parameters(self):
        return {"clusterID": CLUSTER, "fsName": "fs", "mounter": "fuse"}

    def snapshot_parameters(self):
        return {"clusterID": CLUSTER}

    def secrets(self):
        key = self.cluster.keys["client.admin"]
        return {"adminID": "admin", "adminKey": key, "userID": "admin", "userKey": key}

    def left(self):
        answer = self.cluster.ask('{"prefix": "fs subvolume ls", "vol_name": "fs", "group_name": "csi", "format": "json"}', "mgr")
        return [each["name"] for each in json.loads(answer)]
