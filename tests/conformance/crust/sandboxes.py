"""Pods and their sandboxes: a handler learns of a sandbox from its container runtime, and not by the CRUST API, so the suite has to
know a way to begin one."""
import json
import os
import pathlib
import shlex
import shutil
import subprocess
import uuid
from typing import NamedTuple

from lib import ipc_call

SECONDS = 120  # for one step
NOT_SUPPORTED = 77  # a command's exit code
NO_CONTAINER = 125


class Pod(NamedTuple):
    uid: str
    targets: tuple  # paths of the host at which volumes of this pod may be published; at least three


class Unsupported(Exception):
    """There is no way to do this step here, so the case is skipped."""


class NoContainer(Exception):
    """The container could not be made."""


def run_command(command, cwd=None):
    try:
        return subprocess.run(command, cwd=cwd, check=False, text=True, capture_output=True, timeout=SECONDS)
    except subprocess.TimeoutExpired as late:
        raise TimeoutError(f"{command} has not ended within {SECONDS} s") from late


class BerthSandboxes:
    """Those of `berth crust-handler`, which are begun as berth-oci begins them (src/base/ipc/crust_call.h)."""

    def __init__(self, oci_socket, run_folder, kubelet_folder, folder):
        self.oci_socket = oci_socket
        self.plans = pathlib.Path(run_folder) / "plans"
        self.pods = pathlib.Path(kubelet_folder) / "pods"
        self.bundles = pathlib.Path(folder)
        self._pod_of = {}

    def make_pod(self):
        uid = str(uuid.uuid4())
        targets = [self.pods / uid / "volumes" / "kubernetes.io~csi" / f"v{i}" / "mount" for i in range(3)]
        for target in targets:
            target.mkdir(parents=True)
        new = self.plans / f"{uid}.new"
        new.write_text(json.dumps({"targets": list(map(str, targets))}) + "\n")
        new.rename(self.plans / f"{uid}.json")
        return Pod(uid, tuple(map(str, targets)))

    def begin(self, pod):
        sandbox = uuid.uuid4().hex
        bundle = self.bundles / sandbox
        bundle.mkdir(parents=True)
        self._pod_of[sandbox] = pod
        self._call("crust.create", sandbox=sandbox, uid=pod.uid, kind="sandbox", bundle=str(bundle))
        return sandbox

    def run(self, sandbox, source, script):
        """Runs a shell script in a container, where the folder it begins in is the mount with this source. Gives the script's
        exit code and output."""
        config = os.memfd_create("config")
        mounts = [{"destination": "/volume", "type": "bind", "source": str(source), "options": ["rbind"]}]
        os.write(config, json.dumps({"ociVersion": "1.0.2", "mounts": mounts}).encode())
        new = os.memfd_create("new-config")
        try:
            _, found = self._call("crust.create", [config, new], sandbox=sandbox, uid=self._pod_of[sandbox].uid, kind="container",
                                  bundle=str(self.bundles / sandbox))
        except ipc_call.IpcError as refused:
            raise NoContainer(str(refused)) from refused
        finally:
            os.close(config)
            os.close(new)
        if not found:
            raise NoContainer(f"{source} is no volume of the sandbox")
        try:
            ran = run_command(["/bin/sh", "-c", script], cwd=f"/proc/self/fd/{found[0]}")
        finally:
            for mount in found:
                os.close(mount)
        return ran.returncode, ran.stdout

    def end(self, sandbox):
        self._call("crust.end", sandbox=sandbox)
        shutil.rmtree(self.bundles / sandbox)

    def forget(self, pod):
        (self.plans / f"{pod.uid}.json").unlink(missing_ok=True)
        shutil.rmtree(self.pods / pod.uid, ignore_errors=True)

    def _call(self, method, descriptors=(), **fields):
        return ipc_call.call(self.oci_socket, method, descriptors, SECONDS, **fields)


class CommandSandboxes:
    """Those that a command makes (docs/crust.md, "How to run the suite")."""

    def __init__(self, command):
        self.command = shlex.split(command)

    def make_pod(self):
        pod = json.loads(self._run("pod"))
        return Pod(pod["uid"], tuple(pod["targets"]))

    def begin(self, pod):
        return self._run("begin", pod.uid).strip()

    def run(self, sandbox, source, script):
        ran = self._try("run", sandbox, str(source), script)
        if ran.returncode == NO_CONTAINER:
            raise NoContainer(ran.stderr.strip())
        return ran.returncode, ran.stdout

    def end(self, sandbox):
        self._run("end", sandbox)

    def forget(self, pod):
        self._run("forget", pod.uid)

    def _try(self, verb, *arguments):
        ran = run_command([*self.command, verb, *arguments])
        if ran.returncode == NOT_SUPPORTED:
            raise Unsupported(f"the command for sandboxes has no '{verb}'")
        return ran

    def _run(self, verb, *arguments):
        ran = self._try(verb, *arguments)
        if ran.returncode != 0:
            raise OSError(f"the command for sandboxes failed at '{verb}' with {ran.returncode}: {ran.stderr.strip()}")
        return ran.stdout
