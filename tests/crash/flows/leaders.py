"""Flows in which another program takes the place of Berth's provisioner whenever that has died, and Berth comes back
later. Each flow kills it once by itself, while a CreateVolume has made the volume and its answer is not there."""
from controllers import beside_controller
from survivor import DRIVER
from lib import csi_double, objects
from lib.standalone import wait_for

CLASS = "of-the-double"
LOST = "loses-answers:CreateVolume"


def begin(s):
    s.create(objects.storage_class(CLASS, provisioner=csi_double.NAME, binding="Immediate"))
    s.controller.start(env=s.environment)
    s.step("Berth to lead", s.controller.leads)


def claim(s, name):
    s.create(objects.claim(name, "1Mi", CLASS))


def is_bound(s, name):
    return s.api.get("persistentvolumeclaims", name)["status"].get("phase") == "Bound"


def agree(s, claims):
    """Checks that the driver has one volume for each of the claims and no other, and that nothing is to be settled."""
    for name in claims:
        s.step(f"claim {name} to be bound", lambda name=name: is_bound(s, name))
    s.step("the intents to be settled", lambda: not s.controller.intents())
    handles = sorted(s.volume_of(name)["spec"]["csi"]["volumeHandle"] for name in claims)
    assert len(set(handles)) == len(claims), handles
    s.step("the PersistentVolumes to be those of the claims", lambda: len(s.api.items("persistentvolumes")) == len(claims))
    left = sorted(path.name for path in s.double.volumes())
    assert left == handles, f"the driver has {left}, the claims have {handles}\n{s.log_tail()}"
    s.controller.check_marks()


def end(s):
    """Ends the provisioner for good, and removes the driver."""
    agree(s, [])
    s.step("the provisioner to end", s.controller.ends)
    s.done("its leases to be deleted", s.controller.forget)
    s.gone("storageclasses", CLASS)
    s.double.announcement().unlink(missing_ok=True)
    s.step("the driver to be gone from the node", lambda: s.drivers() == {DRIVER})


@beside_controller
def taken_over(s):
    """One claim gets its volume while Berth leads. Berth dies while it makes the volume of a second one, which the other
    program finishes. Both are deleted when Berth is back."""
    begin(s)
    claim(s, "first")
    agree(s, ["first"])
    s.double.be_wrong(LOST)
    claim(s, "second")
    s.step("the second volume", lambda: len(s.double.volumes()) == 2)
    s.controller.kill()
    agree(s, ["first", "second"])
    for name in ("first", "second"):
        s.gone("persistentvolumeclaims", name)
    s.nothing_left()
    end(s)


@beside_controller
def given_up(s):
    """Berth dies while it makes a volume, and the claim is deleted while the other program leads, which does not know
    of that volume. Berth finds and deletes it when it is back."""
    begin(s)
    s.controller.meanwhile = lambda: lose_claim(s)
    s.double.be_wrong(LOST)
    claim(s, "data")
    before = s.controller.hand_overs
    s.step("the volume", lambda: s.controller.hand_overs > before or s.double.volumes())
    if s.controller.hand_overs == before:
        s.controller.kill()
    s.step("the other program to have led", lambda: s.controller.hand_overs > before)
    s.step("the volume to be gone", lambda: not s.double.volumes())
    s.nothing_left()
    end(s)


def lose_claim(s):
    """Deletes the claim, which nothing of Berth may hold."""
    wait_for("the claim to be gone while Berth is not there", lambda: s.api.delete("persistentvolumeclaims", "data"),
             seconds=20)
