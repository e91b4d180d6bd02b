"""A LUN of Linux's own target (LIO) from the claim to the deletion of its volume, and again: what other tests show with tgtd."""
import pytest

from lib import lio
from lib.iscsi import call
from lib.tgt import MIB

pytestmark = [pytest.mark.storage, pytest.mark.vm]
SIZE = 16 * MIB


def test_a_lun_of_linuxs_target_is_claimed_used_wiped_and_claimed_by_another(writers):
    with lio.running(1) as target:
        unit = target.take()
        members = {"lun": 1, "identity": call("info", unit.portal, lun=1)["identity"], "node": "Operator"}

        def ask(name, owner="owner-1", **more):
            return call(name, unit.portal, **members | more, cluster={"owner": owner})

        for owner, stranger in ("owner-1", "owner-2"), ("owner-2", "owner-1"):
            assert ask("claim", owner, size=SIZE)["reserved"] == "guard"
            assert ask("claim", owner, size=SIZE)["error"]["code"] == "ALREADY_EXISTS"
            assert ask("claim", owner, size=SIZE, recorded=True)["reserved"] == "guard"
            assert ask("claim", stranger, size=SIZE, recorded=True)["error"]["code"] == "FAILED_PRECONDITION"
            assert writers(unit.portal, node="node-a", cluster={"owner": stranger}).began.startswith("failed FAILED_PRECONDITION")
            # The first user is followed by another process of its node, and by another node.
            for node in "node-a", "node-a", "node-b":
                user = writers(unit.portal, node=node, cluster={"owner": owner})
                assert user.ask(f"write 0 {MIB} 7") == "ok" and ask("info", owner)["reserved"] == "used"
                assert "error" in ask("wipe", owner), "somebody uses it"
                assert user.quit() == 0 and ask("info", owner)["reserved"] == "guard"
            assert unit.data(1).startswith(b"\7" * MIB)
            assert ask("wipe", owner)["done"]
            assert unit.data(1) == bytes(SIZE) and ask("info", owner)["reserved"] == "" and ask("holders", owner)["holders"] == []
