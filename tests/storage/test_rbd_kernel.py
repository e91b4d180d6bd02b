"""The kernel's driver (krbd) of a virtual machine writes to an image of the real cluster. The machine is frozen, its node
is fenced, another one gets the image; the machine wakes up and writes not one byte more."""
import re
import signal
import time

import pytest
from lib.rbd import POOL, letters

pytestmark = [pytest.mark.storage, pytest.mark.vm]

# Writes one block after the other, as long as that works.
WRITE = """
set -e
modprobe virtio_net
ip address add 10.0.2.15/24 dev eth0
ip link set eth0 up
ip route add default via 10.0.2.2
modprobe rbd single_major=Y
cat request >/sys/bus/rbd/add_single_major
echo "client: $(cat /sys/bus/rbd/devices/0/client_addr)"
tr '\\000' k </dev/zero | head -c 4096 >/tmp/block
block=0
while dd if=/tmp/block of=/dev/rbd0 bs=4096 count=1 seek=$block oflag=direct conv=notrunc 2>/run/said; do
  echo "wrote $block."
  block=$((block + 1))
  sleep 0.2
done
echo "refused: $(cat /run/said)"
echo "0 force" >/sys/bus/rbd/remove_single_major
[ -z "$(ls /sys/bus/rbd/devices)" ]
echo unmapped
sleep 600
"""
# More blocks than the machine writes before it is frozen.
BLOCKS = 1000


@pytest.fixture
def machine(machine, ceph, image):
    """A machine that will map the test's image."""
    machine.add_host_network()
    machine.files["request"] = (f"{ceph.monitor} name=berth,secret={ceph.users['berth']},noshare,exclusive,mount_timeout=30 "
                                f"{POOL} {image} -\n")
    return machine


@pytest.mark.parametrize("noted", [True, False], ids=["noted", "died-before-its-note"])
def test_a_frozen_kernel_that_was_fenced_writes_not_one_byte_more(ceph, image, machine, serve, noted):
    """Without a note, the fence finds the kernel's client by the intent."""
    ceph.call("noteHolder", node="n1", image=image, program="krbd", address="")
    with machine.running(WRITE) as output:
        assert output.wait("wrote 3.", time.monotonic() + 120) == "cut", output.text
        client = re.search(r"client: (\S+)", output.text)[1]
        if noted:
            ceph.call("noteHolder", node="n1", image=image, program="krbd", address=client)
        [holder] = ceph.call("holders", node="n2", image=image)["holders"]
        assert (holder["node"], holder["address"], holder["alive"]) == ("n1", client, True)
        assert serve("n2").failure()["code"] == "FAILED_PRECONDITION"
        machine.signal(signal.SIGSTOP)
        listed = ceph.call("fenceTargets", node="n2", image=image, target="n1")["addresses"]
        assert client in listed
        assert ceph.call("fence", node="n2", image=image, target="n1", addresses=listed)["addresses"] == [client]
        written = letters(ceph, image, BLOCKS)
        assert written.startswith("kkkk") and written.endswith("....")
        serve("n2").start().write_block(BLOCKS, b"n")
        machine.signal(signal.SIGCONT)
        assert output.wait("refused:", time.monotonic() + 120) == "cut", output.text
        assert letters(ceph, image, BLOCKS + 1) == written + "n"
        # What is left of the device can be taken off, as after each fence.
        assert output.wait("unmapped", time.monotonic() + 120) == "cut", output.text
