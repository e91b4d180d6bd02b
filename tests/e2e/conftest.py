"""Each test that asks for `kubectl` runs with Debian's 1.20 and with every other installed version. Tests of roles
start them as processes of their own."""
import itertools
import pathlib
import shutil
import tempfile

import pytest
from lib.ceph import CephCluster, Missing
from lib.csi_double import CsiDouble
from lib.kubectl import Kubectl, installed
from lib.roles import Role
from lib.standalone import wait_for

INSTALLED = installed()
PARAMETERS = [pytest.param((binary, version), id=f"kubectl-{version[2]}") for binary, version in INSTALLED.items()]
if not any(one.values[0][1][:2] == (1, 20) for one in PARAMETERS):
    PARAMETERS.append(pytest.param(None, id="kubectl-of-debian", marks=pytest.mark.skip(
        "Debian's kubectl is not here: ./dev setup fetches it")))
NUMBERS = itertools.count(1)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("home")


@pytest.fixture
def ceph_cluster():
    """Gives a Ceph cluster of one server, on this machine."""
    made = CephCluster(pathlib.Path(tempfile.mkdtemp(prefix="bc-", dir="/var/tmp")) / "ceph")
    try:
        yield made.start()
    except Missing as missing:
        pytest.skip(str(missing))
    finally:
        made.stop()
        made.folder.parent.rmdir()


@pytest.fixture
def kubectl_of(home):
    """Gives a client of any version for a Berth, in the namespace `default`."""
    def client(berth):
        [(binary, version), *_] = INSTALLED.items()
        return Kubectl(binary, version, berth.data / "kubeconfig", "default", home)
    return client


@pytest.fixture(params=PARAMETERS)
def kubectl(request, module_berth, home):
    """Gives a client in a namespace of its own. Afterwards the namespace is deleted with all that is in it."""
    binary, version = request.param
    ns = f"test-{next(NUMBERS)}"
    client = Kubectl(binary, version, module_berth.data / "kubeconfig", ns, home)
    client("create", "namespace", ns)
    wait_for("the namespace's account", lambda: client.run("get", "sa", "default", check=False).returncode == 0)
    yield client
    client("delete", "namespace", ns, "--timeout=60s", timeout=90)
    assert "NotFound" in client.fails("get", "namespace", ns)


@pytest.fixture
def short():
    """Gives a folder with a short path, because a socket's path is limited."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="br-", dir="/tmp"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def known_double(berth, short):
    """Gives a driver that is also registered on the node, because otherwise no node has its topology."""
    double = CsiDouble(short / "d", registration_folder=berth.data / "kubelet/plugins_registry").start()
    yield double
    double.stop()


@pytest.fixture
def start(tmp_path):
    """Gives a function that starts roles; they are stopped at the end."""
    started = []

    def make(*arguments):
        started.append(Role(tmp_path / f"role-{len(started)}.log", *arguments))
        return started[-1]

    yield make
    for role in started:
        role.stop()
