"""Fail-overs of a volume under frozen, cut off, killed and woken nodes: no node writes after its fence (lib/witness.py).

BERTH_FAILOVERS is how many there are, and BERTH_SEED makes the same choices again.
"""
import os
import random

import pytest
from lib import lio
from lib.rbd import MIB
from lib.witness import BLOCK, Race
from lib.witness_iscsi import WitnessLun
from lib.witness_rbd import WitnessImage

pytestmark = [pytest.mark.storage]
BLOCKS = 64


def race(storage, folder, turns):
    turns = int(os.environ.get("BERTH_FAILOVERS", turns))
    seed = int(os.environ.get("BERTH_SEED", random.randrange(1 << 32)))
    print(f"BERTH_FAILOVERS={turns} BERTH_SEED={seed}")
    made = Race(storage, folder, seed)
    made.run(turns)
    assert made.checked >= turns * BLOCKS
    print(made.report(turns))


def test_fail_overs_of_a_lun_have_no_double_write(tgt, tmp_path):
    tgt.add(1, size=BLOCKS * BLOCK)
    race(WitnessLun(tgt), tmp_path, turns=30)


@pytest.mark.vm
def test_fail_overs_of_a_lun_of_linuxs_target_have_no_double_write(tmp_path):
    with lio.running(1, str(BLOCKS * BLOCK)) as target:
        race(WitnessLun(target.take(), patience=2 * lio.LONGEST_RESET), tmp_path, turns=15)


def test_fail_overs_of_an_rbd_image_have_no_double_write(ceph, image, tmp_path):
    ceph.call("create", image=image, size=MIB)
    race(WitnessImage(ceph, image), tmp_path, turns=10)
