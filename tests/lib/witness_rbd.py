"""An image of a real Ceph pool, for the race of witness.py."""
import base64

from lib.ceph_link import Link
from lib.rbd import PROGRAM, begin


class WitnessImage:
    """A node gets it who takes the lock first, so that there is no late start to be refused: the agent's second look at the
    VolumeFence is what keeps one from mounting."""

    program = PROGRAM
    fence_seconds = 0.3
    patience = 0

    def __init__(self, ceph, image):
        self.ceph = ceph
        self.image = image
        self.fenced = {}  # node: addresses on the blocklist

    def open_way(self):
        return Link(self.ceph)

    def inside(self, way):
        return way.inside

    def settings(self, node, *_):
        return {"cluster": self.ceph.settings(), "node": node, "image": self.image, "readOnly": False, "shared": False}

    def right_of(self, _):
        return None

    def list_clients(self, node, target):
        return self.ceph.call("fenceTargets", node=node, image=self.image, target=target)["addresses"]

    def begin_fence(self, node, target, clients):
        return begin(self.ceph.request("fence", node=node, image=self.image, target=target, addresses=clients))

    def fence(self, node, target, clients):
        self.fenced.setdefault(target, []).extend(
            self.ceph.call("fence", node=node, image=self.image, target=target, addresses=clients)["addresses"])
        return True

    def lift_fence(self, node):
        """No process of the node is left that was fenced."""
        self.ceph.call("unfence", target=node, addresses=self.fenced.pop(node, []))

    def read(self):
        return base64.b64decode(self.ceph.rbd(
            f"import base64\nwith rbd.Image(io, '{self.image}', read_only=True) as opened:\n"
            "    print(base64.b64encode(opened.read(0, opened.size())).decode())"))
