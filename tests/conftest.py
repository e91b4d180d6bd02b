"""What the tests share: one containerd for the session, Berths that run on it, and virtual machines."""
import os
import pathlib
import shutil
import signal
import sys
import tempfile
import zlib

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

from lib import leaks, mounts, standalone, vm  # noqa: E402
from lib.drivers import page as drivers_page  # noqa: E402


def pytest_configure():
    # Under nohup every process that is started here would inherit an ignored SIGHUP, and a shell cannot trap an
    # ignored signal.
    if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
        signal.signal(signal.SIGHUP, lambda *_: None)


# The labels of tests that take turns, because a run of all of them would last too long. tools/run_tests says whose turn it is.
COSTLY = ("vm", "storage", "turns")


def pytest_collection_modifyitems(items):
    turn, _, turns = os.environ.get("BERTH_TURN", "").partition("/")
    for item in items:
        costly = any(item.get_closest_marker(label) for label in COSTLY)
        if turns and costly and zlib.crc32(item.nodeid.encode()) % int(turns) != int(turn):
            item.add_marker(pytest.mark.skip(reason="its turn is with another commit; tools/run_tests --all runs it"))


def pytest_runtest_logreport(report):
    drivers_page.note_case(report)


def pytest_sessionfinish():
    drivers_page.write_section()


def pytest_addoption(parser):
    parser.addoption("--kubeconfig", help="conformance: the API to test; without it a Berth of its own")
    parser.addoption("--csi", help="conformance: socket of the CSI driver to test; without it the shipped one")
    parser.addoption("--csi-second-node", default="", help="conformance: id of another node of the CSI driver")
    parser.addoption("--csi-parameters", help="conformance: parameters of CreateVolume, as JSON")
    parser.addoption("--csi-secrets", help="conformance: secrets of CreateVolume, as JSON")
    parser.addoption("--csi-timeout", type=float, default=60, help="conformance: seconds that a CSI call may take")
    parser.addoption("--crust", help="conformance: socket of the CRUST handler to test; without it one of Berth's")
    parser.addoption("--crust-sandbox-command", help="conformance: command that makes pods and sandboxes (docs/crust.md)")
    parser.addoption("--crust-oci", default="/run/berth/crust-oci.sock", help="conformance: --oci-socket of 'berth crust-handler'")
    parser.addoption("--crust-run", default="/run/berth/crust", help="conformance: --run of 'berth crust-handler'")
    parser.addoption("--crust-kubelet", default="/var/lib/kubelet", help="conformance: --kubelet of 'berth crust-handler'")
    parser.addoption("--crust-timeout", type=float, default=60, help="conformance: seconds that a CRUST call may take")


@pytest.fixture(scope="session")
def runtime():
    """The socket of a containerd that only the tests use."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="bt-", dir="/var/tmp"))
    socket = standalone.own_containerd("start", folder)
    yield socket
    standalone.own_containerd("stop", folder)
    shutil.rmtree(folder, ignore_errors=True)


def _standalones(runtime):
    """Gives a function that makes Standalones. At the end it stops them, and removes what a failed test left."""
    made = []

    def make(**arguments):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="bt-", dir="/var/tmp"))
        berth = standalone.Standalone(folder, runtime, **arguments)
        made.append(berth)
        return berth

    yield make
    for berth in made:
        try:
            if berth.process is not None:
                berth.remove_everything(seconds=90)
                berth.stop()
        finally:
            berth.kill()
            mounts.unmount_below(berth.folder)
            mounts.detach_loops_below(berth.folder)
            shutil.rmtree(berth.folder, ignore_errors=True)


@pytest.fixture
def new_berth(runtime):
    """Makes Standalones for one test."""
    yield from _standalones(runtime)


@pytest.fixture
def berth(new_berth):
    return new_berth().start()


@pytest.fixture(scope="module")
def module_berth(runtime):
    """One Standalone for all tests of a file."""
    standalones = _standalones(runtime)
    yield next(standalones)().start()
    next(standalones, None)


@pytest.fixture
def leak_free(berth):
    """Fails a test that leaves anything behind. A test has to name this fixture after `berth`."""
    before = leaks.Snapshot(berth)
    yield
    berth.remove_everything()
    left = before.leaked_since()
    assert not left, "left behind:\n" + "\n".join(left)


@pytest.fixture
def vm_folder():
    """A folder with a short path for virtual machines of one test; lib/vm/machine.py says what they can do."""
    why = vm.available()
    if why:
        pytest.skip(f"skipped: no virtual machine: {why}")
    folder = pathlib.Path(tempfile.mkdtemp(prefix="vm-", dir="/var/tmp"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def machine(vm_folder):
    made = vm.Machine(vm_folder)
    yield made
    made.close()


@pytest.fixture
def machines(vm_folder):
    """Gives the machines of shared_folder.sh, by name: a server, and two nodes with two cables to it."""
    machines = {}
    for name in ("server", "one", "two"):
        (vm_folder / name).mkdir()
        machines[name] = vm.Machine(vm_folder / name)
        machines[name].files["shared_folder.sh"] = pathlib.Path(__file__).parent / "vm" / "shared_folder.sh"
    for number, name in enumerate(("one", "two"), start=1):
        for cable in (0, 1):
            end = f"52:54:00:0{cable}:0{number}"
            vm.connect(machines["server"], machines[name], vm_folder, f"{end}:01", f"{end}:02")
    return machines
