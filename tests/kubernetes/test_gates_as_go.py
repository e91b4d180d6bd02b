"""The feature gates of the Go programs' own: each value is taken, and the log says which has no effect in Berth."""
import re

import pytest

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
        sidecar.figures()
        log = sidecar.log()
        sidecar.kill()
        if world.of_go:
            continue
        expected = STANDS_FOR.get((program, gate), set() if gate in OBEYED or gate in OF_ALL else {gate})
        assert set(re.findall(r"(\w+)=\w+ has no effect", log)) == expected, log
