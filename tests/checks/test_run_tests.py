"""How tools/run_tests tells a race from a break: it runs in a small tree with tests of its own."""
import pathlib
import shutil
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
pytestmark = [pytest.mark.checks]

GOOD = "def test_good():\n    pass\n"
BROKEN = "def test_broken():\n    assert False, 'it never works'\n"
# Fails at its first run, and passes from then on.
RACY = """
import pathlib

def test_racy():
    mark = pathlib.Path(__file__).with_name("mark")
    first = not mark.exists()
    mark.touch()
    assert not first, "it lost the race"
"""
# Cannot be read at the first time, as if another file had its name.
UNREADABLE = """
import pathlib

mark = pathlib.Path(__file__).with_name("mark")
if not mark.exists():
    mark.touch()
    raise ImportError("import file mismatch")
"""


@pytest.fixture
def run_tests(tmp_path):
    """A function that runs tools/run_tests with these tests and returns its exit code and its lines."""

    def run(*tests, flags=()):
        (tmp_path / "tools").mkdir()
        (tmp_path / "build" / "dev").mkdir(parents=True)
        folder = tmp_path / "tests"
        folder.mkdir()
        for tool in ("run_tests", "test_cases.py"):
            shutil.copy(ROOT / "tools" / tool, tmp_path / "tools" / tool)
        shutil.copy(ROOT / "tests" / "pytest.ini", folder)
        (folder / "conftest.py").write_text("import pytest\n\ndef pytest_collection_modifyitems(items):\n"
                                            "    for item in items:\n        item.add_marker(pytest.mark.api)\n")
        (folder / "test_small.py").write_text("\n".join(tests))
        done = subprocess.run([tmp_path / "tools" / "run_tests", "--label", "api", *flags], cwd=tmp_path,
                              capture_output=True, text=True, timeout=120)
        return done.returncode, done.stdout.splitlines()

    return run


def test_a_test_that_passes_alone_is_flaky_and_the_run_is_green(run_tests):
    code, lines = run_tests(GOOD, RACY)
    assert code == 0
    assert lines[-2:] == ["1 flaky", "2 passed, 0 failed, 0 skipped"]
    assert any(line.startswith("flaky: tests/test_small.py::test_racy") for line in lines)
    assert any("it lost the race" in line for line in lines[lines.index("the 20 slowest tests, in seconds:"):])


def test_a_test_that_fails_again_is_broken(run_tests):
    code, lines = run_tests(GOOD, BROKEN)
    assert code == 1
    assert lines[-2:] == ["failed: tests/test_small.py::test_broken", "1 passed, 1 failed, 0 skipped"]
    assert sum(line.startswith("== again, alone") for line in lines) == 1


def test_a_file_that_cannot_be_read_breaks_the_run_also_if_it_passes_alone(run_tests):
    code, lines = run_tests(UNREADABLE, GOOD)
    assert code == 1
    assert "failed: pytest itself" in lines


def test_a_test_that_ran_alone_is_not_run_again(run_tests):
    code, lines = run_tests(RACY)
    assert code == 1
    assert lines[-1] == "0 passed, 1 failed, 0 skipped"
    assert not any(line.startswith("== again, alone") for line in lines)


def test_without_retries_nothing_is_run_again(run_tests):
    code, lines = run_tests(GOOD, RACY, flags=["--no-retry"])
    assert code == 1
    assert lines[-1] == "1 passed, 1 failed, 0 skipped"


def test_many_failures_are_no_races(run_tests):
    code, lines = run_tests(*(BROKEN.replace("broken", f"broken_{number}") for number in range(13)))
    assert code == 1
    assert lines[-1] == "0 passed, 13 failed, 0 skipped"
    assert not any(line.startswith("== again, alone") for line in lines)
