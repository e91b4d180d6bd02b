"""A proxy before a UNIX socket that can cut all who use it off: politely, or by saying nothing any more."""
import contextlib
import pathlib
import socket
import threading


class CutProxy:
    """Listens at `path` for `server`, until closed."""

    def __init__(self, path, server):
        self.path = pathlib.Path(path)
        self.server = str(server)
        self._open = threading.Event()  # unset: what is said is held back
        self._open.set()
        self._dropped = False
        self._lock = threading.Lock()
        self._ends = set()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(self.path))
        self._listener.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()

    def hang(self):
        """As when packets get lost: connections stand, and nothing comes through."""
        self._open.clear()

    def drop(self):
        """As when the server is gone: connections end, new ones at once."""
        self._dropped = True
        self._end_all()

    def heal(self):
        """What hung is lost: it does not come through late."""
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
