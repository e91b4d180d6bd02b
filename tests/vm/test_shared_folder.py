"""A folder of images on an NFS server: two nodes and the server are a machine each. Nobody writes to an image while
another node may, whatever power or network do."""
import re

import pytest
from lib import vm

pytestmark = [pytest.mark.vm, pytest.mark.security]

BEGIN = "set -e\n. ./shared_folder.sh\n"
TEST = "berth_block_vm_test --gtest_filter=SharedFolderTest."
SERVE = BEGIN + """
serve
until_true 'the end' '[ -e $STEPS/done ]'
until_off 10.0.2.2
"""
ONE = BEGIN + "join one 1 52:54:00:00:01:02\n"
TWO = BEGIN + "join two 2 52:54:00:00:02:02\n"
TAKE_OVER = f"""
{TEST}TheOtherNodeTakesTheImageOver
touch $STEPS/done
"""


def test_a_node_without_power_loses_its_lock_and_the_other_one_goes_on(machines):
    one = ONE + f"""
    ({TEST}OneNodeWritesUntilItIsShutOut || touch $STEPS/failed) &
    until_true 'the other node' '[ -e $STEPS/two-saw-one ]'
    echo "the power goes"
    sleep 600
    """
    results, told = vm.run_together(machines, {"server": SERVE, "one": one, "two": TWO + TAKE_OVER}, cut_at=("one", "the power goes"))
    assert [result.code for result in results.values()] == [0, None, 0], told
    assert "told: two-took-over" in results["two"].output, told


def test_a_node_that_was_cut_off_writes_nothing_after_another_took_its_image(machines):
    # The network of node one alone is cut, at the server. The server looks into the image itself.
    server = BEGIN + """
    serve
    until_true 'both nodes' '[ -e $STEPS/two-saw-one ]'
    ip link set "$(device_of 52:54:00:00:01:01)" down
    until_true 'the other node' '[ -e $STEPS/two-took-over ]'
    ip link set "$(device_of 52:54:00:00:01:01)" up
    until_true 'the end' '[ -e $STEPS/done ]'
    until_off 10.0.2.2
    echo "blocks of one: $(grep -a -c 'one ' /srv/images/pvc-1)"
    echo "blocks of two: $(grep -a -o 'two [0-9]* ' /srv/images/pvc-1 | wc -l)"
    """
    one = ONE + f"{TEST}OneNodeWritesUntilItIsShutOut\n"
    results, told = vm.run_together(machines, {"server": server, "one": one, "two": "export RETURNS=yes\n" + TWO + TAKE_OVER})
    assert [result.code for result in results.values()] == [0, 0, 0], told
    assert "told: one-was-shut-out" in results["one"].output, told
    said = results["server"].output
    assert "blocks of one: 0\n" in said and "blocks of two: 16\n" in said, told


SERVE_NFS_3 = """
set -e
modprobe loop && modprobe nfsd && modprobe nfsv3 && modprobe nfsv4
mkdir -p /srv && mount -t tmpfs tmpfs /srv
mkdir -p /srv/images /berth /run/rpcbind && touch /etc/exports /var/lib/nfs/etab
echo '_rpc:x:101:65534::/:/bin/false' >>/etc/passwd
ln -s /run /var/run && rpcbind
for _ in $(seq 100); do [ ! -S /run/rpcbind.sock ] || break; sleep 0.1; done
mount -t nfsd nfsd /proc/fs/nfsd
exportfs -o rw,no_root_squash,insecure,fsid=0,no_subtree_check 127.0.0.1:/srv
rpc.mountd --port 20048
rpc.nfsd 2
export NODE=one FOLDER=/berth/images STEPS=/berth
"""
REFUSED = f"""
mount -i -t nfs -o vers=3,proto=tcp,port=2049,mountproto=tcp,mountport=20048,addr=127.0.0.1,$1 127.0.0.1:/srv /berth
grep ' /berth ' /proc/self/mountinfo
{TEST}AMountThatKeepsLocksToItselfIsRefused
umount /berth
"""


def test_a_folder_on_nfs_without_locks_is_refused(machine):
    machine.files["refused.sh"] = "set -e\n" + REFUSED
    result = machine.run(SERVE_NFS_3 + "sh ./refused.sh nolock\nsh ./refused.sh local_lock=all\n"
                         "sh ./refused.sh local_lock=posix\n")
    assert result.output.count("[  PASSED  ] 1 test.") == 3, result.output
    assert re.search(r" - nfs 127.0.0.1:/srv .*local_lock=posix", result.output), result.output
