"""Fail-overs of a LUN under frozen, cut off, killed and woken nodes: no node writes after its fence (lib/witness.py).

BERTH_FAILOVERS is how many there are, and BERTH_SEED makes the same choices again.
"""
import os
import random

import pytest

from lib.witness import BLOCK, Race

pytestmark = [pytest.mark.storage]
BLOCKS = 64


def test_fail_overs_under_random_mishaps_have_no_double_write(tgt, tmp_path):
    turns = int(os.environ.get("BERTH_FAILOVERS", "30"))
    seed = int(os.environ.get("BERTH_SEED", random.randrange(1 << 32)))
    print(f"BERTH_FAILOVERS={turns} BERTH_SEED={seed}")
    race = Race(tgt.add(1, size=BLOCKS * BLOCK), tmp_path, seed)
    race.run(turns)
    assert race.checked >= turns * BLOCKS
    print(race.report(turns))
