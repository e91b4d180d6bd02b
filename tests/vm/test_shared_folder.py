"""A folder of images on an NFS server: two nodes and the server are a machine each. Nobody writes to an image while
another node may, whatever power or network do."""
import concurrent.futures
import pathlib
import re
import shutil
import tempfile

import pytest
from lib import vm

pytestmark = [pytest.mark.vm, pytest.mark.security]

SECONDS = 300
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


@pytest.fixture
def machines():
    """The server, node one and node two."""
    why = vm.available()
    if why:
        pytest.skip(f"skipped: no virtual machine: {why}")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="vm-", dir="/var/tmp"))
    made = []
    for name in ("server", "one", "two"):
        (folder / name).mkdir()
        machine = vm.Machine(folder / name)
        machine.files["shared_folder.sh"] = pathlib.Path(__file__).parent / "shared_folder.sh"
        made.append(machine)
    for number, node in enumerate(made[1:], start=1):
        ends = folder / f"{number}.server", folder / f"{number}.node"
        made[0].add_cable(f"52:54:00:00:0{number}:01", ends[0], ends[1])
        node.add_cable(f"52:54:00:00:0{number}:02", ends[1], ends[0])
    yield made
    shutil.rmtree(folder)


def run_all(machines, scripts, cut_at=None):
    """Runs a script on each machine at the same time, and gives their results. `cut_at` is what node one says when
    its power goes."""
    def run(machine, script, cut_at):
        try:
            return machine.run(script, seconds=SECONDS, cut_at=cut_at, check=False)
        except vm.Failure as failure:
            return failure

    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        runs = [pool.submit(run, machine, script, cut_at if number == 1 else None)
                for number, (machine, script) in enumerate(zip(machines, scripts))]
        results = [run.result() for run in runs]
    told = "\n".join(f"-- {name}: {result}" for name, result in zip(("server", "one", "two"), results))
    assert not any(isinstance(result, vm.Failure) for result in results), told
    return results, told


def test_a_node_without_power_loses_its_lock_and_the_other_one_goes_on(machines):
    one = ONE + f"""
    ({TEST}OneNodeWritesUntilItIsShutOut || touch $STEPS/failed) &
    until_true 'the other node' '[ -e $STEPS/two-saw-one ]'
    echo "the power goes"
    sleep 600
    """
    results, told = run_all(machines, [SERVE, one, TWO + TAKE_OVER], cut_at="the power goes")
    assert [result.code for result in results] == [0, None, 0], told
    assert "told: two-took-over" in results[2].output, told


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
    results, told = run_all(machines, [server, one, "export RETURNS=yes\n" + TWO + TAKE_OVER])
    assert [result.code for result in results] == [0, 0, 0], told
    assert "told: one-was-shut-out" in results[1].output, told
    assert "blocks of one: 0\n" in results[0].output and "blocks of two: 16\n" in results[0].output, told


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
                         "sh ./refused.sh local_lock=posix\n", seconds=200)
    assert result.output.count("[  PASSED  ] 1 test.") == 3, result.output
    assert re.search(r" - nfs 127.0.0.1:/srv .*local_lock=posix", result.output), result.output
