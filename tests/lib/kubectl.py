"""kubectl as a person uses it, in all versions that this machine has."""
import contextlib
import json
import os
import pathlib
import queue
import subprocess
import threading
import time

import pytest
import yaml

from lib import objects
from lib.standalone import ROOT, Failure, wait_for


def version_of(binary):
    """Gives the version of a kubectl, as (1, 20, "v1.20.2"), or None if it does not run."""
    try:
        result = subprocess.run([binary, "version", "--client", "-o", "json"], capture_output=True, text=True,
                                timeout=20, env={"HOME": "/nonexistent", "PATH": os.environ["PATH"]})
        client = json.loads(result.stdout)["clientVersion"]
        return int(client["major"]), int(client["minor"].rstrip("+")), client["gitVersion"]
    except (OSError, ValueError, KeyError, subprocess.TimeoutExpired):
        return None


def installed():
    """Gives {binary: version} of the clients on this machine, Debian's first, each version once."""
    debian = subprocess.run([ROOT / "tools" / "debian_package", "kubernetes-client", "usr/bin/kubectl"],
                            capture_output=True, text=True).stdout.strip()
    found = {}
    for binary in (debian, "/usr/bin/kubectl", "/usr/local/bin/kubectl"):
        version = version_of(binary) if binary else None
        if version and version not in found.values():
            found[binary] = version
    return found


def render(folder):
    """Renders a folder of deploy/, and gives {(kind, name): object}. The test is skipped where no kubectl knows the words of
    today's kustomize."""
    version, binary = max(((version[:2], binary) for binary, version in installed().items()), default=((0, 0), None))
    if version < (1, 21):
        pytest.skip("no kubectl of at least 1.21 is here, whose kustomize knows `resources` and `patches`")
    result = subprocess.run([binary, "kustomize", folder], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert "deprecated" not in result.stderr, result.stderr
    return {(item["kind"], item["metadata"]["name"]): item for item in yaml.safe_load_all(result.stdout)}


class Kubectl:
    """One client, on one API, in a namespace and with a home folder of its own."""

    def __init__(self, binary, version, kubeconfig, ns, home):
        self.binary = binary
        self.minor = version[1]
        self.kubeconfig = kubeconfig
        self.ns = ns
        self.home = pathlib.Path(home)

    def command(self, *arguments):
        return [self.binary, "--kubeconfig", str(self.kubeconfig), "-n", self.ns, *map(str, arguments)]

    def environment(self, **more):
        # A command ends before its garbage is worth collecting: this saves a fifth of the processor time.
        return {"HOME": str(self.home), "PATH": os.environ["PATH"], "GOGC": "1000", **more}

    def run(self, *arguments, stdin=None, check=True, timeout=60, env=None):
        result = subprocess.run(self.command(*arguments), input=stdin, text=True, capture_output=True,
                                timeout=timeout, env=self.environment(**(env or {})))
        if check and result.returncode != 0:
            raise Failure(f"kubectl {' '.join(map(str, arguments))}: exit {result.returncode}\n"
                          f"{result.stdout}{result.stderr}")
        return result

    def __call__(self, *arguments, **options):
        """Runs a command and gives its output."""
        return self.run(*arguments, **options).stdout

    def fails(self, *arguments, **options):
        """Runs a command that must fail, and gives its standard error."""
        result = self.run(*arguments, check=False, **options)
        assert result.returncode != 0, f"{arguments} should fail:\n{result.stdout}"
        return result.stderr

    def apply(self, *items, flags=()):
        # This is JSON, because PyYAML writes words such as the key y without quotes, and another reader may take them
        # for booleans.
        documents = {"apiVersion": "v1", "kind": "List", "items": list(items)}
        return self("apply", *flags, "-f", "-", stdin=json.dumps(documents))

    def json(self, *arguments):
        return json.loads(self(*arguments, "-o", "json"))

    def table(self, *arguments):
        """Gives the rows of a table as dictionaries, cut at the columns of its head."""
        head, *rows = self("get", *arguments).splitlines()
        starts, at = [], 0
        for part in head.split("  "):
            word = part.strip()
            if word:
                starts.append((word, head.index(word, at)))
                at = starts[-1][1] + len(word)
        ends = [start for _, start in starts[1:]] + [None]
        return [{word: row[start:end].strip() for (word, start), end in zip(starts, ends)} for row in rows]

    def start(self, *arguments, **options):
        """Starts a client that keeps running, such as a watch; its output comes line by line."""
        return subprocess.Popen(self.command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                env=self.environment(), **options)


def config_map(name, **data):
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data}


def running(kubectl, name, script="sleep 1000", **spec):
    kubectl.apply(objects.pod(name, script, **spec))
    kubectl("wait", "--for=condition=Ready", f"pod/{name}", "--timeout=60s", timeout=90)


def wait_succeeded(kubectl, name):
    """Waits for the end of a pod, whose containers must all end with 0."""
    def ended():
        phase = kubectl("get", "pod", name, "-o", "jsonpath={.status.phase}")
        return phase if phase in ("Succeeded", "Failed") else None
    phase = wait_for(f"pod {name} to end", ended)
    assert phase == "Succeeded", f"{kubectl('logs', name)}\n{kubectl('describe', 'pod', name)}"


def finished(kubectl, name, script, **spec):
    """Runs a pod to its end, and gives its output."""
    kubectl.apply(objects.pod(name, script, **spec))
    wait_succeeded(kubectl, name)
    return kubectl("logs", name)


@contextlib.contextmanager
def watching(kubectl, *arguments):
    """Gives a function that waits for a line with the given words, and returns it."""
    process = kubectl.start(*arguments)
    lines, seen = queue.SimpleQueue(), []
    reader = threading.Thread(target=lambda: [lines.put(line) for line in process.stdout])
    reader.start()

    def line_with(*words, seconds=30):
        deadline = time.monotonic() + seconds
        while not (seen and all(word in seen[-1] for word in words)):
            try:
                seen.append(lines.get(timeout=max(0, deadline - time.monotonic())))
            except queue.Empty:
                raise AssertionError(f"no line with {words}; seen: {seen}") from None
        return seen[-1]
    try:
        yield line_with
    finally:
        process.kill()
        process.wait()
        reader.join()
        process.stdout.close()
