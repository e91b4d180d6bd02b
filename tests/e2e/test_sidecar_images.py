"""In the manifests of the sidecars only the image changes: each of Berth's images starts with the arguments that the
hostpath driver's deployment gives to the Go program."""
import contextlib
import re
import shutil
import subprocess

import pytest
from lib.standalone import BINARY, ROOT, wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.dropin]

# The arguments in csi-driver-host-path 1.17, deploy/kubernetes-1.34 and, for the node's provisioner, its distributed form.
SIDECARS = {
    "csi-provisioner": ["-v=5", "--csi-address=/csi/csi.sock", "--feature-gates=Topology=true"],
    "csi-attacher": ["--v=5", "--csi-address=/csi/csi.sock"],
    "csi-resizer": ["-v=5", "-csi-address=/csi/csi.sock"],
    "csi-snapshotter": ["-v=5", "--csi-address=/csi/csi.sock"],
    "snapshot-controller": ["--v=5", "--leader-election=false"],
}
OF_THE_NODE = {
    "csi-node-driver-registrar": ["--v=5", "--csi-address=/csi/csi.sock", "--http-endpoint=:9809",
                                  "--kubelet-registration-path=/var/lib/kubelet/plugins/csi-hostpath/csi.sock"],
    "livenessprobe": ["--csi-address=/csi/csi.sock", "--health-port=9898"],
}
ON_EACH_NODE = ["-v=5", "--csi-address=/csi/csi.sock", "--feature-gates=Topology=true", "--enable-capacity",
                "--capacity-ownerref-level=0", "--node-deployment=true", "--strict-topology=true",
                "--immediate-topology=false", "--worker-threads=5"]


def entry_points():
    """Gives the entry point of each target of the recipe."""
    recipe = (ROOT / "deploy" / "csi" / "Containerfile").read_text()
    return dict(re.findall(r'^FROM \w+ AS ([\w-]+)\nENTRYPOINT \["/([\w-]+)"\]', recipe, re.MULTILINE))


@pytest.fixture
def image(short):
    """Gives the content of the images."""
    root = short / "i"
    subprocess.run([ROOT / "deploy" / "csi" / "image-root", BINARY, root], check=True)
    return root


@contextlib.contextmanager
def container(root, log, name, arguments, env=()):
    """Runs the image of that name, as a container of a pod with these arguments alone, in a network of its own."""
    with open(log, "wb") as out:
        process = subprocess.Popen([shutil.which("unshare"), "--net", shutil.which("chroot"), root, f"/{entry_points()[name]}",
                                    *arguments], stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=dict(env))
    try:
        yield process
    finally:
        process.terminate()
        process.wait(30)


def test_each_sidecar_has_an_image_of_its_name():
    assert entry_points() == {name: name for name in (*SIDECARS, *OF_THE_NODE, "berth")}


@pytest.mark.parametrize("name, arguments", [*SIDECARS.items(),
                                             ("csi-provisioner", ON_EACH_NODE)])
def test_the_arguments_of_the_go_program_are_enough(image, tmp_path, name, arguments):
    """Without an API it ends, and not for a flag."""
    log = tmp_path / "log"
    with container(image, log, name, arguments,
                   {"NODE_NAME": "node-a", "NAMESPACE": "default", "POD_NAME": "pod"}) as process:
        process.wait(30)
    assert "flag" not in log.read_text() and "no service account" in log.read_text()


@pytest.mark.parametrize("name, arguments", OF_THE_NODE.items())
def test_the_arguments_of_a_program_of_the_node_are_enough(image, tmp_path, name, arguments):
    """Without a driver it waits for one, and serves its health meanwhile."""
    (image / "registration").mkdir()
    (image / "csi").mkdir()
    log = tmp_path / "log"
    with container(image, log, name, arguments) as process:
        wait_for("it to serve its health", lambda: process.poll() is not None or re.search(r"serving .*port 9[0-9]{3}", log.read_text()))
        assert process.poll() is None, log.read_text()
