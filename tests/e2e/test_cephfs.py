"""cephfs volumes on a real Ceph cluster: the plugin's own commands, by the C++ tests that need the server."""
import os
import pathlib
import re
import tempfile

import pytest
from lib.ceph import CephCluster, Missing
from lib.standalone import ROOT

pytestmark = [pytest.mark.mountpod, pytest.mark.e2e]
TEST = ROOT / "build" / "bin" / "berth_volume_remote_vm_test"


@pytest.fixture
def cluster():
    made = CephCluster(pathlib.Path(tempfile.mkdtemp(prefix="bc-", dir="/var/tmp")) / "ceph")
    try:
        yield made.start()
    except Missing as missing:
        pytest.skip(str(missing))
    finally:
        made.stop()
        made.folder.parent.rmdir()


def test_a_ceph_file_system_is_a_volume(cluster):
    environment = os.environ | {"BERTH_CEPH_MONITOR": cluster.monitor, "BERTH_CEPH_KEY": cluster.keys["client.admin"]}
    output = cluster.inside(TEST, "--gtest_filter=CephTest.*", environment=environment)
    assert re.search(r"\[  PASSED  \] 2 tests\.", output), output
