"""Backups of the objects are made while Berth runs, and restored when it is stopped; a whole Berth moves to another
machine with its pool."""
import subprocess

import pytest
from lib import objects
from lib.ended_pods import run_to_end
from lib.standalone import wait_for

pytestmark = [pytest.mark.api, pytest.mark.e2e]


def config_map(name, value="v"):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"key": value}}


def watched_version(berth):
    return int(berth.get("configmaps", "kept")["metadata"]["resourceVersion"])


def test_objects_come_back_from_a_backup_taken_in_use(berth, tmp_path):
    berth.apply([config_map("kept"), config_map("changed", "before")])
    backup = tmp_path / "objects.backup"
    assert "Secrets" in berth.run("backup", backup).stdout
    assert backup.stat().st_mode & 0o777 == 0o600
    assert "is there already" in berth.run("backup", backup, check=False).stderr

    berth.apply([config_map("changed", "after"), config_map("later")])
    seen = int(berth.get("configmaps", "later")["metadata"]["resourceVersion"])
    refused = berth.run("restore", backup, check=False)
    assert refused.returncode != 0 and "stop 'berth up' first" in refused.stderr
    assert berth.get("configmaps", "later"), "a refused restore changes nothing"

    berth.stop()
    assert "kept as" in berth.run("restore", backup).stdout
    berth.start()
    assert berth.get("configmaps", "changed")["data"]["key"] == "before"
    assert berth.get("configmaps", "later") is None
    assert watched_version(berth) < seen
    berth.apply(config_map("new"))
    assert int(berth.get("configmaps", "new")["metadata"]["resourceVersion"]) > seen, "no version is given twice"


def test_a_damaged_database_is_refused_with_what_to_do_and_a_backup_mends_it(berth, tmp_path):
    berth.apply([config_map("kept", "x" * 100_000)])
    backup = tmp_path / "objects.backup"
    berth.run("backup", backup)
    berth.stop()
    database = berth.data / "api" / "objects.db"
    with open(database, "r+b") as file:
        file.seek(8192)
        file.write(b"\xff" * 4096 * 4)

    berth.start(wait=False)
    assert wait_for("'berth up' to give up", lambda: berth.process.poll() is not None and "damaged")
    assert "is damaged" in berth.log_tail() and "backup" in berth.log_tail()
    berth.run("restore", backup)
    berth.start()
    assert len(berth.get("configmaps", "kept")["data"]["key"]) == 100_000


def run_pod(berth, name, script):
    _, output = run_to_end(berth, objects.pod(name, script, ["data"]))
    berth.run("delete", "pod", name)
    return output


@pytest.mark.security
def test_a_whole_berth_is_restored_on_another_machine(new_berth, tmp_path):
    old = new_berth().start()
    old.apply(objects.claim("data"))
    run_pod(old, "writer", "echo kept > /data/file && sync")
    backup = tmp_path / "objects.backup"
    old.run("backup", backup)
    old.stop()

    # The other machine has neither the folder's inodes nor anything else of the old one.
    new = new_berth()
    new.run("restore", backup)
    subprocess.run(["cp", "--archive", "--sparse=always", old.data / "pool", new.data / "pool"], check=True)
    new.start()
    new.apply(objects.pod("reader", "cat /data/file", ["data"]))
    said = wait_for("the pod to say what is to be done", lambda: [
        event["message"] for event in new.events("reader") if "berth pool adopt" in event["message"]])
    assert str(new.data / "pool") in said[0]
    new.run("delete", "pod", "reader")
    refused = new.run("pool", "adopt", "--dangerous", check=False)
    assert refused.returncode != 0 and "stop 'berth up'" in refused.stderr
    new.stop()

    shown = new.run("pool", "adopt").stdout
    (volume,) = [line for line in shown.splitlines() if line.startswith("adopt ")]
    assert "ext4 with UUID" in volume and "nothing is changed" in shown
    assert new.run("pool", "adopt").stdout == shown, "showing it changed something"
    assert "adopted 1 images" in new.run("pool", "adopt", "--dangerous").stdout
    new.start()
    assert run_pod(new, "reader", "cat /data/file && echo new > /data/more && sync") == "kept\n"
    assert run_pod(new, "again", "cat /data/file /data/more") == "kept\nnew\n"
