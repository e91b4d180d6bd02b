"""Tests of the virtual machine itself: what survives a power cut, and what does not."""
import pytest
from lib import vm

pytestmark = pytest.mark.vm

WRITE = """
page() { yes "$1" | head -c 4096; }
page flushed  | dd of=/dev/disk/data bs=4096 seek=1 conv=fsync 2>/dev/null
page accepted | dd of=/dev/disk/data bs=4096 seek=2 oflag=direct 2>/dev/null  # the disk has it, in its cache
page dirty    | dd of=/dev/disk/data bs=4096 seek=3 2>/dev/null               # the kernel has it
"""
READ = """
for page in 1 2 3; do
  dd if=/dev/disk/data bs=4096 skip=$page count=1 2>/dev/null | tr '\\0' '\\n' | head -n 1
done
"""


def pages(machine):
    return machine.run(READ).output.splitlines()


def test_a_power_cut_loses_what_was_not_flushed_and_a_shutdown_loses_nothing(machine):
    disk = machine.add_disk("data", "1M")
    machine.run(WRITE, cut=True)
    assert pages(machine) == ["flushed", "", ""]
    machine.run(WRITE)
    assert pages(machine) == ["flushed", "accepted", "dirty"]
    assert disk.unflushed == 0


def test_a_script_that_fails_or_does_not_end_fails_the_test(machine):
    with pytest.raises(vm.Failure, match="ended with 3(.|\n)*last words"):
        machine.run("echo last words; exit 3")
    with pytest.raises(vm.Failure, match="did not end within 5 s"):
        machine.run("sleep 600", seconds=5)
