"""A virtual machine for each test; lib/vm/machine.py says what it can do."""
import pathlib
import shutil
import tempfile

import pytest
from lib import vm


@pytest.fixture
def machine():
    why = vm.available()
    if why:
        pytest.skip(f"skipped: no virtual machine: {why}")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="vm-", dir="/var/tmp"))
    made = vm.Machine(folder)
    yield made
    made.close()
    shutil.rmtree(folder)


@pytest.fixture
def node(machine):
    """A machine for a Berth: its scripts begin with `. ./berth.sh`."""
    machine.add_disk("data", "256M")
    machine.files["berth.sh"] = pathlib.Path(__file__).parent / "berth.sh"
    return machine
