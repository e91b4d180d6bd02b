"""An image of a real Ceph pool, for the race of witness.py."""
import base64
import pathlib
import subprocess

from lib.mounts import wait_unshared
from lib.rbd import PROGRAM, begin


class Link:
    """A network of its own, from which a link leads to the cluster."""

    def __init__(self, ceph):
        self._ceph = ceph
        self._process = subprocess.Popen(["unshare", "--net", "sleep", "infinity"])
        try:
            wait_unshared(self._process.pid)
            self.inside = ["nsenter", "--target", str(self._process.pid), "--net"]
            self._veth = ceph.connect_network(self.inside)
        except BaseException:
            self.close()
            raise

    # The cluster's end of the link goes down, so that the other end keeps its routes.
    def hold(self):
        self._ceph.inside("ip", "link", "set", self._veth.link, "down")

    def release(self):
        self._ceph.inside("ip", "link", "set", self._veth.link, "up")

    @property
    def held(self):
        """Bytes that were sent and not acknowledged."""
        connections = pathlib.Path(f"/proc/{self._process.pid}/net/tcp").read_text().splitlines()[1:]
        return sum(int(connection.split()[4].partition(":")[0], 16) for connection in connections)

    def close(self):
        self._process.kill()
        self._process.wait()


class WitnessImage:
    """A node gets it who takes the lock first, so that there is no late start to be refused: the agent's second look at the
    VolumeFence is what keeps one from mounting."""

    program = PROGRAM
    fence_seconds = 0.3

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
