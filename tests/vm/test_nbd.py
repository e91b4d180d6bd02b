"""A kernel NBD device, as block back ends make them."""
import re

import pytest

pytestmark = pytest.mark.vm

ATTACH = """
set -e
modprobe nbd nbds_max=1
truncate -s 64M /tmp/disk
attach() {
  nbdkit --pidfile /run/nbd.pid --unix /run/nbd.sock file /tmp/disk
  nbd-client -unix /run/nbd.sock /dev/nbd0 >/run/said 2>&1
}
attach
mkfs.ext4 -q /dev/nbd0
mount /dev/nbd0 /mnt
echo precious >/mnt/file
umount /mnt
nbd-client -d /dev/nbd0 >/run/said
kill $(cat /run/nbd.pid)
[ "$(blockdev --getsize64 /dev/nbd0)" = 0 ]
rm /run/nbd.sock
attach
mount /dev/nbd0 /mnt
echo "data: $(cat /mnt/file)"
"""

KILL_THE_SERVER = """
kill -KILL $(cat /run/nbd.pid)
set +e
timeout -s KILL 60 dd if=/dev/nbd0 of=/dev/null bs=4k skip=5000 count=1 iflag=direct; echo "read: $?"
timeout -s KILL 60 sh -c 'echo more >/mnt/more && sync /mnt/more'; echo "write: $?"
timeout -s KILL 60 umount /mnt; echo "unmount: $?"
timeout -s KILL 60 nbd-client -d /dev/nbd0 >/run/said; echo "disconnect: $?"
"""


def test_a_device_keeps_its_data_and_gives_errors_when_its_server_dies(machine):
    output = machine.run(ATTACH + KILL_THE_SERVER).output
    assert "data: precious\n" in output
    assert "Input/output error" in output, output
    # The shell's own exit code is 2 if the file could not even be made. A process that hangs is killed.
    assert "read: 1\n" in output and re.search("write: [12]\n", output), output
    assert "unmount: 0" in output and "disconnect: 0" in output, output


def test_a_back_end_maps_exports_by_the_kernels_client(machine):
    result = machine.run("berth_block_vm_test --gtest_filter=-SharedFolderTest.*")
    assert "[  SKIPPED ]" not in result.output, result.output
    assert "[  PASSED  ] 5 tests." in result.output, result.output
