"""The agent of a node writes the entries of its own node alone. In a cluster that is what deploy/block-agent makes of it: its
rights and its policies are installed for the run, and skipped without where the API serves none. Berth's own API has the
same rules for a service account with the role block-agent."""
import copy
import time
from urllib.parse import quote

import pytest
import yaml
from kinds import NODE, POD
from lib import standalone
from maker import RUN, Maker

pytestmark = pytest.mark.security

FOLDER = standalone.ROOT / "deploy" / "block-agent"
CRDS = sorted((standalone.ROOT / "deploy" / "crds").glob("storage.berth.dev_*.yaml"))
ACCOUNT = "berth-block-agent"
BLOCK = "/apis/storage.berth.dev/v1alpha1"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
RBAC = "/apis/rbac.authorization.k8s.io/v1"
REFUSED = 403
TAINT = {"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}


def node_name(word):
    return f"{RUN}-{word}"


def serves(api, path, plural):
    reply = api.get(path)
    return reply.code == 200 and any(item["name"] == plural for item in reply.json["resources"])


class Agents:
    """The agents of nodes, as an API knows them."""

    def __init__(self, api, ns):
        self.api = api
        self.ns = ns
        self.maker = Maker(api, ns)
        self.pod = None

    def use(self, word):
        metadata = self.pod["metadata"]
        return {"node": node_name(word), "podNamespace": self.ns, "pod": metadata["name"], "podUID": metadata["uid"],
                "mountDir": f"/pods/{word}"}

    def fence(self, name, words):
        return {"apiVersion": "storage.berth.dev/v1alpha1", "kind": "VolumeFence", "metadata": {"name": name},
                "attachments": [self.use(word) for word in words]}

    def cleanup(self, word):
        return {"apiVersion": "storage.berth.dev/v1alpha1", "kind": "NodeCleanup", "metadata": {"name": node_name(word)},
                "entries": [{"volume": "pv", "attachment": self.use(word)}]}

    def make(self, path, item):
        reply = self.api.post(path, item)
        assert reply.code in (201, 409), reply
        if reply.code == 201:
            self.maker.clean_later(f"{path}/{item['metadata']['name']}")

    def install(self):
        for file in CRDS:
            self.make("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", yaml.safe_load(file.read_text()))
        standalone.wait_for("the kinds", lambda: serves(self.api, BLOCK, "volumefences"))
        self.make(f"/api/v1/namespaces/{self.ns}/serviceaccounts", {
            "apiVersion": "v1", "kind": "ServiceAccount",
            "metadata": {"name": ACCOUNT, "annotations": {"berth.dev/role": "block-agent"}}})
        if serves(self.api, RBAC, "clusterroles"):
            self.install_rights()
            if not serves(self.api, ADMISSION, "validatingadmissionpolicies"):
                pytest.skip("the API serves no ValidatingAdmissionPolicies: it is older than Kubernetes 1.30")
            self.install_policies()
        for word, taints in (("a", []), ("b", []), ("off", [TAINT])):
            self.make(NODE.path(), NODE.new(node_name(word), spec={"taints": taints}))
        # A pod that waits for a node for ever. An operator that runs in the cluster takes nobody out of a fence whose pod
        # is there; it writes NodeCleanups for nodes that are not.
        self.pod = self.maker(POD, POD.new(self.maker.name("pod"), self.ns, spec={
            **POD.body["spec"], "nodeSelector": {RUN: "none"}}))
        for word in ("off", "gone"):
            self.maker.clean_later(f"{BLOCK}/nodecleanups/{node_name(word)}")

    def install_rights(self):
        documents = yaml.safe_load_all((FOLDER / "rbac.yaml").read_text())
        [role] = [item for item in documents if item["kind"] == "ClusterRole" and item["metadata"]["name"] == ACCOUNT]
        role["metadata"]["name"] = RUN
        self.make(f"{RBAC}/clusterroles", role)
        self.make(f"{RBAC}/clusterrolebindings", {
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": RUN},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": RUN},
            "subjects": [{"kind": "ServiceAccount", "name": ACCOUNT, "namespace": self.ns}]})

    def install_policies(self):
        for item in yaml.safe_load_all((FOLDER / "policy.yaml").read_text()):
            item["metadata"]["name"] = f"{RUN}-{item['metadata']['name']}"
            if item["kind"] == "ValidatingAdmissionPolicy":
                self.make(f"{ADMISSION}/validatingadmissionpolicies", item)
            else:
                item["spec"]["policyName"] = f"{RUN}-{item['spec']['policyName']}"
                self.make(f"{ADMISSION}/validatingadmissionpolicybindings", item)

    def write(self, method, path, body=None, node="a"):
        """Sends a request of the agent of a node; of one whose token names no node if that is empty."""
        headers = {"Impersonate-User": f"system:serviceaccount:{self.ns}:{ACCOUNT}"}
        if node:
            headers[f"Impersonate-Extra-{quote('authentication.kubernetes.io/node-name', safe='')}"] = node_name(node)
        return self.api.call(method, path, body, headers=headers)

    def wait_held(self):
        """Waits until rights and policies are known to the server, which takes it a moment."""
        path, name = f"{BLOCK}/volumefences", f"{RUN}-first"
        deadline = time.monotonic() + 60
        for words, code in ((("a",), 201), (("b",), REFUSED)):
            while self.write("POST", path, self.fence(name, words)).code != code:
                assert time.monotonic() < deadline, words
                self.maker.remove(f"{path}/{name}")
                time.sleep(0.2)
            self.maker.remove(f"{path}/{name}")


@pytest.fixture(scope="module")
def agents(api, ns):
    agents = Agents(api, ns)
    try:
        agents.install()
        agents.wait_held()
        yield agents
    finally:
        agents.maker.clean()


# The nodes in a fence before and after; None: there is no fence. The agent is that of node a.
FENCES = {
    "makes-its-own": (None, "a", True),
    "makes-anothers": (None, "b", False),
    "joins": ("b", "b a", True),
    "leaves": ("a b", "b", True),
    "adds-another": ("a", "a b", False),
    "takes-from-one-that-is-there": ("b", "a", False),
    "takes-from-one-that-is-off": ("off", "a", True),
    "takes-from-a-deleted-one": ("gone", "a", True),
    "takes-for-nobody": ("gone b", "b", False),
    "removes-its-own": ("a", None, True),
    "removes-anothers": ("a b", None, False),
}


@pytest.mark.parametrize("before, after, allowed", FENCES.values(), ids=FENCES)
def test_an_agent_writes_its_own_entries_of_a_fence(agents, make, before, after, allowed):
    kind = f"{BLOCK}/volumefences"
    name = make.name("fence")
    path = f"{kind}/{name}"
    make.clean_later(path)
    stored = None
    if before is not None:
        reply = agents.api.post(kind, agents.fence(name, before.split()))
        assert reply.code == 201, reply
        stored = reply.json
    if after is None:
        reply = agents.write("DELETE", path)
    elif stored is None:
        reply = agents.write("POST", kind, agents.fence(name, after.split()))
    else:
        changed = copy.deepcopy(stored)
        changed["attachments"] = agents.fence(name, after.split())["attachments"]
        reply = agents.write("PUT", path, changed)
    assert reply.code in (200, 201) if allowed else reply.code == REFUSED, reply
    now = agents.api.get(path)
    wanted = after if allowed else before
    assert now.code == 404 if wanted is None else [one["node"] for one in now.json["attachments"]] == [
        node_name(word) for word in wanted.split()], now


def test_an_agent_without_a_node_writes_nothing(agents, make):
    name = make.name("fence")
    make.clean_later(f"{BLOCK}/volumefences/{name}")
    reply = agents.write("POST", f"{BLOCK}/volumefences", agents.fence(name, ["a"]), node="")
    assert reply.code == REFUSED, reply


def test_an_agent_reports_on_its_own_device(agents, make):
    path = f"{BLOCK}/volumefences/{make.name('fence')}"
    make.clean_later(path)
    made = agents.api.post(f"{BLOCK}/volumefences", agents.fence(path.rpartition("/")[2], ["a", "b"]))
    assert made.code == 201, made
    for word, code in (("b", REFUSED), ("a", 200)):
        reported = {**made.json, "status": {"devices": [{"node": node_name(word), "state": "Attached"}]}}
        assert agents.write("PUT", f"{path}/status", reported).code == code, word


def test_an_agent_asks_others_and_does_only_its_own_part(agents, make):
    kind = f"{BLOCK}/nodecleanups"
    for word in ("a", "b"):
        path = f"{kind}/{node_name(word)}"
        make.clean_later(path)
        asked = agents.write("POST", kind, agents.cleanup(word))
        assert asked.code == 201, asked
        assert agents.write("DELETE", path).code == (200 if word == "a" else REFUSED), word
