"""A proxy before a CSI driver's socket that keeps the requests as the driver gets them, and can replace bytes of the answers."""
import contextlib
import socket
import threading

from lib import protobuf

PREFACE = 24  # bytes with which a client begins HTTP/2
FRAME_HEADER = 9
DATA = 0
MESSAGE_HEADER = 5  # of gRPC: whether the message is compressed, and its length


class CsiTap:
    """Listens until closed. `replacements`: bytes of answers, and those of the same length that take their place."""

    def __init__(self, path, driver_socket):
        self.path = path
        self.replacements = {}
        self._driver_socket = driver_socket
        self._messages = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        self._listener.close()

    def requests(self):
        """Gives each request's fields ({number: [values]}), of all methods, in their order."""
        return [protobuf.decode(message) for message in list(self._messages)]

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                driver = socket.socket(socket.AF_UNIX)
                driver.connect(str(self._driver_socket))
                for source, target, note in ((client, driver, self._note_frames()), (driver, client, None)):
                    threading.Thread(target=self._pass_on, args=(source, target, note), daemon=True).start()

    def _pass_on(self, source, target, note):
        if note:
            next(note)
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if note:
                    note.send(data)
                else:
                    for old, new in self.replacements.items():
                        data = data.replace(old, new)
                target.sendall(data)
        for each in (source, target):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def _note_frames(self):
        """Takes what a client sends, and keeps the message of each call, which is unary and small."""
        data = b""
        streams = {}

        def take(size):
            nonlocal data
            while len(data) < size:
                data += yield
            taken, data = data[:size], data[size:]
            return taken

        yield from take(PREFACE)
        while True:
            header = yield from take(FRAME_HEADER)
            payload = yield from take(int.from_bytes(header[:3], "big"))
            if header[3] != DATA:
                continue
            stream = streams[header[5:]] = streams.get(header[5:], b"") + payload
            size = int.from_bytes(stream[1:MESSAGE_HEADER], "big")
            if len(stream) >= MESSAGE_HEADER and len(stream) == MESSAGE_HEADER + size:
                assert stream[0] == 0, "it is not compressed"
                self._messages.append(stream[MESSAGE_HEADER:])
                del streams[header[5:]]


def texts(entries):
    """Gives the map that a field with these values is."""
    return {(protobuf.at(entry, 1) or b"").decode(): (protobuf.at(entry, 2) or b"").decode() for entry in entries}
