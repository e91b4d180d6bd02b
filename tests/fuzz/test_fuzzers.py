"""Each fuzzer runs for a few seconds; `./dev fuzz` runs them for longer."""
import pathlib
import subprocess

import pytest
from lib.standalone import ROOT

pytestmark = pytest.mark.fuzz

FUZZERS = sorted(path.stem.removeprefix("fuzz_") for path in (ROOT / "tests" / "fuzz").glob("fuzz_*.cc"))


@pytest.fixture(scope="session")
def built():
    subprocess.run([ROOT / "tools" / "build", "fuzz", "fuzzers"], check=True, stdout=subprocess.DEVNULL)


@pytest.mark.parametrize("name", FUZZERS)
def test_random_input_breaks_nothing(built, name, tmp_path):
    result = subprocess.run([ROOT / "build" / "fuzz" / "bin" / f"fuzz_{name}", "-max_total_time=10", "-max_len=4096",
                             "-timeout=10", f"-artifact_prefix={tmp_path}/", tmp_path],
                            capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stderr[-4000:]
