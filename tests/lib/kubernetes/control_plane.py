"""A real control plane on loopback: etcd, kube-apiserver with RBAC, and kube-controller-manager. It has no node: tests make the
objects of nodes themselves, or run a kubelet (node.py)."""
import base64
import contextlib
import json
import pathlib
import shutil
import subprocess
import tempfile

from lib import kube, vm
from lib.kubernetes import programs
from lib.kubernetes.programs import Process, free_port

PROGRAMS = ("etcd", "kube-apiserver", "kube-controller-manager")
ADMIN = "tests"
# The nodes that may run, with the token of each one's kubelet, which has the rights of this node and no others.
NODE, SECOND_NODE = "node-k", "node-l"
KUBELETS = {NODE: "kubelet-k", SECOND_NODE: "kubelet-l"}

# One line for each request, with its user and verb, when it is answered. Watches are counted when they begin.
AUDIT_POLICY = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived", "Panic"],
                "rules": [{"level": "Metadata", "userGroups": ["system:serviceaccounts"]}, {"level": "None"}]}
# Without these a node that has no kubelet would be tainted, and pods would be evicted from it.
NOT_RUN = ("node-lifecycle-controller", "taint-eviction-controller", "bootstrap-signer-controller", "token-cleaner-controller")


def _openssl(*arguments):
    subprocess.run(["openssl", *map(str, arguments)], check=True, capture_output=True)


class ControlPlane:
    def __init__(self, folder, feature_gates=(), with_node=False, manager_qps=500):
        """`feature_gates`: gates of kube-apiserver, as "Name=true". `with_node`: a kubelet will run, so a scheduler
        and the controllers of nodes do, too. `manager_qps`: how many requests a second the controller manager may make."""
        self._gates = [f"--feature-gates={','.join(feature_gates)}"] if feature_gates else []
        self.folder = pathlib.Path(folder)
        self._with_node = with_node
        self.kubeconfig = self.folder / "kubeconfig"
        self.audit_log = self.folder / "audit.log"
        self.server = f"https://127.0.0.1:{free_port()}"
        self.manager_qps = manager_qps
        self.apiserver = None  # its Process, once it runs
        self._processes = []

    def start(self):
        self._write_keys()
        etcd = f"http://127.0.0.1:{free_port()}"
        peer = f"http://127.0.0.1:{free_port()}"
        self._run("etcd", f"--data-dir={self.folder}/etcd", f"--listen-client-urls={etcd}", f"--advertise-client-urls={etcd}",
                  f"--listen-peer-urls={peer}", f"--initial-advertise-peer-urls={peer}", f"--initial-cluster=default={peer}",
                  "--unsafe-no-fsync")
        (self.folder / "audit-policy.json").write_text(json.dumps(AUDIT_POLICY))
        (self.folder / "tokens.csv").write_text(f'{ADMIN},{ADMIN},{ADMIN},"system:masters"\n' + "".join(
            f'{token},system:node:{node},{token},"system:nodes"\n' for node, token in KUBELETS.items()))
        self.apiserver = self._run(
            "kube-apiserver", f"--etcd-servers={etcd}", "--bind-address=127.0.0.1", f"--secure-port={self.server.rpartition(':')[2]}",
            f"--tls-cert-file={self.folder}/server.crt", f"--tls-private-key-file={self.folder}/server.key",
            f"--token-auth-file={self.folder}/tokens.csv", "--authorization-mode=Node,RBAC", "--allow-privileged=true",
            f"--service-account-key-file={self.folder}/accounts.pub", f"--service-account-signing-key-file={self.folder}/accounts.key",
            "--service-account-issuer=https://kubernetes.default.svc", "--service-cluster-ip-range=10.0.0.0/24",
            "--endpoint-reconciler-type=none", *self._gates, f"--audit-policy-file={self.folder}/audit-policy.json",
            f"--audit-log-path={self.audit_log}", "--audit-log-mode=blocking")
        self.write_kubeconfig(self.kubeconfig, ADMIN)
        api = kube.Api(kube.Kubeconfig(self.kubeconfig))
        self.apiserver.wait_for("kube-apiserver to be ready", lambda: self._is_ready(api), seconds=180)
        api.close()
        self._run("kube-controller-manager", f"--kubeconfig={self.kubeconfig}", "--leader-elect=false",
                  f"--service-account-private-key-file={self.folder}/accounts.key", f"--root-ca-file={self.folder}/server.crt",
                  "--controllers=" + ",".join(["*", *(f"-{name}" for name in NOT_RUN if not self._with_node)]),
                  "--use-service-account-credentials=false", f"--secure-port={free_port()}",
                  f"--cert-dir={self.folder}/manager", f"--kube-api-qps={self.manager_qps}",
                  f"--kube-api-burst={self.manager_qps}")
        if self._with_node:
            self._run("kube-scheduler", f"--kubeconfig={self.kubeconfig}", "--leader-elect=false", f"--secure-port={free_port()}",
                      f"--cert-dir={self.folder}/scheduler", "--kube-api-qps=500", "--kube-api-burst=500")
        return self

    @staticmethod
    def _is_ready(api):
        try:
            return api.get("/readyz").code == 200
        except OSError:
            return False

    def _run(self, name, *arguments):
        self._processes.append(Process(self.folder / f"{name}.log", [programs.find(name), *arguments]))
        return self._processes[-1]

    def _write_keys(self):
        _openssl("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1", "-addext",
                 f"subjectAltName=IP:127.0.0.1,IP:{vm.HOST}", "-keyout", self.folder / "server.key", "-out", self.folder / "server.crt")
        _openssl("genrsa", "-out", self.folder / "accounts.key", "2048")
        _openssl("rsa", "-in", self.folder / "accounts.key", "-pubout", "-out", self.folder / "accounts.pub")

    def write_kubeconfig(self, path, token):
        """Writes a kubeconfig for a user with a token. It names no other file."""
        authority = base64.b64encode((self.folder / "server.crt").read_bytes()).decode()
        path.write_text(json.dumps({
            "apiVersion": "v1", "kind": "Config", "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"server": self.server, "certificate-authority-data": authority}}],
            "users": [{"name": "c", "user": {"token": token}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "c"}}]}))
        return path

    def audit_size(self):
        """Gives the size of the audit log, from which requests_of can read later."""
        return self.audit_log.stat().st_size if self.audit_log.exists() else 0

    def requests_of(self, user, since=0):
        """Gives (verb, resource with its subresource, response's code) of each request that a user has made, in order. `since`:
        what audit_size gave; earlier requests are left out."""
        requests = []
        with open(self.audit_log, "rb") as log:
            log.seek(since)
            lines = log.read().splitlines()
        for line in lines:
            entry = json.loads(line)
            if entry["user"]["username"] != user or "objectRef" not in entry:
                continue
            # A watch has two lines: one when it begins, and one when it ends.
            if entry["verb"] == "watch" and entry["stage"] != "ResponseStarted":
                continue
            target = entry["objectRef"]
            requests.append((entry["verb"], "/".join(filter(None, (target["resource"], target.get("subresource")))),
                             entry["responseStatus"]["code"]))
        return requests

    def stop(self):
        for process in reversed(self._processes):
            process.stop(seconds=10)


@contextlib.contextmanager
def running_plane(with_node=False):
    """Starts a ControlPlane with a folder of its own, and ends it with the block."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="bt-", dir="/var/tmp"))
    plane = ControlPlane(folder, with_node=with_node)
    try:
        yield plane.start()
    finally:
        plane.stop()
        shutil.rmtree(folder, ignore_errors=True)
