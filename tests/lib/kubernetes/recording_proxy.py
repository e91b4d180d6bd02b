"""A proxy before an API server that notes what a client asks for and in which formats both speak. It takes plain HTTP on loopback."""
import http.client
import http.server
import threading
import urllib.parse

# Headers that belong to one connection and are not passed on.
OF_A_CONNECTION = {"connection", "transfer-encoding", "content-length", "host", "keep-alive"}


class RecordingProxy:
    """Listens until closed. `exchanges` has [method, path without query, query, type of the request's body or "", type of the
    answer, its code], the last two "" and 0 until the answer is there. `context` is the TLS context of the connections to the
    server."""

    def __init__(self, server, context):
        proxy = self
        self.exchanges = []
        target = urllib.parse.urlsplit(server)

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            timeout = 600

            def log_message(self, *_):
                pass

            def _forward(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                connection = http.client.HTTPSConnection(target.hostname, target.port, context=context, timeout=600)
                try:
                    headers = {name: value for name, value in self.headers.items() if name.lower() not in OF_A_CONNECTION}
                    path, _, query = self.path.partition("?")
                    exchange = [self.command, path, query, self.headers.get("Content-Type") or "", "", 0]
                    # Before the server has it, so that whoever sees its effect also sees the request.
                    proxy.exchanges.append(exchange)
                    connection.request(self.command, self.path, body or None, headers)
                    answer = connection.getresponse()
                    exchange[4:] = [answer.getheader("Content-Type") or "", answer.status]
                    self._pass_on(answer)
                finally:
                    connection.close()

            def _pass_on(self, answer):
                self.send_response(answer.status)
                for name, value in answer.getheaders():
                    if name.lower() not in OF_A_CONNECTION:
                        self.send_header(name, value)
                self.send_header("Transfer-Encoding", "chunked")
                self.end_headers()
                while data := answer.read1(65536):
                    self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
                    self.wfile.flush()
                self.wfile.write(b"0\r\n\r\n")

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = _forward

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request, client_address):
                """A client that ends a watch breaks its connection; that is no error."""

        self._listener = Server(("127.0.0.1", 0), Handler)
        self.server = f"http://127.0.0.1:{self._listener.server_address[1]}"
        threading.Thread(target=self._listener.serve_forever, daemon=True).start()

    def close(self):
        self._listener.shutdown()
        self._listener.server_close()
