"""Berth beside the Go sidecars, in one run and on one kube-apiserver: csi-provisioner, csi-attacher, csi-resizer,
csi-snapshotter and snapshot-controller, and then one `berth controller` with the same five roles, the same driver double, and
the same rights of service accounts. BERTH_KUBERNETES names the folder of the real programs.

The sides take turns, several times, each with a namespace, a driver and volumes of its own. The same load is also made
with no sidecar at all: volumes that are there already are bound by the kube-controller-manager. What the kube-apiserver
spends on that, and what it spends while nothing happens, is subtracted from both sides.
"""
import collections
import itertools
import json
import os
import pathlib
import re
import statistics
import subprocess
import time

import yaml

from lib import objects
from lib.csi_double import CsiDouble
from lib.kubernetes import programs
from lib.kubernetes.cluster import Cluster, rules_of
from lib.kubernetes.control_plane import PROGRAMS, ControlPlane
from lib.kubernetes.world import LEASES, NODE, RIGHTS
from lib.standalone import ROOT, wait_for

# By program of Go: the flag for the number of its workers, and Berth's flag for the same.
WORKERS = {
    "csi-provisioner": ("--worker-threads", "--provisioner-worker-threads"),
    "csi-attacher": ("--worker-threads", "--attacher-worker-threads"),
    "csi-resizer": ("--workers", "--resizer-workers"),
    "csi-snapshotter": ("--worker-threads", "--snapshotter-worker-threads"),
    "snapshot-controller": ("--worker-threads", "--snapshot-controller-worker-threads"),
}
ROLES = "provisioner,attacher,resizer,snapshotter,snapshot-controller"
NO_LIMITS = ["--kube-api-qps=10000", "--kube-api-burst=10000"]
COUNT = 1000  # claims in a round
# Go's default flags allow 5 requests a second, so that a thousand claims would take ten minutes.
COUNT_OF_SLOW = 60
ROUNDS = 3
LARGE = 10_000
PHASES = ("claims", "attach", "detach", "delete")
# Events are written after what they report, Go's at a limited rate, so the figures of a phase are read this much later.
SETTLE_SECONDS = 3
IDLE_SECONDS = 15
TICKS = os.sysconf("SC_CLK_TCK")


def processor_seconds(pid):
    """Returns the time that a process has used in user and in kernel mode."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def anonymous_mb(pids):
    """Returns the anonymous memory of processes together, in MB."""
    total = 0
    for pid in pids:
        found = re.search(r"^Anonymous: +(\d+) kB", pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text(), re.MULTILINE)
        total += int(found[1]) * 1024 / 1e6
    return total


def count_threads(pids):
    return sum(len(list(pathlib.Path(f"/proc/{pid}/task").iterdir())) for pid in pids)


class Load:
    """The program that makes the claims and attachments, phase after phase."""

    def __init__(self, program, kubeconfig, namespace, driver, storage_class, alone=False):
        command = [program, "--kubeconfig", kubeconfig, "--namespace", namespace, "--driver", driver, "--storage-class",
                   storage_class, "--node", NODE, *(["--alone"] if alone else [])]
        self.process = subprocess.Popen(list(map(str, command)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._answer("start")

    def _answer(self, what):
        for line in self.process.stdout:  # log lines may precede the answer
            if line.startswith("{"):
                return json.loads(line)
        raise SystemExit(f"bench: the load ended in '{what}'")

    def run(self, phase, count=0):
        self.process.stdin.write(f"{phase} {count}\n")
        self.process.stdin.flush()
        return self._answer(phase)

    def stop(self):
        self.process.stdin.close()
        self.process.wait(30)


class Side:
    """The Go programs, or one Berth, beside a driver double of their own. `elect` is False where the start is timed."""

    def __init__(self, bed, name, limits, elect=True):
        self.bed = bed
        self.name = name
        self.folder = bed.folder / f"{name}-{next(bed.numbers)}"
        self.folder.mkdir()
        self.namespace = self.folder.name
        self.driver = f"{self.namespace}.csi.example.com"
        self.double = CsiDouble(self.folder / "d", name=self.driver)
        self.users = []
        self.processes = []
        self.began = None  # when the first process was started
        self.commands = []
        cluster = bed.cluster
        cluster.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": self.namespace}})
        cluster.write_node(NODE, self.driver, {f"{self.driver}/zone": "here"})
        cluster.create(objects.storage_class(self.namespace, binding="Immediate", provisioner=self.driver))
        if name == "go":
            for program in RIGHTS:
                place = [] if program == "snapshot-controller" else [f"--csi-address={self.double.socket}"]
                self._add(program, [programs.find(program)], rules_of(*RIGHTS[program]),
                          [*place, *([*NO_LIMITS, f"{WORKERS[program][0]}=100"] if limits == "lifted" else [])], elect)
        elif name == "berth":
            rules = list(itertools.chain.from_iterable(rules_of(*RIGHTS[program]) for program in RIGHTS))
            self._add("berth", [bed.binary, "controller"], rules,
                      [f"--roles={ROLES}", f"--csi-address={self.double.socket}",
                       *(NO_LIMITS if limits == "lifted" else []),
                       *(f"{WORKERS[program][1]}=100" for program in RIGHTS if limits == "lifted")], elect)

    def _add(self, account, executable, rules, arguments, elect):
        config = self.bed.cluster.write_account(self.folder / f"{account}.config", self.namespace, account, rules, LEASES)
        self.users.append(f"system:serviceaccount:{self.namespace}:{account}")
        election = ["--leader-election", f"--leader-election-namespace={self.namespace}"] if elect else []
        # The Go programs name each informer that has synced at this log level. Berth always does.
        level = [] if elect or account == "berth" else ["-v=2"]
        self.commands.append((account, [*executable, f"--kubeconfig={config}", *arguments, *election, *level]))

    def start(self):
        self.double.start()
        self.began = time.monotonic()
        for account, command in self.commands:
            self.processes.append(programs.Process(self.folder / f"{account}.log", command, {"NAMESPACE": self.namespace}))
        return self

    @property
    def pids(self):
        return [process.process.pid for process in self.processes]

    def logs(self):
        return [process.log() for process in self.processes]

    def load(self):
        return Load(self.bed.load_program, self.bed.plane.kubeconfig, self.namespace, self.driver, self.namespace,
                    alone=self.name == "alone")

    def stop(self):
        for process in self.processes:
            process.stop()
        self.double.stop()


class Bed:
    """One control plane, and the rounds on it."""

    def __init__(self, folder, binaries):
        self.folder = folder / "beside-go"
        self.folder.mkdir()
        self.binary = binaries / "berth"
        self.load_program = binaries / "bench_storage_load"
        self.numbers = itertools.count(1)
        # The manager binds the claims of both sides, and must not be what limits them.
        self.plane = ControlPlane(self.folder, manager_qps=5000).start()
        self.cluster = Cluster(self.plane.kubeconfig, plane=self.plane)
        self.cluster.install_snapshots()
        for file in sorted((ROOT / "deploy" / "crds").glob("groupsnapshot.*.yaml")):
            self.cluster.create(yaml.safe_load(file.read_text()))
        time.sleep(SETTLE_SECONDS)
        # It is measured once, because after a round the kube-apiserver is busy for a while with what the round left.
        self.idle = self._idle_share()

    def stop(self):
        self.plane.stop()

    def server_seconds(self):
        return processor_seconds(self.plane.apiserver.process.pid)

    def _idle_share(self):
        """Returns what the kube-apiserver uses of a processor while no sidecar runs."""
        before, began = self.server_seconds(), time.monotonic()
        time.sleep(IDLE_SECONDS)
        return (self.server_seconds() - before) / (time.monotonic() - began)

    def _requests(self, side, since):
        counted = collections.Counter()
        for user in side.users:
            counted.update(f"{verb} {resource}" for verb, resource, _ in self.plane.requests_of(user, since)
                           if verb != "watch")
        return counted

    def run_round(self, name, limits="lifted", count=COUNT):
        """Makes the load on a side, and returns by phase: rate, seconds of the kube-apiserver beyond its idle ones, requests."""
        side = Side(self, name, limits).start()
        found = {}
        try:
            load = side.load()
            if name == "alone":
                load.run("volumes", count)
            else:  # a first claim shows that all of it works
                load.run("claims", 1)
                for phase in PHASES[1:]:
                    load.run(phase)
            time.sleep(SETTLE_SECONDS)
            for phase in PHASES:
                server, audit, began = self.server_seconds(), self.plane.audit_size(), time.monotonic()
                seen = load.run(phase, count)
                time.sleep(SETTLE_SECONDS)
                spent = self.server_seconds() - server - self.idle * (time.monotonic() - began)
                found[phase] = {"rate": count / seen["seconds"], "server": spent,
                                "requests": self._requests(side, audit)}
                if phase == "claims":
                    found["provisioned_rate"] = count / seen["provisioned_seconds"]
                    found["memory"], found["threads"] = anonymous_mb(side.pids), count_threads(side.pids)
            load.stop()
        finally:
            side.stop()
        if name == "alone":
            for volume in self.cluster.items("PersistentVolume"):
                self.cluster.delete("PersistentVolume", volume["metadata"]["name"])
        return found

    def measure_start(self, name):
        """Returns the MB ten seconds after the start, and the seconds until the last informer had synced."""
        side = Side(self, name, "default", elect=False)
        pattern = re.compile(r"synced in \d+ ms" if name == "berth" else r"Caches populated")
        side.start()
        began, seen, last = side.began, 0, None
        try:
            while time.monotonic() < began + 10:
                now = sum(len(pattern.findall(log)) for log in side.logs())
                if now > seen:
                    seen, last = now, time.monotonic() - began
                time.sleep(0.01)
            if not seen:
                raise SystemExit(f"bench: {name} has not synced: {side.logs()}")
            return anonymous_mb(side.pids), last
        finally:
            side.stop()


def spread(values, digits=2):
    """Returns the median, with the least and the largest of several."""
    if len(values) == 1:
        return f"{values[0]:.{digits}f}"
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


class BesideGo:
    """The benches. Those that are run share what they measure."""

    def __init__(self, folder, binaries):
        self.folder = folder
        self.binaries = binaries
        self._bed = None
        self._rounds = None
        self._slow = None

    @staticmethod
    def missing():
        """Says which programs are not there, or gives an empty text."""
        return programs.missing(*PROGRAMS, *RIGHTS)

    def close(self):
        if self._bed is not None:
            self._bed.stop()

    @property
    def bed(self):
        if self._bed is None:
            self._bed = Bed(self.folder, self.binaries)
        return self._bed

    @property
    def rounds(self):
        """The rounds without limits: what each side gave, in turns, and what the load alone gave before and after."""
        if self._rounds is None:
            rounds = {"alone": [self.bed.run_round("alone")], "go": [], "berth": []}
            for _ in range(ROUNDS):
                for name in ("go", "berth"):
                    rounds[name].append(self.bed.run_round(name))
            rounds["alone"].append(self.bed.run_round("alone"))
            self._rounds = rounds
        return self._rounds

    @property
    def slow(self):
        """A round of each side with its default flags."""
        if self._slow is None:
            self._slow = {"go": self.bed.run_round("go", "default", COUNT_OF_SLOW),
                          "berth": self.bed.run_round("berth", "default")}
        return self._slow

    def _versions(self):
        return ", ".join(f"{name} {programs.version(name)}" for name in ("kube-apiserver", *RIGHTS))

    # -- the benches; each returns (figure, bar, holds)

    def requests(self):
        """Requests of the sidecars to the kube-apiserver, for each claim, attachment and deletion."""
        def of(name, phase, wanted=lambda request: True):
            found = self.rounds[name][-1][phase]["requests"]
            return sum(number for request, number in found.items() if wanted(request)) / COUNT

        def is_lease(request):
            return request.endswith(" leases")

        figures = ", ".join(
            f"{what} {' against '.join(f'{sum(of(name, phase) for phase in phases):.2f}' for name in ('berth', 'go'))}"
            for what, phases in (("a claim", ["claims"]), ("an attachment", ["attach", "detach"]), ("a deletion", ["delete"])))
        claim = of("berth", "claims")
        return (f"{figures} requests ({of('berth', 'claims', is_lease):.2f} of a claim's for leases, Go "
                f"{of('go', 'claims', is_lease):.2f}; {self._versions()})",
                "at most 3 for a claim", claim <= 3.05)

    def processor(self):
        """What the kube-apiserver spends on 1,000 claims, attachments and deletions because of the sidecars."""
        def seconds(found, phases=PHASES):
            return sum(found[phase]["server"] for phase in phases)

        def ratios(phases=PHASES, net=True):
            alone = statistics.median(seconds(each, phases) for each in self.rounds["alone"]) if net else 0
            return [(seconds(berth, phases) - alone) / (seconds(go, phases) - alone)
                    for go, berth in zip(self.rounds["go"], self.rounds["berth"])]

        total = ", ".join(f"{name} {spread([seconds(found) for found in self.rounds[name]], 1)}"
                          for name in ("berth", "go", "alone"))
        parts = ", ".join(f"{phase} {statistics.median(ratios([phase])):.2f}" for phase in PHASES)
        ratio = statistics.median(ratios())
        return (f"{spread(ratios())} of Go's beyond the load alone ({parts}; with the load {spread(ratios(net=False))}; seconds: "
                f"{total}; {len(self.rounds['go'])} rounds)", "at most 0.6", ratio <= 0.6)

    def rates(self):
        """Claims, attachments and deletions a second, without limits and with the default flags."""
        def rate(found, phase):
            return found["provisioned_rate"] if phase == "provisioned" else found[phase]["rate"]

        phases = ("provisioned", *PHASES)
        ratios = {phase: [rate(berth, phase) / rate(go, phase) for go, berth in zip(self.rounds["go"], self.rounds["berth"])]
                  for phase in phases}
        table = "; ".join(f"{phase} {spread(ratios[phase])}, {statistics.median(rate(one, phase) for one in self.rounds['berth']):.0f}"
                          f" against {statistics.median(rate(one, phase) for one in self.rounds['go']):.0f}/s" for phase in phases)
        slow = {phase: rate(self.slow["berth"], phase) / rate(self.slow["go"], phase) for phase in phases}
        named = ", ".join(f"{phase} {slow[phase]:.0f} times" for phase in phases)
        return (f"without limits {table}; with the default flags {named} ({COUNT_OF_SLOW} claims for Go, {COUNT} for Berth)",
                "claims, attachments and deletions 1.1 times Go's; 8 times with the default flags",
                all(statistics.median(ratios[phase]) >= 1.1 for phase in PHASES) and min(slow.values()) >= 8)

    def memory(self):
        """Threads and memory with 1,000 claims; memory and the time until synced with 10,000 volumes and claims."""
        berth, go = ({key: [found[key] for found in self.rounds[name]] for key in ("memory", "threads")}
                     for name in ("berth", "go"))
        threads = self.slow["berth"]["threads"]
        side = Side(self.bed, "alone", "default")
        load = side.start().load()
        load.run("volumes", LARGE)
        load.run("claims", LARGE)
        load.stop()
        side.stop()
        large = {name: [self.bed.measure_start(name) for _ in range(ROUNDS)] for name in ("go", "berth")}
        full, synced = ({name: statistics.median(each[index] for each in large[name]) for name in large} for index in (0, 1))
        small = statistics.median(berth["memory"])
        return (f"1,000 claims {spread(berth['memory'], 1)} MB against {spread(go['memory'], 1)}; 10,000 volumes and claims "
                f"{full['berth']:.1f} MB against {full['go']:.1f}, synced in {synced['berth']:.2f} s against {synced['go']:.2f}; "
                f"threads {threads} against {self.slow['go']['threads']} (100 workers for each role: "
                f"{max(berth['threads'])} against {max(go['threads'])})",
                "under 20 MB; at most 24 MB, 0.5 s where Go takes up to 0.9 s and else 0.55 of Go's time; at most 40 threads",
                small < 20 and full["berth"] <= 24 and synced["berth"] <= max(0.5, 0.55 * synced["go"]) and threads <= 40)
