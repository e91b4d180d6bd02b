"""Calls of Berth's protocol on UNIX sockets (src/base/ipc/connection.h)."""
import json
import socket
import struct

HEADER = struct.Struct("=4sHHII")
MAGIC, VERSION = b"BIPC", 1
MOST_DESCRIPTORS = 16


class IpcError(OSError):
    """The reply is an error."""

    def __init__(self, method, code, text):
        super().__init__(f"{method}: {code}: {text}")
        self.code = code


def call(path, method, descriptors=(), seconds=120, **fields):
    """Gives the reply's fields and the descriptors that came with it. The caller closes them."""
    body = json.dumps({"method": method, **fields}).encode()
    frame = HEADER.pack(MAGIC, VERSION, len(descriptors), len(body), 0) + body
    received = []
    with socket.socket(socket.AF_UNIX) as peer:
        peer.settimeout(seconds)
        peer.connect(str(path))
        sent = socket.send_fds(peer, [frame], descriptors) if descriptors else 0
        # Not with nothing, because the peer may have answered and closed already.
        if sent < len(frame):
            peer.sendall(frame[sent:])
        data = b""
        size = HEADER.size
        while len(data) < size:
            part, found, _, _ = socket.recv_fds(peer, size - len(data), MOST_DESCRIPTORS, socket.MSG_CMSG_CLOEXEC)
            received += found
            if not part:
                raise ConnectionError(f"{method}: {path} closed the connection")
            data += part
            if size == HEADER.size == len(data):
                size += HEADER.unpack(data)[3]
    reply = json.loads(data[HEADER.size:])
    if "error" in reply:
        raise IpcError(method, reply.get("code"), reply["error"])
    return reply, received
