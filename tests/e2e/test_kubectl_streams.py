"""The streams between kubectl and a container: logs, exec, cp, attach and port-forward."""
import contextlib
import re
import socket

import pytest
from lib import objects
from lib.kubectl import finished, running, wait_succeeded, watching
from lib.standalone import wait_for

pytestmark = [pytest.mark.api, pytest.mark.e2e]


def test_logs(kubectl):
    finished(kubectl, "talker", "for i in 1 2 3; do echo line $i; done; sleep 1; echo oops >&2")
    assert kubectl("logs", "talker") == "line 1\nline 2\nline 3\noops\n"
    assert kubectl("logs", "pod/talker", "-c", "main", "--tail=1") == "oops\n"
    assert re.match(r"\d{4}-\d\d-\d\dT[\d:.]+Z line 1\n", kubectl("logs", "talker", "--timestamps"))
    assert kubectl("logs", "talker", "--limit-bytes=4") == "line"
    assert "not valid for pod" in kubectl.fails("logs", "talker", "-c", "none")
    assert "NotFound" in kubectl.fails("logs", "none")


def test_logs_follow_to_the_end(kubectl):
    kubectl.apply(objects.pod("slow", "echo first; sleep 3; echo last"))
    wait_for("the pod to start", lambda: kubectl("get", "pod", "slow", "-o", "jsonpath={.status.phase}")
             in ("Running", "Succeeded"))
    assert kubectl("logs", "-f", "slow") == "first\nlast\n"
    wait_succeeded(kubectl, "slow")


def test_logs_of_the_container_before(kubectl):
    kubectl.apply(objects.pod("again", "echo run $(date +%s%N); sleep 1; exit 1", restart="OnFailure"))
    wait_for("a restart", lambda: kubectl(
        "get", "pod", "again", "-o", "jsonpath={.status.containerStatuses[0].restartCount}") not in ("", "0"))
    assert kubectl("logs", "again", "--previous").startswith("run ")


def test_exec(kubectl):
    running(kubectl, "web")
    assert kubectl("exec", "web", "--", "echo", "hello") == "hello\n"
    result = kubectl.run("exec", "web", "--", "sh", "-c", "echo out; echo err >&2; exit 7", check=False)
    assert result.returncode == 7 and result.stdout == "out\n" and "err\n" in result.stderr, result
    assert kubectl("exec", "-i", "web", "--", "sort", stdin="b\na\n") == "a\nb\n"
    payload = "x" * 1_000_000
    assert kubectl("exec", "-i", "web", "--", "wc", "-c", stdin=payload).strip() == "1000000"
    assert "NotFound" in kubectl.fails("exec", "none", "--", "true")
    error = kubectl.fails("exec", "web", "--", "no-such-program")
    assert "no-such-program" in error


def test_attach(kubectl):
    running(kubectl, "echo", "echo before; while read line; do echo heard $line; done; echo end; exit 3",
            container={"stdin": True, "stdinOnce": True})
    result = kubectl.run("attach", "-i", "echo", stdin="one\ntwo\n", check=False)
    assert re.search(r"^heard one\nheard two\n", result.stdout, re.M), result
    # Output from before the attach is not shown, and the container ends at the end of its input.
    assert "before" not in result.stdout
    wait_for("the container to end", lambda: kubectl(
        "get", "pod", "echo", "-o", "jsonpath={.status.containerStatuses[0].state.terminated.exitCode}") == "3")
    assert kubectl("logs", "echo") == "before\nheard one\nheard two\nend\n"


def test_attach_listens(kubectl):
    running(kubectl, "clock", "while :; do echo tick; sleep 0.2; done")
    with watching(kubectl, "attach", "clock") as line_with:
        line_with("tick")
    # Only this listener ended, and the container goes on.
    assert kubectl.json("get", "pod", "clock")["status"]["phase"] == "Running"


def test_attach_to_what_does_not_run_is_refused(kubectl):
    assert "NotFound" in kubectl.fails("attach", "none")
    finished(kubectl, "over", "true")
    assert "cannot attach a container in a completed pod" in kubectl.fails("attach", "over")
    running(kubectl, "web")
    assert "none" in kubectl.fails("attach", "web", "-c", "none")


def test_port_forward(kubectl):
    running(kubectl, "server", "mkdir /www; echo hello > /www/word; head -c 3000000 /dev/zero > /www/much; "
                               "exec httpd -f -p 127.0.0.1:8080 -h /www")
    wait_for("the server", lambda: kubectl.run(
        "exec", "server", "--", "wget", "-q", "-O", "-", "http://127.0.0.1:8080/word", check=False).returncode == 0)
    with watching(kubectl, "port-forward", "server", ":8080") as line_with:
        port = int(re.search(r"127\.0\.0\.1:(\d+) -> 8080", line_with("Forwarding from 127.0.0.1"))[1])
        assert said(port, "GET /word HTTP/1.0\r\n\r\n").endswith("\r\n\r\nhello\n")
        assert len(said(port, "GET /much HTTP/1.0\r\n\r\n").partition("\r\n\r\n")[2]) == 3_000_000


def said(port, words):
    """Sends words, and gives everything that is answered until the other side closes."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(words.encode())
        return b"".join(iter(lambda: connection.recv(65536), b"")).decode()


def test_port_forward_to_where_nobody_listens(kubectl):
    running(kubectl, "web")
    assert "NotFound" in kubectl.fails("port-forward", "none", ":80")
    with watching(kubectl, "port-forward", "web", ":81") as line_with:
        port = int(re.search(r"127\.0\.0\.1:(\d+) -> 81", line_with("Forwarding from 127.0.0.1"))[1])
        # kubectl resets the connection if it closes it before it has read the word.
        with contextlib.suppress(ConnectionResetError):
            assert said(port, "x") == ""
        line_with("rror", "forward")
    finished(kubectl, "over", "true")
    assert "pod is not running" in kubectl.fails("port-forward", "over", ":80")


def test_cp(kubectl, tmp_path):
    running(kubectl, "web")
    (tmp_path / "note").write_text("carried\n")
    kubectl("cp", tmp_path / "note", "web:/tmp/note")
    assert kubectl("exec", "web", "--", "cat", "/tmp/note") == "carried\n"
    kubectl("cp", "web:/tmp/note", tmp_path / "back")
    assert (tmp_path / "back").read_text() == "carried\n"
