"""The main job by the command line alone: a pod keeps its data on a provisioned volume."""
import json
import os
import pathlib
import stat
import subprocess

import pytest
from lib import objects
from lib.ended_pods import judge_end, run_to_end
from lib.standalone import ROOT, wait_for

pytestmark = [pytest.mark.claimtopod, pytest.mark.e2e]


def run_pod(berth, manifest, phase="Succeeded"):
    """Runs a pod to its end, and gives its output."""
    return run_to_end(berth, manifest, phase)[1]


def delete_pod(berth, name):
    berth.run("delete", "pod", name)
    assert berth.get("pods", name) is None


def volume_of(berth, claim_name):
    name = berth.get("pvc", claim_name)["spec"]["volumeName"]
    return berth.get("pv", name)


def test_the_examples_do_what_the_readme_says(berth, leak_free):
    berth.apply(ROOT / "examples" / "claim.yaml")
    berth.apply(ROOT / "examples" / "first-pod.yaml")
    _, written = judge_end(berth, "first")
    assert written.startswith("written by the first pod")
    delete_pod(berth, "first")
    berth.apply(ROOT / "examples" / "second-pod.yaml")
    assert written in judge_end(berth, "second")[1]


@pytest.mark.parametrize("fs_type,size", [("ext4", "64Mi"), ("xfs", "320Mi")])
def test_a_second_pod_finds_the_data_of_the_first(berth, leak_free, fs_type, size):
    berth.apply([objects.storage_class(f"of-{fs_type}", fs_type),
                 objects.claim("data", size, f"of-{fs_type}")])
    run_pod(berth, objects.pod("first", "grep ' /data ' /proc/mounts; echo kept > /data/note; sync /data/note", ["data"]))
    claim = berth.get("pvc", "data")
    assert claim["status"]["phase"] == "Bound"
    volume = volume_of(berth, "data")
    assert volume["spec"]["csi"]["fsType"] == fs_type
    delete_pod(berth, "first")
    wait_for("the volume to be detached", lambda: not berth.items("volumeattachments"))
    out = run_pod(berth, objects.pod("second", "cat /data/note; grep ' /data ' /proc/mounts", ["data"]))
    assert "kept" in out and f" {fs_type} " in out


def test_a_raw_block_volume_keeps_its_bytes(berth, leak_free):
    berth.apply(objects.claim("disk", "32Mi", block=True))
    device = [{"name": "disk", "devicePath": "/dev/disk"}]
    run_pod(berth, objects.pod("first", "echo raw-bytes | dd of=/dev/disk bs=512 seek=100 conv=fsync,sync",
                               ["disk"], devices=device))
    delete_pod(berth, "first")
    out = run_pod(berth, objects.pod("second", "dd if=/dev/disk bs=512 skip=100 count=1 2>/dev/null | tr -d '\\000'",
                                     ["disk"], devices=device))
    assert out.strip() == "raw-bytes"


def test_fs_group_owns_the_volume(berth, leak_free):
    berth.apply(objects.claim("data"))
    out = run_pod(berth, objects.pod(
        "grouped", "id -G; echo mine > /data/note && stat -c '%g %a' /data && stat -c %g /data/note", ["data"],
        securityContext={"runAsUser": 1000, "runAsGroup": 1000, "fsGroup": 4321}))
    groups, folder, note = out.splitlines()
    assert "4321" in groups.split()
    assert folder == "4321 2775" or folder == "4321 2770"
    assert note == "4321"


def test_a_pod_starts_with_a_file_that_refuses_its_fs_group(berth):
    berth.apply(objects.claim("data"))
    berth.apply(objects.pod("holder", "echo kept >/data/fixed; sleep 1000", ["data"]))
    berth.wait_phase("pods", "holder", "Running")
    fixed, = wait_for("the file", lambda: list((berth.data / "kubelet" / "pods").glob("*/volumes/*/*/mount/fixed")))
    # As on file systems on FUSE that keep no owners, for example of S3 buckets.
    subprocess.run(["chattr", "+i", fixed], check=True)
    try:
        out = run_pod(berth, objects.pod("grouped", "cat /data/fixed && stat -c %g /data/fixed /data", ["data"],
                                         securityContext={"fsGroup": 4321}))
    finally:
        subprocess.run(["chattr", "-i", fixed], check=True)
    assert out.split() == ["kept", "0", "4321"]
    assert "the file system refused" in berth.log.read_text()


def test_sub_paths_show_parts_of_a_volume_and_nothing_outside(berth, leak_free):
    berth.apply(objects.claim("data"))
    run_pod(berth, objects.pod("writer", "mkdir -p /data/a/b && echo deep > /data/a/b/note; "
                               "ln -sfn /etc /data/out; ln -sfn ../../../.. /data/up", ["data"]))
    out = run_pod(berth, objects.pod(
        "reader", "cat /part/note; ls /fresh | wc -l", ["data"],
        mounts=[{"name": "data", "mountPath": "/part", "subPath": "a/b"},
                {"name": "data", "mountPath": "/fresh", "subPath": "made/when/missing"}]))
    assert out.split() == ["deep", "0"]
    for link in ("out", "up"):
        berth.apply(objects.pod(f"thief-{link}", "ls /stolen", ["data"],
                                mounts=[{"name": "data", "mountPath": "/stolen", "subPath": link}]))
        wait_for("the refusal to show", lambda: any(
            "subPath" in event["message"] for event in berth.events(f"thief-{link}")))
        assert berth.get("pods", f"thief-{link}")["status"].get("phase") == "Pending"


def test_a_read_only_mount_refuses_writes(berth, leak_free):
    berth.apply(objects.claim("data"))
    run_pod(berth, objects.pod("writer", "echo kept > /data/note", ["data"]))
    script = "cat /data/note; (echo no > /data/note) 2>/dev/null || echo refused"
    out = run_pod(berth, objects.pod("container-ro", script, ["data"],
                                     mounts=[{"name": "data", "mountPath": "/data", "readOnly": True}]))
    assert out.split() == ["kept", "refused"]
    delete_pod(berth, "writer")
    delete_pod(berth, "container-ro")
    out = run_pod(berth, objects.pod("claim-ro", script, ["data"], read_only=["data"]))
    assert out.split() == ["kept", "refused"]


def expand(berth, claim_name, size):
    manifest = berth.get("pvc", claim_name)
    berth.apply(objects.claim(claim_name, size, manifest["spec"]["storageClassName"],
                              block=manifest["spec"]["volumeMode"] == "Block"))


def wait_capacity(berth, claim_name, size):
    return wait_for(f"claim {claim_name} to have {size}",
                    lambda: berth.get("pvc", claim_name)["status"]["capacity"]["storage"] == size)


def test_a_mounted_xfs_volume_grows(berth, leak_free):
    berth.apply([objects.storage_class("of-xfs", "xfs"), objects.claim("data", "320Mi", "of-xfs")])
    berth.apply(objects.pod("user", "echo kept > /data/note; sleep 1000", ["data"]))
    berth.wait_phase("pods", "user", "Running")
    expand(berth, "data", "512Mi")
    wait_capacity(berth, "data", "512Mi")
    out = berth.run("exec", "user", "--", "/bin/sh", "-c", "cat /data/note; df -m /data | tail -1").stdout
    assert "kept" in out
    assert int(out.splitlines()[-1].split()[1]) > 400


def test_an_unused_ext4_volume_grows_for_its_next_pod(berth, leak_free):
    berth.apply(objects.claim("data", "64Mi"))
    run_pod(berth, objects.pod("first", "echo kept > /data/note", ["data"]))
    delete_pod(berth, "first")
    expand(berth, "data", "128Mi")
    berth.wait_volume_size("data", "128Mi")
    out = run_pod(berth, objects.pod("second", "cat /data/note; df -m /data | tail -1", ["data"]))
    assert "kept" in out
    assert int(out.splitlines()[-1].split()[1]) > 100
    wait_capacity(berth, "data", "128Mi")


def test_a_block_volume_in_use_grows(berth, leak_free):
    berth.apply(objects.claim("disk", "32Mi", block=True))
    berth.apply(objects.pod("user", "sleep 1000", ["disk"], devices=[{"name": "disk", "devicePath": "/dev/disk"}]))
    berth.wait_phase("pods", "user", "Running")
    expand(berth, "disk", "48Mi")
    wait_capacity(berth, "disk", "48Mi")
    out = berth.run("exec", "user", "--", "/bin/sh", "-c", "blockdev --getsize64 /dev/disk").stdout
    assert int(out) == 48 * 1024 * 1024


def test_a_claim_is_mounted_on_the_host(berth, leak_free, tmp_path):
    berth.apply(objects.claim("data"))
    target = tmp_path / "here"
    berth.run("mount", "data", target)
    assert os.path.ismount(target)
    (target / "note").write_text("from the host\n")
    with open(target / "note") as held:
        refused = berth.run("umount", target, "--timeout", "3", check=False)
        assert refused.returncode != 0 and "busy" in refused.stderr.lower()
        assert held.read() == "from the host\n"
    berth.run("umount", target, check=False)  # unless the agent, which keeps trying, was quicker
    wait_for("the unmount", lambda: not os.path.ismount(target))
    assert "from the host" in run_pod(berth, objects.pod("reader", "cat /data/note", ["data"]))


def test_volumes_made_from_objects(berth, leak_free):
    berth.apply([
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"colour": "blue"}},
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys"}, "stringData": {"token": "hush"}}])
    out = run_pod(berth, objects.pod(
        "reader", "cat /settings/colour /keys/token /all/colour /all/name; "
        "stat -c %a /keys/..data/token; grep -c ' /keys tmpfs' /proc/mounts; echo x > /scratch/file && ls /scratch; "
        "cat /etc/hostname-of-host",
        mounts=[{"name": n, "mountPath": f"/{n}"} for n in ("settings", "keys", "all", "scratch")]
        + [{"name": "host", "mountPath": "/etc/hostname-of-host", "readOnly": True}],
        volumes=[
            {"name": "settings", "configMap": {"name": "settings"}},
            {"name": "keys", "secret": {"secretName": "keys", "defaultMode": 0o400}},
            {"name": "scratch", "emptyDir": {}},
            {"name": "host", "hostPath": {"path": "/etc/hostname", "type": "File"}},
            {"name": "all", "projected": {"sources": [
                {"configMap": {"name": "settings"}},
                {"downwardAPI": {"items": [{"path": "name", "fieldRef": {"fieldPath": "metadata.name"}}]}}]}}]))
    host = pathlib.Path("/etc/hostname").read_text()
    assert out == f"bluehushbluereader400\n1\nfile\n{host}"


def test_deleting_the_claim_frees_the_image(berth, leak_free):
    berth.apply(objects.claim("data"))
    berth.apply(objects.pod("first", "sleep 1000", ["data"]))
    berth.wait_phase("pods", "first", "Running")
    volume = volume_of(berth, "data")["metadata"]["name"]
    assert list((berth.data / "pool").rglob("*.img"))
    berth.run("delete", "pvc", "data", "--no-wait")
    # A claim in use stays until its pod is gone.
    assert berth.get("pvc", "data")["metadata"]["deletionTimestamp"]
    delete_pod(berth, "first")
    berth.wait_gone("pvc", "data")
    berth.wait_gone("pv", volume)
    assert not list((berth.data / "pool").rglob("*.img"))
