"""deploy/mount-pod renders to the right objects for each kind, and the pods have what mount utilities need."""
import itertools
import subprocess

import pytest
import yaml
from lib import mount_pods
from lib.standalone import BINARY

pytestmark = [pytest.mark.e2e, pytest.mark.mountpod]

KUBELET = "/var/lib/kubelet"


@pytest.fixture(scope="module", params=["glusterfs", "cephfs", "nfs", "rbd", "iscsi"])
def kind(request):
    return request.param


@pytest.fixture(scope="module")
def daemon_set(kind):
    found = {item["kind"]: item for item in yaml.safe_load_all(mount_pods.render(kind))}
    assert set(found) == {"Namespace", "ServiceAccount", "DaemonSet"}, "it needs no rights in the API"
    return found["DaemonSet"]


@pytest.fixture(scope="module")
def container(daemon_set):
    [container] = daemon_set["spec"]["template"]["spec"]["containers"]
    return container


def test_each_kind_serves_its_plugin(kind, daemon_set, container):
    assert f"--plugin=kubernetes.io/{kind}" in container["args"]
    assert f"--container={container['name']}" in container["args"]
    labels = daemon_set["spec"]["template"]["metadata"]["labels"]
    assert labels.items() >= daemon_set["spec"]["selector"]["matchLabels"].items()
    assert daemon_set["spec"]["selector"]["matchLabels"]["berth.dev/mount-pod"] == kind, "no other kind's pods"


def test_generations_are_the_default(kind, daemon_set):
    spec = daemon_set["spec"]["template"]["spec"]
    if kind == "iscsi":  # two iscsid cannot run on one network, and no daemon serves a mount
        rolling = {"maxSurge": 0, "maxUnavailable": 1}
    else:
        rolling = {"maxSurge": 1, "maxUnavailable": 0}
        assert spec["terminationGracePeriodSeconds"] >= 86400, "days"
    assert daemon_set["spec"]["updateStrategy"] == {"type": "RollingUpdate", "rollingUpdate": rolling}
    # Two generations run at the same time on the node's network.
    assert spec["hostNetwork"] and not any(c.get("ports") for c in spec["containers"])


def test_nothing_evicts_it(daemon_set):
    spec = daemon_set["spec"]["template"]["spec"]
    assert spec["tolerations"] == [{"operator": "Exists"}]
    assert spec["priorityClassName"] == "system-node-critical"
    assert "limits" not in spec["containers"][0].get("resources", {})


def test_it_sees_the_host(daemon_set, container):
    volumes = daemon_set["spec"]["template"]["spec"]["volumes"]
    paths = {v["name"]: v["hostPath"]["path"] for v in volumes if "hostPath" in v}
    mounts = {m["mountPath"]: m for m in container["volumeMounts"] if m["name"] in paths}
    assert {path: paths[m["name"]] for path, m in mounts.items()} == {
        KUBELET: KUBELET, "/dev": "/dev", "/sys": "/sys", "/lib/modules": "/lib/modules", "/host/proc": "/proc"}
    assert mounts[KUBELET]["mountPropagation"] == "Bidirectional"
    assert container["securityContext"]["privileged"]


def test_berth_init_takes_the_flags_and_knows_its_pod(container):
    assert container["command"] == ["/berth-init"]
    init = BINARY.parent / "berth-init"
    known = subprocess.run([init, "--help"], capture_output=True, text=True, check=True).stdout
    flags = list(itertools.takewhile(lambda word: word != "--", container["args"]))
    for flag in flags:
        assert f"  {flag.partition('=')[0]} " in known, flag
    fields = {e["name"]: e["valueFrom"]["fieldRef"]["fieldPath"] for e in container["env"]}
    fields.pop("NODE_NAME", None)
    assert fields == {"POD_NAME": "metadata.name", "POD_NAMESPACE": "metadata.namespace", "POD_UID": "metadata.uid"}


def test_it_has_started_when_it_is_registered(container):
    assert "$POD_UID" in container["startupProbe"]["exec"]["command"][-1]
    probe = container["livenessProbe"]
    assert probe["exec"] and probe["periodSeconds"] * probe["failureThreshold"] >= 120, "it holds mounts: be patient"
    assert "readinessProbe" not in container, "the old generation must not become unready by the new one's registration"


def test_its_packages_have_what_formats_and_checks(kind):
    names = set(mount_pods.packages(kind))
    assert names >= {"mount", "e2fsprogs", "xfsprogs", "util-linux"}, "mount, mkfs, fsck and blkid"
    known = subprocess.run(["apt-cache", "show", *sorted(names)], capture_output=True, text=True)
    if not known.stdout:
        pytest.skip("apt has no lists here")
    missing = names - {line.partition(": ")[2] for line in known.stdout.splitlines() if line.startswith("Package: ")}
    assert not missing, "Debian has no such packages"


@pytest.mark.parametrize("kind", ["iscsi"], indirect=True)
def test_secrets_of_chap_are_on_no_disk(daemon_set, container):
    in_memory = {v["name"] for v in daemon_set["spec"]["template"]["spec"]["volumes"]
                 if v.get("emptyDir", {}).get("medium") == "Memory"}
    paths = {m["mountPath"] for m in container["volumeMounts"] if m["name"] in in_memory}
    assert paths == {"/etc/iscsi/nodes", "/etc/iscsi/send_targets"}
