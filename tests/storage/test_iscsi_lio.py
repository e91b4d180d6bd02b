"""Linux's own target, which Berth refuses: it takes a registered session for none if another session of the same initiator has the
reservation, so that no process of a node could take the LUN from an earlier one."""
import pathlib
import shutil
import tempfile

import pytest
from lib import vm
from lib.iscsi import call
from lib.lio import Lio
from lib.tgt import MIB

pytestmark = [pytest.mark.storage, pytest.mark.vm]


@pytest.fixture
def lio():
    if vm.available() is not None:
        pytest.skip(vm.available())
    folder = pathlib.Path(tempfile.mkdtemp(prefix="vm-", dir="/var/tmp"))
    made = Lio(folder)
    try:
        yield made.start()
    finally:
        made.stop()
        shutil.rmtree(folder)


def test_a_claim_is_refused_in_words_and_the_lun_stays_as_it_was(lio):
    before = call("info", lio.portal, lun=1)
    assert before["reserved"] == "" and before["blank"]
    refused = call("claim", lio.portal, lun=1, identity=before["identity"], size=8 * MIB, recorded=False)["error"]
    assert refused["code"] == "UNIMPLEMENTED" and "Linux's own target (LIO)" in refused["message"]
    assert call("info", lio.portal, lun=1) == before
    assert call("holders", lio.portal, lun=1)["reservation"]["type"] == "None"
    assert lio.content() == bytes(16 * MIB)
