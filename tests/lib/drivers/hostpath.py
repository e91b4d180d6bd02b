"""The hostpath driver of Kubernetes CSI, which attaches, and has snapshots, clones, raw block volumes and inline volumes."""
from lib.drivers import driver
from lib.drivers.driver import ATTACH, BLOCK, CLAIMS, CLONES, GROWTH, INLINE, NODE, SNAPSHOTS
from lib.kubernetes import programs


class Hostpath(driver.Driver):
    name = "hostpath.csi.k8s.io"
    title = "csi-driver-host-path"
    offers = frozenset({ATTACH, BLOCK, CLAIMS, CLONES, GROWTH, INLINE, SNAPSHOTS})

    def check(self):
        driver.find("hostpathplugin")

    def version(self):
        return programs.version_of(driver.find("hostpathplugin"))

    def _state(self):
        return self.folder / "state"

    def command(self, socket, kubelet):
        self._state().mkdir(exist_ok=True)
        return [driver.find("hostpathplugin"), f"--endpoint=unix://{socket}", f"--nodeid={NODE}", f"--drivername={self.name}",
                f"--statedir={self._state()}", "--enable-attach=true", "--v=5"]

    def left(self):
        return [path.name for path in self._state().iterdir() if path.name != "state.json"]
