"""The real programs of Kubernetes, in the folder that BERTH_KUBERNETES names; and a process of one of them, or of Berth under the
name of one."""
import os
import pathlib
import re
import socket
import subprocess
import urllib.error
import urllib.request

from lib.standalone import BINARY, wait_for

FOLDER = os.environ.get("BERTH_KUBERNETES")

# Each process has a host name of its own, as the containers of pods do: the Go programs elect their leader by host name, so two
# of them with one name would both lead.
WITH_HOST_NAME = ["unshare", "--uts", "sh", "-c", 'hostname "$1" && shift && exec "$@"', "sh"]


def find(name):
    """Gives the path of a real program, or None."""
    path = pathlib.Path(FOLDER or "/nonexistent") / name
    return path if path.exists() else None


def missing(*names):
    """Says which of the programs are not there, or gives an empty text."""
    if not FOLDER:
        return "BERTH_KUBERNETES names no folder of programs"
    absent = [name for name in names if find(name) is None]
    return f"{FOLDER} has no {', '.join(absent)}" if absent else ""


def version(name):
    """Gives the version that a real program prints."""
    return version_of(find(name))


def version_of(path):
    """Gives the version that the program at a path prints."""
    output = subprocess.run([path, "--version"], capture_output=True, text=True, timeout=30)
    found = re.search(r"v?\d+\.\d+\.\d+\S*", output.stdout + output.stderr)
    return found.group(0).lstrip("v") if found else "of unknown version"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Process:
    """A running program whose output goes to a file."""

    def __init__(self, log, command, env=None):
        self.log_path = pathlib.Path(log)
        with open(self.log_path, "ab") as out:
            self.process = subprocess.Popen([str(word) for word in command], stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                            env=os.environ | (env or {}))

    def log(self):
        return self.log_path.read_text(errors="replace")

    def refusals(self):
        """Gives the lines by which it says that the API refused something to it."""
        return [line for line in self.log().splitlines() if "forbidden" in line.lower() or "PERMISSION_DENIED" in line]

    def wait_for(self, what, probe, seconds=60):
        """As wait_for, but ends at once when the program ends."""
        def look():
            assert self.process.poll() is None, f"it ended with {self.process.returncode}: {self.log()[-4000:]}"
            return probe()
        return wait_for(what, look, seconds, interval=0.05)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def end(self, how):
        """Ends it as `how` says: "killed" or "stopped"."""
        if how == "killed":
            self.kill()
        else:
            self.stop()

    def stop(self, seconds=30):
        """Ends it in order, or kills it after the time; gives its exit code."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(seconds)
            except subprocess.TimeoutExpired:
                self.kill()
        return self.process.returncode


class Sidecar(Process):
    """A sidecar, of Go or Berth under its name, with an HTTP endpoint."""

    def __init__(self, log, program, arguments, real, host_name, env=None):
        self.port = free_port()
        self.host_name = host_name
        executable = [find(program)] if real else [BINARY, program]
        super().__init__(log, [*WITH_HOST_NAME, host_name, *executable, *arguments, f"--http-endpoint=127.0.0.1:{self.port}"], env)

    def get(self, path):
        """Gives (code, body) of a path of its HTTP endpoint; (0, "") while nobody listens."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()
        except OSError:
            return 0, ""

    def metrics(self):
        """Gives the text of its metrics."""
        return self.wait_for("its metrics", lambda: self.get("/metrics")[1])
