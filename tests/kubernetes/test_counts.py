"""What a sidecar asks Berth's own API for, by verb. In every run it stands in for the counts beside the real API server (test_cost.py)."""
import collections
import json

import pytest
import yaml
from lib import kube, objects
from lib.kubernetes.programs import Sidecar
from lib.kubernetes.recording_proxy import RecordingProxy
from lib.kubernetes.world import NODE, World
from lib.standalone import wait_for

pytestmark = [pytest.mark.dropin, pytest.mark.parametrize("side", ["own-api"])]

COUNT = 10
BURST = 60  # fewer than the provisioner has workers
STORAGE_PROVISIONER = "volume.kubernetes.io/storage-provisioner"


def request_of(method, path):
    """Gives a request as a word and a resource, such as "patch volumeattachments/status"."""
    parts = path.strip("/").split("/")
    parts = parts[2:] if parts[0] == "api" else parts[3:]
    if parts[:1] == ["namespaces"] and len(parts) > 2:
        parts = parts[2:]
    verb = {"POST": "create", "PUT": "update"}.get(method) or ("list" if method == "GET" and len(parts) < 2 else method.lower())
    return f"{verb} {'/'.join(parts[:1] + parts[2:])}"


class Counted:
    """A sidecar behind a proxy that counts its requests, without leader election. Watches, which stay open, are not counted. The
    Leases in which a provisioner records what it asks the driver for are counted by themselves."""

    def __init__(self, world, proxy, program):
        self._exchanges = proxy.exchanges
        config = yaml.safe_load(world.cluster.kubeconfig.read_text())
        config["clusters"][0]["cluster"] = {"server": proxy.server}
        config["users"][0]["user"] = {}  # the proxy has the certificate
        path = world.folder / f"{program}.config"
        path.write_text(json.dumps(config))
        self.process = Sidecar(world.folder / f"{program}.log", program,
                               [f"--kubeconfig={path}", f"--csi-address={world.double.socket}", "--timeout=10s",
                                f"--leader-election-namespace={world.namespace}"], False, "host")

    def __enter__(self):
        self._begin = len(self._exchanges)
        return self

    def __exit__(self, *_):
        self.made = [exchange for exchange in self._exchanges[self._begin:] if "watch=" not in exchange[2]]
        requests = collections.Counter(request_of(method, path) for method, path, *_ in self.made)
        self.intents = {request: count for request, count in requests.items() if request.endswith(" leases")}
        self.counts = requests - collections.Counter(self.intents)
        self.conflicts = [exchange for exchange in self.made if exchange[-1] == 409]


@pytest.fixture
def world(own_cluster, short):
    made = World(own_cluster, False, None, short)
    try:
        yield made.begin()
    finally:
        made.end()


@pytest.fixture
def start(world):
    """Gives a function that starts a program behind a proxy."""
    kubeconfig = kube.Kubeconfig(world.cluster.kubeconfig)
    proxy = RecordingProxy(f"https://{kubeconfig.host}:{kubeconfig.port}", kubeconfig.tls())
    started = []

    def run(program):
        started.append(Counted(world, proxy, program))
        return started[-1]
    yield run
    for each in started:
        each.process.stop()
    proxy.close()


def bind(world, name):
    """Makes a claim, waits until it is bound and the last event about it is written, and gives its volume's name."""
    world.claim(name)
    _, volume = world.bound(name)
    world.events(name, "ProvisioningSucceeded")
    return volume["metadata"]["name"]


def test_of_claims(world, start, side):
    """A claim that is bound costs a PersistentVolume and two events at most, its deletion one read and two writes."""
    world.make_class()
    provisioner = start("csi-provisioner")
    bind(world, "first")
    with provisioner:
        volumes = [bind(world, f"data-{number}") for number in range(COUNT)]
    events = provisioner.counts.pop("create events")
    assert COUNT <= events <= 2 * COUNT
    assert provisioner.counts == {"create persistentvolumes": COUNT} and not provisioner.conflicts
    # One before CreateVolume, and one after the claim, also after the first one, if no further claim comes within a second.
    assert list(provisioner.intents) == ["update leases"]
    assert COUNT <= provisioner.intents["update leases"] <= 2 * COUNT + 1
    with provisioner:
        for number, volume in enumerate(volumes):
            world.delete("PersistentVolumeClaim", f"data-{number}")
            world.wait_gone("PersistentVolume", volume)
    assert provisioner.counts == {f"{verb} persistentvolumes": COUNT for verb in ("get", "patch", "delete")}
    assert not provisioner.conflicts
    assert provisioner.intents in ({}, {"update leases": 1}), "that after the last claim"


def test_of_a_burst_of_claims(world, start, side):
    """Claims that are served at the same time share the writes of what is asked for them."""
    world.make_class()
    names = [f"data-{number}" for number in range(BURST)]
    for name in names:
        world.claim(name)
    for name in names:  # the binder has seen each claim, so that the provisioner finds all of them when it starts
        world.wait("PersistentVolumeClaim", name, lambda item: STORAGE_PROVISIONER in (item["metadata"].get("annotations") or {}))
    provisioner = start("csi-provisioner")
    with provisioner:
        for name in names:
            world.bound(name)
        wait_for("nothing to be recorded any more", lambda: world.intents() == {})
    assert provisioner.counts["create persistentvolumes"] == BURST and not provisioner.conflicts
    assert set(provisioner.intents) == {"get leases", "create leases", "update leases"}
    assert sum(provisioner.intents.values()) <= BURST / 2, provisioner.intents


def test_of_attachments(world, start, side):
    """An attachment that is made and deleted costs four writes: of its volume's finalizer, its own one twice, and its status."""
    world.make_class()
    provisioner = start("csi-provisioner")
    volumes = [bind(world, f"data-{number}") for number in range(COUNT + 1)]
    provisioner.process.stop()
    attacher = start("csi-attacher")
    names = [f"{world.namespace}-{number}" for number in range(COUNT + 1)]

    def attach(number):
        world.create(objects.attachment(names[number], world.driver, NODE, volumes[number]))
        world.wait("VolumeAttachment", names[number], lambda item: (item.get("status") or {}).get("attached"))

    def detach(number):
        world.delete("VolumeAttachment", names[number])
        world.wait_gone("VolumeAttachment", names[number])
    attach(COUNT)  # by then it has listed what it needs
    detach(COUNT)
    with attacher:
        for number in range(COUNT):
            attach(number)
        for number in range(COUNT):
            detach(number)
    assert attacher.counts == {"patch persistentvolumes": COUNT, "patch volumeattachments": 2 * COUNT,
                               "patch volumeattachments/status": COUNT}, "\n".join(map(str, attacher.made))
    assert not attacher.conflicts
