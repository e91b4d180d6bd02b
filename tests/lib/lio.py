"""LIO, the iSCSI target of Linux's kernel, in a virtual machine. It is another program than tgtd (tgt.py), and has PREEMPT AND ABORT."""
import contextlib
import pathlib
import shutil
import tempfile
import time

import pytest
from lib import vm
from lib.tgt import TARGET, free_port
from lib.vm.machine import BOOT_SECONDS

FIRST_PORT = 3260
READY = "the target serves"
# A reset may wait for the answer of a node that is frozen or cut off until LIO gives that node up (nopin_timeout and
# nopin_response_timeout), in seconds.
LONGEST_RESET = 45

# serve NUMBER serves the disk "lunNUMBER" as LUN 1 of a portal of its own. LIO keeps the registrations of a node that has logged out
# only if it keeps what it knows of it.
SERVE = f"""
set -e
modprobe virtio_net
ip addr add 10.0.2.15/24 dev eth0 && ip link set eth0 up
modprobe -a target_core_mod target_core_iblock iscsi_target_mod
mountpoint -q /sys/kernel/config || mount -t configfs configfs /sys/kernel/config
target=/sys/kernel/config/target
mkdir -p /var/target/pr $target/core/iblock_0 $target/iscsi/{TARGET}
serve() {{
  disk=$target/core/iblock_0/lun$1
  group=$target/iscsi/{TARGET}/tpgt_$1
  mkdir $disk
  echo "udev_path=$(readlink -f /dev/disk/lun$1)" >$disk/control
  echo "berth$1" >$disk/wwn/vpd_unit_serial
  echo 1 >$disk/enable
  mkdir $group
  mkdir $group/lun/lun_1
  ln -s $disk $group/lun/lun_1/disk
  for attribute in generate_node_acls=1 cache_dynamic_acls=1 demo_mode_write_protect=0 authentication=0; do
    echo "${{attribute#*=}}" >"$group/attrib/${{attribute%=*}}"
  done
  mkdir "$group/np/0.0.0.0:$(({FIRST_PORT} + $1))"
  echo 1 >$group/enable
}}
"""


class LioUnit:
    """A LUN 1 of zeroes, with the members of a Tgt that tests of fences use."""

    def __init__(self, portal, disk):
        self.portal = portal
        self._disk = disk

    def data(self, _):
        return self._disk.content()


@contextlib.contextmanager
def running(count, size="16M"):
    """Gives a started Lio, or skips the test where there can be no machine."""
    if vm.available() is not None:
        pytest.skip(vm.available())
    folder = pathlib.Path(tempfile.mkdtemp(prefix="vm-", dir="/var/tmp"))
    made = Lio(folder, count, size)
    try:
        yield made.start()
    finally:
        made.stop()
        shutil.rmtree(folder)


class Lio:
    """Serves so many units of `size` bytes ("16M"), each to be taken once."""

    def __init__(self, folder, count, size="16M"):
        self._machine = vm.Machine(folder)
        self._power = contextlib.ExitStack()
        self._units = []
        forward = {}
        for number in range(count):
            port = free_port()
            forward[port] = FIRST_PORT + number
            self._units.append(LioUnit(f"127.0.0.1:{port}", self._machine.add_disk(f"lun{number}", size)))
        self._machine.add_host_network(forward=forward)

    def start(self):
        calls = "".join(f"serve {number}\n" for number in range(len(self._units)))
        output = self._power.enter_context(self._machine.running(f"{SERVE}{calls}echo {READY}; sleep 10000"))
        if output.wait(READY, time.monotonic() + BOOT_SECONDS) != "cut":
            raise vm.Failure(f"no target:\n{output.tail(60)}")
        return self

    def take(self):
        return self._units.pop()

    def stop(self):
        self._power.close()
        self._machine.close()
