"""In which formats Berth and kube-apiserver speak, as a proxy between them sees it."""
import json
import ssl

import pytest
import yaml
from lib import objects
from lib.kubernetes.programs import Sidecar
from lib.kubernetes.recording_proxy import RecordingProxy
from lib.kubernetes.world import LEASES, NODE, RIGHTS, rules_of
from lib.standalone import wait_for

pytestmark = pytest.mark.kubernetes

PROTOBUF = "application/vnd.kubernetes.protobuf"
PATCH = "application/merge-patch+json"


@pytest.fixture
def proxy(plane):
    made = RecordingProxy(plane.server, ssl.create_default_context(cafile=f"{plane.folder}/server.crt"))
    yield made
    made.close()


def start(world, proxy, program, *arguments):
    """Starts Berth as the program, behind the proxy."""
    config = world.cluster.write_account(world.folder / f"{program}.config", world.namespace, program,
                                         rules_of(*RIGHTS[program]), LEASES)
    content = yaml.safe_load(config.read_text())
    content["clusters"][0]["cluster"] = {"server": proxy.server}
    config.write_text(json.dumps(content))
    return Sidecar(world.folder / f"{program}.log", program, [f"--kubeconfig={config}", *arguments], False, "host")


def of(proxy, plural):
    """Gives the exchanges about a resource that did not fail: (method, type of the body, type of the answer)."""
    return [(method if "watch=true" not in query else "WATCH", sent, got.partition(";")[0])
            for method, path, query, sent, got, code in list(proxy.exchanges) if f"/{plural}" in path and 0 < code < 400]


def test_built_in_kinds_are_protobuf(real_world, proxy):
    """A claim is provisioned and its volume attached: all about kinds of Kubernetes is protobuf, and custom resources are JSON."""
    world = real_world
    world.make_class()
    programs = [start(world, proxy, "csi-provisioner", f"--csi-address={world.double.socket}"),
                start(world, proxy, "csi-attacher", f"--csi-address={world.double.socket}"),
                start(world, proxy, "snapshot-controller")]
    try:
        world.claim("data")
        volume = world.bound("data")[1]["metadata"]["name"]
        world.create(objects.attachment(f"{world.namespace}-a", world.driver, NODE, volume))
        world.wait("VolumeAttachment", f"{world.namespace}-a", lambda item: (item.get("status") or {}).get("attached"))
        world.events("data", "ProvisioningSucceeded")
        wait_for("the snapshot controller to watch", lambda: ("WATCH", "", "application/json") in of(proxy, "volumesnapshots"))
        world.delete("VolumeAttachment", f"{world.namespace}-a")
        world.wait_gone("VolumeAttachment", f"{world.namespace}-a")
        world.delete("PersistentVolumeClaim", "data")
        world.wait_gone("PersistentVolume", volume)
    finally:
        for program in programs:
            program.stop()
    for plural in ("persistentvolumes", "persistentvolumeclaims", "volumeattachments", "csinodes"):
        seen = of(proxy, plural)
        assert {("GET", "", PROTOBUF), ("WATCH", "", PROTOBUF)} <= set(seen), (plural, seen)
        assert {got for _, _, got in seen} == {PROTOBUF}, (plural, seen)
    assert ("POST", PROTOBUF, PROTOBUF) in of(proxy, "persistentvolumes")
    assert ("POST", PROTOBUF, PROTOBUF) in of(proxy, "events")
    assert ("PATCH", PATCH, PROTOBUF) in of(proxy, "volumeattachments")
    assert {got for _, _, got in of(proxy, "volumesnapshots")} == {"application/json"}
    for program in programs:
        assert "as JSON from now on" not in program.log(), program.log()
