"""Each test that asks for `kubectl` runs with Debian's 1.20 and with whatever other version is installed."""
import itertools

import pytest
from lib.kubectl import Kubectl, installed
from lib.standalone import wait_for

PARAMETERS = [pytest.param((binary, version), id=f"kubectl-{version[2]}")
              for binary, version in installed().items()]
if not any(one.values[0][1][:2] == (1, 20) for one in PARAMETERS):
    PARAMETERS.append(pytest.param(None, id="kubectl-of-debian", marks=pytest.mark.skip(
        "Debian's kubectl is not here: ./dev setup fetches it")))
NUMBERS = itertools.count(1)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    return tmp_path_factory.mktemp("home")


@pytest.fixture(params=PARAMETERS)
def kubectl(request, module_berth, home):
    """A client in a namespace that it makes and that is gone afterwards, with all that is in it."""
    binary, version = request.param
    ns = f"test-{next(NUMBERS)}"
    client = Kubectl(binary, version, module_berth.data / "kubeconfig", ns, home)
    client("create", "namespace", ns)
    wait_for("the namespace's account", lambda: client.run("get", "sa", "default", check=False).returncode == 0)
    yield client
    client("delete", "namespace", ns, "--timeout=60s", timeout=90)
    assert "NotFound" in client.fails("get", "namespace", ns)
