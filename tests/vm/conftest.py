"""Virtual machines of one test; lib/vm/machine.py says what they can do."""
import pathlib

import pytest


@pytest.fixture
def node(machine):
    """A machine for a Berth: its scripts begin with `. ./berth.sh`."""
    machine.add_disk("data", "256M")
    machine.files["berth.sh"] = pathlib.Path(__file__).parent / "berth.sh"
    return machine
