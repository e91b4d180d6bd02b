"""deploy/block-agent renders to the right objects, the programs take the flags in them, and an agent has its rights and no
others."""
import json
import subprocess

import pytest
import yaml
from lib.block_agent import define_kinds, with_token
from lib.kubectl import Kubectl, render
from lib.standalone import BINARY, ROOT

pytestmark = [pytest.mark.e2e, pytest.mark.blockagent]

FOLDER = ROOT / "deploy" / "block-agent"
AGENTS = ("agent", "io-proxy")


@pytest.fixture(scope="module")
def objects():
    return render(FOLDER)


def agent_set(name):
    return yaml.safe_load((FOLDER / f"{name}.yaml").read_text())


def pod_of(workload):
    return workload["spec"]["template"]["spec"]


def check_flags(container):
    command, *flags = container["args"]
    said = subprocess.run([BINARY, command, "--help"], capture_output=True, text=True, check=True).stdout
    for flag in flags:
        assert f"  {flag.partition('=')[0]} " in said, flag


def test_the_operator_is_all_that_is_applied(objects):
    assert [name for kind, name in objects if kind in ("Deployment", "DaemonSet")] == ["berth-block-operator"]
    operator = objects["Deployment", "berth-block-operator"]
    container, = pod_of(operator)["containers"]
    check_flags(container)
    assert operator["spec"]["replicas"] == 2 and "--leader-election" in container["args"]
    assert {e["name"] for e in container["env"]} == {"POD_NAMESPACE", "POD_NAME"}, "whence it knows its own image"


def test_rights_reach_the_accounts_that_work(objects):
    accounts = {name for kind, name in objects if kind == "ServiceAccount"}
    for name in AGENTS:
        assert pod_of(agent_set(name))["serviceAccountName"] in accounts
    for (kind, name), item in objects.items():
        if kind not in ("RoleBinding", "ClusterRoleBinding"):
            continue
        assert (item["roleRef"]["kind"], item["roleRef"]["name"]) in objects, "the role that it binds"
        subject, = item["subjects"]
        assert subject["name"] in accounts and subject["namespace"] == "berth-block"
    rules = objects["ClusterRole", "berth-block-operator"]["rules"]
    for rule in rules:
        assert "*" not in rule["verbs"] + rule["resources"] + rule["apiGroups"]
        assert "secrets" not in rule["resources"]


def test_the_programs_take_the_flags():
    for name in AGENTS:
        check_flags(pod_of(agent_set(name))["containers"][0])


def test_devices_and_mounts_reach_the_node_and_back():
    agent = pod_of(agent_set("agent"))
    container, = agent["containers"]
    mounts = {m["mountPath"]: m for m in container["volumeMounts"]}
    paths = {v["name"]: v["hostPath"]["path"] for v in agent["volumes"]}
    assert container["securityContext"]["privileged"] and agent["hostNetwork"] and agent["hostPID"]
    assert mounts["/var/lib/kubelet"]["mountPropagation"] == "Bidirectional"
    for path in ("/var/lib/kubelet", "/dev", "/run/berth", "/var/lib/berth", "/srv/berth"):
        assert paths[mounts[path]["name"]] == path, "the same path inside and outside"
    assert paths[mounts["/host"]["name"]] == "/" and "--host-root=/host" in container["args"]
    # The proxy shows files under which the agent sets up loop devices.
    proxy = pod_of(agent_set("io-proxy"))
    assert {m["mountPath"]: m.get("mountPropagation") for m in proxy["containers"][0]["volumeMounts"]}[
        "/run/berth"] == "Bidirectional"
    assert mounts["/run/berth"]["mountPropagation"] == "HostToContainer"


def test_the_proxys_life_is_that_of_the_volumes():
    assert agent_set("io-proxy")["spec"]["updateStrategy"] == {"type": "OnDelete"}
    assert "limits" not in pod_of(agent_set("io-proxy"))["containers"][0]["resources"]


def test_the_example_is_what_the_kinds_allow(kubectl):
    kubectl.run("apply", "--dry-run=server", "-f", str(FOLDER / "example.yaml"))


def rights(rules):
    return {(verb, group, resource) for rule in rules for group in rule["apiGroups"] for resource in rule["resources"]
            for verb in rule["verbs"]}


def test_each_policy_is_bound_to_deny(objects):
    policies = {name: item for (kind, name), item in objects.items() if kind == "ValidatingAdmissionPolicy"}
    bindings = {item["spec"]["policyName"]: item["spec"] for (kind, _), item in objects.items()
                if kind == "ValidatingAdmissionPolicyBinding"}
    written = {resource for policy in policies.values() for rule in policy["spec"]["matchConstraints"]["resourceRules"]
               for resource in rule["resources"]}
    assert {"volumefences", "volumefences/status", "nodecleanups", "nodecleanups/status", "storageclusters/status"} <= written
    assert set(bindings) == set(policies)
    for name, policy in policies.items():
        assert policy["spec"]["failurePolicy"] == "Fail" and bindings[name]["validationActions"] == ["Deny"]
        assert ("paramKind" in policy["spec"]) == ("paramRef" in bindings[name])


@pytest.fixture
def agent(kubectl, module_berth, tmp_path):
    """Gives a client with the token of the block agent of node-a."""
    define_kinds(module_berth)
    token = module_berth.run("token", "create", "node-a", "--role", "block-agent").stdout.strip()
    path = with_token(kubectl.kubeconfig, token, tmp_path / "agent.kubeconfig")
    return Kubectl(kubectl.binary, (1, kubectl.minor, ""), path, kubectl.ns, tmp_path / "home")


# kubectl validates by definitions that an agent may not read.
CREATE, REPLACE = (("create", "--validate=false", "-f", "-"), ("replace", "--validate=false", "-f", "-"))


@pytest.mark.security
def test_an_agent_has_the_rights_of_its_manifest_and_no_others(agent, objects):
    review = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview", "spec": {"namespace": "default"}}
    answer = json.loads(agent(*CREATE, "-o", "json", stdin=json.dumps(review)))["status"]
    own = {(verb, group, resource) for verb, group, resource in rights(answer["resourceRules"])
           if not resource.startswith("selfsubject")}
    granted = rights(objects["ClusterRole", "berth-block-agent"]["rules"]) | rights(objects["Role", "berth-block-secrets"]["rules"])
    assert own == granted and not answer["incomplete"]
    for asked in (("get", "secrets"), ("delete", "persistentvolumeclaims"), ("create", "pods", "--subresource=exec"),
                  ("get", "nodes", "--subresource=proxy"), ("list", "persistentvolumeclaims"), ("patch", "nodes")):
        # kubectl puts the API's reason behind it, if there is one.
        assert agent.run("auth", "can-i", *asked, check=False).stdout.split()[:1] == ["no"], asked


@pytest.mark.security
def test_kubectl_says_why_an_agent_may_not_write_for_another_node(agent, kubectl):
    """Which writes are refused: tests/conformance/test_block_agents.py."""
    def fence(node):
        return {"apiVersion": "storage.berth.dev/v1alpha1", "kind": "VolumeFence", "metadata": {"name": kubectl.ns},
                "attachments": [{"node": node, "podUID": "uid", "mountDir": "/pods/uid"}]}

    assert "only entries of its own node" in agent.fails(*CREATE, stdin=json.dumps(fence("node-b")))
    agent(*CREATE, stdin=json.dumps(fence("node-a")))
    agent("delete", "volumefence", kubectl.ns)
