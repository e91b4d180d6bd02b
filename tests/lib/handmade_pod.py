"""A mount pod made by hand: a privileged pod of busybox that sees the kubelet folder and /dev, its registration, and a caller of its
utilities."""
import json
import subprocess

from lib import objects
from lib.standalone import ROOT

PLUGIN = "example.com/by-hand"
PROGRAM = ROOT / "build" / "bin" / "plugin_utility"


class Utility:
    """Calls utilities of the plugin by plugin_utility, which stands in for a plugin. `kubelet`: the kubelet's folder; `data`: the folder
    for records of mounts; `runtime`: the socket of the runtime."""

    def __init__(self, kubelet, data, runtime):
        self.kubelet = kubelet
        self.records = data
        self._command = [PROGRAM, "--kubelet", kubelet, "--data", data, "--runtime", runtime, "--plugin", PLUGIN]

    def command(self, verb, *arguments):
        return [*self._command, verb, *map(str, arguments)]

    def call(self, verb, *arguments):
        """Runs plugin_utility; gives the result of each run, and the events."""
        done = subprocess.run(self.command(verb, *arguments), capture_output=True, text=True, timeout=550)
        assert done.returncode == 0, done.stdout + done.stderr
        return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")], done.stderr

    def run(self, *argv, **options):
        flags = []
        for name, value in options.items():
            flags += [f"--{name.replace('_', '-')}"] + ([] if value is True else [value])
        (said,), _ = self.call("run", *flags, "--", *argv)
        return said


def pod(name, kubelet, propagation="Bidirectional", script="sleep 100000"):
    """`propagation` None: the pod does not see the kubelet folder."""
    mounts, volumes = [], []
    if propagation:
        mounts = [{"name": "kubelet", "mountPath": str(kubelet), "mountPropagation": propagation}]
        volumes = [{"name": "kubelet", "hostPath": {"path": str(kubelet), "type": "Directory"}}]
    return objects.pod(name, script, mounts=mounts, volumes=volumes, terminationGracePeriodSeconds=1,
                       container={"securityContext": {"privileged": True}})


def registration(running):
    """Gives the registration of a running pod, as a dictionary."""
    meta = running["metadata"]
    return {"podNamespace": meta["namespace"], "podName": meta["name"], "podUID": meta["uid"], "containerName": "main"}


def path(kubelet, plugin=PLUGIN):
    return kubelet / "plugin-containers" / (plugin.replace("/", "~") + ".json")


def register(berth, name, plugin=PLUGIN):
    """Waits until a pod runs, registers it, and gives its container's id."""
    running = berth.wait_phase("pod", name, "Running")
    register_running(running, berth.data / "kubelet", plugin)
    return running["status"]["containerStatuses"][0]["containerID"].partition("://")[2]


def register_running(running, kubelet, plugin=PLUGIN):
    """Registers a running pod, as berth-init does."""
    place = path(kubelet, plugin)
    place.parent.mkdir(mode=0o700, exist_ok=True)
    fresh = place.with_name("." + place.name)
    fresh.write_text(json.dumps(registration(running)))
    fresh.rename(place)
