"""A kernel NBD device, as block back ends make them."""
import pytest

pytestmark = pytest.mark.vm

SERVED_AND_MOUNTED = """
set -e
modprobe nbd nbds_max=1
truncate -s 64M /tmp/disk
nbdkit --pidfile /run/nbd.pid --unix /run/nbd.sock file /tmp/disk
nbd-client -unix /run/nbd.sock /dev/nbd0
mkfs.ext4 -q /dev/nbd0
mount /dev/nbd0 /mnt
echo precious >/mnt/file
sync
"""

DISCONNECTED = """
umount /mnt
nbd-client -d /dev/nbd0
[ "$(blockdev --getsize64 /dev/nbd0)" = 0 ]
mount -o loop,ro /tmp/disk /mnt
cat /mnt/file
"""

SERVER_KILLED = """
kill -KILL $(cat /run/nbd.pid)
set +e
timeout -s KILL 60 dd if=/dev/nbd0 of=/dev/null bs=4k skip=5000 count=1 iflag=direct; echo "read: $?"
timeout -s KILL 60 sh -c 'echo more >/mnt/more && sync /mnt/more'; echo "write: $?"
timeout -s KILL 60 umount /mnt; echo "unmount: $?"
timeout -s KILL 60 nbd-client -d /dev/nbd0 >/dev/null; echo "disconnect: $?"
"""


def test_what_a_device_was_given_is_on_the_servers_disk(machine):
    assert machine.run(SERVED_AND_MOUNTED + DISCONNECTED).output.endswith("precious\n")


def test_a_device_whose_server_died_gives_errors_and_does_not_hang(machine):
    output = machine.run(SERVED_AND_MOUNTED + SERVER_KILLED, seconds=300).output
    assert "Input/output error" in output, output
    assert "read: 1" in output and "write: 1" in output, output
    assert "unmount: 0" in output and "disconnect: 0" in output, output
