"""A case in which a sidecar works: a driver and a namespace of its own, and the sidecar, which is the Go program or Berth."""
import itertools
import json
import re

from lib import objects
from lib.csi_double import CsiDouble
from lib.kubernetes.cluster import rules_of
from lib.kubernetes.observed import without_names, whole
from lib.kubernetes.programs import Sidecar
from lib.standalone import wait_for

NODE = "node-a"
NUMBERS = itertools.count(1)
LEASES = [{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": ["get", "list", "watch", "create", "update",
                                                                                   "patch", "delete"]}]
# By program: the file of deploy/csi with its rights, and the role's name there.
RIGHTS = {
    "csi-provisioner": ("base/rbac/provisioner.yaml", "csi-provisioner"),
    "csi-attacher": ("base/rbac/attacher.yaml", "csi-attacher"),
    "csi-resizer": ("base/rbac/resizer.yaml", "csi-resizer"),
    "csi-snapshotter": ("base/rbac/snapshotter.yaml", "csi-snapshotter"),
    "snapshot-controller": ("snapshot-controller/rbac.yaml", "csi-snapshot-controller"),
}
# Those of csi-provisioner with --enable-capacity, besides.
OF_CAPACITY = rules_of("base/rbac/capacity.yaml", "csi-capacity")
SECRETS = {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list"]}
# Leader election as short as a test needs it.
ELECTION = ["--leader-election", "--leader-election-lease-duration=4s", "--leader-election-renew-deadline=2s",
            "--leader-election-retry-period=500ms"]
# Events of the cluster's own controllers.
OTHERS = ("ExternalProvisioning", "WaitForFirstConsumer", "ExternalExpanding", "VolumeMismatch", "ClaimLost")
# The controller that binds claims says this of a class that it has not seen yet, because the claim came sooner.
UNSEEN_CLASS = re.compile(r'storageclass\.storage\.k8s\.io ".*" not found')


class World:
    """`driver` is the driver's name, for a case that depends on it. `double` makes the driver from its name, in place of the
    driver double."""

    def __init__(self, cluster, of_go, observed, folder, driver=None, double=None):
        self.cluster = cluster
        self.of_go = of_go
        self.observed = observed
        self.folder = folder
        number = next(NUMBERS)
        self.namespace = f"case-{number}"
        self.driver = driver or f"d{number}.csi.example.com"
        self.storage_class = f"class-{number}"
        self.names = {self.namespace: "NAMESPACE", self.driver: "DRIVER", self.driver.replace(".", "-"): "DRIVER-LABEL",
                      self.storage_class: "CLASS"}
        self._sidecars = []
        registry = cluster.berth.data / "kubelet" / "plugins_registry" if cluster.berth else None
        self.double = double(self.driver) if double else \
            CsiDouble(folder / "d", registration_folder=registry, name=self.driver)

    def begin(self, on_node=True, proxy=None):
        """Starts the driver and registers it on the node. `proxy`: Proxied, so that the sidecars call the driver through it."""
        cluster = self.cluster
        if proxy:
            self.double = proxy(self.double, self.folder / "proxy.sock")
        cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}})
        self.double.start()
        if on_node and cluster.real:
            cluster.write_node(NODE, self.driver, {f"{self.driver}/zone": "here"})
        elif on_node:
            wait_for("the driver to be registered", lambda: any(
                entry["name"] == self.driver for entry in (cluster.get("CSINode", NODE) or {"spec": {}})["spec"].get("drivers") or []))
        return self

    def stop_sidecars(self):
        for sidecar in self._sidecars:
            sidecar.stop()

    def end(self):
        self.stop_sidecars()
        self.double.stop()

    # -- the sidecar

    def start(self, program, *arguments, of_go=None, rules=None, further=(), own_rules=(), env=None, elect=True, may_elect=True):
        """Starts the program of this side, or of the other one (`of_go`), with the rights that deploy/csi gives it and
        `further` ones; `rules` takes their place. `may_elect`: the rights on the Leases of its namespace, too."""
        of_go = self.of_go if of_go is None else of_go
        number = len(self._sidecars)
        rights = list(rules if rules is not None else rules_of(*RIGHTS[program])) + list(further)
        config = self.cluster.write_account(self.folder / f"config-{number}", self.namespace, program, rights,
                                            [*(LEASES if may_elect else ()), *own_rules])
        place = [] if program == "snapshot-controller" else [f"--csi-address={self.double.socket}"]
        election = [*ELECTION, f"--leader-election-namespace={self.namespace}"] if elect else []
        sidecar = Sidecar(self.folder / f"{program}-{number}.log", program,
                          [f"--kubeconfig={config}", *place, *election, *arguments], of_go, f"{self.namespace}-host-{number}", env)
        self._sidecars.append(sidecar)
        return sidecar

    # -- objects

    def create(self, item):
        return self.cluster.create(item, self.namespace)

    def get(self, kind, name):
        return self.cluster.get(kind, name, self.namespace)

    def make_class(self, binding="Immediate", name=None, **fields):
        return self.create(objects.storage_class(name or self.storage_class, binding=binding, provisioner=self.driver, **fields))

    def claim(self, name, size="1Mi", storage_class=None, **spec):
        return self.create(objects.claim(name, size, storage_class or self.storage_class, **spec))

    def bound(self, name, seconds=60):
        """Waits until a claim is bound, and gives (claim, its volume) once the volume is Bound, too."""
        claim = self.wait("PersistentVolumeClaim", name, lambda item: item["status"].get("phase") == "Bound", seconds)
        volume = self.wait("PersistentVolume", claim["spec"]["volumeName"],
                           lambda item: item["status"].get("phase") == "Bound", seconds)
        return self.get("PersistentVolumeClaim", name), volume

    def wait(self, kind, name, condition, seconds=60):
        """Waits until the object is there and as it should be."""
        def look():
            item = self.get(kind, name)
            return item if item is not None and condition(item) else None
        try:
            return wait_for(f"{kind} {name}", look, seconds, interval=0.05)
        except AssertionError as failure:
            logs = "\n".join(f"{each.log_path.name}: {each.log()[-2500:]}" for each in self._sidecars)
            raise AssertionError(f"{failure}\n{self.get(kind, name)}\n{logs}") from None

    def looked_at(self, kind, name, condition):
        """Changes an object until the programs have looked at it and it is as it should be. Gives it without the changes."""
        numbers = itertools.count()

        def look():
            self.cluster.patch(kind, name, {"metadata": {"annotations": {"looked-at": str(next(numbers))}}}, self.namespace)
            item = self.get(kind, name)
            return item if condition(item) else None
        found = wait_for(f"{kind} {name}", look, interval=0.2)
        found["metadata"].pop("annotations")
        return found

    def delete(self, kind, name):
        self.cluster.delete(kind, name, self.namespace)

    def wait_gone(self, kind, name, seconds=60):
        try:
            wait_for(f"{kind} {name} to be gone", lambda: self.get(kind, name) is None, seconds, interval=0.05)
        except AssertionError as failure:
            logs = "\n".join(f"{each.log_path.name}: {each.log()[-2500:]}" for each in self._sidecars)
            raise AssertionError(f"{failure}\n{self.get(kind, name)}\n{logs}") from None

    def events(self, name, *reasons, seconds=30):
        """Waits for events of each reason about an object, and gives (type, reason, message) of all those that the sidecar
        has written."""
        def look():
            heard = {(event["type"], event["reason"], event["message"]) for event in self._events()
                     if event["involvedObject"].get("name") == name}
            return sorted(heard) if {reason for _, reason, _ in heard} >= set(reasons) else None
        return [list(each) for each in wait_for(f"events {reasons} about {name}", look, seconds, interval=0.1) or []] \
            if reasons else [list(each) for each in look()]

    def event(self, name, part, seconds=30):
        """Waits for an event about an object whose message has a part."""
        wait_for(f"an event '{part}' about {name}", lambda: any(part in event["message"] for event in self._events()
                                                               if event["involvedObject"].get("name") == name), seconds)

    def _events(self):
        for namespace in (self.namespace, "default"):
            yield from (event for event in self.cluster.items("Event", namespace)
                        if event["reason"] not in OTHERS and not UNSEEN_CLASS.fullmatch(event["message"]))

    def intents(self):
        """Gives what Berth's provisioner has recorded in this namespace that it asks the driver for, by the uid of the claim. None:
        it has recorded nothing yet. A long record, which is compressed, gives {"packed": True}."""
        for lease in self.cluster.items("Lease", self.namespace):
            if lease["metadata"]["name"].startswith("berth-provisioning-"):
                record = lease["metadata"]["annotations"]["storage.berth.dev/intents"]
                return json.loads(record)["intents"] if record.startswith("{") else {"packed": True}
        return None

    # -- comparison

    def same(self, key, value, names=None):
        """Checks that a value, which may be an object of the API, is what the Go program gives."""
        if isinstance(value, dict) and "metadata" in value:
            value = whole(value)
            if not self.cluster.real:  # where a snapshot controller runs that knows the nodes
                value["metadata"].get("labels", {}).pop("snapshot.storage.kubernetes.io/managed-by", None)
        self.observed.compare(key, without_names(value, self.names | (names or {})), self.of_go)
