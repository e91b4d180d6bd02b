"""The image of the provisioner is changed to another program's and back, at the worst moment: while a CreateVolume has
made the volume and its answer is not there. Nothing hangs, nothing doubles, nothing is lost or left."""
import json

import pytest
from lib import objects
from lib.csi_double import NAME
from lib.local_api import LocalApi
from lib.other_provisioner import OtherProvisioner
from lib.roles import LEASE, kubeconfig_of
from lib.standalone import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.dropin]

ELECTION = NAME.replace(".", "-")
INTENTS = f"/apis/coordination.k8s.io/v1/namespaces/default/leases/berth-provisioning-{ELECTION}"


class Cluster:
    def __init__(self, berth, double, start, folder):
        self.berth = berth
        self.double = double
        self.api = LocalApi(berth.data / "api.sock")
        self.other = OtherProvisioner(self.api, NAME)
        self._start = start
        self._config = kubeconfig_of(folder / "config", berth.data / "api.sock")
        berth.apply(objects.storage_class("double", binding="Immediate", provisioner=NAME))

    def begin(self, elect=True):
        """Starts Berth's provisioner under the name of the Go program, and waits until it leads."""
        role = self._start("csi-provisioner", "--csi-address", self.double.socket, "--kubeconfig", self._config, "-v=5",
                           *(LEASE if elect else ()))
        if elect:
            wait_for("Berth to lead", lambda: "is ours" in role.log())
        return role

    def intents(self):
        code, lease = self.api.call("GET", INTENTS)
        return {} if code == 404 else json.loads(lease["metadata"]["annotations"]["storage.berth.dev/intents"])["intents"]

    def ask(self):
        """Creates a claim whose volume is made and whose answer is lost each time."""
        self.double.be_wrong("loses-answers:CreateVolume")
        self.berth.apply(objects.claim("data", "1Mi", "double"))
        wait_for("the volume", self.double.volumes)
        wait_for("its intent", self.intents)
        return self.berth.get("pvc", "data")

    def take_over(self):
        """The other program leads when Berth is gone."""
        self.other.lead()
        self.double.be_wrong()
        self.double.forget_calls()

    def remove_claim(self):
        """Deletes the claim, which nothing may hold."""
        self.berth.run("delete", "pvc", "data")
        self.berth.wait_gone("pvc", "data")

    def wait_settled(self):
        wait_for("no intent to be left", lambda: not self.intents())


@pytest.fixture
def cluster(berth, known_double, start, tmp_path):
    yield Cluster(berth, known_double, start, tmp_path)
    berth.remove_everything()  # while the last provisioner runs


def end(role, how):
    if how == "killed":
        role.process.kill()
        role.process.wait()
    else:
        assert role.stop() == 0


@pytest.mark.parametrize("how", ["killed", "stopped"])
def test_the_claim_is_deleted_while_the_other_program_leads(cluster, how):
    role = cluster.begin()
    claim = cluster.ask()
    assert claim["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]
    end(role, how)
    cluster.take_over()
    cluster.remove_claim()
    assert cluster.double.volumes(), "the other program does not know of it"
    cluster.other.go()
    cluster.begin()
    wait_for("Berth to delete what it had asked for", lambda: not cluster.double.volumes())
    cluster.wait_settled()
    wait_for("no object of it", lambda: not cluster.berth.items("pv"))


@pytest.mark.parametrize("how", ["killed", "stopped"])
def test_the_other_program_serves_the_claim(cluster, how):
    role = cluster.begin()
    claim = cluster.ask()
    end(role, how)
    cluster.take_over()
    volume = cluster.other.provision(claim, cluster.double.volumes()[0].name)
    cluster.berth.wait_phase("pvc", "data", "Bound")
    cluster.other.go()
    cluster.begin()
    cluster.wait_settled()
    assert cluster.double.calls("CreateVolume") == [], "it has its volume"
    assert cluster.berth.get("pvc", "data")["spec"]["volumeName"] == volume
    assert [each["metadata"]["name"] for each in cluster.berth.items("pv")] == [volume]


def test_a_volume_that_the_other_program_made_and_a_person_kept_stays(cluster):
    role = cluster.begin()
    claim = cluster.ask()
    end(role, "killed")
    cluster.take_over()
    kept = cluster.double.volumes()
    volume = cluster.other.provision(claim, kept[0].name, policy="Retain")
    cluster.berth.wait_phase("pvc", "data", "Bound")
    cluster.remove_claim()
    cluster.berth.run("delete", "pv", volume)
    cluster.berth.wait_gone("pv", volume)
    cluster.other.go()
    role = cluster.begin()
    cluster.wait_settled()
    assert cluster.double.calls("CreateVolume") == []
    assert cluster.double.volumes() == kept
    assert "delete it by hand" in role.log()


def test_berth_alone_needs_no_look_at_events(cluster):
    """Killed and started again with nobody in between."""
    role = cluster.begin()
    cluster.ask()
    end(role, "killed")
    cluster.remove_claim()
    cluster.double.be_wrong()
    cluster.begin()
    wait_for("Berth to delete what it had asked for", lambda: not cluster.double.volumes())
    cluster.wait_settled()


def test_without_leader_election(cluster):
    role = cluster.begin(elect=False)
    claim = cluster.ask()
    end(role, "killed")
    cluster.double.be_wrong()
    cluster.begin(elect=False)
    cluster.berth.wait_phase("pvc", "data", "Bound")
    cluster.wait_settled()
    assert cluster.berth.get("pvc", "data")["spec"]["volumeName"] == f"pvc-{claim['metadata']['uid']}"
    assert len(cluster.double.volumes()) == 1
