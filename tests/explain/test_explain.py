"""Each test is a way to be stuck. `berth explain` names the one cause with its proof, its owner and what to do, and
the next cause once the first is removed.

All but one need no container runtime. They share a Berth whose pool is a file system of its own, so that a test can
freeze it. A process that writes to a frozen pool is blocked in the kernel until the pool is thawed.
"""
import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile

import pytest
from lib import mounts, objects
from lib.standalone import Standalone, wait_for

pytestmark = pytest.mark.explain

DRIVER = "local.csi.berth.dev"


def run(*command):
    subprocess.run(command, check=True, capture_output=True, timeout=60)


@pytest.fixture(scope="module")
def bare():
    """Gives a Berth without a container runtime, with class 'now', which makes volumes at once."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="bt-", dir="/var/tmp"))
    pool = folder / "pool"
    pool.mkdir()
    with open(folder / "pool.img", "wb") as image:
        image.truncate(512 << 20)
    run("mkfs.ext4", "-q", folder / "pool.img")
    run("mount", "-o", "loop", folder / "pool.img", pool)
    berth = Standalone(folder / "b", folder / "no.sock", flags=["--pool", str(pool)])
    try:
        berth.start(wait=False)
        wait_for("the driver on the node", lambda: DRIVER in berth.run("get", "csinodes", "-o", "json", check=False).stdout)
        berth.apply(objects.storage_class("now", binding="Immediate"))
        yield berth
        berth.remove_everything(seconds=30)
        berth.stop()
    finally:
        berth.kill()
        mounts.unmount_below(folder)
        shutil.rmtree(folder, ignore_errors=True)


def explain(berth, subject):
    return berth.explain(subject)


def cause(berth, subject):
    return explain(berth, subject)["cause"] or {"id": None}


def wait_cause(berth, subject, wanted, seconds=30):
    """Waits until the cause is `wanted`, and gives it. It must have an owner and advice, and the text must show the
    same."""
    def probe():
        found = cause(berth, subject)
        return found if found["id"] == wanted else None
    try:
        found = wait_for(f"{subject} to be explained by {wanted}", probe, seconds)
    except AssertionError as failure:
        raise AssertionError(f"{failure}\n{berth.run('explain', subject, check=False).stdout}") from None
    assert found["proof"] and found["owner"] and found["step"], found
    return found


def proves(found, *texts):
    proof = "\n".join(found["proof"])
    assert all(text in proof for text in texts), f"{texts} not in:\n{proof}"


def children_of(pid):
    threads = pathlib.Path(f"/proc/{pid}/task").iterdir()
    return [int(child) for thread in threads for child in (thread / "children").read_text().split()]


def driver_process(berth):
    for child in children_of(berth.process.pid):
        if b"csi-driver" in pathlib.Path(f"/proc/{child}/cmdline").read_bytes():
            return child
    raise AssertionError("the driver does not run")


@contextlib.contextmanager
def host_mount(berth, claim, path):
    """Asks to mount a claim on the host, whether or not that succeeds, and gives the subject for `berth explain`."""
    path.mkdir()
    mounting = subprocess.Popen([berth.binary, "mount", "--data", berth.data, claim, path],
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        def made():
            return [m for m in berth.items("hostmounts") if m["spec"]["path"] == str(path)]
        yield "hostmount/" + wait_for("the host mount", made)[0]["metadata"]["name"]
    finally:
        mounting.kill()
        mounting.wait()


def test_no_class_then_no_runtime(bare):
    """There are two causes at once. The first one is named, and then the other one when the first is removed."""
    bare.apply([objects.claim("classless", storage_class="later"), objects.pod("two", "true", ["classless"])])
    found = wait_cause(bare, "pod/two", "no-class")
    assert "'later' does not exist" in found["summary"] and found["owner"] == "person"
    proves(found, "classes that exist: local, now")
    assert [other["id"] for other in explain(bare, "pod/two")["then"]] == ["no-runtime"]
    text = bare.run("explain", "pod/two", check=False).stdout
    assert "✗ claim" in text and "Cause: storage class 'later' does not exist" in text, text

    bare.apply(objects.storage_class("later", binding="Immediate"))
    found = wait_cause(bare, "pod/two", "no-runtime")
    proves(found, "ContainerRuntimeNotReady", "no.sock")
    text = bare.run("explain", "pod/two", check=False).stdout
    assert "✓ volume" in text and "does not exist" not in text, text
    assert explain(bare, "pvc/classless")["verdict"] == "ok"


def test_no_capacity(bare):
    bare.apply(objects.claim("big", storage="900Ti", storage_class="now"))
    found = wait_cause(bare, "pvc/big", "no-capacity")
    proves(found, "CreateVolume", "OUT_OF_RANGE", "asks for 900Ti")
    assert found["owner"] == "person"


def test_driver_absent(bare):
    bare.apply([objects.storage_class("foreign", binding="Immediate", provisioner="foreign.csi.example.com"),
                objects.claim("foreign", storage_class="foreign")])
    found = wait_cause(bare, "pvc/foreign", "driver-absent")
    proves(found, "foreign.csi.example.com")
    assert found["owner"] == "driver"


@pytest.mark.security
def test_driver_hung(bare):
    driver = driver_process(bare)
    os.kill(driver, signal.SIGSTOP)
    try:
        bare.apply(objects.claim("hung", storage_class="now"))
        found = wait_cause(bare, "pvc/hung", "driver-hung")
        proves(found, f"process {driver} 'berth' is stopped (state T)")
        assert found["command"] == f"kill -CONT {driver}"
        # It stays the cause while the call fails at its deadline and is repeated.
        seen = []

        def fails_again():
            seen.append(cause(bare, "pvc/hung"))
            return "failed" in "\n".join(seen[-1].get("proof", [])) and len(seen) > 60
        wait_for("the call to be repeated", fails_again, 90, interval=0.2)
        assert {found["id"] for found in seen} == {"driver-hung"}, [f["summary"] for f in seen if f["id"] != "driver-hung"]
        other = [found for found in seen if found.get("command") != f"kill -CONT {driver}"]
        assert not other, other
        proves(seen[-1], "CreateVolume", "DEADLINE_EXCEEDED", f"process {driver} 'berth' is stopped (state T)")
    finally:
        os.kill(driver, signal.SIGCONT)
    bare.wait_phase("pvc", "hung", "Bound")
    assert explain(bare, "pvc/hung")["verdict"] == "ok"


def image_of(berth, claim):
    """The file behind a bound claim of the shared Berth."""
    volume = berth.wait_phase("pvc", claim, "Bound")["spec"]["volumeName"]
    handle = berth.get("pv", volume)["spec"]["csi"]["volumeHandle"]
    return berth.folder.parent / "pool" / "volumes" / f"{handle}.img"


@pytest.mark.security
def test_an_image_file_that_is_missing_or_replaced(bare):
    bare.apply(objects.claim("broken", storage_class="now"))
    image = image_of(bare, "broken")
    aside = image.with_suffix(".aside")
    image.rename(aside)
    with host_mount(bare, "broken", bare.folder / "broken") as subject:
        found = wait_cause(bare, subject, "data-lost")
        proves(found, "NodeStageVolume", "failed", "is missing")
        assert found["owner"] == "person" and "is missing" in found["summary"]
        run("cp", "--sparse=always", aside, image)
        wait_for("the other file", lambda: "another file than the one recorded" in cause(bare, subject).get("summary", ""), 60)
        aside.rename(image)
        wait_for("the mount", lambda: explain(bare, subject)["verdict"] == "ok", 60)


@pytest.mark.security
def test_a_file_system_that_nothing_can_make(bare):
    bare.apply([objects.storage_class("zfs", fs_type="zfs", binding="Immediate"), objects.claim("zfs", storage_class="zfs")])
    found = wait_cause(bare, "pvc/zfs", "wrong-file-system")
    assert found["owner"] == "person" and "class 'zfs' asks for file system type 'zfs'" in found["summary"]
    assert found["command"] == "berth get storageclass zfs -o yaml"


def test_wrong_topology(bare):
    bare.apply([objects.storage_class("far", allowedTopologies=[{"matchLabelExpressions": [
                    {"key": f"topology.{DRIVER}/node", "values": ["node-z"]}]}]),
                objects.claim("far", storage_class="far"), objects.pod("far", "true", ["far"])])
    found = wait_cause(bare, "pod/far", "wrong-topology")
    proves(found, "nodes that reach the volume: none", "pod/far asks for: node-a")


def test_in_use_elsewhere(bare):
    volume = {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "shared"},
              "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "",
                       "persistentVolumeReclaimPolicy": "Retain",
                       "claimRef": {"namespace": "default", "name": "shared"},
                       "csi": {"driver": "foreign.csi.example.com", "volumeHandle": "shared-1"}}}
    attachment = {"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": {"name": "to-b"},
                  "spec": {"attacher": "foreign.csi.example.com", "nodeName": "node-b",
                           "source": {"persistentVolumeName": "shared"}}}
    bare.apply([volume, objects.claim("shared", storage_class="", volumeName="shared"), attachment,
                objects.pod("shared", "true", ["shared"], nodeName="node-a")])
    found = wait_cause(bare, "pod/shared", "in-use-elsewhere")
    proves(found, "VolumeAttachment 'to-b' to node 'node-b'")
    bare.run("delete", "volumeattachments", "to-b", "--wait=false", check=False)
    wait_cause(bare, "pod/shared", "driver-absent")


def test_node_gone(bare):
    bare.apply(objects.pod("lonely", "true", nodeName="node-z"))
    found = wait_cause(bare, "pod/lonely", "node-gone")
    assert found["summary"] == "node 'node-z' does not exist"
    bare.run("delete", "pods", "lonely", "--grace-period", "0")


def test_no_runtime(bare):
    bare.apply(objects.pod("idle", "true"))
    wait_cause(bare, "pod/idle", "no-runtime")
    wait_cause(bare, "node/node-a", "no-runtime")


def test_mount_hung_in_the_kernel(bare):
    bare.apply(objects.claim("frozen", storage_class="now"))
    bare.wait_phase("pvc", "frozen", "Bound")
    bare.apply(objects.claim("beside-frozen", storage="900Ti", storage_class="now"))
    wait_cause(bare, "pvc/beside-frozen", "no-capacity")
    pool = bare.folder.parent / "pool"
    run("fsfreeze", "--freeze", pool)
    try:
        with host_mount(bare, "frozen", bare.folder / "frozen") as subject:
            found = wait_cause(bare, subject, "mount-hung")
            proves(found, "NodeStageVolume", "(state D)", "waits in '")
            assert found["owner"] == "kernel"
            # The hung mount is not named as the cause of another volume.
            assert cause(bare, "pvc/beside-frozen")["id"] != "mount-hung"
            run("fsfreeze", "--unfreeze", pool)
            wait_for("the mount", lambda: explain(bare, subject)["verdict"] == "ok", 60)
    finally:
        subprocess.run(["fsfreeze", "--unfreeze", pool], capture_output=True)


def test_finalizer_left(bare):
    claim = objects.claim("held", storage_class="now")
    claim["metadata"]["finalizers"] = ["example.com/hold"]
    bare.apply(claim)
    bare.wait_phase("pvc", "held", "Bound")
    bare.run("delete", "pvc", "held", "--wait=false")
    found = wait_cause(bare, "pvc/held", "finalizer-left")
    assert "'example.com/hold'" in found["summary"] and found["owner"] == "person"
    claim["metadata"]["finalizers"] = []
    bare.apply(claim)
    bare.wait_gone("pvc", "held")


def test_records_outlive_the_process(bare):
    """After kill -9 the count of a failure goes on, and no secret is in a record."""
    def failures():
        proof = wait_cause(bare, "pvc/doomed", "no-capacity")["proof"][0]
        words = proof.split()
        return int(words[words.index("times") - 1]) if "times" in words else 1
    bare.apply(objects.claim("doomed", storage="800Ti", storage_class="now"))
    wait_for("three failures", lambda: failures() >= 3)
    before = failures()
    bare.kill()
    bare.start(wait=False)
    wait_for("the API", bare.answers)
    wait_for("another failure, counted on", lambda: failures() > before)
    for record in (bare.data / "flight").iterdir():
        assert record.stat().st_mode & 0o777 == 0o600
        assert record.stat().st_size < 9 << 20


@pytest.mark.security
def test_a_block_claim_in_volume_mounts(module_berth):
    module_berth.apply([objects.claim("raw", block=True), objects.pod("mounts-raw", "true", ["raw"])])
    found = wait_cause(module_berth, "pod/mounts-raw", "wrong-volume-mode")
    assert found["owner"] == "person" and "names volume 'raw' in volumeMounts" in found["summary"]
    proves(found, "volumeMode of claim 'default/raw' is Block")


@pytest.mark.security
def test_a_scheduler_that_nobody_runs(module_berth):
    module_berth.apply(objects.pod("elsewhere", "true", schedulerName="mine"))
    found = wait_cause(module_berth, "pod/elsewhere", "no-scheduler")
    proves(found, "spec.schedulerName is 'mine'")
    wait_for("a verdict", lambda: explain(module_berth, "pod/elsewhere")["verdict"] == "blocked")


@pytest.mark.security
@pytest.mark.parametrize("way", ["envFrom", "volume"])
def test_a_secret_that_does_not_exist(module_berth, way):
    name = f"secret-of-{way.lower()}"
    fields = {"container": {"envFrom": [{"secretRef": {"name": name}}]}} if way == "envFrom" else {
        "volumes": [{"name": "keys", "secret": {"secretName": name}}], "mounts": [{"name": "keys", "mountPath": "/keys"}]}
    module_berth.apply(objects.pod(name, "true", **fields))
    found = wait_cause(module_berth, f"pod/{name}", "secret-missing")
    assert f"secret 'default/{name}'" in found["summary"] and found["step"].startswith("create it"), found
    module_berth.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}})
    module_berth.wait_phase("pods", name, "Succeeded")


def static_volume(name, storage_class, size):
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name},
            "spec": {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "storageClassName": storage_class,
                     "csi": {"driver": DRIVER, "volumeHandle": name}}}


def other_volume(name, source):
    """A pod with a volume that no claim stands behind."""
    return objects.pod(name, "sleep 60", volumes=[{"name": "v", **source}], mounts=[{"name": "v", "mountPath": "/v"}])


# Causes that a person has to remove: what is applied, the subject, the id of the cause, and words of its summary.
CAUSES = {
    "a key of a ConfigMap that is missing": (
        [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "few"}, "data": {"a": "b"}},
         other_volume("keyless", {"configMap": {"name": "few", "items": [{"key": "q", "path": "q"}]}})],
        "pod/keyless", "configmap-missing", "non-existent config key: q"),
    "an access mode that the driver lacks": (
        [objects.claim("many", storage_class="now", accessModes=["ReadWriteMany"])],
        "pvc/many", "request-refused", "access mode"),
    "a class parameter that the driver does not know": (
        [objects.storage_class("red", binding="Immediate") | {"parameters": {"colour": "red"}},
         objects.claim("red", storage_class="red")], "pvc/red", "request-refused", "unknown parameter 'colour'"),
    "a volume that is named and does not exist": (
        [objects.claim("named", storage_class="now", volumeName="none")], "pvc/named", "volume-missing", "volume 'none'"),
    "a volume without a class that does not exist": (
        [objects.claim("by-hand", storage_class="")], "pvc/by-hand", "no-volume-fits", "asks for 64Mi"),
    "a volume made by hand that is too small": (
        [objects.storage_class("hand", provisioner="kubernetes.io/no-provisioner", binding="Immediate"),
         static_volume("tiny", "hand", "1Mi"), objects.claim("large", storage_class="hand")],
        "pvc/large", "no-volume-fits", "of class 'hand'"),
    "attributes that the driver cannot give": (
        [objects.claim("attributes", storage_class="now", volumeAttributesClassName="none")],
        "pvc/attributes", "request-refused", "VolumeAttributesClass 'none'"),
    "a folder of the host that is missing": (
        [other_volume("hostless", {"hostPath": {"path": "/no/such", "type": "Directory"}})],
        "pod/hostless", "host-path", "/no/such is not a directory"),
    "a Flexvolume driver that is missing": (
        [other_volume("flexless", {"flexVolume": {"driver": "example.com/none"}})],
        "pod/flexless", "mount-fails", "example.com"),
    "a command that the image lacks": (
        [objects.pod("wordless", "x", container={"command": ["/nope"]})],
        "pod/wordless", "container-ended", "ended with an error"),
    "a probe that fails": (
        [objects.pod("unready", "sleep 600", container={"readinessProbe": {"exec": {"command": ["false"]}, "periodSeconds": 1}})],
        "pod/unready", "not-ready", "Readiness probe failed"),
}


@pytest.mark.security
@pytest.mark.parametrize("cause", CAUSES)
def test_a_cause_that_a_person_removes(module_berth, cause):
    module_berth.apply(objects.storage_class("now", binding="Immediate"))
    given, subject, wanted, words = CAUSES[cause]
    module_berth.apply(given)
    found = wait_cause(module_berth, subject, wanted)
    assert words in found["summary"] and found["owner"] == "person", found


@pytest.mark.security
def test_claims_that_take_or_copy_what_they_cannot_have(module_berth):
    module_berth.apply([objects.storage_class("now", binding="Immediate"),
                        objects.claim("owner", storage="128Mi", storage_class="now")])
    volume = module_berth.wait_phase("pvc", "owner", "Bound")["spec"]["volumeName"]
    source = {"kind": "PersistentVolumeClaim", "name": "owner"}
    module_berth.apply([objects.claim("thief", storage_class="now", volumeName=volume),
                        objects.claim("small-copy", storage_class="now", dataSource=source)])
    assert "belongs to claim 'default/owner'" in wait_cause(module_berth, "pvc/thief", "volume-taken")["summary"]
    found = wait_cause(module_berth, "pvc/small-copy", "request-refused")
    assert "the copy must have at least its size" in found["summary"] and found["owner"] == "person"
    module_berth.run("delete", "pv", volume, "--wait=false")
    found = wait_cause(module_berth, f"pv/{volume}", "finalizer-left")
    assert "pv-protection" in found["summary"] and found["owner"] == "person", found


@pytest.mark.security
def test_a_new_pod_on_a_claim_that_is_being_deleted(module_berth):
    module_berth.apply([objects.claim("going"), objects.pod("user", "sleep 600", ["going"])])
    module_berth.wait_phase("pods", "user", "Running")
    module_berth.run("delete", "pvc", "going", "--wait=false")
    module_berth.apply(objects.pod("late", "sleep 600", ["going"]))
    wait_cause(module_berth, "pod/late", "claim-deleted")
    assert explain(module_berth, "pod/user")["verdict"] == "ok"


@pytest.mark.security
def test_a_full_pool_is_asked_again_with_pauses(bare):
    pool = bare.folder.parent / "pool"
    subprocess.run(["dd", "if=/dev/zero", f"of={pool}/fill", "bs=1M"], capture_output=True)
    try:
        bare.apply(objects.claim("late", storage_class="now"))
        found = wait_cause(bare, "pvc/late", "no-capacity")
        proves(found, "RESOURCE_EXHAUSTED")
    finally:
        (pool / "fill").unlink()
    bare.wait_phase("pvc", "late", "Bound")
    events = [event for event in bare.items("events") if event["involvedObject"]["name"] == "late"
              and event["reason"] == "ProvisioningFailed"]
    assert sum(event.get("count", 1) for event in events) < 20, events


def test_image_missing(berth):
    pod = objects.pod("pictureless", "true")
    pod["spec"]["containers"][0].update(image="berth.local/nothing:1", imagePullPolicy="Never")
    berth.apply(pod)
    found = wait_cause(berth, "pod/pictureless", "image-missing")
    proves(found, "ErrImageNeverPull")
    assert "berth.local/nothing:1" in found["summary"]


def test_doctor(bare):
    """`berth doctor` gives advice for each fault. Without a Berth, and as user nobody, it checks as much as it can."""
    result = bare.run("doctor", "--container-runtime-endpoint", bare.folder / "no.sock", "-o", "json", check=False)
    assert result.returncode == 1, result.stdout
    found = {finding["name"]: finding for finding in json.loads(result.stdout)["findings"]}
    assert found["CRI"]["verdict"] == "bad" and "start containerd" in found["CRI"]["advice"]
    assert found["node-a"]["verdict"] == "bad" and found["node-a"]["advice"] == "berth explain node/node-a"
    for name in ("/healthz", "/readyz", "drivers on node-a", "overlay", "path length", str(bare.data / "kubeconfig"),
                 "ca.crt", "time"):
        assert found[name]["verdict"] == "ok", found[name]
    bad = [finding for finding in found.values() if finding["verdict"] == "bad"]
    assert all(finding["advice"] for finding in bad), bad

    (bare.data / "kubeconfig").chmod(0o644)
    text = bare.run("doctor", check=False).stdout
    (bare.data / "kubeconfig").chmod(0o600)
    assert "✗ " + str(bare.data / "kubeconfig") in text and "chmod 0600" in text, text

    nobody = subprocess.run(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", bare.binary, "doctor",
                             "--data", "/nowhere"], capture_output=True, text=True, timeout=60)
    assert "this is not root" in nobody.stdout and "is 'berth up' running there" in nobody.stdout, nobody


def test_bad_words_are_told(bare):
    for subject, complaint in (("pod", "one KIND/NAME"), ("pod/none", "not found"),
                               ("configmap/kube-root-ca.crt", "cannot be explained"),
                               ("teapot/x", "no kind 'teapot'")):
        result = bare.run("explain", subject, check=False)
        assert result.returncode == 1 and complaint in result.stderr, result.stderr
