"""The user stories of Flexvolume drivers that come and go. Alice ships an image, Bob edits the DaemonSet of
deploy/flexvolume, Charlie's pods use the volumes, and Berth is never restarted. The drivers are a shell script that
attaches, and a static program."""
import itertools
import json
import shutil
import subprocess

import pytest
from lib import flex, handmade_pod, leaks, objects
from lib.ended_pods import judge_end
from lib.mounts import targets
from lib.standalone import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.flex]

# Appends numbers for ever, syncs each to the volume before the next, and prints errors.
WRITER = """
i=0
while :; do
  { echo $i >>/data/numbers && sync /data/numbers; } || echo "write $i failed"
  [ "$(tail -n 1 /data/numbers)" = $i ] || echo "$i is not what was read"
  i=$((i + 1))
  [ -e /data/stop ] && echo "wrote $i" && exit 0
  sleep 0.02
done
"""


class Site:
    """A Berth, the DaemonSet on it, and the folder with the volumes (the shelf)."""

    def __init__(self, berth, folder):
        self.berth = berth
        self.folder = folder
        self.shelf = folder / "shelf"
        self.shelf.mkdir()
        self.log = folder / "calls"  # of the shell driver
        self.deploy = flex.FlexDeploy(berth)

    def image(self, shell=None, static=False):
        """Makes Alice's image, with a version of the shell driver, the static driver, or both."""
        drivers = self.folder / "drivers"
        shutil.rmtree(drivers, ignore_errors=True)
        if shell:
            flex.add_shell_driver(drivers, shell, self.log)
        if static:
            flex.add_static_driver(drivers)
        return flex.import_image(self.berth.runtime_socket, drivers, self.folder)

    def start(self, name, script, driver, volume=None):
        """Starts Charlie's pod on the volume of a name. The example drivers make a new volume at its first use. The
        pod uses it by a claim if the driver attaches, and inline otherwise."""
        volume = volume or name
        source = {"flexVolume": {"driver": driver, "options": {"folder": str(self.shelf)}}}
        if driver == flex.SHELL:
            source["flexVolume"].update(fsType="ext4", options={"folder": str(self.shelf), "size": "16M"})
            self.berth.apply([
                {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": volume},
                 "spec": {"capacity": {"storage": "16Mi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "",
                          "persistentVolumeReclaimPolicy": "Retain", **source}},
                objects.claim(volume, "16Mi", "", volumeName=volume)])
            source = {"persistentVolumeClaim": {"claimName": volume}}
        self.berth.apply(objects.pod(name, script, mounts=[{"name": volume, "mountPath": "/data"}],
                                     volumes=[{"name": volume, **source}]))

    def running(self, name):
        return self.berth.wait_phase("pod", name, "Running")

    def numbers(self, name):
        return self.berth.run("exec", name, "--", "cat", "/data/numbers").stdout.split()

    def wait_for_more(self, name):
        self.berth.wait_file(name, "/data/numbers")
        before = len(self.numbers(name))
        wait_for("more numbers on the volume", lambda: len(self.numbers(name)) > before + 3)

    def finish(self, name):
        """Ends the writer, deletes it, checks that nothing was lost, and gives how many numbers it wrote."""
        self.berth.end_by_file(name, "/data/stop")
        said = judge_end(self.berth, name)[1].split()
        assert said[0] == "wrote" and len(said) == 2, f"not one error, but: {said}"
        self.remove(name)
        return int(said[1])

    def remove(self, name):
        uid = self.berth.get("pod", name)["metadata"]["uid"]
        self.berth.delete("pod", name)
        self.berth.wait_gone("pod", name)
        assert not [target for target in targets() if f"/pods/{uid}/" in target]

    def read(self, name, driver, volume):
        """Reads the numbers by a new pod."""
        self.start(name, "cat /data/numbers", driver, volume)
        numbers = judge_end(self.berth, name)[1].split()
        self.remove(name)
        return numbers

    def calls(self):
        """Gives [(version, command)] of the shell driver's calls."""
        return [tuple(line.split()) for line in self.log.read_text().splitlines()]

    def why_not(self, name):
        """Gives the events of a pod that waits for its volume."""
        return wait_for(f"an event that says why {name} waits",
                        lambda: [e["message"] for e in self.berth.events(name) if e["reason"] == "FailedMount"])

    def start_late(self, driver):
        """Starts pods one after the other until one has an event that says why it waits. Gives its name, and that
        message."""
        for name in map("late-{}".format, itertools.count()):
            def told():
                reasons = [e["message"] for e in self.berth.events(name) if e["reason"] == "FailedMount"]
                return reasons or self.berth.get("pod", name)["status"].get("phase") == "Succeeded"

            self.start(name, "true", driver)
            reasons = wait_for(f"{name} to be told why it waits, or to end", told)
            if reasons is not True:
                return name, reasons[0]
            self.remove(name)

    def wait_detached(self):
        """Waits until the volumes are detached, and checks that their loop devices are gone."""
        wait_for("the volumes to be detached", lambda: not self.berth.items("volumeattachments"))
        associated = subprocess.check_output(["losetup", "--list", "--noheadings", "--output", "BACK-FILE"], text=True)
        assert str(self.shelf) not in associated


@pytest.fixture
def site(module_berth, tmp_path):
    before = leaks.Snapshot(module_berth)
    process = module_berth.process.pid
    made = Site(module_berth, tmp_path)
    yield made
    module_berth.remove_everything(seconds=60)
    made.deploy.delete()
    shutil.rmtree(made.deploy.drivers, ignore_errors=True)  # Berth may make it again meanwhile
    assert module_berth.process.poll() is None and module_berth.process.pid == process, "it did not start anew"
    # The folder for runs in pods stays as long as the node agent runs.
    left = [what for what in before.leaked_since() if "/plugin-runs (tmpfs)" not in what]
    assert not left, "left behind:\n" + "\n".join(left)


def test_first_installation(site):
    # Charlie is early: his pod waits, and its events say for what.
    site.start("writer", WRITER, flex.SHELL)
    site.start("other", WRITER, flex.STATIC)
    assert flex.SHELL in site.why_not("writer")[0]
    assert flex.STATIC in site.why_not("other")[0]

    # Alice ships an image, Bob creates the DaemonSet, and that is all.
    site.deploy.roll_out(site.image(shell="1", static=True))
    assert sorted(path.name for path in site.deploy.drivers.iterdir() if path.name[0] != ".") == [
        flex.folder_of(flex.STATIC), flex.folder_of(flex.SHELL)]
    for name in "writer", "other":
        site.running(name)
        site.wait_for_more(name)
    listed = site.berth.run("flex", "list").stdout
    assert flex.SHELL in listed and flex.STATIC in listed
    attached = {command for _, command in site.calls()}
    assert attached >= {"init", "attach", "waitforattach", "mountdevice"}

    # What he wrote is there for the next pod.
    for name, driver in (("writer", flex.SHELL), ("other", flex.STATIC)):
        count = site.finish(name)
        assert site.read(f"{name}-s-reader", driver, name) == [str(i) for i in range(count)]
    site.wait_detached()


def test_an_update_of_a_driver_in_use(site):
    site.deploy.roll_out(site.image(shell="1", static=True))
    site.start("old", WRITER, flex.SHELL)
    site.start("other", WRITER, flex.STATIC)
    for name in "old", "other":
        site.running(name)
        site.wait_for_more(name)
    assert {version for version, _ in site.calls()} == {"1"}

    # Bob edits the DaemonSet: the image has another version of both files of the shell driver.
    site.deploy.roll_out(site.image(shell="2", static=True))
    wait_for("the new version's init", lambda: ("2", "init") in site.calls())
    calls = len(site.calls())
    site.start("new", WRITER, flex.SHELL)
    site.running("new")
    for name in "old", "new", "other":
        site.wait_for_more(name)
    assert set(site.calls()[calls:]) >= {("2", "waitforattach"), ("2", "mountdevice")}, "new volumes by the new version"

    # What the old version mounted is unmounted by the new one, as a kubelet does it.
    count = site.finish("old")
    site.finish("new")
    site.finish("other")
    site.wait_detached()
    assert set(site.calls()[calls:]) >= {("2", "unmountdevice"), ("2", "detach")}
    assert {version for version, _ in site.calls()[calls:]} == {"2"}, "and no call by the old one"
    assert site.read("reader", flex.SHELL, "old") == [str(i) for i in range(count)]
    site.wait_detached()


def test_another_driver_is_added(site):
    site.deploy.roll_out(site.image(shell="1"))
    site.start("first", WRITER, flex.SHELL)
    site.running("first")
    executable = site.deploy.drivers / flex.folder_of(flex.SHELL) / "images"
    before, inits = executable.stat(), site.calls().count(("1", "init"))

    site.start("second", WRITER, flex.STATIC)
    assert flex.STATIC in site.why_not("second")[0]
    site.deploy.roll_out(site.image(shell="1", static=True))
    site.running("second")
    for name in "first", "second":
        site.wait_for_more(name)
    after = executable.stat()
    assert (before.st_ino, before.st_ctime_ns) == (after.st_ino, after.st_ctime_ns), "the other is not touched"
    assert site.calls().count(("1", "init")) == inits, "nor initialised anew"
    for name in "first", "second":
        site.finish(name)
    site.wait_detached()


def test_a_driver_is_removed_while_its_volumes_are_in_use(site):
    image = site.image(shell="1", static=True)
    site.deploy.roll_out(image)
    for name, driver in (("images", flex.SHELL), ("folders", flex.STATIC)):
        site.start(name, WRITER, driver)
        site.running(name)
        site.wait_for_more(name)

    # Bob has them removed, and then the DaemonSet.
    site.deploy.roll_out(image, action="remove now")
    assert not [path for path in site.deploy.drivers.iterdir() if path.name[0] != "."]
    site.deploy.delete()

    # New pods wait, and say for what, from the moment at which the node agent knows it.
    late, why = site.start_late(flex.STATIC)
    assert flex.STATIC in why
    assert site.berth.get("pod", late)["status"]["phase"] == "Pending"
    site.remove(late)

    # The removed drivers are listed as removed, with the volumes that keep them.
    def shown():
        drivers = json.loads(site.berth.run("get", "drivers", "-o", "json").stdout)
        return {d["name"]: d["reason"] for d in drivers if d["state"] == "Removed"}

    uid = site.berth.get("pod", "folders")["metadata"]["uid"]
    wait_for("both drivers to be shown as removed", lambda: set(shown()) == {flex.SHELL, flex.STATIC})
    assert f"'pods/{uid}/volumes/" in shown()[flex.STATIC]

    # Mounted volumes go on, and are unmounted as if the drivers were there.
    for name in "images", "folders":
        site.wait_for_more(name)
        site.finish(name)
    assert ("1", "unmountdevice") in site.calls()
    wait_for("no driver to be shown", lambda: not shown())

    # The version that attached is kept, too, until it has detached.
    site.wait_detached()
    assert ("1", "detach") in site.calls()


def test_a_driver_runs_in_the_pod_that_is_registered_for_it(site):
    """The driver's mount shows that it was made in the pod, and the user's pod has it."""
    berth, driver = site.berth, "example.com/in-a-pod"
    kubelet = berth.data / "kubelet"
    berth.apply(handmade_pod.pod("tools", kubelet))
    handmade_pod.register(berth, "tools", plugin=driver)
    flex.install(site.deploy.drivers, driver, """#!/bin/sh
case $1 in
  init) echo '{"status": "Success", "capabilities": {"attach": false}}' ;;
  mount) mount -t tmpfs "made-in-$(hostname)" "$2" && echo '{"status": "Success"}' ;;
  unmount) umount "$2" && echo '{"status": "Success"}' ;;
  *) echo '{"status": "Not supported"}'; exit 1 ;;
esac
""")
    try:
        source = {"name": "data", "flexVolume": {"driver": driver}}
        berth.apply(objects.pod("user", WRITER, mounts=[{"name": "data", "mountPath": "/data"}], volumes=[source]))
        site.running("user")
        site.wait_for_more("user")
        assert berth.run("exec", "user", "--", "grep", " /data ", "/proc/mounts").stdout.startswith("made-in-tools ")
        site.finish("user")
    finally:
        handmade_pod.path(kubelet, driver).unlink()
