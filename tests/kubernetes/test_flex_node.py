"""Flexvolume drivers come to a node under a real kubelet, change and go, as the script of deploy/flexvolume puts them there."""
import shutil

import pytest
from lib import flex, mounts, objects
from lib.kubernetes import runtimes
from lib.standalone import wait_for

pytestmark = [pytest.mark.kubernetes, runtimes.BOTH]

# Its volume holds the version that mounted it; the calls that come are in the file CALLS beside it.
DRIVER = """#!/bin/sh
echo "VERSION $1 $2" >> "$(dirname "$0")/../../flex-calls"
case "$1" in
init) echo '{"status": "Success", "capabilities": {"attach": false}}';;
mount) mkdir -p "$2" && mount -t tmpfs -o size=1m flex-test "$2" && echo VERSION > "$2/version" && echo '{"status": "Success"}';;
unmount) umount "$2" && echo '{"status": "Success"}';;
*) echo '{"status": "Not supported"}';;
esac
"""


class Deployment:
    """The image with the driver, and the script on the node."""

    def __init__(self, node):
        self._node = node
        self._image = node.folder / "image"
        self.plugins = node.folder / "flex"
        self.plugins.mkdir(exist_ok=True)
        self._done = node.folder / "done"

    def start(self, *arguments):
        self._done.unlink(missing_ok=True)
        return self._node.run("flex-deploy", "/bin/sh", flex.DEPLOY / "flex-deploy", *arguments, env={
            "DRIVERS": str(self._image), "FLEXMNT": str(self.plugins), "DONE": str(self._done),
            "KUBELET": str(self._node.kubelet_folder), "PAUSE": "1"})

    def finish(self, process):
        process.wait_for("the script to be done", self._done.exists)
        process.stop()
        return process.log()

    def install(self, version):
        folder = self._image / "example.com~memory"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "memory").write_text(DRIVER.replace("VERSION", version))
        (folder / "memory").chmod(0o755)
        self.finish(self.start())

    def calls(self):
        path = self._node.folder / "flex-calls"
        return [line.split(" ") for line in path.read_text().splitlines()] if path.exists() else []


@pytest.fixture
def deployment(bare_node):
    made = Deployment(bare_node)
    yield made
    shutil.rmtree(made.plugins / "example.com~memory", ignore_errors=True)


def pod(name, script):
    return objects.pod(name, script, mounts=[{"name": "memory", "mountPath": "/memory"}],
                       volumes=[{"name": "memory", "flexVolume": {"driver": "example.com/memory"}}])


def test_a_flexvolume_driver_comes_changes_and_goes(bare_node, deployment):
    """Pods use a driver that was installed under the running kubelet, and then its new version. It goes with its last volume."""
    deployment.install("one")
    bare_node.create_pod(pod("first", "grep -x one /memory/version && sleep 1000"))
    bare_node.wait_pod("first", "Running")
    deployment.install("two")
    bare_node.create_pod(pod("second", "grep -x two /memory/version && sleep 1000"))
    bare_node.wait_pod("second", "Running")
    bare_node.delete_pod("first")
    assert [version for version, call, *_ in deployment.calls() if call == "unmount"] == ["two"]

    removal = deployment.start("remove")
    removal.wait_for("the script to wait for the volume", lambda: "still needs example.com~memory" in removal.log())
    assert (deployment.plugins / "example.com~memory/memory").exists()
    bare_node.delete_pod("second")
    assert f"removed {deployment.plugins}/example.com~memory" in deployment.finish(removal)
    assert not [target for target in mounts.targets() if "example.com~memory" in target]

    bare_node.create_pod(pod("third", "true"))
    wait_for("the kubelet to miss the driver", lambda: any(
        event["reason"] == "FailedMount" and event["involvedObject"].get("name") == "third"
        for event in bare_node.cluster.items("Event", "default")))
    bare_node.delete_pod("third")
