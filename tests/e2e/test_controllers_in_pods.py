"""Utilities of controllers and of the shipped driver run in the pod that is registered on their node, by the rules of nodes.
What the block operator runs, there or on its own machine, ends with its term."""
import base64
import json
import os
import pathlib
import shutil
import signal
import time

import pytest
from lib import flex, handmade_pod, objects
from lib.roles import LEASE, Role
from lib.standalone import BINARY, wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.mountpod, pytest.mark.flex]

DRIVER = "example.com/attached"
KEY = "AQCMrqhlAAAAABAAd0Nb4lZvYbI1dm9xUVJ2fA=="  # has the form of a key of Ceph
# Only the pod has the folder /only-in-the-pod. attach and detach are calls of the controller.
SCRIPT = """#!/bin/sh
[ -d /only-in-the-pod ] && place=pod || place=host
echo "$1 $place" >>{log}
case $1 in
  init) echo '{{"status": "Success", "capabilities": {{"attach": true}}}}' ;;
  getvolumename) echo '{{"status": "Success", "volumeName": "data"}}' ;;
  attach) echo '{{"status": "Success", "device": ""}}' ;;
  isattached) echo '{{"status": "Success", "attached": true}}' ;;
  waitforattach|detach|mountdevice|unmountdevice) echo '{{"status": "Success"}}' ;;
  *) echo '{{"status": "Not supported"}}'; exit 1 ;;
esac
"""
# Puts mkfs.ext4 into a pod that sees the host's files at /host. It notes its calls.
MKFS = """cat >/bin/mkfs.ext4 <<'END'
#!/bin/sh
echo "mkfs.ext4 $1" >>{log}
exec chroot /host {mkfs} "$@"
END
chmod 755 /bin/mkfs.ext4; sleep 100000"""
# Puts a program that answers every call of the storage with success to where the operator looks for berth-rbd.
STORAGE = """mkdir -p {folder}
cat >{folder}/berth-rbd <<'END'
#!/bin/sh
grep -o '"pool":"[a-z]*"' >>{log}
echo '{{}}'
END
chmod 755 {folder}/berth-rbd; sleep 100000"""
# Puts a program there that answers each check of the storage, and ends no other call.
HANGING = """mkdir -p {folder}
cat >{folder}/berth-rbd <<'END'
#!/bin/sh
if grep -q '"call":"check"'; then echo '{{}}'; exit; fi
echo called >>{log}
sleep {seconds}
END
chmod 755 {folder}/berth-rbd; sleep 100000"""
# Stands in for berth-rbd on the operator's machine, and does the same. `trap` is what it does when it is told to end.
UTILITY = """#!/bin/sh
if grep -q '"call":"check"'; then echo '{{}}'; exit; fi
trap {trap} TERM
echo called >>{log}
sleep {seconds} &
wait
sleep {seconds}
"""
TRAPS = {"in-order": "'echo told >>{log}; exit 1'", "never": "''"}


@pytest.fixture
def calls(berth):
    """Installs the driver, and gives a function that tells where each call ran."""
    log = berth.data / "kubelet" / "calls"
    flex.install(berth.data / "volume-plugins", DRIVER, SCRIPT.format(log=log))
    return lambda: log.read_text().splitlines() if log.exists() else []


def use(berth, name):
    """A claim of a volume of the driver, and a pod that uses it."""
    berth.apply([
        {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
         "spec": {"capacity": {"storage": "1Mi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "",
                  "persistentVolumeReclaimPolicy": "Retain", "flexVolume": {"driver": DRIVER}}},
        objects.claim(name, "1Mi", "", volumeName=name),
        objects.pod(name, "true", claims=[name])])


def test_a_driver_attaches_and_detaches_in_the_registered_pod(berth, calls):
    use(berth, "first")
    wait_for("an attach on the host", lambda: "attach host" in calls())

    kubelet = berth.data / "kubelet"
    berth.apply(handmade_pod.pod("tools", kubelet, script="mkdir /only-in-the-pod; sleep 100000"))
    handmade_pod.register(berth, "tools", DRIVER)
    use(berth, "second")
    wait_for("an attach in the pod", lambda: "attach pod" in calls())
    berth.delete("pod", "second")
    wait_for("a detach in the pod", lambda: "detach pod" in calls())

    # A registration that cannot be trusted lets nothing run, neither there nor on the host.
    place = handmade_pod.path(kubelet, DRIVER)
    place.write_text("{")
    before = calls()
    use(berth, "third")
    wait_for("the refusal", lambda: any("third" in json.dumps(item) for item in berth.items("volumeattachments")
                                        if item.get("status", {}).get("attachError")))
    assert [call for call in calls()[len(before):] if call.startswith("attach ")] == []
    place.unlink()
    wait_for("an attach on the host", lambda: "attach host" in calls()[len(before):])


def find_processes(*argv):
    """The ids of the processes that have these arguments."""
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            arguments = (folder / "cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
        except OSError:  # it has ended
            continue
        if arguments == list(argv):
            found.append(int(folder.name))
    return found


def read_lines(path):
    return path.read_text().splitlines() if path.exists() else []


def test_the_shipped_driver_formats_in_the_registered_pod(berth):
    kubelet = berth.data / "kubelet"
    log = kubelet / "calls"
    tools = handmade_pod.pod("tools", kubelet, script=MKFS.format(log=log, mkfs=shutil.which("mkfs.ext4")))
    tools["spec"]["volumes"].append({"name": "host", "hostPath": {"path": "/", "type": "Directory"}})
    tools["spec"]["containers"][0]["volumeMounts"].append({"name": "host", "mountPath": "/host"})
    berth.apply([tools, objects.storage_class("in-pod", "ext4")])
    handmade_pod.register(berth, "tools", "local.csi.berth.dev")

    def start(name):
        berth.apply([objects.claim(name, "64Mi", "in-pod"), objects.pod(name, f"echo {name} >/{name}/file", claims=[name])])

    start("first")
    berth.wait_phase("pod", "first", "Succeeded")
    formats = [line for line in read_lines(log) if "-V" not in line]
    assert len(formats) == 1, read_lines(log)

    # A registration that cannot be trusted lets nothing run, neither there nor on the host.
    place = handmade_pod.path(kubelet, "local.csi.berth.dev")
    place.write_text("{")
    start("second")
    wait_for("the refusal", lambda: any(place.name in event["message"] for event in berth.events("second")))
    place.unlink()
    berth.wait_phase("pod", "second", "Succeeded")
    assert [line for line in read_lines(log) if "-V" not in line] == formats, "no pod was registered any more"


def start_operator(berth, start):
    return start("controller", "--roles=block-operator", "--kubeconfig", berth.data / "kubeconfig", *LEASE,
                 "--block-operator-agents=false", f"--container-runtime-endpoint=unix://{berth.runtime_socket}",
                 f"--kubelet-dir={berth.data / 'kubelet'}")


def ceph_secret():
    return {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "ceph", "namespace": "default"},
            "data": {"key": base64.b64encode(KEY.encode()).decode()}}


def ceph_cluster(name):
    backend = {"rbd": {"monitors": ["127.0.0.1:9"], "pool": name, "user": "berth",
                       "secretRef": {"name": "ceph", "namespace": "default"}}}
    return {"apiVersion": "storage.berth.dev/v1alpha1", "kind": "StorageCluster", "metadata": {"name": name},
            "spec": {"backend": backend}}


def test_the_operator_of_a_process_of_its_own_calls_the_storage_in_the_registered_pod(new_berth, start):
    """The operator of `berth up` runs its utilities on the host here, so the calls in the pod are the process's."""
    berth = new_berth(flags=["--feature-gates", "MountContainers=false"]).start()
    kubelet = berth.data / "kubelet"
    log = kubelet / "calls"
    berth.apply(handmade_pod.pod("tools", kubelet, script=STORAGE.format(folder=BINARY.resolve().parent, log=log)))
    handmade_pod.register(berth, "tools", "block.berth.dev")
    role = start_operator(berth, start)
    berth.apply([ceph_secret(), ceph_cluster("first")])
    wait_for("a call in the pod", lambda: '"pool":"first"' in read_lines(log))

    place = handmade_pod.path(kubelet, "block.berth.dev")
    place.write_text("{")
    berth.apply(ceph_cluster("second"))
    wait_for("the refusal", lambda: [line for line in role.log().splitlines() if "'second'" in line and place.name in line])
    assert '"pool":"second"' not in read_lines(log)
    handmade_pod.register(berth, "tools", "block.berth.dev")
    wait_for("a call in the pod again", lambda: '"pool":"second"' in read_lines(log))
    assert role.stop() == 0
    for name in ("first", "second"):
        berth.run("delete", "storageclusters", name)
        berth.wait_gone("storageclusters", name)


@pytest.fixture
def hangs_in_pod(new_berth, start):
    """Gives a Berth, a process of its operator that has a call in the registered pod, and a function that finds the call."""
    berth = new_berth(flags=["--feature-gates", "MountContainers=false"]).start()
    kubelet = berth.data / "kubelet"
    log = kubelet / "calls"
    seconds = f"1000{os.getpid()}"
    script = HANGING.format(folder=BINARY.resolve().parent, log=log, seconds=seconds)
    berth.apply(handmade_pod.pod("tools", kubelet, script=script))
    handmade_pod.register(berth, "tools", "block.berth.dev")
    role = start_operator(berth, start)
    berth.apply([ceph_secret(), ceph_cluster("first")])
    wait_for("a call in the pod", lambda: "called" in read_lines(log) and find_processes("sleep", seconds))
    return berth, role, lambda: find_processes("sleep", seconds)


def test_an_operator_that_is_to_end_ends_what_it_runs_in_the_pod(hangs_in_pod):
    _, role, calls_now = hangs_in_pod
    begun = time.monotonic()
    assert role.stop() == 0
    assert time.monotonic() - begun < 10, "the call in the pod may take longer"
    assert calls_now() == [], "nothing goes on that nobody knows of"


def test_an_operator_that_leads_no_more_ends_what_it_runs_in_the_pod(hangs_in_pod):
    """Otherwise the call would go on beside the next leader's."""
    berth, role, calls_now = hangs_in_pod
    lease = "/apis/coordination.k8s.io/v1/namespaces/default/leases/berth-block-operator"
    now = time.strftime("%Y-%m-%dT%H:%M:%S.000000Z", time.gmtime())
    code, answer = berth.api.call(
        "PATCH", lease, {"spec": {"holderIdentity": "another", "leaseDurationSeconds": 3600, "renewTime": now}},
        "application/merge-patch+json")
    assert code == 200, answer
    wait_for("the end of the call", lambda: calls_now() == [])
    assert role.process.poll() is None, "the process waits for its next term"


class HangingUtility:
    """A copy of Berth whose berth-rbd ends no call but checks. `trap`: what berth-rbd does when it is told to end."""

    def __init__(self, folder, trap):
        self._log = folder / "calls"
        self._seconds = f"2000{os.getpid()}"
        self.program = pathlib.Path(shutil.copy(BINARY, folder / "berth"))
        self._path = folder / "berth-rbd"
        self._path.write_text(UTILITY.format(trap=TRAPS[trap].format(log=self._log), log=self._log, seconds=self._seconds))
        self._path.chmod(0o755)

    def wait_called(self):
        wait_for("a call on the machine", lambda: "called" in read_lines(self._log) and find_processes("sleep", self._seconds))

    def wait_ended(self):
        # A process that is killed needs a moment to end.
        wait_for("the end of the utility", lambda: not find_processes("sleep", self._seconds) and
                 not find_processes("/bin/sh", str(self._path), "call"), seconds=10)

    def was_told(self):
        return "told" in read_lines(self._log)

    def remove(self):
        for process in find_processes("sleep", self._seconds):
            os.kill(process, signal.SIGKILL)


@pytest.fixture(params=TRAPS)
def utility(request, short):
    made = HangingUtility(short, request.param)
    yield made, request.param == "in-order"
    made.remove()


def test_an_operator_that_is_to_end_ends_what_it_runs_on_its_machine(new_berth, short, utility):
    utility, in_order = utility
    berth = new_berth().start()
    role = Role(short / "role.log", "controller", "--roles=block-operator", "--kubeconfig", berth.data / "kubeconfig", *LEASE,
                "--block-operator-agents=false", program=utility.program)
    try:
        berth.apply([ceph_secret(), ceph_cluster("first")])
        utility.wait_called()
        assert role.stop() == 0
        utility.wait_ended()
        assert utility.was_told() == in_order
        assert "the process ends without it" not in role.log(), "the role has waited for what it runs"
    finally:
        role.stop()


def test_the_operator_of_berth_up_ends_what_it_runs_on_its_machine(new_berth, utility):
    utility, in_order = utility
    berth = new_berth(binary=utility.program).start()
    berth.apply([ceph_secret(), ceph_cluster("first")])
    utility.wait_called()
    berth.stop()
    utility.wait_ended()
    assert utility.was_told() == in_order
    assert "the process ends without it" not in berth.log.read_text()
