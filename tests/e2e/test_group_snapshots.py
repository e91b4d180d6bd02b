"""Group snapshots of the shipped driver: snapshots of several claims, taken at one moment, by manifests as kubectl's users
write them."""
import pytest
from lib import objects
from lib.ended_pods import run_to_end
from lib.standalone import wait_for

pytestmark = [pytest.mark.csi, pytest.mark.e2e]

NAMES = ("one", "two")


@pytest.fixture
def bed(berth, leak_free):
    """Makes a class. Afterwards no snapshot may be left, in the API or in the pool."""
    berth.apply(objects.group_class("gone"))
    yield berth
    berth.remove_everything()
    berth.delete("volumegroupsnapshotclass", "gone")
    assert not berth.items("volumesnapshotcontents")
    pool = berth.data / "pool"
    assert not list(pool.rglob("*.img")) and not list((pool / "groups").iterdir()), "something is left in the pool"


def run(berth, name, script, claims):
    """Runs a pod on the claims, deletes it, and gives its output."""
    _, output = run_to_end(berth, objects.pod(name, script, claims))
    berth.run("delete", "pod", name)
    return output


def take(berth, name):
    """Takes a group snapshot of the labelled claims, and gives it with the names of its snapshots by claim."""
    berth.apply(objects.group_snapshot(name, "gone", app="shop"))

    def ready():
        item = berth.get("volumegroupsnapshots", name)
        return item if item.get("status", {}).get("readyToUse") else None
    group = wait_for("the group to be ready", ready)

    def members():
        found = {item["spec"]["source"]["persistentVolumeClaimName"]: item["metadata"]["name"]
                 for item in berth.items("volumesnapshots") if item.get("status", {}).get("readyToUse")}
        return found if set(NAMES) <= found.keys() else None
    return group, wait_for("its snapshots to be ready", members)


def test_both_claims_of_a_group_are_restored_as_they_were_at_one_moment(bed):
    for name in NAMES:
        bed.apply(objects.labelled(objects.claim(name), app="shop"))
    bed.apply(objects.claim("other"))
    run(bed, "prepares", "for v in one two; do echo 0 > /$v/count; done; sync", list(NAMES))
    # The first volume has the count of the second one, or one more, at each moment.
    count = 'i=1; while true; do for v in one two; do echo $i > /$v/new && mv /$v/new /$v/count && sync; done; i=$((i+1)); done'
    bed.apply(objects.pod("counts", count, list(NAMES)))
    bed.wait_phase("pods", "counts", "Running")
    group, snapshots = take(bed, "monday")
    assert "other" not in snapshots
    content = bed.get("volumegroupsnapshotcontents", group["status"]["boundVolumeGroupSnapshotContentName"])
    assert content["status"]["volumeGroupSnapshotHandle"]
    bed.run("delete", "pod", "counts", "--grace-period", "1")
    for name in NAMES:
        bed.apply(objects.claim(f"{name}-copy", dataSource={"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot",
                                                            "name": snapshots[name]}))
    first, second = run(bed, "reads", "cat /one-copy/count /two-copy/count", [f"{name}-copy" for name in NAMES]).split()
    assert int(first) - int(second) in (0, 1), f"they are of different moments: {first} and {second}"
    # The group goes as a whole, and takes its snapshots with it.
    bed.run("delete", "volumegroupsnapshot", "monday")
    bed.wait_gone("volumegroupsnapshotcontents", content["metadata"]["name"])
    for name in snapshots.values():
        bed.wait_gone("volumesnapshots", name)
