"""Flows of Flexvolume drivers that are installed, updated and removed while their volumes are used."""
import os
import shutil

from data import check, stay, write
from lib import objects
from lib.standalone import ROOT

IMAGES = (ROOT / "examples" / "flexvolume" / "images" / "images").read_bytes()
FOLDERS = ROOT / "build" / "bin" / "folders"


def install(s, driver, content):
    """Installs a driver as an installer does: under a name with a dot, and then by one rename."""
    folder = s.berth.data / "volume-plugins" / f"example.com~{driver}"
    folder.mkdir(parents=True, exist_ok=True)
    copy = folder / f".{driver}"
    copy.write_bytes(content)
    copy.chmod(0o755)
    copy.rename(folder / driver)


def remove(s, driver):
    shutil.rmtree(s.berth.data / "volume-plugins" / f"example.com~{driver}")


def copies(s):
    """Gives the node's copies of drivers. It ignores the controllers' copies, which are removed at their next scan."""
    store = s.berth.data / "kubelet" / "plugins" / "kubernetes.io" / "flexvolume"
    return [file for _, _, files in os.walk(store) for file in files if file in ("images", "folders")]


def volume(backing):
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "images"},
            "spec": {"capacity": {"storage": "320Mi"}, "accessModes": ["ReadWriteOnce"], "storageClassName": "growing",
                     "persistentVolumeReclaimPolicy": "Retain", "claimRef": {"namespace": "default", "name": "data"},
                     "flexVolume": {"driver": "example.com/images", "fsType": "xfs",
                                    "options": {"folder": str(backing), "size": "320M"}}}}


def ask_to_grow(s, size):
    s.done("the claim to ask for more", lambda: s.api.patch(
        "persistentvolumeclaims", "data", {"spec": {"resources": {"requests": {"storage": size}}}}))


def await_growth(s, size):
    s.step("the claim to have grown", lambda: s.api.get("persistentvolumeclaims", "data")["status"].get(
        "capacity", {}).get("storage") == size)


def grow(s, size):
    ask_to_grow(s, size)
    await_growth(s, size)


def attached(s, backing):
    """Uses a driver that attaches. It gets a new version while the volume is mounted, and is then removed."""
    install(s, "images", IMAGES)
    s.create(objects.storage_class("growing", provisioner="kubernetes.io/no-provisioner", binding="Immediate"))
    s.create(volume(backing))
    s.create(objects.claim("data", storage="8Mi", storage_class="growing", volumeName="images"))
    s.running(objects.pod("writer", stay(write("/data")), ["data"]))
    install(s, "images", IMAGES + b"# version 2\n")
    grow(s, "336Mi")
    s.gone("pods", "writer")
    s.step("the volume to be detached", lambda: not s.api.items("volumeattachments"))
    s.running(objects.pod("reader", stay(check("/data")), ["data"]))
    remove(s, "images")
    s.gone("pods", "reader")
    s.gone("persistentvolumeclaims", "data")
    s.gone("persistentvolumes", "images")
    s.nothing_left()
    s.gone("storageclasses", "growing")


def inline(s, backing):
    """Uses a driver that does not attach. It is removed while its volume is used."""
    install(s, "folders", FOLDERS.read_bytes())
    source = {"name": "data", "flexVolume": {"driver": "example.com/folders", "options": {"folder": str(backing)}}}
    mounted = [{"name": "data", "mountPath": "/data"}]
    s.running(objects.pod("writer", stay(write("/data")), volumes=[source], mounts=mounted))
    remove(s, "folders")
    s.gone("pods", "writer")
    s.quiet()
    install(s, "folders", FOLDERS.read_bytes())
    s.run(objects.pod("reader", check("/data"), volumes=[source], mounts=mounted))
    s.gone("pods", "reader")
    remove(s, "folders")


def flex(s):
    """Runs both flows, one after the other."""
    backing = s.berth.folder / "images"
    backing.mkdir(exist_ok=True)
    attached(s, backing)
    inline(s, backing)
    s.step("the copies of the drivers to be gone", lambda: not copies(s))
    shutil.rmtree(backing)
