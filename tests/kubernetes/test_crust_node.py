"""Pods under an unmodified kubelet have their volumes mounted in their sandboxes: `berth crust-proxy` stands at the driver's socket, and
Berth's CRUST handler makes the mounts. The stories are those of KEP-2857."""
import pytest
from lib import objects
from lib.crust import runtime_class
from lib.kubernetes import programs, runtimes
from lib.kubernetes.cluster import Cluster
from lib.kubernetes.control_plane import PROGRAMS, running_plane
from lib.kubernetes.crust_node import CrustNode
from lib.kubernetes.node import PROGRAMS as NODE_PROGRAMS
from lib.standalone import wait_for

pytestmark = pytest.mark.kubernetes

ALLOW = {"storage.berth.dev/allow-runtime-assisted-mount": "true"}


def class_of_runtime(name, socket=None):
    """Gives a RuntimeClass as a kube-apiserver stores it, which knows no fsMgmtSocket."""
    made = runtime_class(name)
    if socket is not None:
        made["metadata"]["annotations"] = {"storage.berth.dev/fs-mgmt-socket": str(socket)}
    return made


@pytest.fixture(scope="module", params=[runtimes.MACHINES, runtimes.FOLDERS])
def node(request):
    missing = programs.missing(*PROGRAMS, *NODE_PROGRAMS) or runtimes.missing(request.param)
    if missing:
        pytest.skip(missing)
    with running_plane(with_node=True) as plane:
        made = CrustNode(Cluster(plane.kubeconfig, plane=plane), runtimes.find(request.param))
        try:
            made.start()
            made.start_shipped_driver()
            made.cluster.create(class_of_runtime("sandboxed", made.handler.socket))
            made.cluster.create(class_of_runtime("no-handler"))
            for name, allow in (("deferred", True), ("on-host", False)):
                storage = objects.storage_class(name, "ext4")
                storage["metadata"]["annotations"] = ALLOW if allow else {}
                made.cluster.create(storage)
            yield made
        finally:
            made.end()


def claim(name, storage_class="deferred"):
    return objects.claim(name, "64Mi", storage_class, accessModes=["ReadWriteOncePod"])


def pod(name, claim_name, script, runtime="sandboxed", **more):
    """Gives the pod of the stories: with a RuntimeClass, an fsGroup, and a subPath of the claim at /part."""
    return objects.pod(name, script, [claim_name], mounts=[{"name": claim_name, "mountPath": "/part", "subPath": "one/two"},
                                                           {"name": claim_name, "mountPath": "/all"}],
                       runtimeClassName=runtime, securityContext={"runAsUser": 1000, "runAsGroup": 1000, "fsGroup": 2345}, **more)


def remove_claim(node, name):
    volume = node.cluster.get("PersistentVolumeClaim", name, "default")["spec"]["volumeName"]
    node.cluster.delete("PersistentVolumeClaim", name, "default")
    wait_for("the volume to be gone", lambda: node.cluster.get("PersistentVolume", volume) is None)


def test_story_1_the_sandbox_has_the_file_system(node):
    """The file system of a volume is mounted in the pod's sandbox and nowhere on the host, with the pod's fsGroup and a subPath, and the
    next pod finds the data."""
    node.cluster.create(claim("data"), "default")
    node.create_pod(pod("writer", "data", "echo kept > /part/file && stat -c %g /part/file | grep -x 2345 && "
                        "grep ' /part ext4 ' /proc/mounts && sync && sleep 1000"))
    node.wait_pod("writer", "Running")
    assert not node.mounts_of_pool()
    assert any("mounted in the pod's sandbox" in said for said in node.events("writer", "RuntimeAssistedMount"))
    node.delete_pod("writer")
    node.wait_until_free()
    node.create_pod(pod("reader", "data", "test $(cat /all/one/two/file) = kept && test $(cat /part/file) = kept"))
    node.wait_pod("reader", "Succeeded")
    node.delete_pod("reader")
    node.wait_until_free()
    remove_claim(node, "data")
