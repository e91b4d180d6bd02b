"""The C++ tests of mounted file systems run where root has all capabilities, so that none of them is skipped."""
import re
import subprocess

import pytest
from lib import debian_root, mount_pods, postgres
from lib.vm.nfs import SERVE_NFS

pytestmark = pytest.mark.vm


def passed(output):
    assert "[  SKIPPED ]" not in output, output
    match = re.search(r"\[  PASSED  \] (\d+) tests?\.", output)
    assert match, output
    return int(match[1])


def add_image(machine, names, size):
    """Adds a disk with a root file system of these packages, as /dev/disk/image."""
    try:
        root = debian_root.cached(names)
    except debian_root.Missing as missing:
        pytest.skip(str(missing))
    disk = machine.add_disk("image", size)
    subprocess.run(["mke2fs", "-q", "-t", "ext4", "-d", root, disk.path], check=True)


def test_a_mounted_volume_grows_whatever_its_file_system(machine):
    result = machine.run("berth_platform_root_test --gtest_filter='*GrowsWhileItIsMounted/*'")
    assert passed(result.output) == 3  # ext4, xfs, btrfs


def test_a_mounted_local_disk_grows_whatever_its_file_system(machine):
    result = machine.run("berth_volume_remote_root_test --gtest_filter='*GrowsWithItsDevice/*'")
    assert passed(result.output) == 3  # ext4, xfs, btrfs


GROW = """
. ./berth.sh
start
claim data
berth mount data /mnt/claim
echo precious >/mnt/claim/file
claim data local 64Mi
until_true 'the file system to grow' '[ "$(df -k /mnt/claim | awk "END { print \\$2 }")" -gt 50000 ]'
cat /mnt/claim/file
"""


def test_a_mounted_claim_that_asks_for_more_grows(node):
    assert node.run(GROW).output.endswith("precious\n")


def test_a_dead_nfs_server_hangs_nothing_but_its_mount(machine):
    result = machine.run(SERVE_NFS + "berth_platform_vm_test --gtest_filter='DeadNfsTest.*'")
    assert passed(result.output) == 4


@pytest.mark.security
def test_a_raw_volume_with_the_uuid_of_anothers_btrfs_is_not_mounted_in_its_place(machine):
    steal = "modprobe btrfs; berth_platform_vm_test --gtest_filter='BtrfsTheftTest.*'"
    result = machine.run(steal)
    assert passed(result.output) == 2


# The server listens at two addresses. The last name has one at which it does not listen, which the resolver puts first, and
# one at which it does.
NAME_NFS = """
exportfs -o rw,no_root_squash,insecure,fsid=0,no_subtree_check '[::1]:/srv/nfs'
rpc.nfsd 0 && rpc.nfsd --no-nfs-version 3 -H 127.0.0.1 -H ::1 1
echo Y >/proc/fs/nfsd/v4_end_grace
ip addr add fd00::5/128 dev lo
printf '127.0.0.1 share4.example\\n::1 share6.example\\n127.0.0.1 share.example\\nfd00::5 share.example\\n' >>/etc/hosts
echo 'multi on' >/etc/host.conf
"""


def test_an_nfs_export_is_a_share_of_a_sandbox(machine):
    result = machine.run(SERVE_NFS + NAME_NFS + "berth_crust_vm_test --gtest_filter='NfsShareTest.*'")
    assert passed(result.output) == 5


def test_a_suspended_device_of_a_sandbox_is_named(machine):
    result = machine.run("modprobe dm-mod && berth_crust_vm_test --gtest_filter='SuspendedDeviceTest.*'")
    assert passed(result.output) == 2


def test_a_volume_of_a_sandbox_grows_though_it_is_ext4(machine):
    result = machine.run("berth_crust_vm_test --gtest_filter='ExtVolumeTest.*'")
    assert passed(result.output) == 1


RUN_A_DATABASE = """
set -e
mount /dev/disk/image /mnt
for folder in proc sys dev; do mkdir -p /mnt/$folder; mount --bind /$folder /mnt/$folder; done
mkdir -p /mnt/tmp /mnt/etc && cp /etc/passwd /mnt/etc
for name in sh grep; do cp /usr/bin/busybox /mnt/usr/bin/$name; done
berth_crust_vm_test --gtest_filter='DatabaseTest.*'
"""


def test_a_database_on_ext4_in_a_sandbox_grows_and_moves(machine):
    add_image(machine, postgres.PACKAGES, "768M")
    assert passed(machine.run(RUN_A_DATABASE).output) == 1


def test_an_nfs_export_is_a_volume(machine):
    result = machine.run(SERVE_NFS + "berth_volume_remote_vm_test --gtest_filter='NfsTest.*'")
    assert passed(result.output) == 2


# Runs as in the mount pod's container, whose root is its image.
MOUNT_FROM_THE_IMAGE = """
echo precious >/srv/nfs/file
mount /dev/disk/image /mnt
for folder in proc sys dev; do mount --bind /$folder /mnt/$folder; done
chroot /mnt mount -t nfs 127.0.0.1:/ /srv
findmnt -n -o FSTYPE,SOURCE /mnt/srv
cat /mnt/srv/file
echo more >/mnt/srv/more
chroot /mnt umount /srv
cat /srv/nfs/more
! findmnt /mnt/srv
"""


def test_an_nfs_export_is_mounted_by_the_mount_pods_image(machine):
    add_image(machine, mount_pods.packages("nfs"), "256M")
    output = machine.run(SERVE_NFS + MOUNT_FROM_THE_IMAGE).output
    assert re.search(r"^nfs4\s+127\.0\.0\.1:/\nprecious\nmore\n", output, re.MULTILINE), output
