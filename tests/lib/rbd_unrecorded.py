"""A client of an RBD image that Berth did not start and that records nothing, as the kernel's driver."""
import subprocess

from lib.rbd import POOL
from lib.standalone import Failure

# Run with the folder of the configuration, the pool, the image, and whether to lock it. Writes one block for each line that it reads.
CLIENT = """
import sys, rados, rbd
with rados.Rados(conffile=sys.argv[1] + "/ceph.conf", name="client.admin") as cluster:
    with cluster.open_ioctx(sys.argv[2]) as io, rbd.Image(io, sys.argv[3]) as image:
        if sys.argv[4]:
            image.lock_acquire(rbd.RBD_LOCK_MODE_EXCLUSIVE)
            print(cluster.get_addrs(), flush=True)
        else:
            print("opened", flush=True)
        for line in sys.stdin:
            block, letter = line.split()
            try:
                image.write(letter.encode() * 4096, int(block) * 4096)
                print("written", flush=True)
            except Exception as error:
                print(type(error).__name__, flush=True)
"""


class Unrecorded:
    """Runs in the network of this machine, as calls of `berth-rbd` do, so that the cluster sees the same host."""

    def __init__(self, ceph, image, lock=True):
        self.process = subprocess.Popen(
            ["/usr/bin/python3", "-c", CLIENT, ceph.folder, POOL, image, "locked" if lock else ""], text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=ceph.environment)
        self.address = self._line()

    def _line(self):
        line = self.process.stdout.readline()
        if not line:
            raise Failure(f"the client ended with {self.process.wait()}")
        return line.strip()

    def write(self, block, letter):
        """Gives "written", or the name of the error."""
        self.process.stdin.write(f"{block} {letter}\n")
        self.process.stdin.flush()
        return self._line()

    def close(self):
        self.process.communicate(timeout=60)

    def kill(self):
        self.process.kill()
        self.process.wait()
