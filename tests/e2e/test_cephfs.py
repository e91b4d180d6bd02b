"""cephfs volumes on a real Ceph cluster: the plugin's own commands, by the C++ tests that need the server."""
import os
import re

import pytest
from lib.standalone import ROOT

pytestmark = [pytest.mark.mountpod, pytest.mark.e2e]
TEST = ROOT / "build" / "bin" / "berth_volume_remote_vm_test"


def test_a_ceph_file_system_is_a_volume(ceph_cluster):
    environment = os.environ | {"BERTH_CEPH_MONITOR": ceph_cluster.monitor,
                                "BERTH_CEPH_KEY": ceph_cluster.keys["client.admin"]}
    output = ceph_cluster.inside(TEST, "--gtest_filter=CephTest.*", environment=environment)
    assert re.search(r"\[  PASSED  \] 2 tests\.", output), output
