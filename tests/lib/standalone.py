"""A standalone Berth with a containerd of its own, driven as a person would, by the command line, and watched over the
API's socket, because a look by the command line takes a process.

Used by the demonstration, the tests and the benchmarks.
"""
import json
import os
import pathlib
import re
import signal
import subprocess
import threading
import time
import urllib.request

from lib.failure import Failure
from lib.local_api import LocalApi, path_of

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
IMAGE = "berth.local/busybox:1"
# The program under test; the environment names another build of it.
BINARY = pathlib.Path(os.environ.get("BERTH_BINARY", ROOT / "build" / "bin" / "berth"))


def own_containerd(verb, folder, *runtimes, containerd=None):
    """Runs tools/own_containerd; gives the socket after "start". `containerd`: the program, if not that of the environment."""
    env = os.environ | ({"BERTH_CONTAINERD": str(containerd)} if containerd else {})
    result = subprocess.run([ROOT / "tools" / "own_containerd", verb, folder, *runtimes], text=True,
                            capture_output=True, timeout=120, env=env)
    if result.returncode != 0:
        raise Failure(f"own_containerd {verb}: {result.stdout}{result.stderr}")
    return result.stdout.strip()


def hears_sigterm(pid):
    """Tells whether the process handles SIGTERM or waits for it. A process that has only just started would die of
    it."""
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        name, _, mask = line.partition(":")
        if name in ("SigBlk", "SigCgt") and int(mask, 16) >> (signal.SIGTERM - 1) & 1:
            return True
    return False


def wait_for(what, probe, seconds=60, interval=None):
    """Calls `probe` until its value is true, and gives that value. After the time-out a Failure names `what`, with
    the last value. `interval` is the time between two calls in seconds. Without it a longer wait and a slower probe have
    longer intervals, because many probes run a command, and the tests beside need the processors."""
    began = time.monotonic()
    while True:
        asked = time.monotonic()
        value = probe()
        if value:
            return value
        waited, took = time.monotonic() - began, time.monotonic() - asked
        if waited > seconds:
            raise Failure(f"gave up after {seconds} s waiting for {what}; last seen: {value!r}")
        time.sleep(interval or max(min(max(waited / 10, 0.02), 0.1), min(took, 0.5)))


class Standalone:
    """`berth up` on a folder of its own. Not started until start()."""

    def __init__(self, folder, runtime_socket, binary=BINARY, flags=(),
                 inside=lambda *command: list(map(str, command))):
        self.inside = inside
        self.folder = pathlib.Path(folder)
        self.data = self.folder / "data"
        self.log = self.folder / "berth.log"
        self.runtime_socket = runtime_socket
        self.binary = binary
        self.flags = list(flags)
        self.port = 0  # of the API; 0: any that is free
        self.process = None
        self.started = None  # when the process was started, as the API writes times
        self.folder.mkdir(parents=True, exist_ok=True)

    # -- the process

    def start(self, env=None, wait=True):
        self.started = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        command = self.inside(self.binary, "up", "--data", self.data, "--port", self.port, "--node-name", "node-a",
                              "--container-runtime-endpoint", f"unix://{self.runtime_socket}", *self.flags)
        with open(self.log, "ab") as log:
            self.process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                env=os.environ | (env or {}), start_new_session=True)
        if wait:
            wait_for("'berth up' to be ready", self._ready)
        return self

    def _ready(self):
        if self.process.poll() is not None:
            raise Failure(f"'berth up' ended with {self.process.returncode}:\n{self.log_tail()}")
        # What an earlier process reported of its runtime says nothing about this one's.
        return self.answers() and any(
            c["type"] == "Ready" and c["status"] == "True" and c.get("lastHeartbeatTime", "") >= self.started
            for node in self.items("nodes") for c in node.get("status", {}).get("conditions", []))

    def keep_port(self):
        """The API gets its port of now at the next start, too, as others know it."""
        server = re.search(r"https://[\d.]+:(\d+)", (self.data / "kubeconfig").read_text())
        self.port = int(server[1])

    def stop(self, seconds=30):
        if self.process is None:
            return
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise Failure(f"'berth up' did not end within {seconds} s of SIGTERM:\n{self.log_tail()}")
        self.process = None

    def kill(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def kill_soon(self, seconds):
        """Kills the process with SIGKILL after some seconds, from a thread, at whatever point it is then."""
        process = self.process
        timer = threading.Timer(seconds, process.kill)
        timer.daemon = True
        timer.start()

    def log_tail(self, lines=40):
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    # -- the command line

    def run(self, *arguments, check=True, stdin=None, timeout=60):
        words = 2 if arguments[0] in ("token", "certificate", "upgrade", "flex", "fence", "pool") else 1
        result = subprocess.run([self.binary, *arguments[:words], "--data", self.data, *arguments[words:]], text=True,
                                input=stdin, capture_output=True, timeout=timeout)
        if check and result.returncode != 0:
            raise Failure(f"berth {' '.join(map(str, arguments))}: exit {result.returncode}\n"
                          f"{result.stdout}{result.stderr}")
        return result

    def explain(self, subject):
        """Gives what `berth explain` prints as JSON. Its exit code is 1 if something is blocked."""
        result = self.run("explain", subject, "-o", "json", check=False)
        if result.returncode not in (0, 1) or not result.stdout:
            raise Failure(f"berth explain {subject}: exit {result.returncode}\n{result.stdout}{result.stderr}")
        explanation = json.loads(result.stdout)
        assert result.returncode == (explanation["verdict"] == "blocked"), result
        return explanation

    def end_by_file(self, pod, path):
        """Creates the file at which the pod's container ends. The container may end, and so kill touch, before touch
        has ended."""
        touched = self.run("exec", pod, "--", "touch", path, check=False)
        if touched.returncode not in (0, 128 + signal.SIGKILL):
            raise Failure(f"touch {path} in pod {pod}: exit {touched.returncode}\n{touched.stdout}{touched.stderr}")

    def apply(self, manifest):
        """Applies a file, YAML text, or objects."""
        if isinstance(manifest, pathlib.Path):
            return self.run("apply", "-f", manifest)
        if not isinstance(manifest, str):
            objects = manifest if isinstance(manifest, list) else [manifest]
            manifest = "\n---\n".join(json.dumps(item) for item in objects)
        return self.run("apply", "-f", "-", stdin=manifest)

    def delete(self, kind, name, check=True):
        return self.run("delete", kind, name, check=check)

    # -- watching

    @property
    def api(self):
        return LocalApi(self.data / "api.sock", timeout=60)

    def answers(self):
        """Tells whether the API answers."""
        try:
            return self.api.call("GET", "/api/v1/nodes")[0] == 200
        except Failure:
            return False

    def items(self, kind, ns="default"):
        if path_of(kind, ns):
            return self.api.items(kind, ns)
        return json.loads(self.run("get", kind, "-n", ns, "-o", "json").stdout)["items"]

    def get(self, kind, name, ns="default"):
        """Gives the object, or None."""
        if path_of(kind, ns):
            return self.api.get(kind, name, ns)
        result = self.run("get", kind, name, "-n", ns, "-o", "json", check=False)
        if result.returncode != 0:
            if "not found" in result.stderr:
                return None
            raise Failure(f"get {kind} {name}: {result.stderr}")
        return json.loads(result.stdout)

    def wait_phase(self, kind, name, *phases, seconds=60):
        def probe():
            item = self.get(kind, name)
            phase = (item or {}).get("status", {}).get("phase")
            return item if phase in phases else None
        try:
            return wait_for(f"{kind} {name} to be {' or '.join(phases)}", probe, seconds)
        except Failure as failure:
            raise Failure(f"{failure}\n{self.describe(kind, name)}\n{self.log_tail()}") from None

    def wait_gone(self, kind, name, seconds=60):
        try:
            wait_for(f"{kind} {name} to be gone", lambda: self.get(kind, name) is None, seconds)
        except Failure as failure:
            raise Failure(f"{failure}\n{self.describe(kind, name)}\n{self.log_tail()}") from None

    def wait_volume_size(self, claim, size):
        """Waits until the volume of a claim has grown to a size in the driver. A pod that starts before it gets the file system with
        its old size."""
        def of_volume():
            return self.get("pv", self.get("pvc", claim)["spec"]["volumeName"])["spec"]["capacity"]["storage"]
        wait_for(f"the volume of claim {claim} to have {size}", lambda: of_volume() == size)

    def wait_file(self, pod, path):
        """Waits until a running pod has made a file, because a pod runs before its program does its first work."""
        wait_for(f"pod {pod} to make {path}", lambda: self.run("exec", pod, "--", "test", "-e", path, check=False).returncode == 0)

    def describe(self, kind, name):
        return self.run("describe", kind, name, check=False).stdout

    def events(self, name):
        return [e for e in self.items("events") if e["involvedObject"]["name"] == name]

    def metrics(self):
        """Gives the text of /metrics; needs the flag --http-endpoint 127.0.0.1:0."""
        port = re.findall(r"serving metrics and health at '127.0.0.1:0', port (\d+)", self.log.read_text())[-1]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            return answer.read().decode()

    def remove_everything(self, seconds=90):
        """Deletes pods, then host mounts, claims and snapshots, and waits until volumes are gone, too."""
        # A snapshot that is not taken yet keeps its claim, and a claim that is not restored yet keeps its snapshot.
        for kinds in (["pods"], ["hostmounts"], ["volumegroupsnapshots"], ["volumesnapshots", "persistentvolumeclaims"]):
            names = [(kind, item["metadata"]["name"]) for kind in kinds for item in self.items(kind)]
            for kind, name in names:
                self.run("delete", kind, name, "--grace-period", "1", "--wait=false", check=False)
            for kind, name in names:
                self.wait_gone(kind, name, seconds)
        for name in [item["metadata"]["name"] for item in self.items("volumesnapshotcontents")]:
            self.run("delete", "volumesnapshotcontents", name, "--wait=false", check=False)
            self.wait_gone("volumesnapshotcontents", name, seconds)
        for name in [item["metadata"]["name"] for item in self.items("persistentvolumes")]:
            volume = self.get("persistentvolumes", name)  # the object may be gone by now
            if volume and volume["spec"]["persistentVolumeReclaimPolicy"] == "Retain":
                self.run("delete", "persistentvolumes", name, "--wait=false")
            self.wait_gone("persistentvolumes", name, seconds)
        wait_for("volume attachments to be gone", lambda: not self.items("volumeattachments"), seconds)
