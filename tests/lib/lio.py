"""LIO, the iSCSI target of Linux's kernel, in a virtual machine. It is another program than tgtd (tgt.py)."""
import contextlib
import time

from lib import vm
from lib.tgt import TARGET, free_port
from lib.vm.machine import BOOT_SECONDS

PORT = 3260
READY = "the target serves"

# Serves the disk "lun" as LUN 1. LIO keeps the registrations of a node that has logged out only if it keeps what it knows of it.
SERVE = f"""
set -e
modprobe virtio_net
ip addr add 10.0.2.15/24 dev eth0 && ip link set eth0 up
modprobe -a target_core_mod target_core_iblock iscsi_target_mod
mountpoint -q /sys/kernel/config || mount -t configfs configfs /sys/kernel/config
disk=/sys/kernel/config/target/core/iblock_0/lun
group=/sys/kernel/config/target/iscsi/{TARGET}/tpgt_1
mkdir -p /var/target/pr $disk
echo "udev_path=$(readlink -f /dev/disk/lun)" >$disk/control
echo berth1 >$disk/wwn/vpd_unit_serial
echo 1 >$disk/enable
mkdir -p $group
mkdir $group/lun/lun_1
ln -s $disk $group/lun/lun_1/disk
for attribute in generate_node_acls=1 cache_dynamic_acls=1 demo_mode_write_protect=0 authentication=0; do
  echo "${{attribute#*=}}" >"$group/attrib/${{attribute%=*}}"
done
mkdir $group/np/0.0.0.0:{PORT}
echo 1 >$group/enable
echo {READY}
sleep 10000
"""


class Lio:
    """Serves LUN 1, of 16 MiB of zeroes, at `portal`."""

    def __init__(self, folder):
        port = free_port()
        self.portal = f"127.0.0.1:{port}"
        self._machine = vm.Machine(folder)
        self._disk = self._machine.add_disk("lun", "16M")
        self._machine.add_host_network(forward={port: PORT})
        self._power = contextlib.ExitStack()

    def start(self):
        output = self._power.enter_context(self._machine.running(SERVE))
        if output.wait(READY, time.monotonic() + BOOT_SECONDS) != "cut":
            raise vm.Failure(f"no target:\n{output.tail(60)}")
        return self

    def content(self):
        return self._disk.content()

    def stop(self):
        self._power.close()
        self._machine.close()
