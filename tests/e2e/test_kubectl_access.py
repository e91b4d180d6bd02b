"""Rights depend on kubectl's user: an administrator by token, a stranger, or a node agent by certificate."""
import json

import pytest
import yaml
from lib import objects
from lib.kubectl import Kubectl, config_map, running
from lib.standalone import wait_for

pytestmark = [pytest.mark.api, pytest.mark.e2e]


@pytest.fixture
def by_token(kubectl, module_berth, tmp_path):
    """Makes a client whose kubeconfig has only a token of `berth token create` as credentials."""
    def make(*arguments):
        token = module_berth.run("token", "create", *arguments).stdout.strip()
        document = yaml.safe_load(kubectl.kubeconfig.read_text())
        document["users"] = [{"name": user["name"], "user": {"token": token}} for user in document["users"]]
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.kubeconfig"
        path.write_text(yaml.safe_dump(document))
        return other(kubectl, path)
    return make


def other(kubectl, kubeconfig):
    client = Kubectl(kubectl.binary, (1, kubectl.minor, ""), kubeconfig, kubectl.ns, kubectl.home)
    client.home = kubeconfig.parent / "home"  # two clients may not share a cache of the API
    return client


@pytest.fixture
def node(kubectl, module_berth, tmp_path):
    """Gives a client with the node agent's own kubeconfig."""
    path = tmp_path / "node.kubeconfig"
    path.write_text((module_berth.data / "node.kubeconfig").read_text())
    return other(kubectl, path)


def test_an_administrator_by_token(kubectl, by_token, module_berth):
    ann = by_token("ann", "--role", "administrator")
    ann.apply(config_map("hers", a="b"))
    assert kubectl.json("get", "cm", "hers")["data"] == {"a": "b"}
    assert ann("auth", "can-i", "*", "*", "-A").strip() == "yes"
    running(ann, "web")
    assert ann("exec", "web", "--", "echo", "hello") == "hello\n"
    # Deleting the token has effect at once.
    listed = module_berth.run("token", "list").stdout
    (row,) = [line for line in listed.splitlines() if " ann " in line and "<none>" not in line]
    module_berth.run("token", "delete", row.split()[0])
    assert "Unauthorized" in ann.fails("get", "cm") or "must be logged in" in ann.fails("get", "cm")


def test_a_token_without_a_role_reads_only_what_the_server_is(by_token):
    bob = by_token("bob")
    assert "pods is forbidden: User \"bob\" cannot list resource \"pods\"" in bob.fails("get", "pods")
    assert "forbidden" in bob.fails("create", "configmap", "x")
    assert bob.run("auth", "can-i", "get", "pods", check=False).stdout.strip() == "no"
    assert bob.json("version")["serverVersion"]["major"] == "1"


def test_a_made_up_token_is_refused(by_token):
    client = by_token("eve", "--role", "administrator")
    document = yaml.safe_load(client.kubeconfig.read_text())
    right = document["users"][0]["user"]["token"]
    document["users"][0]["user"]["token"] = right[:-1] + ("A" if right[-1] != "A" else "B")
    client.kubeconfig.write_text(yaml.safe_dump(document))
    error = client.fails("get", "pods")
    assert "Unauthorized" in error or "must be logged in" in error, error


def test_a_node_reads_what_its_pods_need_and_no_more(kubectl, node):
    for name in ("used", "other"):
        kubectl("create", "secret", "generic", name, "--from-literal=a=b")
    assert node.json("get", "node", "node-a")["metadata"]["name"] == "node-a"
    assert "only its own Node object" in node.fails("get", "nodes")
    assert "spec.nodeName field selector" in node.fails("get", "pods", "-A")
    secret = {"name": "s", "secret": {"secretName": "used"}}
    running(kubectl, "web", volumes=[secret])
    assert "web" in node("get", "pods", "--field-selector", "spec.nodeName=node-a")
    assert node.json("get", "pod", "web")["spec"]["nodeName"] == "node-a"
    assert node.json("get", "secret", "used")["data"] == {"a": "Yg=="}
    assert "no relationship found between node 'node-a' and this object" in node.fails("get", "secret", "other")
    assert "forbidden" in node.fails("get", "secrets")
    assert "forbidden" in node.fails("get", "pv")
    assert "forbidden" in node.fails("get", "pvc")
    assert "local" in node("get", "csidrivers")
    # The node may not read what its pods no longer need.
    kubectl("delete", "pod", "web")
    assert "no relationship" in node.fails("get", "secret", "used")


def test_a_node_writes_only_its_own(kubectl, node):
    kubectl.apply({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-b"}})
    try:
        patch = ("-p", '{"metadata":{"annotations":{"example.com/by":"hand"}}}')
        node("patch", "node", "node-a", *patch)
        assert kubectl.json("get", "node", "node-a")["metadata"]["annotations"]["example.com/by"] == "hand"
        kubectl("annotate", "node", "node-a", "example.com/by-")
        error = node.fails("patch", "node", "node-b", *patch)
        assert "forbidden" in error and "node-a" in error, error
        label = json.dumps({"metadata": {"labels": {"node-restriction.kubernetes.io/safe": "yes"}}})
        assert "is not allowed to modify labels" in node.fails("patch", "node", "node-a", "-p", label)
        taints = '{"spec":{"taints":[{"key":"a","effect":"NoSchedule"}]}}'
        assert "is not allowed to modify taints" in node.fails("patch", "node", "node-a", "-p", taints)
        assert "forbidden" in node.fails("delete", "node", "node-a")
        assert "forbidden" in node.fails("patch", "csinode", "node-b", *patch)
        assert "forbidden" in node.fails("create", "configmap", "x")
        assert "forbidden" in node.fails("run", "x", "--image=x", "--restart=Never")
    finally:
        kubectl("delete", "node", "node-b")


def test_a_node_deletes_only_pods_that_are_bound_to_it(kubectl, node):
    kubectl.apply(objects.pod("elsewhere", "true", nodeSelector={"no": "where"}))
    assert "forbidden" in node.fails("delete", "pod", "elsewhere", "--grace-period=0", "--force")
    running(kubectl, "here")
    node("delete", "pod", "here", "--wait=false")
    wait_for("the pod to be gone", lambda: kubectl.run("get", "pod", "here", check=False).returncode != 0)


def test_a_node_has_no_exec(kubectl, node):
    running(kubectl, "web")
    for arguments in (("exec", "web", "--", "true"), ("attach", "web"), ("port-forward", "web", ":80"), ("logs", "web")):
        assert "forbidden" in node.fails(*arguments).lower(), arguments


@pytest.mark.security
def test_a_revoked_certificate_is_refused_at_once_and_replaced(kubectl, node, module_berth):
    assert node.json("get", "node", "node-a")["metadata"]["name"] == "node-a"
    written = module_berth.data / "node.kubeconfig"
    assert written.read_text() == node.kubeconfig.read_text()
    assert "system:node:node-a" in module_berth.run("certificate", "revoke", node.kubeconfig).stdout
    error = node.fails("get", "node", "node-a")
    assert "Unauthorized" in error or "must be logged in" in error, error
    assert kubectl.json("get", "node", "node-a"), "the administrator's certificate is another one"
    # The server gives its node a new certificate, and the old one stays refused.
    wait_for("the new kubeconfig", lambda: written.read_text() != node.kubeconfig.read_text())
    path = node.kubeconfig.parent / "renewed.kubeconfig"
    path.write_text(written.read_text())
    assert other(kubectl, path).json("get", "node", "node-a")["metadata"]["name"] == "node-a"
    error = node.fails("get", "node", "node-a")
    assert "Unauthorized" in error or "must be logged in" in error, error
    listed = module_berth.run("certificate", "list").stdout.splitlines()
    present, *replaced = [line.split()[0] for line in listed if "system:node:node-a" in line]
    assert present == "node" and set(replaced) == {"<replaced>"}, listed
    assert "has no client certificate" in module_berth.run("certificate", "revoke", token_config(node, path),
                                                            check=False).stderr


def token_config(client, path):
    """Writes a kubeconfig with a token as its only credentials."""
    document = yaml.safe_load(client.kubeconfig.read_text())
    document["users"] = [{"name": user["name"], "user": {"token": "berth-x.y"}} for user in document["users"]]
    path.write_text(yaml.safe_dump(document))
    return path
