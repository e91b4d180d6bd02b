"""Disks of a network as in-tree volumes: a LUN of a real iSCSI target, and an image of a real Ceph cluster. The kernel's part and the
utilities of the mount pods' images run in the virtual machine; modprobe loads the kernel's modules from an image that has none."""
import re
import subprocess

import pytest
from lib import debian_root, mount_pods
from lib.ceph import Missing
from lib.rbd import MIB, POOL, RbdCluster
from lib.vm.iscsi import SERVE_TARGET, TARGET

pytestmark = pytest.mark.vm

# $image: the root of the mount pod's container. Its utilities are found in PATH. The script's `sh` is the machine's.
ENTER_THE_IMAGE = """
set -e
image=/mnt
mount /dev/disk/image $image
mkdir -p $image/lib/modules
for folder in proc sys dev run tmp lib/modules; do mount --rbind /$folder $image/$folder; done
mount -o remount,bind,ro $image/lib/modules
for program in rbd iscsiadm modprobe; do
  printf '#!/bin/sh\\nexec chroot %s %s "$@"\\n' $image $program >/usr/local/bin/$program
  chmod 755 /usr/local/bin/$program
done
"""

SERVE_ISCSI = SERVE_TARGET + f"""
mkdir -p /etc/iscsi /run/lock/iscsi && mount --bind $image/etc/iscsi /etc/iscsi
echo InitiatorName=iqn.2026-01.dev.berth:vm >/etc/iscsi/initiatorname.iscsi
modprobe -a iscsi_tcp sd_mod
serve_target $image 64M
$adm --op new --mode account --user me --password correct-horse
$adm --op bind --mode account --tid 1 --user me
chroot $image iscsid
export PORTAL=127.0.0.1 TARGET={TARGET}
"""

NETWORK = """
modprobe virtio_net
ip addr add 10.0.2.15/24 dev eth0 && ip link set eth0 up && ip route add default via 10.0.2.2
"""


def passed(output):
    assert "[  SKIPPED ]" not in output, output
    match = re.search(r"\[  PASSED  \] (\d+) tests?\.", output)
    assert match, output
    return int(match[1])


def add_image(machine, names, size):
    """Adds a disk with the root file system of a mount pod, as /dev/disk/image."""
    try:
        root = debian_root.cached(names)
    except debian_root.Missing as missing:
        pytest.skip(str(missing))
    disk = machine.add_disk("image", size)
    subprocess.run(["mke2fs", "-q", "-t", "ext4", "-d", root, disk.path], check=True)


@pytest.fixture
def cluster(tmp_path):
    made = RbdCluster(tmp_path / "ceph")
    try:
        yield made.start()
    except Missing as missing:
        pytest.skip(str(missing))
    finally:
        made.stop()


def test_a_lun_of_an_iscsi_target_is_a_volume(machine):
    add_image(machine, [*mount_pods.packages("iscsi"), "tgt"], "512M")
    result = machine.run(ENTER_THE_IMAGE + SERVE_ISCSI + "berth_volume_remote_vm_test --gtest_filter='IscsiDiskTest.*'")
    assert passed(result.output) == 3


def test_an_image_of_a_ceph_pool_is_a_volume(machine, cluster):
    cluster.rbd(f"rbd.RBD().create(io, 'data', {64 * MIB})")
    add_image(machine, mount_pods.packages("rbd"), "1G")
    machine.add_host_network()
    environment = f"export MONITOR={cluster.monitor} POOL={POOL} IMAGE=data CEPH_USER=plain KEY={cluster.users['plain']}\n"
    result = machine.run(ENTER_THE_IMAGE + NETWORK + environment +
                         "berth_volume_remote_vm_test --gtest_filter='RbdDiskTest.*'")
    assert passed(result.output) == 2
    # The magic number of ext4 is in the image, where the cluster itself sees it.
    assert cluster.rbd("with rbd.Image(io, 'data', read_only=True) as image: print(image.read(1080, 2).hex())") == "53ef\n"
