"""The provisioner of the CSI driver double as a process of its own beside the API, and the other program that takes its
place whenever it has died."""
import json

from lib.csi_double import NAME
from lib.local_api import LocalApi
from lib.other_provisioner import OtherProvisioner
from lib.roles import LEASE, Role, kubeconfig_of
from lib.standalone import Failure, hears_sigterm

ROLE = "controller"


def beside_controller(flow):
    """Gives the flow the CSI driver double and a Controller for it. Berth itself has no controllers of that driver."""
    flow.beside_double = True
    flow.beside_controller = True
    return flow


class Controller:
    def __init__(self, berth, double, folder):
        self.api = LocalApi(berth.data / "api.sock")
        self.double = double
        self.config = kubeconfig_of(folder / "controller.kubeconfig", berth.data / "api.sock")
        self.log = folder / "controller.log"
        self.log.unlink(missing_ok=True)
        self.other = OtherProvisioner(self.api, NAME, socket=double.socket)
        self.intents_path = f"{self.other.leases}/berth-provisioning-{NAME.replace('.', '-')}"
        # What happens in the cluster while the other program leads, before it works: a function, which may be repeated.
        self.meanwhile = lambda: None
        self.hand_overs = 0
        self.role = None

    @property
    def process(self):
        return self.role and self.role.process

    def start(self, env=None):
        self.role = Role(self.log, ROLE, "--roles=provisioner", "--csi-address", self.double.socket,
                         "--kubeconfig", self.config, *LEASE, env=env)

    def leads(self):
        code, lease = self.api.call("GET", self.other.path)
        return code == 200 and lease["spec"].get("holderIdentity") not in (None, "", "other")

    def has_died(self):
        return self.process is not None and self.process.poll() is not None

    def kill(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()

    def ends(self):
        """Ends it in order, and tells whether it did."""
        # A process that was only just started would die of SIGTERM.
        if self.has_died() or not hears_sigterm(self.process.pid) or self.role.stop() != 0:
            return False
        self.role = None
        return True

    def hand_over(self, env):
        """Lets the other program lead, work and go, and starts this one again. It may be repeated where it failed."""
        assert self.process.returncode == -9, f"it ended with {self.process.returncode}\n{self.log_tail()}"
        self.other.lead()
        self.double.be_wrong()
        self.check_marks()
        self.meanwhile()
        self.other.work()
        self.other.go()
        self.hand_overs += 1
        self.start(env)

    def check_marks(self):
        """Checks that nothing of Berth is on claims and volumes, because another program would not take it off."""
        for plural in ("persistentvolumeclaims", "persistentvolumes"):
            for item in self.api.items(plural):
                meta = item["metadata"]
                marks = [mark for mark in [*meta.get("finalizers", []), *meta.get("annotations", {}), *meta.get("labels", {})]
                         if "berth.dev" in mark]
                assert not marks, f"{plural} {meta['name']} has {marks}"

    def intents(self):
        """Gives what CreateVolume was called for and is not settled, by the claim's uid."""
        code, lease = self.api.call("GET", self.intents_path)
        if code == 404:
            return {}
        if code != 200:
            raise Failure(f"{code}: {lease}")
        return json.loads(lease["metadata"]["annotations"]["storage.berth.dev/intents"])["intents"]

    def forget(self):
        """Deletes its leases, as one does when it is gone for good."""
        for path in (self.other.path, self.intents_path):
            code, answer = self.api.call("DELETE", path)
            if code not in (200, 404):
                raise Failure(f"{code}: {answer}")

    def log_tail(self, lines=60):
        if not self.log.exists():
            return ""  # it was not started yet
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])
