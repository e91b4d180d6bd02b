"""An RBD image that `berth-rbd serve` serves, and Ceph's own view of what is in it."""
import os
import subprocess

from lib import direct_io
from lib.direct_io import BLOCK
from lib.rbd import begin
from lib.standalone import wait_for


class Served:
    """An image that a node serves as a FUSE file. It is read and written without a page cache."""

    def __init__(self, ceph, folder, image, node, **other):
        folder.mkdir()
        self.file = folder / "volume"
        self.file.touch()
        self.process = begin({"cluster": ceph.settings(), "node": node, "image": image, "file": str(self.file),
                              "socket": str(folder / "socket")} | other, mode="serve")

    def is_mounted(self):
        return os.path.ismount(self.file)

    def start(self):
        wait_for("the volume's file", lambda: self.is_mounted() or self.process.poll() is not None, seconds=30)
        assert self.process.poll() is None, self.process.communicate()
        return self

    def refusal(self):
        out, _ = self.process.communicate(timeout=60)
        assert self.process.returncode == 1
        return out.decode()

    def write(self, block, letter):
        direct_io.write_block(self.file, block * BLOCK, letter)

    def kill(self):
        self.process.kill()
        self.process.wait()
        subprocess.run(["umount", "--lazy", self.file], capture_output=True)


def letters(ceph, image, blocks):
    out = ceph.rbd(f"""
with rbd.Image(io, '{image}', read_only=True) as opened:
    print(''.join(chr(opened.read(block * {BLOCK}, 1)[0] or 46) for block in range({blocks})))""")
    return out.strip()
