"""A proxy before a UNIX socket that can cut off its clients: by ending their connections, or by passing nothing on."""
import contextlib
import pathlib
import socket
import threading


class CutProxy:
    """Listens at `path` for `server`, until closed."""

    def __init__(self, path, server):
        self.path = pathlib.Path(path)
        self.server = str(server)
        self._open = threading.Event()  # unset: data is held back
        self._open.set()
        self._dropped = False
        self._lock = threading.Lock()
        self._ends = set()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.path))
        self._listener.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()

    def hang(self):
        """Behaves as if packets got lost: connections stay open, and no data passes."""
        self._open.clear()

    def drop(self):
        """Behaves as if the server were gone: connections end, and new ones end at once."""
        self._dropped = True
        self._end_all()

    def heal(self):
        """Ends connections that hung, so that their data is lost and does not arrive late, and passes data again."""
        if not self._open.is_set():
            self._end_all()
        self._dropped = False
        self._open.set()

    def close(self):
        self._listener.close()
        self.drop()
        self._open.set()

    def _end_all(self):
        with self._lock:
            ends, self._ends = self._ends, set()
        for end in ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            if self._dropped:
                client.close()
                continue
            server = socket.socket(socket.AF_UNIX)
            try:
                server.connect(self.server)
            except OSError:
                client.close()
                continue
            with self._lock:
                self._ends |= {client, server}
            for source, sink in ((client, server), (server, client)):
                threading.Thread(target=self._pass, args=(source, sink), daemon=True).start()

    def _pass(self, source, sink):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                self._open.wait()
                sink.sendall(data)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
