"""Strangers cannot starve owners: what the user nobody opens and never finishes takes neither memory nor connections
from root and from those who have shown who they are."""
import http.client
import itertools
import json
import pathlib
import re
import shutil
import socket
import ssl
import statistics
import tempfile
import time

import pytest
from lib import kube, standalone
from lib.strangers import Strangers

pytestmark = [pytest.mark.api, pytest.mark.security]

CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
NUMBERS = itertools.count(1)


@pytest.fixture(scope="module")
def berth():
    """A Berth without a container runtime, which the API does not need."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="bt-", dir="/var/tmp"))
    berth = standalone.Standalone(folder, folder / "no-runtime.sock", flags=["--http-endpoint", "127.0.0.1:0"])
    try:
        berth.start(wait=False)
        standalone.wait_for("the API", berth.answers)
        yield berth
    finally:
        berth.kill()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def config(berth):
    return kube.Kubeconfig(berth.data / "kubeconfig")


def config_map(size):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": f"c{next(NUMBERS)}"},
            "data": {"key": "x" * size}}


def create(stream, size):
    """Creates an object. The server has to grant room for the body before the body is sent."""
    body = json.dumps(config_map(size)).encode()
    with stream:
        stream.sendall(f"POST {CONFIG_MAPS} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
                       f"Expect: 100-continue\r\nContent-Length: {len(body)}\r\n\r\n".encode())
        answer = stream.recv(65536)
        assert answer.startswith(b"HTTP/1.1 100 "), answer
        stream.sendall(body)
        answer = stream.recv(65536)
        assert answer.startswith(b"HTTP/1.1 201 "), answer


def create_by_root(berth, size=20_000):
    """Creates an object over a new connection to the UNIX socket."""
    stream = socket.socket(socket.AF_UNIX)
    stream.settimeout(60)
    stream.connect(str(berth.data / "api.sock"))
    create(stream, size)


def create_by_certificate(config, size=20_000):
    """Creates an object over a new connection with the administrator's certificate."""
    create(connect(config, config.tls()), size)


def median_ms(call, times=60):
    taken = []
    for _ in range(times):
        begin = time.monotonic()
        call()
        taken.append((time.monotonic() - begin) * 1000)
    return statistics.median(taken)


def anonymous_mib(berth):
    text = pathlib.Path(f"/proc/{berth.process.pid}/smaps_rollup").read_text()
    return int(re.search(r"Anonymous: +(\d+)", text).group(1)) / 1024


def probe(port, path):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    finally:
        connection.close()


def connect(config, tls):
    stream = socket.create_connection((config.host, config.port), timeout=60)
    return tls.wrap_socket(stream, server_hostname=config.host)


def test_unfinished_bodies_take_nothing_from_owners(berth, config):
    def by_root():
        create_by_root(berth)

    def by_certificate():
        create_by_certificate(config)

    before = median_ms(by_root), median_ms(by_certificate)
    with Strangers("bodies", config.port, 70):
        after = median_ms(by_root), median_ms(by_certificate)
        create_by_root(berth, 900_000)
        create_by_certificate(config, 900_000)
    print(f"a create of 20 KB takes {after[0] / before[0]:.2f} times as long at the socket, and "
          f"{after[1] / before[1]:.2f} times by certificate")


def test_an_unknown_token_is_refused_before_its_body_comes(config):
    with connect(config, config.tls(with_certificate=False)) as stream:
        stream.sendall(b"POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: x\r\n"
                       b"Authorization: Bearer of-nobody\r\nExpect: 100-continue\r\nContent-Length: 100000\r\n\r\n")
        answer = b""
        while part := stream.recv(65536):
            answer += part
    assert answer.startswith(b"HTTP/1.1 401 "), answer
    assert b"100 Continue" not in answer


@pytest.mark.parametrize("sender", ["token", "certificate", "impersonated"])
def test_a_body_is_not_read_that_its_sender_may_not_write(berth, config, sender):
    """The right depends on the URL alone, so it is judged before the body comes."""
    headers, client, certificate = "", config, True
    if sender == "token":
        headers = f"Authorization: Bearer {berth.run('token', 'create', 'bob').stdout.strip()}\r\n"
        certificate = False
    elif sender == "certificate":
        client = kube.Kubeconfig(berth.data / "node.kubeconfig")
    else:
        headers = "Impersonate-User: bob\r\n"
    with connect(client, client.tls(with_certificate=certificate)) as stream:
        stream.sendall(f"POST {CONFIG_MAPS} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n{headers}"
                       "Expect: 100-continue\r\nContent-Length: 100000\r\n\r\n".encode())
        answer = stream.recv(65536)
        while part := b"" if answer.startswith(b"HTTP/1.1 100 ") else stream.recv(65536):
            answer += part
    head, _, body = answer.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 403 "), answer
    assert json.loads(body)["reason"] == "Forbidden"
    assert json.loads(body)["details"]["kind"] == "configmaps"


def test_a_known_tokens_body_is_read(berth, config):
    token = berth.run("token", "create", "ann", "--role", "administrator").stdout.strip()
    api = kube.Api(config).as_token(token)
    try:
        for size in (100, 20_000, 900_000):
            reply = api.post(CONFIG_MAPS, config_map(size))
            assert reply.code == 201, reply
        unknown = api.as_token(token[:-1] + ("a" if token[-1] != "a" else "b"))
        for size in (100, 900_000):
            assert unknown.post(CONFIG_MAPS, config_map(size)).code == 401
    finally:
        api.close()


def test_refusals_do_not_fill_the_log(berth, config):
    stranger = kube.Api(config).as_token("of-nobody")
    begin = time.monotonic()
    try:
        for _ in range(400):
            assert stranger.get("/api/v1/not-to-be-logged-each-time").code == 401
    finally:
        stranger.close()
    lines = berth.log.read_text(errors="replace").count("not-to-be-logged-each-time")
    assert " is refused: " in berth.log.read_text(errors="replace")
    assert lines <= 20 * (2 + (time.monotonic() - begin) / 10), lines


def test_half_open_connections_take_no_seat_from_owners(berth, config):
    def by_root():
        create_by_root(berth, 100)

    def by_certificate():
        create_by_certificate(config, 100)

    kept = kube.Api(config)
    assert kept.get(CONFIG_MAPS).code == 200
    connection = kept.connection
    before = median_ms(by_root), median_ms(by_certificate)
    memory = anonymous_mib(berth)
    with Strangers("hellos", config.port, 6000):
        after = median_ms(by_root), median_ms(by_certificate)
        assert kept.get(CONFIG_MAPS).code == 200
        assert kept.connection is connection, "the connection of a verified client was closed"
        during = anonymous_mib(berth)
    kept.close()
    print(f"a create takes {after[0] / before[0]:.2f} times as long at the socket, and {after[1] / before[1]:.2f} "
          f"times by certificate; memory {memory:.0f} MiB, then {during:.0f} MiB")
    assert during - memory < 100
    standalone.wait_for("the memory to come back", lambda: anonymous_mib(berth) - memory < 50)


@pytest.mark.parametrize("kind", ["connects", "handshakes"])
def test_a_flood_of_connections_costs_owners_little(berth, config, kind):
    def by_root():
        create_by_root(berth, 100)

    def by_certificate():
        create_by_certificate(config, 100)

    before = median_ms(by_root), median_ms(by_certificate)
    with Strangers(kind, config.port, 8) as strangers:
        after = median_ms(by_root, 500), median_ms(by_certificate)
    print(f"{strangers.succeeded / strangers.seconds:.0f} {kind} a second: a create takes {after[0] / before[0]:.2f} "
          f"times as long at the socket, and {after[1] / before[1]:.2f} times by certificate")
    if kind == "handshakes":
        # A burst of 100, and then 100 a second.
        assert strangers.succeeded <= 100 + 100 * (strangers.seconds + 1), (strangers.succeeded, strangers.seconds)


def test_a_handshake_that_comes_byte_by_byte_is_served(config):
    """The server waits for the first record of a handshake, however it comes."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = config.tls().wrap_bio(incoming, outgoing, server_hostname=config.host)
    with socket.create_connection((config.host, config.port), timeout=60) as stream:
        stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

        def step(action):
            while True:
                try:
                    return action()
                except ssl.SSLWantReadError:
                    flush()
                    incoming.write(stream.recv(65536))

        def flush():
            for byte in outgoing.read():
                stream.sendall(bytes([byte]))

        step(tls.do_handshake)
        tls.write(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        flush()
        assert step(lambda: tls.read(65536)).startswith(b"HTTP/1.1 200 ")


def test_silent_connections_keep_no_probe_out(berth):
    port = int(standalone.wait_for("the HTTP endpoint",
                                   lambda: re.search(r"serving .* port (\d+)", berth.log.read_text())).group(1))
    with Strangers("silent", port, 62):
        for _ in range(20):
            assert probe(port, "/healthz") == 200
            assert probe(port, "/metrics") == 200
    with Strangers("silent", port, 300):
        for _ in range(20):
            assert probe(port, "/healthz") == 200
