"""A provisioner without leader election is killed while a CreateVolume is unanswered, with the right to write Leases, in which Berth records
what it asks for, and without it. Nothing has to be taken off by hand."""
import pytest
from lib.standalone import wait_for

GO_PROGRAMS = ("csi-provisioner",)
FAST = ("--timeout=5s", "--retry-interval-start=200ms", "--retry-interval-max=1s")
NOT_RECORDED = "is not recorded"


class Provisioners:
    """The provisioners that run one after the other, with or without the right to write Leases."""

    def __init__(self, world, may_record):
        self.world = world
        self.may_record = may_record
        self.started = []

    def begin(self):
        self.started.append(self.world.start("csi-provisioner", *FAST, f"--leader-election-namespace={self.world.namespace}",
                                             elect=False, may_elect=self.may_record))
        return self.started[-1]

    def kill_in_a_call(self):
        """Begins one, which is killed when the driver has made the volume of a new claim and its answer is lost."""
        world = self.world
        provisioner = self.begin()
        world.double.be_wrong("loses-answers:CreateVolume")
        world.claim("data")
        wait_for("the volume", lambda: world.double.calls("CreateVolume", "done"))
        provisioner.kill()
        world.double.be_wrong()

    def check_logs(self):
        """Each process has said once that it records nothing, where it may not, and did not ask the API again."""
        if self.world.of_go:
            return
        said = [provisioner.log().count(NOT_RECORDED) for provisioner in self.started]
        assert said == [0 if self.may_record else 1] * len(self.started)
        if self.world.cluster.real:
            refused = [(verb, resource) for verb, resource, code in
                       self.world.cluster.requests_of(self.world.namespace, "csi-provisioner") if code == 403]
            assert len(refused) == (0 if self.may_record else len(self.started)), refused


@pytest.fixture(params=["recorded", "forbidden"])
def provisioners(world, request):
    if request.param == "forbidden" and not world.cluster.real:
        pytest.skip("Berth's own API has no roles")
    world.make_class()
    return Provisioners(world, request.param == "recorded")


def test_the_claim_stays(world, provisioners):
    """The claim gets the volume that the driver has made, is deleted with it, and bears no mark."""
    provisioners.kill_in_a_call()
    provisioners.begin()
    claim, volume = world.bound("data")
    assert claim["metadata"]["finalizers"] == ["kubernetes.io/pvc-protection"]
    assert len(world.double.volumes()) == 1
    assert len(set(world.double.calls("CreateVolume"))) == 1, "the name that the driver got"
    world.delete("PersistentVolumeClaim", "data")
    world.wait_gone("PersistentVolumeClaim", "data")
    world.wait_gone("PersistentVolume", volume["metadata"]["name"])
    assert not world.double.volumes()
    provisioners.check_logs()


def test_the_claim_is_deleted(world, provisioners):
    """The claim that is deleted before the next process runs goes at once. Its volume is deleted where that was recorded, and stays in the
    driver, as with the Go program, where nothing may be recorded."""
    provisioners.kill_in_a_call()
    world.delete("PersistentVolumeClaim", "data")
    world.wait_gone("PersistentVolumeClaim", "data", seconds=10)
    provisioners.begin()
    world.claim("further")
    world.bound("further")
    if world.of_go or not provisioners.may_record:
        assert len(world.double.volumes()) == 2
    else:
        wait_for("the volume that nobody needs to be deleted", lambda: len(world.double.volumes()) == 1)
    provisioners.check_logs()
