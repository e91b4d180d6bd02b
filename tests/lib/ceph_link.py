"""A node's network of its own, whose way to a Ceph cluster can be cut."""
import pathlib
import subprocess

from lib.mounts import wait_unshared


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
