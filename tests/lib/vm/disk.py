"""A disk with a volatile write cache, as real disks have, which loses the cache when the power goes.

The guest's virtio disk is a client of this NBD server. A write is answered as soon as it is in the cache; only a
flush moves it into the file. So what the file holds is exactly what a guest was promised: after a cut, no byte is
there because QEMU or the host's page cache happened to keep it. (QEMU's own cache modes do not give that: killed
with `cache=unsafe` or `writeback`, everything that reached QEMU stays in the host's page cache.)

A real disk writes some of its cache by itself, in any order. `lose(keep=SEED)` does so: each page that was not
flushed stays or goes by the toss of a coin, which finds code that counts on the order of writes.
"""
import os
import pathlib
import random
import socket
import struct
import threading

PAGE = 4096

# The NBD protocol (github.com/NetworkBlockDevice/nbd, doc/proto.md): fixed newstyle, simple replies.
NBDMAGIC, IHAVEOPT, REPLY_MAGIC = 0x4E42444D41474943, 0x49484156454F5054, 0x3E889045565A9
FIXED_NEWSTYLE, NO_ZEROES = 1, 2
OPT_ABORT, OPT_GO = 2, 7
REP_ACK, REP_INFO, REP_ERR_UNSUP = 1, 3, 0x80000001
HAS_FLAGS, SEND_FLUSH, SEND_FUA = 1, 4, 8
REQUEST_MAGIC, SIMPLE_REPLY_MAGIC = 0x25609513, 0x67446698
READ, WRITE, DISCONNECT, FLUSH = 0, 1, 2, 3
COMMAND_FUA = 1
EINVAL = 22


class Disk:
    """Lives over several boots. The file holds what is durable, and the cache what is not durable yet."""

    def __init__(self, folder, name, size):
        self.name = name
        self.size = size
        self.path = pathlib.Path(folder) / f"{name}.img"
        self.socket = pathlib.Path(folder) / f"{name}.sock"
        self._file = os.open(self.path, os.O_RDWR | os.O_CREAT, 0o600)
        os.ftruncate(self._file, size)
        self._cache = {}  # page number → its bytes
        self._unused = threading.Event()  # set while there is no client and no request left to do
        self._unused.set()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.socket))
        self._listener.listen()
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self):
        self._listener.close()
        os.close(self._file)

    @property
    def unflushed(self):
        """Gives how many pages would be lost now."""
        return len(self._cache)

    def content(self):
        """Gives what a guest would read."""
        return self._read(0, self.size)

    def lose(self, keep=None):
        """Loses the cache, as at a loss of power. QEMU must have ended."""
        self._unused.wait()
        if keep is not None:
            coin = random.Random(keep)
            for page in sorted(self._cache):
                if coin.random() < 0.5:
                    os.pwrite(self._file, self._cache[page], page * PAGE)
        self._cache.clear()

    # -- what the guest asks for

    def _read(self, offset, length):
        data = bytearray(os.pread(self._file, length, offset))
        for page in range(offset // PAGE, (offset + length - 1) // PAGE + 1) if self._cache else ():
            cached = self._cache.get(page)
            if cached is not None:
                begin, end = max(offset, page * PAGE), min(offset + length, (page + 1) * PAGE)
                data[begin - offset:end - offset] = cached[begin - page * PAGE:end - page * PAGE]
        return bytes(data)

    def _write(self, offset, data):
        end = offset + len(data)
        for page in range(offset // PAGE, (end - 1) // PAGE + 1):
            first, last = max(offset, page * PAGE), min(end, (page + 1) * PAGE)
            part = data[first - offset:last - offset]
            if len(part) < PAGE:
                whole = bytearray(self._cache.get(page) or os.pread(self._file, PAGE, page * PAGE))
                whole[first - page * PAGE:last - page * PAGE] = part
                part = bytes(whole)
            self._cache[page] = part

    def _flush(self):
        for page, data in self._cache.items():
            os.pwrite(self._file, data, page * PAGE)
        self._cache.clear()

    # -- the protocol

    def _serve(self):
        """Serves one client after the other, because each boot is a new QEMU."""
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return  # closed
            self._unused.clear()
            with client:
                try:
                    if self._negotiate(client):
                        self._transmit(client)
                except (ConnectionError, EOFError):
                    pass  # QEMU was killed
            self._unused.set()

    def _negotiate(self, client):
        client.sendall(struct.pack(">QQH", NBDMAGIC, IHAVEOPT, FIXED_NEWSTYLE | NO_ZEROES))
        _receive(client, 4)
        while True:
            _, option, length = struct.unpack(">QII", _receive(client, 16))
            _receive(client, length)

            def reply(kind, data=b""):
                client.sendall(struct.pack(">QIII", REPLY_MAGIC, option, kind, len(data)) + data)

            if option == OPT_GO:
                reply(REP_INFO, struct.pack(">HQH", 0, self.size, HAS_FLAGS | SEND_FLUSH | SEND_FUA))
                reply(REP_ACK)
                return True
            if option == OPT_ABORT:
                reply(REP_ACK)
                return False
            reply(REP_ERR_UNSUP)

    def _transmit(self, client):
        while True:
            _, flags, kind, handle, offset, length = struct.unpack(">IHHQQI", _receive(client, 28))
            error, answer = 0, b""
            if kind == READ:
                answer = self._read(offset, length)
            elif kind == WRITE:
                self._write(offset, _receive(client, length))
                if flags & COMMAND_FUA:
                    self._flush()
            elif kind == FLUSH:
                self._flush()
            elif kind == DISCONNECT:
                return
            else:
                error = EINVAL
            client.sendall(struct.pack(">IIQ", SIMPLE_REPLY_MAGIC, error, handle) + answer)


def _receive(client, length):
    data = bytearray()
    while len(data) < length:
        part = client.recv(length - len(data))
        if not part:
            raise EOFError
        data += part
    return bytes(data)
