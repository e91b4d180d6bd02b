"""A stand-in for the node agent's socket for utilities. It speaks base/ipc, and gives the answers of the test."""
import json
import os
import socket
import struct
import threading

HEADER = struct.Struct("=4sHHII")


class FakeAgent:
    """Calls `answer(request)` for each request; it gives a reply as a dictionary, or raw bytes."""

    def __init__(self, path, answer):
        self.requests = []
        self.answer = answer
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(os.fspath(path))
        self.listener.listen()
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            with connection:
                *_, length, _ = HEADER.unpack(self._read(connection, HEADER.size))
                self.requests.append(json.loads(self._read(connection, length)))
                reply = self.answer(self.requests[-1])
                connection.sendall(reply if isinstance(reply, bytes) else frame(reply))

    @staticmethod
    def _read(connection, size):
        data = b""
        while len(data) < size:
            part = connection.recv(size - len(data))
            assert part, "the shim sent half a request"
            data += part
        return data

    def stop(self):
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.thread.join()


def frame(reply, version=1):
    body = json.dumps(reply).encode("utf-8", "surrogateescape")
    return HEADER.pack(b"BIPC", version, 0, len(body), 0) + body
