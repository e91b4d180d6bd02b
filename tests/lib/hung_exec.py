"""A process that waits in execve for ever, because it closes a file of a FUSE server that does not answer. It keeps
everybody, root included, from reading most of its /proc/PID: stat, environ, stack, exe, ns/* and the links in fd/."""
import os
import select
import struct
import subprocess
import sys
import threading

from lib.lost_mount import LIBC, MNT_DETACH, check

INIT, OPEN, FLUSH = 26, 14, 25
REQUEST = struct.Struct("=IIQ")  # the beginning of struct fuse_in_header: length, operation, number
ANSWER = struct.Struct("=IiQ")
PROGRAM = "import os, sys; os.open(sys.argv[1], os.O_RDONLY | os.O_CLOEXEC); os.execv('/bin/true', ['true'])"


class HungExec:
    """Waits until release() is called, or for `most` seconds: then what a test did has waited for it, and `expired` is
    true. At a test's end nothing on the machine waits any more, because its server ends with this process. `inside`: a
    command that starts the process elsewhere, where the file must be seen, too."""

    def __init__(self, file, most=60, inside=()):
        file.write_text("")
        self.file = os.fspath(file)
        self.expired = False
        self.lock = threading.Lock()
        self.process = self.timer = None
        self.kernel = os.open("/dev/fuse", os.O_RDWR | os.O_CLOEXEC)
        options = f"fd={self.kernel},rootmode=100644,user_id=0,group_id=0"
        check(LIBC.mount(b"hung", self.file.encode(), b"fuse", 0, options.encode()), f"mount {self.file}")
        try:
            # struct fuse_init_out: version 7.31, and then sizes and flags
            self._answer(INIT, struct.pack("=IIIIHHII", 7, 31, 0, 0, 0, 0, 4096, 0) + bytes(36))
            self.process = subprocess.Popen([*inside, sys.executable, "-c", PROGRAM, self.file],
                                            stdin=subprocess.DEVNULL)
            self._answer(OPEN, bytes(16))
            self._take(FLUSH)
        except BaseException:
            self.release()
            raise
        self.timer = threading.Timer(most, self._expire)
        self.timer.daemon = True
        self.timer.start()

    def _take(self, operation):
        ready, _, _ = select.select([self.kernel], [], [], 20)
        assert ready, f"no request {operation} came"
        _, got, number = REQUEST.unpack_from(os.read(self.kernel, 1 << 17))
        assert got == operation, f"request {got} came, not {operation}"
        return number

    def _answer(self, operation, content):
        number = self._take(operation)
        os.write(self.kernel, ANSWER.pack(ANSWER.size + len(content), 0, number) + content)

    def _expire(self):
        self.expired = True
        self._close()

    def _close(self):
        with self.lock:
            if self.kernel is not None:
                os.close(self.kernel)
                self.kernel = None

    def release(self):
        if self.timer is not None:
            self.timer.cancel()
        self._close()
        if self.process is not None:
            self.process.wait(60)
        check(LIBC.umount2(self.file.encode(), MNT_DETACH), f"unmount {self.file}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.release()
