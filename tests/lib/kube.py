"""A client of any Kubernetes API by a kubeconfig, made only with the standard library. It sends exactly what a test
gives it and returns exactly what came, so that a test sees bytes, headers and codes."""
import base64
import http.client
import json
import os
import pathlib
import socket
import ssl
import tempfile
import time
import urllib.parse

import yaml

JSON = "application/json"
YAML = "application/yaml"
PROTOBUF = "application/vnd.kubernetes.protobuf"
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
JSON_PATCH = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"


class Kubeconfig:
    """Server and credentials of the current context."""

    def __init__(self, path):
        self.path = pathlib.Path(path)
        document = yaml.safe_load(self.path.read_text())
        context = self._named(document, "contexts", document["current-context"])["context"]
        cluster = self._named(document, "clusters", context["cluster"])["cluster"]
        user = self._named(document, "users", context["user"]).get("user") or {}
        address = urllib.parse.urlsplit(cluster["server"])
        if address.scheme not in ("http", "https"):
            raise ValueError(f"{path}: cannot speak to '{cluster['server']}'")
        self.scheme = address.scheme
        self.host = address.hostname
        self.port = address.port or (443 if address.scheme == "https" else 80)
        self.prefix = address.path.rstrip("/")
        self.token = user.get("token") or self._text(user, "tokenFile")
        self.ca = self._data(cluster, "certificate-authority")
        self.certificate = self._data(user, "client-certificate")
        self.key = self._data(user, "client-key")
        self.insecure = bool(cluster.get("insecure-skip-tls-verify"))
        self.server_name = cluster.get("tls-server-name")

    @staticmethod
    def _named(document, section, name):
        for entry in document.get(section) or []:
            if entry["name"] == name:
                return entry
        raise ValueError(f"the kubeconfig has no entry '{name}' in {section}")

    def _text(self, section, key):
        return (self.path.parent / section[key]).read_text().strip() if section.get(key) else None

    def _data(self, section, key):
        """Gives the PEM of the field itself or of the file that it names, or None if neither is there."""
        if section.get(f"{key}-data"):
            return base64.b64decode(section[f"{key}-data"]).decode()
        return self._text(section, key)

    def tls(self, with_certificate=True):
        context = ssl.create_default_context(cadata=self.ca)
        if self.insecure:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        if with_certificate and self.certificate:
            # The ssl module takes only files; these are removed when the call is over.
            with tempfile.TemporaryDirectory() as folder:
                paths = [os.path.join(folder, name) for name in ("certificate", "key")]
                for path, text in zip(paths, (self.certificate, self.key)):
                    with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w") as file:
                        file.write(text)
                context.load_cert_chain(*paths)
        return context


class Reply:
    def __init__(self, code, headers, body):
        self.code = code
        self.headers = headers
        self.body = body

    @property
    def type(self):
        return self.headers.get("Content-Type", "")

    @property
    def warnings(self):
        return self.headers.get_all("Warning") or []

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def message(self):
        return self.json.get("message", "")

    def __repr__(self):
        return f"<{self.code} {self.type} {self.body[:1500]!r}>"


def media(body, content_type):
    """Gives the bytes of a request's body: objects become JSON, text and bytes stay as they are."""
    if body is None:
        return None, {}
    if isinstance(body, str):
        body = body.encode()
    elif not isinstance(body, bytes):
        # Without spaces, because an API may keep a member of any type (a ControllerRevision's data) byte for byte, and
        # then compare it with what a patch makes of it.
        body = json.dumps(body, separators=(",", ":")).encode()
    return body, {"Content-Type": content_type}


class Watch:
    """An open watch; events are read with a deadline."""

    def __init__(self, connection, response):
        self.connection = connection
        self.response = response
        self.code = response.status
        self.ended = False

    def bytes(self, size, seconds=10):
        """Reads exactly so many bytes of the stream, or fewer at its end."""
        out = b""
        self.connection.sock and self.connection.sock.settimeout(seconds)
        while len(out) < size:
            part = self.response.read(size - len(out))
            if not part:
                self.ended = True
                break
            out += part
        return out

    def event(self, seconds=10):
        """Gives the next event as (type, object), or None at the end of the stream. A time-out raises
        AssertionError."""
        if self.connection.sock is not None:
            self.connection.sock.settimeout(seconds)
        try:
            line = self.response.readline()
        except (TimeoutError, socket.timeout):
            raise AssertionError(f"no event within {seconds} s") from None
        if not line:
            self.ended = True
            return None
        event = json.loads(line)
        assert set(event) == {"type", "object"}, event
        return event["type"], event["object"]

    def events(self, count, seconds=10):
        return [self.event(seconds) for _ in range(count)]

    def until(self, wanted, seconds=10):
        """Gives the first event for which wanted(type, object) holds, and skips the others."""
        deadline = time.monotonic() + seconds
        while True:
            event = self.event(max(0.1, deadline - time.monotonic()))
            assert event is not None, "the watch ended"
            if wanted(*event):
                return event

    def close(self):
        self.connection.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


class Api:
    def __init__(self, kubeconfig, authenticated=True):
        self.config = kubeconfig
        self.token = kubeconfig.token if authenticated else None
        self.tls = kubeconfig.tls(authenticated) if kubeconfig.scheme == "https" else None
        self.connection = None

    def as_token(self, token):
        """Gives a client of the same server that uses a token."""
        other = Api(self.config, authenticated=False)
        other.token = token
        return other

    def _connect(self, seconds=30):
        if self.tls is None:
            return http.client.HTTPConnection(self.config.host, self.config.port, timeout=seconds)
        connection = http.client.HTTPSConnection(self.config.host, self.config.port, timeout=seconds,
                                                 context=self.tls)
        if self.config.server_name:
            connection.connect = lambda: _connect_as(connection, self.config.server_name, self.tls)
        return connection

    def _send(self, connection, method, path, body, content_type, accept, query, headers):
        data, media_headers = media(body, content_type)
        sent = {"Accept": accept, "User-Agent": "conformance", **media_headers, **(headers or {})}
        if self.token:
            sent["Authorization"] = f"Bearer {self.token}"
        target = self.config.prefix + path
        if query:
            target += ("&" if "?" in target else "?") + urllib.parse.urlencode(query)
        connection.request(method, target, data, {k: v for k, v in sent.items() if v is not None})
        return connection.getresponse()

    def call(self, method, path, body=None, content_type=JSON, accept=JSON, headers=None, **query):
        """Sends one request on a kept-alive connection. `query` holds the parameters; a trailing underscore of a name
        is dropped, for those that Python reserves."""
        query = {key.rstrip("_"): _parameter(value) for key, value in query.items() if value is not None}
        for attempt in (1, 2):
            fresh = self.connection is None
            if fresh:
                self.connection = self._connect()
            try:
                response = self._send(self.connection, method, path, body, content_type, accept, query, headers)
                reply = Reply(response.status, response.headers, response.read())
                if response.will_close:
                    self.close()
                return reply
            except (ConnectionError, ssl.SSLEOFError, http.client.HTTPException):
                # The server may have closed an idle connection meanwhile, so it is opened anew, once.
                self.close()
                if fresh or attempt == 2:
                    raise
            except BaseException:
                self.close()
                raise

    def close(self):
        if self.connection is not None:
            self.connection.close()
            self.connection = None

    def get(self, path, **options):
        return self.call("GET", path, **options)

    def post(self, path, body, **options):
        return self.call("POST", path, body, **options)

    def put(self, path, body, **options):
        return self.call("PUT", path, body, **options)

    def patch(self, path, body, content_type=MERGE, **options):
        return self.call("PATCH", path, body, content_type, **options)

    def delete(self, path, body=None, **options):
        return self.call("DELETE", path, body, **options)

    def apply(self, path, body, manager, force=None, **options):
        return self.patch(path, body, APPLY, fieldManager=manager, force=force, **options)

    def watch(self, path, accept=JSON, **query):
        """Opens a watch on a connection of its own; the code is not checked."""
        query = {"watch": "true", **{key: _parameter(value) for key, value in query.items() if value is not None}}
        connection = self._connect()
        return Watch(connection, self._send(connection, "GET", path, None, None, accept, query, None))


def _connect_as(connection, name, tls):
    plain = socket.create_connection((connection.host, connection.port), connection.timeout)
    connection.sock = tls.wrap_socket(plain, server_hostname=name)


def _parameter(value):
    return str(value).lower() if isinstance(value, bool) else str(value)
