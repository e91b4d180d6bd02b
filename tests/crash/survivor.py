"""Takes the steps of a flow until each succeeds, starting Berth again whenever it has ended."""
from lib import csi_double, local_api, standalone

DRIVER = "local.csi.berth.dev"


def beside_double(flow):
    """Gives the flow the CSI driver double, which goes on when Berth is killed."""
    flow.beside_double = True
    return flow


def beside_agent(flow):
    """Gives the flow a block agent, which is killed and restarted separately from Berth."""
    flow.beside_agent = True
    return flow


def beside_handler(flow):
    """Gives the flow a CRUST handler, which is killed and restarted separately from Berth."""
    flow.beside_handler = True
    return flow


def beside_storage(kind):
    """Gives the flow a storage (storages.py), a block agent, and the I/O proxy of its node."""
    def decorate(flow):
        flow.storage = kind
        return beside_agent(flow)
    return decorate


class Survivor:
    # How long a step may take, in seconds. A storage keeps the client of a process that died for half a minute.
    patience = 60

    def __init__(self, berth, environment=None, double=None, agent=None, handler=None, runtime=None, storage=None,
                 proxy=None, controller=None):
        self.berth = berth
        self.environment = environment or {}
        self.double = double
        self.agent = agent
        self.handler = handler
        self.runtime = runtime
        self.storage = storage
        self.proxy = proxy
        self.controller = controller
        if storage is not None:
            self.patience = 150
        self.api = local_api.LocalApi(berth.data / "api.sock")
        self.restarts = 0

    def start(self):
        self.berth.start(env=self.environment, wait=False)

    def revive(self):
        if self.agent is not None and self.agent.process is not None and self.agent.process.poll() is not None:
            self.restarts += 1
            self.agent.start(env=self.environment)
        if self.proxy is not None and self.proxy.process is not None and self.proxy.process.poll() is not None:
            self.restarts += 1
            self.proxy.start(env=self.environment, wait=False)
        if self.handler is not None and self.handler.process is not None and self.handler.process.poll() is not None:
            self.restarts += 1
            self.handler.start(env=self.environment)
        if self.runtime is not None and self.runtime.pid() is None:
            self.restarts += 1
            self.runtime.start()
        if self.berth.process.poll() is not None:
            self.restarts += 1
            self.start()
        if self.controller is not None and self.controller.has_died():
            self.restarts += 1
            self.controller.hand_over(self.environment)

    def stop(self):
        """Stops Berth in order, and again if a crash interrupts the stop."""
        while True:
            self.ready()  # a process that has only just started does not handle SIGTERM yet
            process = self.berth.process
            self.berth.stop()
            if process.returncode == 0:
                return
            assert process.returncode == -9, f"'berth up' ended with {process.returncode}\n{self.berth.log_tail(60)}"
            self.restarts += 1
            self.start()

    def step(self, what, action, seconds=None):
        """Repeats `action` until its value is not false, and returns that value. A Failure counts as a try that did
        not succeed."""
        last = None

        def attempt():
            nonlocal last
            try:
                self.revive()
                return action()
            except standalone.Failure as failure:
                last = failure
                return False

        try:
            return standalone.wait_for(what, attempt, seconds or self.patience)
        except standalone.Failure as failure:
            raise AssertionError(f"{failure}\n{last}\n{self.state()}\n{self.log_tail()}") from None

    def log_tail(self):
        beside = {"block agent": self.agent, "I/O proxy": self.proxy, "CRUST handler": self.handler,
                  "controller": self.controller}
        return self.berth.log_tail(60) + "".join(f"\n-- {name}:\n{process.log_tail()}"
                                                 for name, process in beside.items() if process is not None)

    def state(self):
        """Gives the objects that a failure is about, and the volumes of the driver double, for its message."""
        volumes = [] if self.double is None else [f"volume {path.name} of the double" for path in self.double.volumes()]
        try:
            objects = [f"{plural}: {item['metadata']['name']} {item.get('spec')} {item.get('status')}"
                       for plural in ("pods", "persistentvolumeclaims", "volumeattachments", "volumesnapshots",
                                      "volumesnapshotcontents", "volumegroupsnapshots", "volumegroupsnapshotcontents",
                                      "storageclusters", "volumefences", "nodecleanups", "blocksnapshots")
                       for item in self.api.items(plural)]
            return "\n".join(volumes + objects)
        except standalone.Failure as failure:
            return str(failure)

    # -- the steps of flows

    def ready(self):
        """Waits until the node is ready and the driver on it has reported its capacity."""
        def is_ready():
            return any(c["type"] == "Ready" and c["status"] == "True"
                       for node in self.api.items("nodes") for c in node.get("status", {}).get("conditions", []))
        self.step("Berth to be ready", is_ready)
        announced = self.double is not None and self.double.announcement().exists()
        drivers = {DRIVER, csi_double.NAME} if announced else {DRIVER}
        self.step("the drivers to be registered", lambda: drivers <= self.drivers())
        self.step("the driver's capacity to be known", lambda: self.api.items("csistoragecapacities"))

    def drivers(self):
        """Gives the names of the drivers on the node."""
        node = self.api.get("csinodes", "node-a") or {"spec": {}}
        return {driver["name"] for driver in node["spec"].get("drivers") or []}

    def quiet(self):
        """Waits until the node agent has finished pods that the API has already forgotten."""
        records = self.berth.data / "node"
        self.step("the node agent to have no pods and volumes", lambda: not any(
            path.is_file() for folder in ("pods", "volumes") for path in (records / folder).rglob("*")))

    def done(self, what, action):
        """Like step(), for an action whose value does not matter."""
        self.step(what, lambda: (action(), True)[1])

    def create(self, item):
        self.done(f"{item['kind']} {item['metadata']['name']} to be created", lambda: self.api.create(item))

    def run(self, pod):
        """Creates a pod and waits until it has succeeded."""
        self.create(pod)
        self.succeeded(pod["metadata"]["name"])

    def phase(self, name):
        phase = (self.api.get("pods", name) or {}).get("status", {}).get("phase")
        assert phase != "Failed", f"pod {name} failed\n{self.state()}\n{self.log_tail()}"
        return phase

    def succeeded(self, name):
        self.step(f"pod {name} to end", lambda: self.phase(name) == "Succeeded")

    def running(self, pod):
        """Creates a pod and waits until the first line of its container's log says that it is ready."""
        name = pod["metadata"]["name"]
        self.create(pod)
        logs = self.berth.data / "pod-logs"
        self.step(f"pod {name} to run", lambda: self.phase(name) == "Running" and any(
            log.stat().st_size > 0 for log in logs.glob(f"default_{name}_*/*/*.log")))

    def told(self, name, text):
        """Tells whether an event of the present pod of this name contains the text. Events of earlier pods do not
        count."""
        uid = self.api.get("pods", name)["metadata"]["uid"]
        return any(event["involvedObject"].get("uid") == uid and text in event["message"]
                   for event in self.api.items("events"))

    def gone(self, plural, name):
        self.step(f"{plural} {name} to be gone", lambda: self.api.delete(plural, name))

    def nothing_left(self):
        for plural in ("persistentvolumes", "volumeattachments"):
            self.step(f"{plural} to be gone", lambda plural=plural: not self.api.items(plural))

    def delete_soon(self, plural, name):
        """Asks for the deletion, and does not wait, because users of the object may keep it."""
        self.done(f"{plural} {name} to be asked to go", lambda: self.api.delete(plural, name))

    def volume_of(self, claim):
        """Gives the claim's PersistentVolume."""
        def found():
            name = self.api.get("persistentvolumeclaims", claim)["spec"].get("volumeName")
            return name and self.api.get("persistentvolumes", name)
        return self.step(f"claim {claim} to have a volume", found)
