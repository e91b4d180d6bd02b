"""The containerds under which the kubelets of the tests run pods: the machine's, and the one of the folder that BERTH_KUBERNETES
names, which has its containerd-shim-runc-v2 beside it."""
import pathlib
import shutil

import pytest
from lib.kubernetes import programs

MACHINES, FOLDERS = "containerd-1", "containerd-2"
# Runs a file's tests under both. The nodes of other files have the machine's, of any version.
BOTH = pytest.mark.parametrize("bare_node", [MACHINES, FOLDERS], indirect=True, scope="module")


def find(name):
    """Gives the path of a containerd, or None."""
    if name == FOLDERS:
        return programs.find("containerd")
    found = shutil.which("containerd")
    return pathlib.Path(found) if found else None


def missing(name, any_version=False):
    """Says why a containerd cannot be used, or gives an empty text. Where its name stands on the page it has to be of the version
    that the name says."""
    path = find(name)
    if path is None:
        return programs.missing("containerd") if name == FOLDERS else "this machine has no containerd"
    if name == FOLDERS and programs.find("containerd-shim-runc-v2") is None:
        return programs.missing("containerd-shim-runc-v2")
    version = programs.version_of(path)
    return "" if any_version or f"containerd-{version.partition('.')[0]}" == name else f"{path} is of version {version}"
