"""Block agents on two nodes, an API, and a folder of images on an NFS server: the nodes and the server are a machine
each. Nobody writes to a volume while another node may, whatever power, network or people do."""
import json
import pathlib
import re

import pytest
from lib import block_agent, vm
from test_shared_folder import SERVE_NFS_3

pytestmark = [pytest.mark.vm, pytest.mark.security]

FUNCTIONS = pathlib.Path(__file__).parent / "block_agents.sh"
BEGIN = "set -e\n. ./shared_folder.sh\n. ./block_agents.sh\n"
ONE = BEGIN + """
join one 1 52:54:00:00:01:02
reach_api 1
start_agent
until_mounted
"""
TWO = BEGIN + """
join two 2 52:54:00:00:02:02
reach_api 2
start_agent
until_true 'node one to be lost' '[ -e $STEPS/one-is-lost ]'
"""
SERVE = BEGIN + """
serve
serve_api
until_true 'node one to write' '[ -e $STEPS/one-wrote ]'
"""


@pytest.fixture
def machines(machines):
    for machine in machines.values():
        machine.files["block_agents.sh"] = FUNCTIONS
    return machines


def blocks(output):
    """Gives who wrote how many blocks of the image, and in which round."""
    found = re.findall(r"^blocks: *(\d+) by (\w+) in round (\d+)$", output, re.MULTILINE)
    return {(name, int(number)): int(count) for count, name, number in found}


def test_a_node_without_the_api_keeps_its_volume_until_its_power_goes(machines):
    server = SERVE + """
    ip link set "$(device_of 52:54:00:01:01:01)" down
    berth delete pod on-one --grace-period=0 --wait=false
    berth delete node one
    touch $STEPS/one-is-lost
    until_true 'the end' '[ -e $STEPS/done ]'
    berth get events
    until_off 10.0.2.2
    """
    one = ONE + """
    write_rounds &
    until_true 'the refusal of the other node' '[ -e $STEPS/two-was-refused ]'
    before=$(cat /run/rounds)
    until_true 'more rounds' '[ $(cat /run/rounds) -gt $((before + 1)) ]'
    echo "the power goes"
    sleep 600
    """
    two = TWO + """
    until_refused 'still holds a lock of the image'
    touch $STEPS/two-was-refused
    until_mounted
    print_writers $MOUNT/blocks
    write_round 1
    touch $STEPS/done
    """
    results, told = vm.run_together(machines, {"server": server, "one": one, "two": two},
                                    cut_at=("one", "the power goes"))
    assert [result.code for result in results.values()] == [0, None, 0], told
    assert "drops the lock of a dead node when it has not heard of the node" in results["two"].output, told
    assert "FenceBroken" in results["server"].output, told
    synced = int(re.findall(r"one synced round (\d+)", results["one"].output)[-1])
    found = blocks(results["two"].output)
    assert sum(found.values()) == 16 and all(name == "one" and n >= synced for name, n in found), told


# What is cut, and what has happened when it returns. A person vouches meanwhile that the node is off.
@pytest.mark.parametrize("cable, refused, until", [
    ("00", "", "two-took-over"),  # its files: its lock lapses at the server
    ("01", "until_refused 'locked by another holder.*lease time'", "two-was-refused"),  # the API: its lock stays
], ids=["files", "api"])
def test_a_node_that_is_taken_for_dead_and_returns_writes_nothing_more(machines, cable, refused, until):
    server = SERVE + f"""
    device="$(device_of 52:54:00:{cable}:01:01)"
    ip link set $device down
    berth delete pod on-one --grace-period=0 --wait=false
    berth apply -f - <<YAML
apiVersion: v1
kind: Node
metadata: {{name: one}}
spec: {{taints: [{{key: node.kubernetes.io/out-of-service, value: nodeshutdown, effect: NoExecute}}]}}
YAML
    touch $STEPS/one-is-lost
    until_true {until} '[ -e $STEPS/{until} ]'
    ip link set $device up
    until_true 'the other node' '[ -e $STEPS/two-took-over ]'
    until_true 'node one to be shut out' '[ -e $STEPS/one-was-shut-out ]'
    until_true 'node one to have detached the volume' '! berth get nodecleanup one >/run/said 2>&1'
    print_writers /srv/images/*[0-9a-f]
    berth get volumefence
    touch $STEPS/done
    until_off 10.0.1.2
    until_off 10.0.2.2
    """
    one = ONE + """
    write_rounds
    touch $STEPS/one-was-shut-out
    until_true 'the end' '[ -e $STEPS/done ]'
    """
    two = TWO + f"""
    {refused}
    touch $STEPS/two-was-refused
    until_mounted
    write_round 1
    touch $STEPS/two-took-over
    until_true 'the end' '[ -e $STEPS/done ]'
    """
    results, told = vm.run_together(machines, {"server": server, "one": one, "two": two})
    assert [result.code for result in results.values()] == [0, 0, 0], told
    assert blocks(results["server"].output) == {("two", 1): 16}, told


REFUSED = """
mount -i -t nfs -o vers=3,proto=tcp,port=2049,mountproto=tcp,mountport=20048,addr=127.0.0.1,nolock 127.0.0.1:/srv /berth
start_api
berth apply -f ./objects
until_true 'the claim to be bound' 'berth get pvc data | grep -q Bound'
make_pod one
start_agent
until_refused 'mounted with nolock'
until_true 'the phase' 'berth get storagecluster main | grep Failed'
until_true 'the event' 'berth get events | grep LocksNotShared'
berth get storagecluster main -o yaml
berth get volumefences
"""


def test_the_agent_and_the_operator_refuse_a_folder_on_nfs_without_locks(machine):
    machine.files |= {name: pathlib.Path(__file__).parent / name for name in ("shared_folder.sh", "block_agents.sh")}
    objects = [block_agent.storage_cluster("main", "/berth/images"), *block_agent.volume("data", "main")]
    machine.files["objects"] = '\n---\n'.join(map(json.dumps, objects))
    # What shared_folder.sh traps and names is for a folder that exists.
    said = machine.run(SERVE_NFS_3 + BEGIN + "STEPS=/run\n" + REFUSED).output
    assert said.count("no other node sees a lock of this node: mount it with vers=4") >= 3, said
    assert "node 'one' cannot use its volumes" in said, said
    assert "No resources found" in said, said
