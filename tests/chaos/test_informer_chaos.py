"""Informers stay right while their server restarts, compacts its history and loses connections."""
import random
import subprocess

import pytest
from lib.standalone import ROOT

pytestmark = [pytest.mark.api, pytest.mark.crash]

PROGRAM = ROOT / "build" / "dev" / "bin" / "informer_chaos"


def test_informers_survive_a_thousand_restarts():
    seed = random.randrange(1 << 32)
    result = subprocess.run([PROGRAM, "--seed", str(seed), "--restarts", "1000"], capture_output=True, text=True,
                            timeout=600)
    print(result.stdout)
    assert result.returncode == 0, f"seed {seed}:\n{result.stdout}\n{result.stderr[-4000:]}"
