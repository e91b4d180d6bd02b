"""The Secrets Store CSI driver, whose volumes exist only in pods and are published again and again. Its provider is the one that its
own tests use. It is a client of the API, too: its classes of secrets are custom resources."""
import subprocess

from lib.drivers import driver
from lib.drivers.driver import INLINE, NODE
from lib.kubernetes.programs import Process

AUDIENCE = "of-the-provider"
PROVIDER = "e2e-provider"
CLASS_OF_SECRETS = {
    "apiVersion": "secrets-store.csi.x-k8s.io/v1", "kind": "SecretProviderClass", "metadata": {"name": "secrets"},
    "spec": {"provider": PROVIDER, "parameters": {"objects": "array:\n  - |\n    objectName: foo\n    objectVersion: v1\n"}}}
# The provider listens at a port of its own network namespace, so that it is in nobody's way.
ALONE = "ip link set lo up && exec \"$@\""


class SecretsStore(driver.Driver):
    name = "secrets-store.csi.k8s.io"
    title = "secrets-store-csi-driver"
    offers = frozenset({INLINE})

    def __init__(self, folder):
        super().__init__(folder)
        self._provider = None

    def check(self):
        for name in ("secrets-store-csi-driver", "e2e-provider", "secrets-store"):
            driver.find(name)
        driver.on_this_machine("curl", "ip")

    def version(self):
        return driver.find("secrets-store/version").read_text().strip()

    def begin(self):
        (self.folder / "providers").mkdir()
        socket = self.folder / "providers" / f"{PROVIDER}.sock"
        self._provider = Process(self.folder / "provider.log", [
            "unshare", "--net", "sh", "-c", ALONE, "sh", driver.find("e2e-provider"), f"--endpoint=unix://{socket}"],
            {"VALIDATE_TOKENS_AUDIENCE": AUDIENCE})
        self._provider.wait_for("the provider", socket.exists)

    def end(self):
        if self._provider is not None:
            self._provider.kill()

    def rotate(self):
        """From now on the provider gives another secret to a pod that has got one."""
        subprocess.run(["nsenter", "--target", str(self._provider.process.pid), "--net", "curl", "-sS", "--fail",
                        "http://127.0.0.1:8080/rotation?rotated=true"], check=True, timeout=30)

    def command(self, socket, kubelet):
        return ["env", f"KUBECONFIG={kubelet.parent}/kubeconfig", driver.find("secrets-store-csi-driver"),
                f"--endpoint=unix://{socket}", f"--nodeid={NODE}", f"--provider-volume={self.folder}/providers",
                "--metrics-addr=127.0.0.1:0", "--enable-secret-rotation=true", "--rotation-poll-interval=1s"]

    def csi_driver(self):
        return super().csi_driver() | {"requiresRepublish": True, "tokenRequests": [{"audience": AUDIENCE}]}

    def more_objects(self):
        return [*sorted(driver.find("secrets-store").glob("*.yaml")), CLASS_OF_SECRETS]

    def attributes(self):
        return {"secretProviderClass": "secrets"}

    def left(self):
        return []
