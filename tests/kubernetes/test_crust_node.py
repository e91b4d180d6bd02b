"""Pods under an unmodified kubelet have their volumes mounted in their sandboxes: `berth crust-proxy` stands at the driver's socket, and
Berth's CRUST handler makes the mounts. The stories are those of KEP-2857."""
import pytest
from lib import objects
from lib.kubernetes import programs, runtimes
from lib.kubernetes.api_node import DRIVER
from lib.kubernetes.cluster import Cluster
from lib.kubernetes.control_plane import PROGRAMS, running_plane
from lib.kubernetes.crust_node import HOSTPATH, WEAK, CrustNode, allowing
from lib.kubernetes.node import PROGRAMS as NODE_PROGRAMS
from lib.standalone import wait_for

pytestmark = [pytest.mark.kubernetes, pytest.mark.guest]

FILE_SYSTEMS = ["ext4", "xfs", "btrfs"]
# What the pods of the stories do first: their part of the volume is theirs by the fsGroup, and it is the file system itself.
CHECKS = "stat -c %g /part | grep -qx 2345 && grep -q ' /part {} ' /proc/mounts"


@pytest.fixture(scope="module", params=[runtimes.MACHINES, runtimes.FOLDERS])
def node(request):
    missing = programs.missing(*PROGRAMS, *NODE_PROGRAMS, "hostpathplugin") or runtimes.missing(request.param)
    if missing:
        pytest.skip(missing)
    with running_plane(with_node=True) as plane:
        made = CrustNode(Cluster(plane.kubeconfig, plane=plane), runtimes.find(request.param))
        try:
            made.start()
            made.start_shipped_driver()
            made.start_hostpath()
            for fs_type in FILE_SYSTEMS:
                made.cluster.create(allowing(objects.storage_class(fs_type, fs_type)))
                made.cluster.create(allowing(objects.storage_class(f"hostpath-{fs_type}", fs_type, provisioner=HOSTPATH)))
            made.cluster.create(allowing(objects.storage_class("hostpath-folder", provisioner=HOSTPATH)))
            made.cluster.create(objects.storage_class("not-allowed", "ext4"))
            yield made
        finally:
            made.end()


@pytest.fixture
def volume(node, request):
    """Gives the name of a claim, which is that of its class, and removes its volume at the end. The class names the file system:
    "xfs" for a volume of the shipped driver, "hostpath-xfs" for one of the hostpath driver, and "hostpath-folder" for one that it
    cannot publish as a device."""
    name = getattr(request, "param", "ext4")
    made = None
    if name.startswith("hostpath-"):
        made = node.make_hostpath_volume(name, name.removeprefix("hostpath-"), 320)
        node.cluster.create(made)
    node.cluster.create(objects.claim(name, "320Mi", name, accessModes=["ReadWriteOncePod"]), "default")
    yield name
    bound = node.cluster.get("PersistentVolumeClaim", name, "default")["spec"].get("volumeName")
    node.cluster.delete("PersistentVolumeClaim", name, "default")
    if made is not None:
        node.wait_until_free()
        node.delete_hostpath_volume(made)
    wait_for("the volume to be gone", lambda: bound is None or node.cluster.get("PersistentVolume", bound) is None)
    node.wait_until_free()


def fs_type_of(claim):
    found = claim.rpartition("-")[2]
    return found if found in FILE_SYSTEMS else "ext4"


def pod(name, claim, script, runtime="sandboxed", **more):
    """Gives the pod of the stories: with a RuntimeClass, an fsGroup, and a subPath of the claim at /part."""
    return objects.pod(name, f"{CHECKS.format(fs_type_of(claim))} && {script}", [claim],
                       mounts=[{"name": claim, "mountPath": "/part", "subPath": "one/two"}, {"name": claim, "mountPath": "/all"}],
                       runtimeClassName=runtime, securityContext={"runAsUser": 1000, "runAsGroup": 1000, "fsGroup": 2345}, **more)


def ready_when(script):
    """A container that is ready as soon as a script succeeds."""
    return {"readinessProbe": {"exec": {"command": ["/bin/sh", "-c", script]}, "periodSeconds": 1, "timeoutSeconds": 20}}


def run_until_ready(node, made):
    """Creates a pod, and waits until it is ready."""
    node.create_pod(made)
    name = made["metadata"]["name"]

    def is_ready():
        pod = node.cluster.get("Pod", name, "default")
        assert pod["status"].get("phase") not in ("Succeeded", "Failed"), (pod["status"], node.log("kubelet"))
        return objects.is_ready(pod)
    wait_for(f"pod {name} to be ready", is_ready, 90)


def write_and_wait(node, claim, name="writer", **more):
    """Has a pod write to the volume and go on running."""
    run_until_ready(node, pod(name, claim, "echo kept > /part/file && sync && sleep 10000",
                              container=ready_when("test -s /part/file"), **more))


def read_back(node, claim, **more):
    """Has a second pod find what the first one wrote."""
    node.create_pod(pod("reader", claim, "test $(cat /all/one/two/file) = kept && test $(cat /part/file) = kept", **more))
    node.wait_pod("reader", "Succeeded")
    node.delete_pod("reader")


@pytest.mark.parametrize("volume", [*FILE_SYSTEMS, "hostpath-ext4", "hostpath-xfs"], indirect=True)
def test_story_1_the_sandbox_has_the_file_system(node, volume):
    """The file system of a volume is mounted in the pod's sandbox and nowhere on the host, with the pod's fsGroup and a subPath, and the
    next pod finds the data."""
    write_and_wait(node, volume)
    assert not node.mounts_of_disks()
    assert any("mounted in the pod's sandbox" in said for said in node.events("writer", "RuntimeAssistedMount"))
    node.delete_pod("writer")
    read_back(node, volume)


# A kernel may not let root grow a mounted ext4, and the hostpath driver only notes that a device has grown.
@pytest.mark.parametrize("volume", ["xfs"], indirect=True)
def test_story_1_the_volume_grows_in_the_sandbox(node, volume):
    """A file system grows in the sandbox of its running pod, and a volume that grew while no pod used it in the next pod's."""
    write_and_wait(node, volume)
    for size, least, living in (("400Mi", 340_000, True), ("500Mi", 430_000, False)):
        if not living:
            node.delete_pod("writer")
        node.cluster.patch("PersistentVolumeClaim", volume, {"spec": {"resources": {"requests": {"storage": size}}}}, "default")
        name = "sees-it" if living else "sees-it-later"
        grown = f"test $(df -Pk /all | awk 'END {{print $2}}') -gt {least}"
        if living:
            uid = node.cluster.get("Pod", "writer", "default")["metadata"]["uid"]
            wait_for("the claim to have grown", lambda size=size: node.cluster.get(
                "PersistentVolumeClaim", volume, "default")["status"]["capacity"]["storage"] == size, 90)
            assert node.cluster.get("Pod", "writer", "default")["metadata"]["uid"] == uid
            assert sandbox_bytes(node) > least * 1024
        else:
            run_until_ready(node, pod(name, volume, "sleep 10000", container=ready_when(grown)))
            node.delete_pod(name)


@pytest.mark.parametrize("volume", ["xfs", "hostpath-xfs"], indirect=True)
def test_story_1_statistics_come_from_the_sandbox(node, volume):
    """Who asks the driver how full a volume is gets the usage of the file system in the sandbox."""
    write_and_wait(node, volume)
    stats = node.ask_stats("writer", volume)
    assert stats.usage[0].total == sandbox_bytes(node)
    assert stats.usage[0].used > 0 and not stats.volume_condition.abnormal
    node.delete_pod("writer")


def sandbox_bytes(node):
    """Gives the size of the only volume's file system, as the handler reports it."""
    usage, abnormal = node.handler.stats()
    assert not abnormal
    return usage["bytes"][0]


def test_story_2_a_handler_without_fs_group_and_sub_path(node, volume):
    """Where the handler applies no fsGroup and no subPath, the host mounts the volume, and an event of the pod says why."""
    write_and_wait(node, volume, runtime=WEAK)
    assert node.mounts_of_disks()
    assert any("fsGroup" in said for said in node.events("writer", "HostMount"))
    node.delete_pod("writer")
    read_back(node, volume)  # in a sandbox


@pytest.mark.parametrize("volume", ["hostpath-folder"], indirect=True)
@pytest.mark.parametrize("runtime, why", [(WEAK, "fsGroup"), ("sandboxed", "nor publishes the volume as a block device")])
def test_a_driver_that_can_do_neither(node, volume, runtime, why):
    """A driver that neither leaves mounts to handlers nor publishes the volume as a block device mounts it on the host, and an event of
    the pod says why."""
    run_until_ready(node, objects.pod("writer", f"echo kept > /{volume}/file && sync && sleep 10000", [volume], runtimeClassName=runtime,
                                      securityContext={"fsGroup": 2345}, container=ready_when(f"test -s /{volume}/file")))
    assert any(why in said for said in node.events("writer", "HostMount")), node.events("writer", "HostMount")
    node.delete_pod("writer")


@pytest.mark.parametrize("runtime", ["no-handler", None])
def test_story_3_no_handler(node, volume, runtime):
    """A pod whose RuntimeClass names no handler, or that has none, gets its volume from the host."""
    write_and_wait(node, volume, runtime=runtime)
    assert node.mounts_of_disks()
    assert not node.events("writer", "RuntimeAssistedMount")
    node.delete_pod("writer")
    read_back(node, volume)


@pytest.mark.parametrize("volume", ["not-allowed"], indirect=True)
def test_story_4_a_class_that_does_not_allow_it(node, volume):
    """A volume of a StorageClass that does not allow runtime-assisted mounts is mounted by the host."""
    write_and_wait(node, volume)
    assert node.mounts_of_disks()
    assert any("does not allow it" in said for said in node.events("writer", "HostMount"))
    node.delete_pod("writer")


def refusals(node):
    """Tells how often the proxies have said that a handler grows nothing."""
    return sum(node.proxy(driver).log().count("grows no file systems") for driver in (DRIVER, HOSTPATH))


@pytest.mark.parametrize("volume", ["ext4", "hostpath-ext4"], indirect=True)
def test_story_6_a_handler_that_grows_nothing(node, volume):
    """Where the handler grows no file systems, the growth fails and is not repeated, and the pod goes on."""
    run_until_ready(node, objects.pod("writer", f"echo kept > /{volume}/file && sync && sleep 10000", [volume], runtimeClassName=WEAK,
                                      container=ready_when(f"grep ' /{volume} ext4 ' /proc/mounts && test -s /{volume}/file")))
    assert not node.mounts_of_disks()
    before = refusals(node)
    node.cluster.patch("PersistentVolumeClaim", volume, {"spec": {"resources": {"requests": {"storage": "400Mi"}}}}, "default")
    wait_for("the growth to fail", lambda: refusals(node) > before, 90)
    assert objects.is_ready(node.cluster.get("Pod", "writer", "default"))
    assert node.cluster.get("PersistentVolumeClaim", volume, "default")["status"]["capacity"]["storage"] == "320Mi"
    assert refusals(node) == before + 1
    node.delete_pod("writer")


@pytest.mark.parametrize("who", ["proxy", "handler", "kubelet"])
def test_who_restarts_finds_the_volume_again(node, volume, who):
    """A pod goes on while the proxy, the handler or the kubelet is killed and started again, and its volume is taken out of its sandbox
    at its end."""
    write_and_wait(node, volume)
    if who == "proxy":
        node.proxy().kill()
        node.start_proxy()
    elif who == "handler":
        node.handler.kill()
        node.handler.start()
    else:
        node.restart_kubelet()
    assert not node.mounts_of_disks()
    assert objects.is_ready(node.cluster.get("Pod", "writer", "default"))
    node.delete_pod("writer")
    read_back(node, volume)


def test_a_pod_starts_while_the_proxy_and_the_handler_are_away(node, volume):
    """While the proxy or the handler is away, a pod waits for them and for nothing else."""
    node.proxy().kill()
    node.handler.kill()
    node.create_pod(pod("writer", volume, "echo kept > /part/file && sync"))
    wait_for("the kubelet to miss the proxy", lambda: node.events("writer", "FailedMount"), 90)
    node.start_proxy()
    wait_for("the proxy to miss the handler", lambda: "crust.sock" in " ".join(node.events("writer", "FailedMount")), 90)
    node.handler.start()
    node.wait_pod("writer", "Succeeded")
    node.delete_pod("writer")
    read_back(node, volume)
