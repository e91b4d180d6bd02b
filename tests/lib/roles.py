"""`berth controller`, `berth node` and Berth under a sidecar's name, as processes of their own."""
import json
import os
import pathlib
import re
import signal
import subprocess
import urllib.error
import urllib.request

from lib.standalone import BINARY, wait_for

# These times are short enough for a test. A leader that cannot renew its lease pauses after two seconds at most.
LEASE_SECONDS = 4
LEASE = ["--leader-election", "--leader-election-namespace=default",
         f"--leader-election-lease-duration={LEASE_SECONDS}s", "--leader-election-renew-deadline=2s",
         "--leader-election-retry-period=500ms"]


def lease(berth, name):
    """Gives the spec of a lease, or an empty one if there is no such lease."""
    return next((item["spec"] for item in berth.items("leases") if item["metadata"]["name"] == name), {})


def holder(berth, name):
    return lease(berth, name).get("holderIdentity")


def kubeconfig_of(path, socket, **user):
    """Writes a kubeconfig that names the API by its socket, because the port is another one after each start. `user` holds
    the fields of its user, such as `as`; without them it is root's."""
    path.write_text(json.dumps({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": f"unix://{socket}"}}],
        "users": [{"name": "c", "user": user}], "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}]}))
    return path


class Role:
    """A process of a role; `arguments` begin with the subcommand or the sidecar's name. `program` is another copy of Berth."""

    def __init__(self, log, *arguments, env=None, program=BINARY):
        self.log_path = pathlib.Path(log)
        with open(self.log_path, "ab") as out:
            self.process = subprocess.Popen([program, *map(str, arguments)], stdin=subprocess.DEVNULL, stdout=out,
                                            stderr=out, env=os.environ | (env or {}))

    def log(self):
        return self.log_path.read_text(errors="replace")

    def port(self):
        """Gives the port at which it serves metrics and health."""
        found = wait_for("the process to serve HTTP", lambda: re.search(r"serving .* port (\d+)", self.log()))
        return int(found.group(1))

    def get(self, path, port=None):
        """Gives (code, body) of a path on its HTTP port, or on another one."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port or self.port()}{path}", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def freeze(self):
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self):
        self.process.send_signal(signal.SIGCONT)

    def stop(self):
        """Stops the process, and gives its exit code."""
        if self.process.poll() is None:
            self.thaw()
            self.process.terminate()
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        return self.process.returncode
