"""A volume whose image the kernel's driver (krbd) of a virtual machine maps, from its claim to its deletion: what a block agent and an
operator do there, also when the agent dies."""
import json
import pathlib
import re
import signal
import time

import pytest
from lib.rbd import POOL
from lib.rbd_site import SECRET, USER
from lib.standalone import wait_for
from lib.storage_site import NAMESPACE
from lib.vm.machine import SCRIPT_SECONDS

pytestmark = [pytest.mark.storage, pytest.mark.vm]

SCRIPTS = pathlib.Path(__file__).parent.parent / "vm"
BEGIN = """
set -e
. ./shared_folder.sh
. ./block_agents.sh
. ./rbd_agent.sh
reach_ceph
"""
ALONE = BEGIN + """
export NODE=one STEPS=/run
serve_claim
make_pod one
start_agent
"""
FROM_CLAIM_TO_DELETION = ALONE + """
until_mounted
[ "$(devices)" = 1 ] && [ "$(mebibytes)" = 64 ]
grep -q "^/dev/rbd0 $MOUNT ext4 " /proc/mounts
! grep -r -q -F "$(cat ./key)" /sys/bus/rbd/devices /proc/mounts
echo precious >"$MOUNT/file" && sync

kill_agent
echo 'while no agent runs' >>"$MOUNT/file" && sync
start_agent
until_mounted
[ "$(devices)" = 1 ]

claim data 96Mi
until_event 'grows no image for others'
berth apply -f - <<YAML
apiVersion: storage.berth.dev/v1alpha1
kind: BlockSnapshot
metadata: {name: monday}
spec: {persistentVolumeClaimName: data}
YAML
until_event 'makes no snapshot for others'
echo "refused in use"
until_unmounted
until_unmapped
until_true 'the snapshot' 'berth get blocksnapshot monday -o json | grep -q "\\"readyToUse\\": *true"'
until_true 'the growth' 'berth get pv "$VOLUME" -o json | grep -q "\\"storage.berth.dev/image-size\\": *\\"96Mi\\""'
until_mounted
[ "$(mebibytes)" = 96 ]
cat "$MOUNT/file"
until_unmounted
until_unmapped
claim copy 96Mi monday
until_bound copy

berth delete pod on-one --grace-period=0 --wait=false
for one in data copy; do berth delete pvc $one; done
berth delete blocksnapshot monday
until_true 'the volumes to go' '! berth get pv | grep -q pvc-'
"""
DEATHS = ALONE + """
until_mounted
echo precious >"$MOUNT/file"
until_unmounted
for step in block.rbd_map.before block.rbd_map.after; do
  die_at $step mount_volume
  until_mounted
  [ "$(devices)" = 1 ]
  cat "$MOUNT/file"
  until_unmounted
  until_unmapped
done
for step in block.rbd_unmap.before block.rbd_unmap.after; do
  until_mounted
  die_at $step '$DRIVER unmount "$MOUNT" >/run/answer'
  until_unmounted
  until_unmapped
done
until_mounted
cat "$MOUNT/file"
berth delete storagecluster ceph --wait=false
until_unmapped
! cat "$MOUNT/file" 2>/run/said
"""
# The machine of the API is the NFS server of the files by which the machines wait for each other.
SERVER = BEGIN + """
serve
own_second_cable 52:54:00:01:01:01 10.1.1.1
own_second_cable 52:54:00:01:02:01 10.1.2.1
serve_claim
make_pod one
make_pod two
until_true 'node one to write' '[ -e $STEPS/one-wrote ]'
until_off 10.1.1.2
berth delete pod on-one --grace-period=0 --wait=false
berth delete node one
touch $STEPS/one-is-lost
sleep 600
"""
ONE = BEGIN + """
join one 1 52:54:00:00:01:02
reach_api 1
start_agent
until_mounted
write_rounds
touch $STEPS/one-was-refused
echo "refused: $(cat /run/dd)"
sleep 600
"""
TWO = BEGIN + """
join two 2 52:54:00:00:02:02
reach_api 2
start_agent
until_true 'node one to be lost' '[ -e $STEPS/one-is-lost ]'
until_mounted
print_writers $MOUNT/blocks
write_round 1
echo "two wrote"
until_true 'node one to be refused' '[ -e $STEPS/one-was-refused ]'
echo 3 >/proc/sys/vm/drop_caches
print_writers $MOUNT/blocks
echo "two has read"
"""


@pytest.fixture
def machine(machine, ceph):
    return equip(machine, ceph)


@pytest.fixture
def machines(machines, ceph):
    return {name: equip(machine, ceph) for name, machine in machines.items()}


def equip(machine, ceph):
    """Gives a machine what a node and an API need of the cluster."""
    machine.memory = "1536M"
    machine.add_host_network("10.9.0")  # no network of shared_folder.sh
    machine.files |= {name: SCRIPTS / name for name in ("shared_folder.sh", "block_agents.sh", "rbd_agent.sh")}
    key = ceph.users[USER]
    machine.files["key"] = key
    machine.files["objects"] = "\n---\n".join(map(json.dumps, [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}},
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": SECRET, "namespace": NAMESPACE}, "stringData": {"key": key}},
        {"apiVersion": "storage.berth.dev/v1alpha1", "kind": "StorageCluster", "metadata": {"name": "ceph"},
         "spec": {"backend": {"rbd": {"monitors": [ceph.monitor], "pool": POOL, "user": USER, "access": "Kernel",
                                      "secretRef": {"name": SECRET, "namespace": NAMESPACE}}}}},
        {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "ceph"}, "provisioner": "block.berth.dev",
         "allowVolumeExpansion": True, "parameters": {"cluster": "ceph", "csi.storage.k8s.io/fstype": "ext4"}}]))
    return machine


def images(ceph):
    return [image["name"] for image in ceph.call("list")["images"] if image["name"].startswith("pvc-")]


def test_from_the_claim_to_its_deletion(ceph, machine):
    others = images(ceph)
    said = machine.run(FROM_CLAIM_TO_DELETION).output
    assert "refused in use\n" in said
    assert "precious\nwhile no agent runs\n" in said
    wait_for("the images to be gone", lambda: images(ceph) == others)


def test_the_agent_dies_at_each_step_of_a_map_and_of_an_unmap(ceph, machine):
    said = machine.run(DEATHS).output
    assert said.count("precious\n") == 3
    for step, devices in (("block.rbd_map.before", 0), ("block.rbd_map.after", 1), ("block.rbd_unmap.before", 1),
                          ("block.rbd_unmap.after", 0)):
        assert f"died at {step} with {devices} devices\n" in said


def test_a_paused_machine_writes_nothing_once_it_goes_on(machines):
    """Its Node is deleted meanwhile, and the agent of another machine fences its kernel's client."""
    def until(output, text):
        assert output.wait(text, time.monotonic() + SCRIPT_SECONDS) == "cut", f"{text}:\n" + "\n".join(one.tail(40) for one in told)

    with machines["server"].running(SERVER) as server, machines["one"].running(ONE) as one, machines["two"].running(TWO) as two:
        told = (server, one, two)
        until(one, "one synced round 3")
        machines["one"].signal(signal.SIGSTOP)
        until(two, "two wrote")
        machines["one"].signal(signal.SIGCONT)
        until(one, "refused: ")
        until(two, "two has read")
    before, after = two.text.split("two wrote")
    assert "by one in round" in before and "by two" not in before
    assert re.findall(r"blocks: *(\d+) by (\w+) in round (\d+)", after) == [("16", "two", "1")]
