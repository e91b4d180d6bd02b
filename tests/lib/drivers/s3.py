"""The driver k8s-csi-s3, whose volumes are buckets that s3fs mounts by FUSE. A small S3 server serves them from a folder."""
import socket as sockets

from lib.drivers import driver
from lib.drivers.driver import CLAIMS, FUSE, NODE, SHARED
from lib.kubernetes.programs import Process, free_port

KEY, WORD = "S3RVER", "S3RVER"  # what the server takes unless it is told otherwise


class S3(driver.Driver):
    name = "ru.yandex.s3.csi"
    title = "k8s-csi-s3 with s3fs"
    offers = frozenset({CLAIMS, FUSE, SHARED})
    found = "it mounts writable whatever it is asked, and s3fs refuses another owner of the top folder: Berth makes the mount read-only " \
            "itself, and starts the pod without the fsGroup, as a kubelet does"

    def __init__(self, folder):
        super().__init__(folder)
        self._server = None
        self._port = None

    def check(self):
        driver.find("s3driver")
        driver.find("s3rver/node_modules")
        driver.on_this_machine("node", "s3fs")

    def version(self):
        return (driver.find("s3driver.version")).read_text().strip()

    def begin(self):
        self._buckets().mkdir(exist_ok=True)
        self._port = free_port()
        self._server = Process(self.folder / "s3.log", [
            "node", driver.find("s3rver/node_modules/s3rver/bin/s3rver.js"), "--directory", self._buckets(), "--address", "127.0.0.1",
            "--port", self._port])
        self._server.wait_for("the S3 server", self._serves)

    def _serves(self):
        with sockets.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self._port)) == 0

    def end(self):
        if self._server is not None:
            self._server.kill()

    def _buckets(self):
        return self.folder / "buckets"

    def command(self, socket, kubelet):
        return [driver.find("s3driver"), f"--endpoint=unix://{socket}", f"--nodeid={NODE}", "--v=4"]

    def environment(self):
        return {"HOME": str(self.folder)}  # where it keeps the password of s3fs

    def parameters(self):
        return {"mounter": "s3fs", "options": ""}

    def secrets(self):
        return {"accessKeyID": KEY, "secretAccessKey": WORD, "endpoint": f"http://127.0.0.1:{self._port}"}

    def left(self):
        return [path.name for path in self._buckets().iterdir()]
