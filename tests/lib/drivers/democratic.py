"""The democratic-csi driver in its kind "local-hostpath": a program for Node.js, whose snapshots are copies of folders."""
import json

from lib.drivers import driver
from lib.drivers.driver import CLAIMS, CLONES, NODE, SNAPSHOTS


class Democratic(driver.Driver):
    name = "org.democratic-csi.local-hostpath"
    title = "democratic-csi, local-hostpath"
    offers = frozenset({CLAIMS, CLONES, SNAPSHOTS})

    def check(self):
        driver.find("democratic-csi/node_modules")
        driver.on_this_machine("node", "rsync")

    def version(self):
        return json.loads((driver.find("democratic-csi") / "package.json").read_text())["version"]

    def _base(self):
        return self.folder / "base"

    def command(self, socket, kubelet):
        for below in ("v", "s"):
            (self._base() / below).mkdir(parents=True, exist_ok=True)
        configuration = self.folder / "driver.yaml"
        configuration.write_text(json.dumps({"driver": "local-hostpath", "local-hostpath": {
            "shareBasePath": str(self._base()), "controllerBasePath": str(self._base()), "dirPermissionsMode": "0777",
            "dirPermissionsUser": 0, "dirPermissionsGroup": 0, "snapshots": {"default_driver": "filecopy"}}}))
        return ["node", "--expose-gc", driver.find("democratic-csi/bin/democratic-csi"), "--csi-version=1.9.0", f"--csi-name={self.name}",
                f"--driver-config-file={configuration}", "--log-level=info", "--csi-mode=controller", "--csi-mode=node",
                f"--server-socket={socket}"]

    def environment(self):
        return {"CSI_NODE_ID": NODE}

    def left(self):
        return [path.name for below in ("v", "s") for path in (self._base() / below).iterdir()]
