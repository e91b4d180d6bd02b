"""Bad input and faults give a clear error where the person looks, and lose no data."""
import json
import os
import signal
import subprocess

import pytest
import yaml
from lib import objects
from lib.standalone import BINARY, wait_for

pytestmark = [pytest.mark.claimtopod, pytest.mark.e2e]


def refused(berth, manifest):
    """Applies a manifest that `berth apply` must refuse, and gives its error."""
    text = manifest if isinstance(manifest, str) else json.dumps(manifest)
    result = berth.run("apply", "-f", "-", stdin=text, check=False)
    assert result.returncode != 0, result.stdout
    return result.stderr


def wait_event(berth, name, *words, seconds=30):
    """Waits for an event on `name` whose reason and message hold all words."""
    def probe():
        for event in berth.events(name):
            text = f"{event['reason']} {event['message']}"
            if all(word in text for word in words):
                return text
        return None
    return wait_for(f"an event on {name} with {words}", probe, seconds)


def test_malformed_manifests_say_where(berth):
    assert "document 2" in refused(berth, "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n---\nkind: x\n")
    assert "line" in refused(berth, "apiVersion: v1\n  kind: [\n")
    assert "unknown kind 'Teapot'" in refused(berth, {"apiVersion": "v1", "kind": "Teapot", "metadata": {"name": "a"}})
    assert berth.get("configmaps", "a") is None


def test_bad_names_and_fields_are_refused(berth):
    assert "RFC 1123" in refused(berth, objects.claim("Not_A_Name"))
    error = refused(berth, objects.claim("data", storage="many"))
    assert "storage" in error
    assert berth.get("pvc", "data") is None


def test_the_log_is_not_in_the_answer_of_a_command(berth, tmp_path):
    kubeconfig = yaml.safe_load((berth.data / "kubeconfig").read_text())
    kubeconfig["users"][0]["user"] = {"tokenFile": str(tmp_path / "absent")}
    (tmp_path / "kubeconfig").write_text(yaml.safe_dump(kubeconfig))
    result = subprocess.run([BINARY, "get", "pods", "-o", "json", "--kubeconfig", tmp_path / "kubeconfig"], capture_output=True, text=True,
                            timeout=60, check=False)
    assert (result.returncode, result.stdout) == (1, "")
    assert "absent' cannot be read or is empty" in result.stderr


def test_an_oversized_object_is_refused_and_the_server_goes_on(berth):
    error = refused(berth, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "big"},
                            "data": {"key": "x" * (4 * 1024 * 1024)}})
    assert "exceeds the limit" in error
    assert berth.get("configmaps", "big") is None
    berth.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "small"}, "data": {"key": "x"}})


@pytest.mark.parametrize("share", ["1.5", "-0.5", "nan", "half"])
def test_a_share_of_inline_volumes_that_is_no_part_is_refused(share):
    result = subprocess.run([BINARY, "up", f"--inline-share={share}"], capture_output=True, text=True, timeout=60,
                            check=False)
    assert result.returncode != 0
    assert f"'{share}' is not a number from 0 to 1" in result.stderr


def test_a_claim_too_large_for_the_pool_says_so(berth):
    berth.apply([objects.claim("huge", "900Ti"), objects.pod("user", "true", ["huge"])])
    wait_event(berth, "user", "FailedScheduling", "did not have enough free storage")
    assert "no node has 900Ti free" in berth.run("explain", "pvc/huge", check=False).stdout
    # No pod has to be placed here, so the driver reports it.
    berth.apply([objects.storage_class("now", binding="Immediate"), objects.claim("at-once", "900Ti", "now")])
    wait_event(berth, "at-once", "ProvisioningFailed")
    assert berth.get("pods", "user")["status"].get("phase", "Pending") == "Pending"


def test_a_missing_driver_says_so(berth):
    berth.apply([objects.storage_class("of-nobody", provisioner="nobody.example.com", binding="Immediate"),
                 objects.claim("orphan", storage_class="of-nobody")])
    wait_event(berth, "orphan", "nobody.example.com")
    assert "nobody.example.com" in berth.describe("pvc", "orphan")


def test_a_foreign_file_system_is_never_formatted(berth):
    """The image of a volume that was never mounted gets another file system without Berth's knowledge."""
    berth.apply([objects.storage_class("now", "ext4", binding="Immediate"),
                 objects.claim("data", "320Mi", "now")])
    berth.wait_phase("pvc", "data", "Bound")
    image = next((berth.data / "pool").rglob("*.img"))
    subprocess.run(["mkfs.xfs", "-q", image], check=True)
    berth.apply(objects.pod("user", "true", ["data"]))
    wait_event(berth, "user", "FailedMount", "xfs")
    assert subprocess.run(["blkid", "-o", "value", "-s", "TYPE", image], capture_output=True,
                          text=True).stdout.strip() == "xfs"


def test_a_driver_that_dies_comes_back_and_the_pod_starts(berth):
    children = subprocess.run(["pgrep", "-P", str(berth.process.pid)], capture_output=True, text=True).stdout.split()
    for child in children:
        os.kill(int(child), signal.SIGKILL)
    berth.apply([objects.claim("data"), objects.pod("user", "echo fine", ["data"])])
    berth.wait_phase("pods", "user", "Succeeded")


def test_a_driver_that_hangs_is_named_and_harms_nobody_else(berth):
    children = subprocess.run(["pgrep", "-P", str(berth.process.pid)], capture_output=True, text=True).stdout.split()
    berth.apply([objects.claim("data"), objects.pod("before", "echo fine", ["data"])])
    berth.wait_phase("pods", "before", "Succeeded")
    for child in children:
        os.kill(int(child), signal.SIGSTOP)
    try:
        berth.apply([objects.claim("stuck"), objects.pod("waiting", "true", ["stuck"]),
                     objects.pod("other", "echo fine")])
        berth.wait_phase("pods", "other", "Succeeded")
        wait_event(berth, "stuck", "ProvisioningFailed", "Deadline", seconds=60)
    finally:
        for child in children:
            os.kill(int(child), signal.SIGCONT)
    berth.wait_phase("pods", "waiting", "Succeeded", seconds=90)


def test_a_second_berth_on_the_same_folder_is_refused(berth):
    second = subprocess.run([berth.binary, "up", "--data", berth.data, "--port", "0"], capture_output=True,
                            text=True, timeout=30)
    assert second.returncode != 0
    assert "in use" in second.stderr or "holds" in second.stderr or "runs" in second.stderr
    assert berth.items("nodes")


def test_without_a_runtime_pods_wait_and_say_why(new_berth):
    berth = new_berth()
    berth.runtime_socket = berth.folder / "no-such.sock"
    berth.start(wait=False)
    wait_for("the API", lambda: berth.answers() and berth.items("nodes"))
    berth.apply([objects.claim("data"), objects.pod("user", "true", ["data"])])
    wait_for("a reason", lambda: "runtime" in berth.describe("pods", "user"))
    assert berth.get("pods", "user")["status"].get("phase", "Pending") == "Pending"
    berth.run("delete", "pod", "user", "--grace-period", "0")
