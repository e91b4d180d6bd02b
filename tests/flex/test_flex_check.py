"""`berth flex check` as a driver's author runs it. src/volume/flex/check/driver_check_root_test.cc tests the drivers
with one fault each; these tests check what the terminal shows."""
import subprocess

import pytest
from lib.standalone import BINARY, ROOT

pytestmark = pytest.mark.flex


def check(driver, *flags):
    return subprocess.run([BINARY, "flex", "check", "-o", "folder={scratch}", *flags, driver], capture_output=True, text=True,
                          timeout=300)


def test_a_right_driver_passes():
    result = check(ROOT / "build" / "bin" / "folders", "--driver-name", "example.com/folders")
    assert result.returncode == 0, result.stdout + result.stderr
    assert result.stdout == "example.com/folders: no faults; it supports init mount unmount\n"


def test_a_wrong_driver_is_told_what_is_wrong():
    result = check(ROOT / "tests" / "flex" / "wrong" / "mount_again_fails")
    assert result.returncode == 1
    assert result.stdout.startswith("FAULT  mount (mount-again): a volume that is mounted is mounted again after a crash")
    assert "has 1 fault" in result.stderr


def test_what_is_no_driver_is_refused(tmp_path):
    result = check(tmp_path / "nothing")
    assert result.returncode == 1
    assert f"there is no driver at '{tmp_path}/nothing'" in result.stderr


def test_an_option_without_a_value_is_refused_and_not_repeated():
    result = check(ROOT / "tests" / "flex" / "wrong" / "silent", "--secret", "hunter2")
    assert result.returncode == 1
    assert "NAME=VALUE" in result.stderr and "hunter2" not in result.stderr
