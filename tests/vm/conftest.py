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


@pytest.fixture
def shared_folder():
    """Gives the machines of shared_folder.sh, by name: a server, and two nodes with two cables to it."""
    why = vm.available()
    if why:
        pytest.skip(f"skipped: no virtual machine: {why}")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="vm-", dir="/var/tmp"))
    machines = {}
    for name in ("server", "one", "two"):
        (folder / name).mkdir()
        machines[name] = vm.Machine(folder / name)
        machines[name].files["shared_folder.sh"] = pathlib.Path(__file__).parent / "shared_folder.sh"
    for number, name in enumerate(("one", "two"), start=1):
        for cable in (0, 1):
            end = f"52:54:00:0{cable}:0{number}"
            vm.connect(machines["server"], machines[name], folder, f"{end}:01", f"{end}:02")
    yield machines
    shutil.rmtree(folder)
