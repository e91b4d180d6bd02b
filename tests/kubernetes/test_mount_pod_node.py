"""Mount utilities run in a pod of a real kubelet, by ExecSync of its containerd. `plugin_utility` stands in for the plugin."""
import pytest
from lib import handmade_pod, mounts
from lib.kubernetes import runtimes
from lib.standalone import wait_for

pytestmark = [pytest.mark.kubernetes, pytest.mark.mountpod, runtimes.BOTH]


@pytest.fixture
def utility(bare_node):
    """The utilities of a pod that runs, and is registered."""
    kubelet = bare_node.kubelet_folder
    bare_node.create_pod(handmade_pod.pod("utilities", kubelet))
    handmade_pod.register_running(bare_node.wait_pod("utilities", "Running"), kubelet)
    yield handmade_pod.Utility(kubelet, bare_node.folder / "records", bare_node.runtime)
    bare_node.delete_pod("utilities")


def test_utilities_run_in_the_pod(bare_node, utility):
    """A utility runs in the registered pod, with its streams and its exit code; what it mounts is mounted on the node, too."""
    assert "100000" in utility.run("cat", "/proc/1/cmdline")["out"], "it is not the pod's first process"
    said = utility.run("sh", "-c", "cat; echo bad >&2; exit 3", stdin="what is read")
    assert (said["exit_code"], said["out"], said["err"]) == (3, "what is read", "bad\n")
    missing = utility.run("mount.nothing", "x")
    assert missing["message"] == "no program 'mount.nothing' in container 'main' of pod default/utilities", missing
    late = utility.run("sleep", "1000", timeout_ms=2000)
    assert late["code"] == "DEADLINE_EXCEEDED", late

    target = bare_node.kubelet_folder / "target"
    target.mkdir()
    (said,), _ = utility.call("mount", "--type", "tmpfs", "--source", "of-the-pod", "--target", target)
    assert said["code"] == "OK", said
    assert str(target) in mounts.targets()
    utility.run("sh", "-c", f"echo kept >{target}/file")
    assert (target / "file").read_text() == "kept\n"
    (said,), _ = utility.call("unmount", "--target", target)
    assert said["code"] == "OK", said
    wait_for("the mount to be gone", lambda: str(target) not in mounts.targets(), 20)
