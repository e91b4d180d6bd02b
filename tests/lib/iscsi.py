"""`berth-iscsi` and the client of a LUN that the tests drive (tests/doubles/iscsi_writer.cc)."""
import json
import os
import selectors
import subprocess

from lib.standalone import BINARY, ROOT, Failure
from lib.tgt import TARGET

PROGRAM = BINARY.parent / "berth-iscsi"
WRITER = ROOT / "build" / "bin" / "iscsi_writer"


def request(portals, node="node-a", **members):
    """The members that each request has; those of `cluster` are given as cluster={...}."""
    cluster = {"portals": [portals] if isinstance(portals, str) else portals, "target": TARGET, "owner": "owner-1"}
    return {"cluster": cluster | members.pop("cluster", {}), "node": node} | members


def call(name, portals, **members):
    """Gives the result of a call, which has "error" after a failure. A fence needs the identity of the LUN."""
    if name in ("fence", "fenceTargets") and "identity" not in members:
        members["identity"] = call("info", portals, **members).get("identity", "none")
    text = json.dumps({"call": name} | request(portals, **members))
    result = subprocess.run([PROGRAM, "call"], input=text, capture_output=True, text=True, timeout=30)
    answer = json.loads(result.stdout)
    if ("error" in answer) != (result.returncode == 1) or result.returncode not in (0, 1):
        raise Failure(f"exit code {result.returncode} with {answer}")
    for secret in (members.get("cluster", {}).get("chapPassword"),):
        if secret and secret in result.stdout + result.stderr:
            raise Failure("the secret is in the output")
    return answer


def settings_to_serve(portals, lun=1, **members):
    """The settings of `berth-iscsi serve` for a node that has the right to the LUN now."""
    settings = request(portals, lun=lun, **members)
    asks = {"lun": lun, "node": settings["node"], "cluster": members.get("cluster", {})}
    if "identity" not in settings:
        settings["identity"] = call("info", portals, **asks).get("identity", "none")
    if "ticket" not in settings:
        settings["ticket"] = call("holders", portals, **asks).get("ticket", "none")
    return settings


class Writer:
    """A process that serves a LUN, without a file system. `began` has its first line."""

    def __init__(self, portals, lun=1, **members):
        settings = settings_to_serve(portals, lun, **members)
        self.process = subprocess.Popen([WRITER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            self.began = self.ask(json.dumps(settings))
        except BaseException:
            self.kill()
            raise

    def send(self, line):
        self.process.stdin.write(f"{line}\n".encode())
        self.process.stdin.flush()

    def receive(self, seconds=90):
        """Reads a line byte by byte, so that nothing is read ahead."""
        line = b""
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            while not line.endswith(b"\n"):
                if not selector.select(seconds):
                    raise Failure(f"no answer within {seconds} s, after {line!r}")
                byte = os.read(self.process.stdout.fileno(), 1)
                if not byte:
                    raise Failure(f"the process ended after {line!r}: {self.process.stderr.read().decode()}")
                line += byte
        return line.decode().strip()

    def has_answered(self):
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            return bool(selector.select(0))

    def ask(self, line):
        self.send(line)
        return self.receive()

    def signal(self, number):
        self.process.send_signal(number)

    def quit(self):
        self.send("quit")
        return self.process.wait(timeout=60)

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
