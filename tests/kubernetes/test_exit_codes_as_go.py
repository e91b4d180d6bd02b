"""With which code a sidecar ends that cannot start: a supervisor, or a person who reads a pod's status, sees it."""
import re

import pytest
from lib.kubernetes.programs import Sidecar
from lib.standalone import wait_for

# By program: the code where it refuses a value once it has read its flags, and where it does not know how to reach the API.
CODES = {
    "csi-provisioner": (255, 255),
    "csi-attacher": (1, 1),
    "csi-resizer": (1, 1),
    "csi-snapshotter": (255, 1),
    "snapshot-controller": (255, 1),
}
GO_PROGRAMS = tuple(CODES)
MALFORMED = 2


def run(world, program, *arguments, env=None):
    """Runs a program that ends by itself, and gives (exit code, log)."""
    place = [] if program == "snapshot-controller" else [f"--csi-address={world.double.socket}"]
    number = sum(1 for _ in world.folder.glob("ended-*"))
    sidecar = Sidecar(world.folder / f"ended-{number}.log", program, [*place, *arguments], world.of_go, f"{world.namespace}-host",
                      env={"KUBECONFIG": "", "KUBERNETES_SERVICE_HOST": "", "KUBERNETES_SERVICE_PORT": ""} | (env or {}))
    try:
        wait_for("its end", lambda: sidecar.process.poll() is not None, seconds=60)
    finally:
        sidecar.kill()
    return sidecar.process.returncode, sidecar.log()


@pytest.mark.parametrize("program", GO_PROGRAMS)
def test_a_gate_is_refused(world, program):
    """A feature gate that is unknown, or locked to the other value, ends a program with its code for that."""
    for gate in ("NoSuchGate", "WatchListClient", "ContextualLogging"):
        code, log = run(world, program, f"--feature-gates={gate}=true")
        assert code == CODES[program][0], log
        assert "unrecognized feature gate" in log and gate in log
    code, log = run(world, program, "--feature-gates=BtreeWatchCache=false")
    assert code == CODES[program][0], log
    assert "cannot set feature gate BtreeWatchCache to false, feature is locked to true" in log


@pytest.mark.parametrize("program", GO_PROGRAMS)
def test_no_kubeconfig_outside_of_a_cluster(world, program):
    """A program that is in no cluster and has no kubeconfig ends with its code for that, and so with a kubeconfig that is gone."""
    assert run(world, program)[0] == CODES[program][1]
    assert run(world, program, f"--kubeconfig={world.folder}/gone")[0] == CODES[program][1]


@pytest.mark.parametrize("program", GO_PROGRAMS)
def test_a_flag_is_malformed(world, program):
    """A flag that does not exist or whose value has another type ends a program with 2, also beside a gate that is refused."""
    for flag in ("--no-such-flag", "--leader-election=maybe", "--feature-gates=AllAlpha=maybe"):
        code, log = run(world, program, "--feature-gates=NoSuchGate=true", flag)
        assert code == MALFORMED, log


def test_an_election_among_the_snapshotters_of_nodes(world):
    """csi-snapshotter with --node-deployment and --leader-election ends with 1 and an error that names both."""
    code, log = run(world, "csi-snapshotter", "--node-deployment", "--leader-election", env={"NODE_NAME": "node-a"})
    assert code == 1, log
    assert "Leader election cannot happen when node-deployment is set to true" in log


@pytest.mark.parametrize("program", [name for name in GO_PROGRAMS if name != "snapshot-controller"])
def test_two_addresses_of_metrics(world, program):
    """A program with --http-endpoint and --metrics-address ends with 1 and an error that names both."""
    code, log = run(world, program, f"--kubeconfig={world.cluster.kubeconfig}", "--metrics-address=127.0.0.1:0")
    assert code == 1, log
    assert re.search("only one of `?--metrics-address`? and `?--http-endpoint`? can be set", log, re.IGNORECASE)
