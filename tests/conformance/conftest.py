"""A run of the suite has an API (a given one, or a Berth of its own) and a namespace of its own, and leaves nothing
behind."""
import pathlib
import shutil
import sys
import tempfile
import time

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import kinds  # noqa: E402
from maker import RUN, Maker  # noqa: E402
from lib import kube, standalone  # noqa: E402


def pytest_collection_modifyitems(items):
    here = pathlib.Path(__file__).resolve().parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.conformance)


@pytest.fixture(scope="session")
def kubeconfig(request):
    given = request.config.getoption("--kubeconfig")
    if given:
        yield kube.Kubeconfig(given)
        return
    folder = pathlib.Path(tempfile.mkdtemp(prefix="bt-", dir="/var/tmp"))
    berth = standalone.Standalone(folder, folder / "no-runtime.sock")
    try:
        berth.start(wait=False)
        path = berth.data / "kubeconfig"
        standalone.wait_for("the API", berth.answers)
        yield kube.Kubeconfig(path)
    finally:
        berth.kill()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def api(kubeconfig):
    api = kube.Api(kubeconfig)
    yield api
    api.close()


@pytest.fixture(scope="session")
def ns(api):
    """Gives a namespace of this run. Deleting it also deletes what a failed test left in it."""
    name = RUN
    reply = api.post(kinds.NAMESPACE.path(), kinds.NAMESPACE.new(name))
    assert reply.code == 201, reply
    # A cluster refuses pods before the namespace has its ServiceAccount, so a case waits for that itself.
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline and api.get(kinds.SERVICE_ACCOUNT.path(name, "default")).code != 200:
        time.sleep(0.05)
    yield name
    assert api.delete(kinds.NAMESPACE.path(name=name)).code in (200, 202)
    standalone.wait_for("the run's namespace to be gone",
                        lambda: api.get(kinds.NAMESPACE.path(name=name)).code == 404, seconds=90, interval=0.2)


@pytest.fixture
def make(api, ns):
    maker = Maker(api, ns)
    yield maker
    maker.clean()


@pytest.fixture(scope="session", autouse=True)
def nothing_left_behind(api, ns):
    """Checks after the run that no object of any served kind has its name."""
    yield
    left = []
    for path in listable(api):
        for item in api.get(path).json.get("items") or []:
            metadata = item["metadata"]
            if metadata.get("namespace") != ns and metadata["name"].startswith(RUN) and metadata["name"] != ns:
                left.append(f"{path}/{metadata['name']}")
    assert not left, left


def listable(api):
    """Gives the paths of all resources that can be listed, except events: other programs write those, and they expire
    by themselves."""
    roots = [f"/api/{version}" for version in api.get("/api").json["versions"]]
    roots += [f"/apis/{group['preferredVersion']['groupVersion']}" for group in api.get("/apis").json["groups"]]
    for root in roots:
        for resource in api.get(root).json.get("resources") or []:
            if "list" in resource["verbs"] and "/" not in resource["name"] and resource["name"] != "events":
                yield f"{root}/{resource['name']}"


@pytest.fixture(scope="session")
def long_watch(api, ns):
    """Gives a watch that is opened with the first test and read by the last, because a bookmark comes only about once
    a minute."""
    version = api.get(kinds.SECRET.path(ns)).json["metadata"]["resourceVersion"]
    with api.watch(kinds.SECRET.path(ns), resourceVersion=version, allowWatchBookmarks=True,
                   labelSelector="conformance.example.com/none") as watch:
        yield watch


@pytest.fixture(scope="session", autouse=True)
def open_long_watch(long_watch):
    """Opens the watch with the first test."""
