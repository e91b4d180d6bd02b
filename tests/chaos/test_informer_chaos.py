"""Informers stay right while their server restarts, compacts its history and loses connections: a thousand times with
`run_tests --all`, else a quarter of that."""
import os
import random
import subprocess

import pytest
from lib.standalone import ROOT

pytestmark = [pytest.mark.api, pytest.mark.crash]

PROGRAM = ROOT / "build" / "dev" / "bin" / "informer_chaos"


RESTARTS = 1000 if os.environ.get("BERTH_CRASH_WALK") in ("all", "full") else 250


def test_informers_survive_many_restarts():
    seed = random.randrange(1 << 32)
    result = subprocess.run([PROGRAM, "--seed", str(seed), "--restarts", str(RESTARTS)], capture_output=True, text=True,
                            timeout=600)
    print(result.stdout)
    assert result.returncode == 0, f"seed {seed}:\n{result.stdout}\n{result.stderr[-4000:]}"
