"""The feature gates of the Go programs: each value is taken, and the log says which has no effect in Berth."""
import re
import subprocess

import pytest
from lib.kubernetes import programs
from lib.standalone import ROOT

GO_PROGRAMS = ("csi-provisioner", "csi-attacher", "csi-resizer", "csi-snapshotter", "snapshot-controller")
# By program: the gates of its own, each with the value that is not the default.
GATES = {
    "csi-provisioner": {"Topology": "false", "VolumeAttributesClass": "false", "CrossNamespaceVolumeDataSource": "true"},
    "csi-attacher": {"MutableCSINodeAllocatableCount": "false"},
    "csi-resizer": {"AnnotateFsResize": "false", "RecoverVolumeExpansionFailure": "false", "VolumeAttributesClass": "false"},
    "csi-snapshotter": {"CSIVolumeGroupSnapshot": "false"},
    "snapshot-controller": {"CSIVolumeGroupSnapshot": "false"},
}
OF_ALL = {"ReleaseLeaderElectionOnExit": "true", "AllAlpha": "true", "AllBeta": "false"}
# Those that Berth obeys. It warns of the other ones.
OBEYED = {"Topology", "CrossNamespaceVolumeDataSource", "CSIVolumeGroupSnapshot", "ReleaseLeaderElectionOnExit", "AllAlpha"}
# What a gate that stands for others sets without an effect.
STANDS_FOR = {("csi-resizer", "AllBeta"): {"AnnotateFsResize"}}


@pytest.mark.parametrize("program", GO_PROGRAMS)
def test_the_values_of_gates(world, program):
    """A program starts with each value of each gate, and logs those that it does not obey."""
    world.cluster.install_groups()  # because the Go programs would wait half a minute for these kinds
    for gate, value in (GATES[program] | OF_ALL).items():
        sidecar = world.start(program, f"--feature-gates={gate}={value}", elect=False)
        sidecar.metrics()
        log = sidecar.log()
        sidecar.kill()
        if world.of_go:
            continue
        expected = STANDS_FOR.get((program, gate), set() if gate in OBEYED or gate in OF_ALL else {gate})
        assert set(re.findall(r"(\w+)=\w+ has no effect", log)) == expected, log


def gates_of_the_library():
    """Gives the gates that each program has of the API server's library, each with a value that it takes."""
    table = (ROOT / "src" / "cmd" / "library_gates.cc").read_text()
    return {gate: "false" if lock == "Off" else "true"
            for gate, lock in re.findall(r'LibraryGate\{"(\w+)"(?:, Lock::k(\w+))?\}', table)}


@pytest.mark.parametrize("program", GO_PROGRAMS)
def test_the_gates_of_the_library(world, program):
    """A program starts with all gates that it has of the API server's library, and logs each as without effect."""
    world.cluster.install_groups()
    gates = gates_of_the_library()
    sidecar = world.start(program, "--feature-gates=" + ",".join(f"{gate}={value}" for gate, value in gates.items()), elect=False)
    sidecar.metrics()
    if world.of_go:  # whose help names the gates that are not stable
        told = subprocess.run([programs.find(program), "--help"], capture_output=True, text=True, timeout=60)
        named = set(re.findall(r"(\w+)=true\|false \((?:ALPHA|BETA)", told.stdout + told.stderr))
        assert named and named <= gates.keys() | GATES[program].keys() | OF_ALL.keys()
    else:
        assert sorted(re.findall(r"(\w+=\w+) has no effect", sidecar.log())) == sorted(
            f"{gate}={value}" for gate, value in gates.items())
