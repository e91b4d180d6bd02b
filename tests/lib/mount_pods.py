"""Mount pods from deploy/mount-pod on a standalone Berth, and what tests check: registrations and FUSE daemons."""
import json
import pathlib
import re
import subprocess

import yaml

from lib import objects
from lib.debian_root import names_in
from lib.standalone import ROOT, Failure, wait_for

NAMESPACE = "berth-mount"


def packages(kind):
    """Gives the Debian packages that the recipe of a kind names."""
    folder = ROOT / "deploy" / "mount-pod"
    return names_in(folder / "base" / "packages") + names_in(folder / kind / "packages")


def render(kind):
    """Gives the output of `kubectl kustomize deploy/mount-pod/KIND`."""
    result = subprocess.run(["kubectl", "kustomize", ROOT / "deploy" / "mount-pod" / kind], capture_output=True, text=True)
    if result.returncode != 0:
        raise Failure(result.stderr)
    return result.stdout


class MountPods:
    """The DaemonSet of one kind, on the node of `berth`."""

    def __init__(self, berth, kind):
        self.berth = berth
        self.kind = kind
        self.name = f"{kind}-mount-pod"
        self.objects = list(yaml.safe_load_all(self._for_this_machine(render(kind))))
        self.daemon_set = next(item for item in self.objects if item["kind"] == "DaemonSet")

    def _for_this_machine(self, text):
        """Changes the manifest for this machine: it has another kubelet folder and no modules, and the tests may run
        in a mount namespace that is not process 1's."""
        modules = self.berth.folder / "modules"
        modules.mkdir(exist_ok=True)
        containerd = (pathlib.Path(self.berth.runtime_socket).parent / "pid").read_text()
        text = text.replace("/var/lib/kubelet", str(self.berth.data / "kubelet"))
        text = text.replace("/host/proc/1/", f"/host/proc/{containerd}/")
        return text.replace("path: /lib/modules", f"path: {modules}")

    def apply(self):
        self.berth.apply(self.objects)
        return self

    def change(self, text, strategy=None):
        """Applies another template, which differs in an annotation with `text`."""
        template = self.daemon_set["spec"]["template"]
        template["metadata"].setdefault("annotations", {})["berth.dev/test"] = text
        if strategy:
            self.daemon_set["spec"]["updateStrategy"] = strategy
        return self.apply()

    def delete(self):
        self.berth.run("delete", "daemonset", self.name, "-n", NAMESPACE, "--ignore-not-found", "--no-wait")
        wait_for("the mount pods to be gone", lambda: not self.pods())

    def pods(self):
        return [p for p in self.berth.items("pods", NAMESPACE)
                if p["metadata"]["labels"].get("berth.dev/mount-pod") == self.kind]

    def staying(self):
        return [p for p in self.pods() if "deletionTimestamp" not in p["metadata"]]

    def leaving(self):
        return [p for p in self.pods() if "deletionTimestamp" in p["metadata"]]

    def registered(self):
        """Gives the UID of the pod in which utilities run, or None without one."""
        path = self.berth.data / "kubelet" / "plugin-containers" / f"kubernetes.io~{self.kind}.json"
        try:
            return json.loads(path.read_text())["podUID"]
        except FileNotFoundError:
            return None

    def wait_ready(self, text=None):
        """Waits until only one pod stays that is ready, registered, and of the template with this text, and gives
        it."""
        def probe():
            pods = self.staying()
            if len(pods) != 1:
                return None
            annotations = pods[0]["metadata"].get("annotations") or {}
            ready = objects.is_ready(pods[0])
            same = self.registered() == pods[0]["metadata"]["uid"]
            return pods[0] if ready and same and annotations.get("berth.dev/test") == text else None
        try:
            return wait_for("a ready mount pod", probe)
        except Failure as failure:
            described = self.berth.run("describe", "pods", "-n", NAMESPACE, check=False).stdout
            raise Failure(f"{failure}\n{described}\n{self.berth.log_tail()}") from None


def doctor(berth):
    """Gives what `berth doctor` finds, as dictionaries."""
    said = berth.run("doctor", "-o", "json", "--container-runtime-endpoint", f"unix://{berth.runtime_socket}", check=False)
    return json.loads(said.stdout)["findings"]


def daemons(folder, program="glusterfs"):
    """Gives {mount point: UID of the daemon's pod} for a kind's FUSE daemons with mount points below a folder."""
    found = {}
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            argv = process.joinpath("cmdline").read_bytes().decode(errors="replace").split("\0")
            if argv[0].rpartition("/")[2] != program:
                continue
            environment = process.joinpath("environ").read_bytes().decode(errors="replace")
        except OSError:
            continue  # it ended meanwhile
        uid = re.search(r"(?:^|\0)POD_UID=([^\0]*)", environment)
        below = [word for word in argv if word.startswith(f"{folder}/")]
        if below:
            found[below[-1]] = uid[1] if uid else None  # earlier words are files that it reads
    return found
