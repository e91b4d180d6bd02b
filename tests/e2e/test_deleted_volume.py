"""A volume that is deleted after its driver released it, and before the node could record that, holds up nothing."""
import pytest
from lib import objects
from lib.standalone import wait_for

pytestmark = [pytest.mark.csi, pytest.mark.e2e]


@pytest.mark.parametrize("block", [False, True], ids=["file-system", "block"])
def test_the_node_lets_go_of_it(new_berth, block):
    # The driver releases the volume each time that it is asked, and the node never learns of it.
    berth = new_berth()
    berth.start(env={"BERTH_FAULTS": "rpc.csi.NodeUnstageVolume.after=error"})
    pod = objects.pod("writer", "true", claims=["data"],
                      devices=[{"name": "data", "devicePath": "/dev/data"}] if block else None)
    berth.apply([objects.claim("data", block=block), pod])
    berth.wait_phase("pod", "writer", "Succeeded")
    volume = berth.get("pvc", "data")["spec"]["volumeName"]
    berth.run("delete", "pod", "writer")
    berth.run("delete", "pvc", "data")
    berth.wait_gone("pv", volume)

    berth.stop()
    berth.start()
    wait_for("the volume to be off the node", lambda: not berth.get("node", "node-a")["status"].get("volumesInUse"))
    wait_for("it to be detached", lambda: not berth.items("volumeattachments"))
    assert "counts as released" in berth.log.read_text()
