"""The rules of the Kubernetes API, as cases of tests/conformance, hold on the real API server."""
import subprocess

import pytest
from lib.standalone import ROOT

pytestmark = pytest.mark.kubernetes


def test_the_conformance_suite_passes(plane, real_cluster):
    """`./dev conformance --kubeconfig` passes whole."""
    result = subprocess.run(["/usr/bin/python3", "-B", "-m", "pytest", "-p", "no:cacheprovider", "-q", "-ra", "-c", "tests/pytest.ini",
                             "tests/conformance", "--ignore", "tests/conformance/csi", "--kubeconfig", plane.kubeconfig],
                            cwd=ROOT, capture_output=True, text=True, timeout=1800)
    assert result.returncode == 0, result.stdout[-6000:]
