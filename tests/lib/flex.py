"""Flexvolume drivers for tests, their images, and the DaemonSet of deploy/flexvolume on a standalone Berth."""
import copy
import itertools
import shutil
import subprocess

import yaml

from lib import objects
from lib.standalone import ROOT, Failure, wait_for

DEPLOY = ROOT / "deploy" / "flexvolume"
EXAMPLES = ROOT / "examples" / "flexvolume"
NAMESPACE = "kube-system"
SHELL = "example.com/images"  # attaches
STATIC = "example.com/folders"  # does not
NUMBERS = itertools.count(1)


def folder_of(driver):
    return driver.replace("/", "~")


def add_shell_driver(drivers, version, log):
    """Makes a version of the examples' shell driver: two files; it writes a line for each call into the file `log`."""
    folder = drivers / folder_of(SHELL)
    folder.mkdir(parents=True, exist_ok=True)
    first, rest = (EXAMPLES / "images" / "images").read_text().split("\n", 1)
    program = folder / "images"
    program.write_text(f'{first}\n# {version}\n. "${{0%/*}}/version.sh"\n{rest}')
    program.chmod(0o755)
    (folder / "version.sh").write_text(f"printf '%s\\n' \"{version} $1\" >>{log}\n")
    return folder


def install(drivers, driver, script):
    """Installs a driver that is one script as an installer does: under a name with a dot in front, and then by
    rename."""
    folder = drivers / folder_of(driver)
    folder.mkdir(parents=True, exist_ok=True)
    name = driver.rsplit("/", 1)[-1]
    fresh = folder / f".{name}"
    fresh.write_text(script)
    fresh.chmod(0o755)
    fresh.rename(folder / name)


def add_static_driver(drivers):
    folder = drivers / folder_of(STATIC)
    folder.mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / "build" / "bin" / "folders", folder / "folders")
    return folder


def import_image(runtime_socket, drivers, folder):
    """Makes the image of a folder with drivers, as the recipe does, imports it into the tests' containerd, and gives
    its name."""
    name = f"berth.local/flex-drivers:{next(NUMBERS)}"
    archive = folder / "image.tar"
    subprocess.run([ROOT / "tools" / "make_image", "--add", f"{DEPLOY}/flex-deploy=/flex-deploy",
                    "--add", f"{drivers}=/drivers", "--entrypoint", "/flex-deploy", archive, name], check=True)
    subprocess.run(["ctr", "--address", runtime_socket, "-n", "k8s.io", "images", "import", archive],
                   check=True, capture_output=True, timeout=120)
    archive.unlink()
    return name


class FlexDeploy:
    """The DaemonSet on the only node of `berth`, with its driver folder."""

    def __init__(self, berth):
        self.berth = berth
        self.drivers = berth.data / "volume-plugins"
        self.daemon_set = yaml.safe_load((DEPLOY / "daemonset.yaml").read_text())
        paths = {"drivers": self.drivers, "kubelet": berth.data / "kubelet"}
        for volume in self.daemon_set["spec"]["template"]["spec"]["volumes"]:
            volume["hostPath"]["path"] = str(paths[volume["name"]])
        self.image = None

    def roll_out(self, image, action="install"):
        """Edits the DaemonSet, as Bob does, and waits until it is rolled out."""
        [container] = self.daemon_set["spec"]["template"]["spec"]["containers"]
        container.update(image=image, args=action.split(), imagePullPolicy="IfNotPresent")
        self.berth.apply(copy.deepcopy(self.daemon_set))
        try:
            return wait_for(f"{image} to {action}", lambda: self._ready_pod(image, action))
        except Failure as failure:
            described = self.berth.run("describe", "pods", "-n", NAMESPACE, check=False).stdout
            raise Failure(f"{failure}\n{described}\n{self.berth.log_tail()}") from None

    def pods(self):
        return [p for p in self.berth.items("pods", NAMESPACE) if p["metadata"].get("labels", {}).get("app") == "flex-deploy"]

    def _ready_pod(self, image, action):
        for pod in self.pods():
            [container] = pod["spec"]["containers"]
            ready = objects.is_ready(pod)
            if ready and container["image"] == image and container["args"] == action.split():
                return pod
        return None

    def delete(self):
        self.berth.run("delete", "daemonset", "flex-deploy", "-n", NAMESPACE, "--ignore-not-found", "--wait=false")
        wait_for("the pods of the DaemonSet to be gone", lambda: not self.pods())
