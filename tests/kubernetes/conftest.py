"""Each case runs three times: the Go program on a real control plane as the control, whose deeds are compared with what is
recorded; Berth with the same arguments and rights on the same control plane; and Berth on its own API."""
import pathlib
import shutil
import tempfile

import pytest
from lib import mounts
from lib.kubernetes import compatibility, node, programs, runtimes
from lib.kubernetes.cluster import Cluster
from lib.kubernetes.control_plane import PROGRAMS, running_plane
from lib.kubernetes.observed import Observed
from lib.kubernetes.world import World
from lib.standalone import Standalone, wait_for

SIDES = [pytest.param(name, id=name, marks=mark) for name, mark in
         (("go", pytest.mark.kubernetes), ("berth", pytest.mark.kubernetes), ("own-api", pytest.mark.dropin))]


@pytest.fixture(scope="session")
def plane():
    """Gives the real control plane."""
    missing = programs.missing(*PROGRAMS)
    if missing:
        pytest.skip(missing)
    with running_plane() as made:
        yield made


@pytest.fixture(scope="session")
def real_cluster(plane):
    cluster = Cluster(plane.kubeconfig, plane=plane)
    cluster.install_snapshots()
    return cluster


@pytest.fixture(scope="module")
def bare_node(request):
    """Gives a node under a real kubelet, with the containerd that the parameter names (runtimes.py). It has a control plane of its
    own, because the kubelet would run the pods that other tests make only as objects."""
    runtime = getattr(request, "param", runtimes.MACHINES)
    missing = programs.missing(*PROGRAMS, *node.PROGRAMS) or runtimes.missing(runtime, any_version=not hasattr(request, "param"))
    if missing:
        pytest.skip(missing)
    with running_plane(with_node=True) as plane:
        made = node.Node(Cluster(plane.kubeconfig, plane=plane), containerd=runtimes.find(runtime))
        try:
            made.start()
            # The kubelet reports the version without the suffix of a distribution, such as ~ds1.
            assert programs.version_of(made.containerd).partition("~")[0] in made.runtime_version()
            yield made
        finally:
            made.end()


@pytest.fixture(scope="module")
def real_node(bare_node):
    """Gives a node under a real kubelet, with Berth's shipped driver beside it."""
    bare_node.start_shipped_driver()
    return bare_node


@pytest.fixture(scope="session")
def own_cluster():
    folder = pathlib.Path(tempfile.mkdtemp(prefix="bt-", dir="/var/tmp"))
    berth = Standalone(folder, folder / "no-runtime.sock")
    try:
        berth.start(wait=False)
        wait_for("the API", berth.answers)
        yield Cluster(berth.data / "kubeconfig", berth=berth)
    finally:
        berth.kill()
        mounts.unmount_below(folder)
        mounts.detach_loops_below(folder)
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def short():
    """Gives a folder with a short path, because a socket's path is limited."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="bk-", dir="/tmp"))
    yield folder
    mounts.unmount_below(folder)
    shutil.rmtree(folder)


@pytest.fixture(params=SIDES)
def new_world(request, short):
    """Gives a function that makes the World of a side, whose driver runs."""
    side = request.param
    cluster = request.getfixturevalue("own_cluster" if side == "own-api" else "real_cluster")
    missing = programs.missing(*getattr(request.module, "GO_PROGRAMS", ())) if side == "go" else ""
    if missing:
        pytest.skip(missing)
    parameters = request.node.callspec.id.replace(side, "").strip("-")
    case = "-".join(filter(None, (request.function.__name__.removeprefix("test_"), parameters)))
    made = []

    def make(driver=None, double=None, **options):
        observed = Observed(f"{request.path.stem.removeprefix('test_')}/{case}")
        made.append(World(cluster, side == "go", observed, short, driver, double))
        return made[-1].begin(**options)

    make.on_own_api = side == "own-api"
    yield make
    for each in made:
        each.end()


@pytest.fixture
def world(new_world):
    return new_world()


def pytest_runtest_logreport(report):
    compatibility.note_outcome(report)


def pytest_sessionfinish():
    compatibility.write_page()


@pytest.fixture(autouse=True)
def title(request, record_property):
    """The first sentence of a test's docstring is its line on the page."""
    if request.function.__doc__:
        record_property("title", " ".join(request.function.__doc__.split()).split(". ")[0].rstrip("."))


@pytest.fixture
def real_world(real_cluster, short):
    """Gives a World on the real control plane for a test of both programs together."""
    made = World(real_cluster, False, None, short)
    try:
        yield made.begin()
    finally:
        made.end()


@pytest.fixture(params=["killed", "stopped"])
def how(request):
    """Gives how a program ends that another one follows."""
    return request.param


@pytest.fixture(params=["go", "berth"])
def first(request):
    """Gives the side whose program runs before and after the other side's."""
    return request.param
