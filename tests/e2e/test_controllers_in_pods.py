"""Utilities of controllers run in the pod that is registered on the controller's node, by the rules of nodes."""
import json

import pytest
from lib import flex, handmade_pod, objects
from lib.standalone import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.mountpod, pytest.mark.flex]

DRIVER = "example.com/attached"
# Only the pod has the folder /only-in-the-pod. attach and detach are calls of the controller.
SCRIPT = """#!/bin/sh
[ -d /only-in-the-pod ] && place=pod || place=host
echo "$1 $place" >>{log}
case $1 in
  init) echo '{{"status": "Success", "capabilities": {{"attach": true}}}}' ;;
  getvolumename) echo '{{"status": "Success", "volumeName": "data"}}' ;;
  attach) echo '{{"status": "Success", "device": ""}}' ;;
  isattached) echo '{{"status": "Success", "attached": true}}' ;;
  waitforattach|detach|mountdevice|unmountdevice) echo '{{"status": "Success"}}' ;;
  *) echo '{{"status": "Not supported"}}'; exit 1 ;;
esac
"""


@pytest.fixture
def calls(berth):
    """Installs the driver, and gives a function that tells where each call ran."""
    log = berth.data / "kubelet" / "calls"
    flex.install(berth.data / "volume-plugins", DRIVER, SCRIPT.format(log=log))
    return lambda: log.read_text().splitlines() if log.exists() else []


def use(berth, name):
    """A claim of a volume of the driver, and a pod that uses it."""
    berth.apply([
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
         "spec": {"capacity": {"storage": "1Mi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "",
                  "persistentVolumeReclaimPolicy": "Retain", "flexVolume": {"driver": DRIVER}}},
        objects.claim(name, "1Mi", "", volumeName=name),
        objects.pod(name, "true", claims=[name])])


def test_a_driver_attaches_and_detaches_in_the_registered_pod(berth, calls):
    use(berth, "first")
    wait_for("an attach on the host", lambda: "attach host" in calls())

    kubelet = berth.data / "kubelet"
    berth.apply(handmade_pod.pod("tools", kubelet, script="mkdir /only-in-the-pod; sleep 100000"))
    handmade_pod.register(berth, "tools", DRIVER)
    use(berth, "second")
    wait_for("an attach in the pod", lambda: "attach pod" in calls())
    berth.delete("pod", "second")
    wait_for("a detach in the pod", lambda: "detach pod" in calls())

    # A registration that cannot be trusted lets nothing run, neither there nor on the host.
    place = handmade_pod.path(kubelet, DRIVER)
    place.write_text("{")
    before = calls()
    use(berth, "third")
    wait_for("the refusal", lambda: any("third" in json.dumps(item) for item in berth.items("volumeattachments")
                                        if item.get("status", {}).get("attachError")))
    assert [call for call in calls()[len(before):] if call.startswith("attach ")] == []
    place.unlink()
    wait_for("an attach on the host", lambda: "attach host" in calls()[len(before):])
