"""Whatever rule a CSI driver breaks, Berth refuses the answer, reports it where a person looks, keeps the data, and
goes on when the driver keeps the rule again.

Each switch of the double (`csi_double --list`) has its test here or its reason in NOT_MET.
"""
import pathlib
import subprocess

import pytest
from lib import csi_double, mounts, objects
from lib.csi_bed import CLASS
from lib.standalone import wait_for

pytestmark = [pytest.mark.csifaults, pytest.mark.csi]

# Switches that Berth's calls never meet, or that harm nobody and can be seen only in the driver. The conformance
# suite catches them.
NOT_MET = {
    "create-ignores-missing": "Berth never leaves required fields out",
    "create-ignores-conflict": "Berth asks for a name with one size only; a smaller answer is capacity-below-required",
    "capacity-above-limit": "Berth sets no limit, as Kubernetes",
    "confirms-anything": "not called",
    "accepts-bad-token": "Berth gives back the tokens that it was given, and no others",
    "snapshot-of-nothing": "Berth holds the claim while its snapshot is taken: the volume is there",
    "attaches-anywhere": "Berth attaches to nodes by the id that their driver gave",
    "publish-context-changes": "Berth keeps the first answer in the VolumeAttachment and gives that one",
    "stage-ignores-conflict": "Berth stages a volume with one capability only",
    "stage-unknown": "Berth stages what exists",
    "publish-ignores-conflict": "Berth publishes at a target with one set of arguments only",
    "publish-unstaged": "Berth stages first: refused by the record and the mount table otherwise",
    "stats-negative": "no answer, as each with a negative number (free-negative); metrics are shown, nothing is done by them",
    "stats-of-elsewhere": "Berth asks for the paths at which it published",
    "delete-keeps": "the volume's space is lost in the driver, and no data",
    "detach-lies": "the driver's own fence holds the volume; Berth detaches only what is unmounted",
}

TESTED = set()


def rules(*names):
    """Marks a test as the test of these switches. For switches of one method the test names the method."""
    TESTED.update(names)
    return lambda function: function


def each(**expected):
    """Makes a test for each rule, with the words that a person should read."""
    TESTED.update(name.replace("_", "-") for name in expected)
    return pytest.mark.parametrize("rule, words", [(name.replace("_", "-"), words) for name, words in expected.items()],
                                   ids=[name.replace("_", "-") for name in expected])


def test_every_rule_is_met_or_has_its_reason():
    every = {rule[0].partition(":")[0] for rule in csi_double.rules()}
    tested = {name.partition(":")[0] for name in TESTED}
    assert tested | set(NOT_MET) == every
    assert not tested & set(NOT_MET)


def with_data(bed, name="data"):
    """Makes a claim of the double with a note in its volume, mounted nowhere, and gives the folder of its content."""
    bed.claim(name)
    volume = bed.bound(name)
    content = bed.content(volume["spec"]["csi"]["volumeHandle"])
    (content / "note").write_text("precious")
    return content


# -- answers of CreateVolume

@each(capacity_below_required="less than requested capacity", capacity_negative="is negative",
      empty_volume_id="no id", oversized_volume_id="longer than", oversized_context="larger than",
      invalid_utf8="cannot be read", wrong_topology="none of which was asked for")
def test_a_wrong_volume_is_refused(bed, rule, words):
    before = len(bed.double.volumes())
    bed.double.be_wrong(rule)
    bed.claim("data")
    bed.says("data", words)
    assert bed.berth.get("pvc", "data")["status"]["phase"] == "Pending"
    assert not bed.berth.items("pv")
    bed.double.be_wrong()
    bed.bound("data")
    assert len(bed.double.volumes()) == before + 1


@each(ignores_source="content source missing", other_source="content source")
def test_a_copy_that_is_none_is_refused(bed, rule, words):
    with_data(bed, "original")
    bed.double.be_wrong(rule)
    bed.claim("copy", dataSource={"kind": "PersistentVolumeClaim", "name": "original"})
    bed.says("copy", words)
    assert len(bed.berth.items("pv")) == 1
    bed.double.be_wrong()
    copy = bed.bound("copy")["spec"]["csi"]["volumeHandle"]
    assert (bed.content(copy) / "note").read_text() == "precious"


@rules("two-names-one-volume")
def test_a_volume_is_given_to_one_claim_only(bed):
    content = with_data(bed)
    owner = bed.bound("data")["metadata"]["name"]
    bed.double.be_wrong("two-names-one-volume")
    bed.claim("thief")
    bed.says("thief", f"belongs to PersistentVolume '{owner}'")
    # Deleting the claim does not delete the other claim's volume.
    bed.berth.run("delete", "pvc", "thief", "--no-wait")
    bed.double.be_wrong()
    bed.berth.wait_gone("pvc", "thief")
    assert content.name not in bed.double.calls("DeleteVolume")
    assert (content / "note").read_text() == "precious"
    # The driver may have made it a volume of its own before it was deleted, which goes after the claim.
    wait_for("the owner's volume to be the only one", lambda: [pv["metadata"]["name"] for pv in bed.berth.items("pv")] == [owner])


@rules("create-not-idempotent")
def test_a_claim_has_one_volume_however_many_were_made(bed):
    """Berth cannot know of the other volumes: the driver loses their space, but no data is lost."""
    bed.double.be_wrong("create-not-idempotent", "loses-answers:CreateVolume")
    bed.claim("data")
    wait_for("a second call", lambda: len(bed.double.calls("CreateVolume", "done")) > 1)
    bed.double.be_wrong("create-not-idempotent")
    content = bed.content(bed.bound("data")["spec"]["csi"]["volumeHandle"])
    (bed.mount("data") / "note").write_text("precious")
    assert (content / "note").read_text() == "precious"
    assert len(bed.berth.items("pv")) == 1


# -- capacity

@rules("free-negative")
def test_room_that_cannot_be_is_not_published(bed):
    def published():
        return [c for c in bed.berth.items("csistoragecapacities", "kube-system") if c["storageClassName"] == "late-double"]

    bed.double.be_wrong("free-negative")
    bed.berth.apply(objects.storage_class("late-double", provisioner=csi_double.NAME))
    bed.says("late-double", "'available_capacity' is negative")
    assert not published()
    bed.double.be_wrong()
    wait_for("the room to be published", published)


# -- snapshots

def snapshot(bed, name):
    """Makes a snapshot of claim 'data', and gives the name of its content once there is one."""
    bed.berth.apply([objects.snapshot_class("of-the-double", csi_double.NAME),
                     objects.snapshot(name, "data", "of-the-double")])
    return wait_for("a content", lambda: bed.berth.get("volumesnapshots", name).get("status", {}).get(
        "boundVolumeSnapshotContentName"))


def wait_ready(bed, name):
    wait_for(f"snapshot {name} to be ready", lambda: bed.berth.get("volumesnapshots", name)["status"]["readyToUse"])


@rules("snapshot-without-time")
def test_a_snapshot_of_no_time_has_that_of_its_answer(bed):
    """Berth accepts the snapshot, because it exists in the driver, and if it were refused nobody could delete it."""
    with_data(bed)
    bed.double.be_wrong("snapshot-without-time")
    content = snapshot(bed, "monday")
    bed.says(content, "creation_time is required")
    wait_ready(bed, "monday")
    assert bed.berth.get("volumesnapshots", "monday")["status"]["creationTime"]
    bed.berth.run("delete", "volumesnapshot", "monday")
    bed.berth.wait_gone("volumesnapshotcontents", content)
    assert not list((bed.double.data / "snapshots").iterdir())


@rules("endless-pages")
def test_of_pages_without_end_one_is_read(bed):
    bed.double.be_wrong("endless-pages")
    bed.berth.apply(objects.snapshot_content("by-hand", "snap-99", "imported", csi_double.NAME))
    bed.says("by-hand", "can not find snapshot", seconds=60)


@rules("snapshot-not-idempotent")
def test_a_content_has_one_snapshot_however_many_were_taken(bed):
    """Berth cannot know of the other snapshots: the driver loses their space, but no data is lost."""
    with_data(bed)
    bed.double.be_wrong("snapshot-not-idempotent", "loses-answers:CreateSnapshot")
    content = snapshot(bed, "monday")
    wait_for("a second call", lambda: len(bed.double.calls("CreateSnapshot", "done")) > 1)
    bed.double.be_wrong("snapshot-not-idempotent")
    wait_ready(bed, "monday")
    handle = bed.berth.get("volumesnapshotcontents", content)["status"]["snapshotHandle"]
    bed.double.be_wrong()
    kept = bed.double.data / "snapshots" / handle
    assert (kept / "note").read_text() == "precious"
    bed.berth.run("delete", "volumesnapshot", "monday")
    bed.berth.wait_gone("volumesnapshotcontents", content)
    assert not kept.exists()


# -- errors

@rules("error-without-message", "error-with-details", "unknown-code")
@pytest.mark.parametrize("switches, words", [(["error-without-message"], "OutOfRange"),
                                             (["error-with-details"], "more than is left"),
                                             (["unknown-code:CreateVolume"], "Unknown.*forty-two")],
                         ids=["error-without-message", "error-with-details", "unknown-code"])
def test_an_error_is_told_whatever_it_looks_like(bed, switches, words):
    bed.double.be_wrong(*switches)
    bed.claim("data", "64Mi" if "unknown-code:CreateVolume" in switches else "2Ti")
    bed.says("data", words)
    assert not bed.berth.items("pv")


# -- attaching and detaching, growing, deleting

def attachment_error(bed, field):
    return wait_for(f"a VolumeAttachment with {field}", lambda: [
        item["status"][field]["message"] for item in bed.berth.items("volumeattachments")
        if (item.get("status") or {}).get(field)])[0]


@rules("oversized-publish-context")
def test_an_attachment_without_measure_is_refused(bed):
    with_data(bed)
    bed.double.be_wrong("oversized-publish-context")
    bed.mount_fails("data")
    assert "larger than" in attachment_error(bed, "attachError")
    bed.double.be_wrong()
    assert (bed.mount("data") / "note").read_text() == "precious"


@rules("detach-twice-fails")
def test_a_detach_that_cannot_be_repeated_is_told(bed):
    content = with_data(bed)
    bed.mount("data")
    bed.double.be_wrong("loses-answers:ControllerUnpublishVolume", "detach-twice-fails")
    bed.umount("data")
    wait_for("a second try", lambda: len(bed.double.calls("ControllerUnpublishVolume", "failed")) > 0)
    assert attachment_error(bed, "detachError")
    bed.double.be_wrong()
    wait_for("the detachment", lambda: not bed.berth.items("volumeattachments"))
    assert (content / "note").read_text() == "precious"


@rules("attaches-twice")
def test_a_volume_is_attached_to_one_node_although_the_driver_would(bed):
    with_data(bed)
    bed.mount("data")
    bed.double.be_wrong("attaches-twice")
    bed.berth.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-b", "annotations": {
        "volumes.kubernetes.io/controller-managed-attach-detach": "true"}}})
    try:
        bed.berth.apply(objects.pod("elsewhere", "true", ["data"], nodeName="node-b"))
        bed.says("elsewhere", "Multi-Attach|exclusively attached")
        assert {item["spec"]["nodeName"] for item in bed.berth.items("volumeattachments")} == {"node-a"}
        assert bed.double.calls("ControllerPublishVolume")[-1] not in bed.double.calls("ControllerPublishVolume")[:-1]
    finally:
        bed.berth.run("delete", "pod", "elsewhere", "--grace-period", "0", "--wait=false")
        bed.berth.run("delete", "node", "node-b")


@each(expand_below="fewer than the 134217728 that were asked for", node_expand_below="has 1 bytes")
def test_a_growth_that_was_none_is_not_believed(bed, rule, words):
    with_data(bed)
    path = bed.mount("data")
    bed.double.be_wrong(rule)
    bed.claim("data", "128Mi")
    bed.says("data" if rule == "expand-below" else bed.host_mount("data"), words)
    assert bed.berth.get("pvc", "data")["status"]["capacity"]["storage"] == "64Mi"
    bed.double.be_wrong()
    wait_for("the growth", lambda: bed.berth.get("pvc", "data")["status"]["capacity"]["storage"] == "128Mi")
    assert (path / "note").read_text() == "precious"


@rules("deletes-in-use")
def test_a_volume_in_use_is_not_deleted_although_the_driver_would(bed):
    content = with_data(bed)
    path = bed.mount("data")
    bed.double.be_wrong("deletes-in-use")
    bed.berth.run("delete", "pvc", "data", "--no-wait")
    assert (path / "note").read_text() == "precious"
    # The claim stays while it is mounted, and Berth does not call the driver.
    assert bed.berth.get("pvc", "data")["metadata"]["deletionTimestamp"]
    assert content.name not in bed.double.calls("DeleteVolume")


@rules("delete-twice-fails")
def test_a_deletion_that_cannot_be_repeated_is_told(bed):
    with_data(bed)
    volume = bed.bound("data")["metadata"]["name"]
    bed.double.be_wrong("loses-answers:DeleteVolume", "delete-twice-fails")
    bed.berth.run("delete", "pvc", "data", "--no-wait")
    bed.says(volume, "no such volume")
    bed.double.be_wrong()
    bed.berth.wait_gone("pv", volume)


# -- what is mounted

@each(publishes_nothing="nothing is mounted", mounts_elsewhere="nothing is mounted")
def test_a_folder_that_is_no_volume_is_refused(bed, rule, words):
    content = with_data(bed)
    bed.double.be_wrong(rule)
    assert words in bed.mount_fails("data")
    bed.says(bed.host_mount("data"), words)
    bed.double.be_wrong()
    path = bed.mount("data")
    (path / "note").write_text("still precious")
    assert (content / "note").read_text() == "still precious"


@rules("publishes-other-volume")
def test_another_claims_volume_is_refused(bed):
    content = with_data(bed)
    bed.mount("data")
    bed.claim("other")
    bed.bound("other")
    bed.double.be_wrong("publishes-other-volume")
    assert "is volume 'vol-" in bed.mount_fails("other")
    bed.double.be_wrong()
    assert not list(bed.mount("other").iterdir())
    assert (content / "note").read_text() == "precious"


@rules("ignores-readonly")
def test_a_writable_mount_in_place_of_a_read_only_one_is_made_read_only(bed):
    with_data(bed)
    bed.double.be_wrong("ignores-readonly")
    path = bed.mount("data", "--read-only")
    published, = (target for target in mounts.targets()
                  if target.startswith(f"{bed.berth.data}/kubelet/pods/") and target.endswith("/mount"))
    for place in (path, pathlib.Path(published)):
        with pytest.raises(OSError):
            (place / "note").write_text("no")
        assert (place / "note").read_text() == "precious"


@each(stage_twice_mounts_twice="NodeStageVolume", publish_twice_mounts_twice="NodePublishVolume")
def test_a_mount_upon_a_mount_is_taken_off_again(bed, rule, words):
    content = with_data(bed)
    bed.double.be_wrong(rule, f"loses-answers:{words}")
    bed.mount_fails("data", seconds=3)
    assert len(bed.double.calls(words, "done")) > 1
    # The two mounts are peers, so the second one may also appear at the staging path, where it is refused as another
    # volume's.
    bed.double.be_wrong()
    bed.umount("data")
    assert (content / "note").read_text() == "precious"
    assert (bed.mount("data") / "note").read_text() == "precious"


@each(unpublish_leaves_mount="still a mount point", unstage_leaves_mount="still a mount point")
def test_a_mount_that_is_left_is_told(bed, rule, words):
    content = with_data(bed)
    bed.mount("data")
    bed.double.be_wrong(rule)
    if rule == "unpublish-leaves-mount":
        bed.umount_fails("data")
        bed.says(bed.host_mount("data"), words)
    else:
        bed.umount("data")
        assert words in bed.mount_fails("data")
    assert (content / "note").read_text() == "precious"
    bed.double.be_wrong()
    if rule == "unpublish-leaves-mount":
        bed.wait_umounted("data")
    else:
        bed.mount("data")
        bed.umount("data")
    assert (content / "note").read_text() == "precious"


@rules("unpublish-leaves-target")
def test_a_target_that_is_left_is_taken_away(bed):
    with_data(bed)
    bed.mount("data")
    bed.double.be_wrong("unpublish-leaves-target")
    bed.umount("data")


@each(unpublish_twice_fails="NodeUnpublishVolume", unstage_twice_fails="NodeUnstageVolume")
def test_an_undoing_that_cannot_be_repeated_is_told_and_holds_up_nothing(bed, rule, words):
    """The driver says NOT_FOUND of a volume that it has, and nothing is mounted any more."""
    content = with_data(bed)
    bed.mount("data")
    bed.double.be_wrong(rule, f"loses-answers:{words}")
    bed.umount("data")
    wait_for("a second try", lambda: bed.double.calls(words, "failed"))
    wait_for("the log", lambda: f"counts as released, because driver '{csi_double.NAME}' does not know it: {words}"
             in bed.berth.log.read_text())
    bed.double.be_wrong()
    bed.mount("data")
    bed.umount("data")
    assert (content / "note").read_text() == "precious"


# -- the node's registration, and who the driver is

@each(node_id_empty="no node id", node_id_too_long="longer than", max_volumes_negative="negative",
      topology_key_invalid="a b//c")
def test_a_driver_that_cannot_say_where_it_is_is_not_registered(bed, rule, words):
    bed.double.stop()
    bed.double.be_wrong(rule)
    bed.double.start()
    bed.says("node-a", words)
    wait_for("the driver to be taken out", lambda: csi_double.NAME not in bed.drivers())
    assert "csi.example.com" not in str(bed.berth.get("nodes", "node-a")["metadata"].get("annotations"))
    bed.double.stop()
    bed.double.be_wrong()
    bed.double.start()
    bed.wait_registered()


@each(name_empty="gave no name", name_no_domain="is not the name of a CSI driver", never_ready="not ready yet")
def test_a_driver_that_is_not_there_yet_is_waited_for(bed, rule, words):
    bed.berth.kill()
    bed.double.be_wrong(rule)
    bed.start_berth()
    bed.claim("data")
    bed.says("data", "Waiting for a volume to be created")
    wait_for("the log to say why", lambda: words in bed.berth.log_tail(200))
    bed.double.be_wrong()
    bed.bound("data")


@rules("capabilities-change")
def test_what_a_driver_forgets_to_be_able_to_loses_no_data(bed):
    content = with_data(bed)
    bed.mount("data")
    bed.berth.kill()
    bed.double.be_wrong("capabilities-change")
    bed.start_berth()
    bed.berth.run("umount", bed.folder / "on-data", "--timeout", "2", check=False)
    assert (content / "note").read_text() == "precious"
    bed.double.stop()
    bed.double.be_wrong()
    bed.double.start()
    bed.wait_registered()
    wait_for("the volume to be unmounted", lambda: not bed.berth.items("hostmounts"))
    assert (bed.mount("data") / "note").read_text() == "precious"


# -- calls without an answer

LIFE = ["CreateVolume", "ControllerPublishVolume", "NodeStageVolume", "NodePublishVolume", "NodeUnpublishVolume",
        "NodeUnstageVolume", "ControllerUnpublishVolume", "DeleteVolume"]


@each(dies="", loses_answers="", aborted_forever="", hangs="")
def test_no_call_of_a_volumes_life_is_lost(bed, rule, words):
    """The driver breaks a rule in each call of a volume's life. The life goes on as soon as the driver keeps the
    rule."""
    begin = {"CreateVolume": lambda: bed.claim("data"),
             "ControllerPublishVolume": lambda: bed.ask_mount("data"),
             "NodeUnpublishVolume": lambda: bed.ask_umount("data"),
             "DeleteVolume": lambda: bed.berth.run("delete", "pvc", "data", "--no-wait")}
    content = None
    others = bed.double.volumes()
    for method in LIFE:
        before = len(bed.double.calls(method))
        bed.double.be_wrong(f"{rule}:{method}")
        if not bed.double.alive():
            bed.double.start()
        if method in begin:
            if method == "NodeUnpublishVolume":
                bed.wait_mounted("data")
                (bed.folder / "on-data" / "note").write_text("precious")
            if method != "CreateVolume" and content is None:
                content = bed.content(bed.bound("data")["spec"]["csi"]["volumeHandle"])
            begin[method]()
        wait_for(f"a call of {method}", lambda: len(bed.double.calls(method)) > before, seconds=40)
        if rule == "dies":
            wait_for("the driver's end", lambda: not bed.double.alive())
        if method == "ControllerUnpublishVolume":
            assert (content / "note").read_text() == "precious"
    bed.double.be_wrong()
    if not bed.double.alive():
        bed.double.start()
    wait_for("the volume to be gone", lambda: not bed.berth.items("pv"), seconds=40)
    assert bed.double.volumes() == others


@rules("late")
def test_what_happens_after_everyone_gave_up_is_found(bed):
    """A NodeStageVolume is carried out after its caller was killed."""
    content = with_data(bed)
    bed.double.be_wrong("late:NodeStageVolume")
    bed.ask_mount("data")
    before = len(bed.double.calls("NodeStageVolume", "done"))
    wait_for("the call", lambda: content.name in bed.double.calls("NodeStageVolume"))
    bed.berth.kill()
    wait_for("its late effect", lambda: len(bed.double.calls("NodeStageVolume", "done")) > before)
    bed.double.be_wrong()
    bed.start_berth()
    bed.wait_mounted("data")
    table = subprocess.run(["findmnt", "-rno", "TARGET"], capture_output=True, text=True, check=True).stdout
    assert len([line for line in table.splitlines()
                if line.startswith(str(bed.folder)) and line.endswith("globalmount")]) == 1
    assert (bed.folder / "on-data" / "note").read_text() == "precious"
    bed.umount("data")
    assert (content / "note").read_text() == "precious"
