"""A FUSE mount whose server does not answer (hung) or is gone (dead), without a server's program: this process holds
the kernel's end and never reads from it."""
import ctypes
import os

LIBC = ctypes.CDLL(None, use_errno=True)
MNT_DETACH = 2


def check(result, what):
    if result != 0:
        error = ctypes.get_errno()
        raise OSError(error, f"{what}: {os.strerror(error)}")


class LostMount:
    """Stays mounted at `target` until gone() is called. A process that looks into it waits; after die() it gets
    ENOTCONN."""

    def __init__(self, target):
        self.target = os.fspath(target)
        self.kernel = os.open("/dev/fuse", os.O_RDWR)
        options = f"fd={self.kernel},rootmode=40000,user_id=0,group_id=0"
        check(LIBC.mount(b"lost", self.target.encode(), b"fuse", 0, options.encode()), f"mount {self.target}")

    def die(self):
        os.close(self.kernel)
        self.kernel = None

    def gone(self):
        if self.kernel is not None:
            self.die()
        check(LIBC.umount2(self.target.encode(), MNT_DETACH), f"unmount {self.target}")
