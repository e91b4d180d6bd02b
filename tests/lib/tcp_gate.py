"""A TCP proxy on the loopback interface that can hold data back and pass it on later, as a network that was cut does to
packets that are sent again."""
import contextlib
import socket
import threading


class TcpGate:
    """Listens at `portal` for HOST:PORT `server`, until closed."""

    def __init__(self, server):
        host, port = server.rsplit(":", 1)
        self.server = (host, int(port))
        self._open = threading.Event()  # unset: what clients send is held back
        self._open.set()
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.portal = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.held = 0  # bytes that clients sent and that are held back
        self.passed = 0  # bytes that clients sent and that the server got
        self._ends = []
        threading.Thread(target=self._accept, daemon=True).start()

    def hold(self):
        self._open.clear()

    def release(self):
        self._open.set()

    def cut(self):
        """Ends all connections."""
        for end in self._ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        self._ends.clear()

    def close(self):
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # ends accept() in its thread
        self._listener.close()
        self.cut()
        self._open.set()

    def _accept(self):
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._ends.append(client)
            threading.Thread(target=self._serve, args=(client,), daemon=True).start()

    def _serve(self, client):
        self._open.wait()  # the server sees nothing of a client whose network is cut
        try:
            server = socket.create_connection(self.server)
        except OSError:
            client.close()
            return
        for end in (client, server):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # else small parts wait for a late ACK
        self._ends.append(server)
        threading.Thread(target=self._pass, args=(server, client, False), daemon=True).start()
        self._pass(client, server, True)

    def _pass(self, source, sink, held):
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 20):
                if held and not self._open.is_set():
                    self.held += len(data)
                    self._open.wait()
                sink.sendall(data)
                self.passed += len(data) if held else 0
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
