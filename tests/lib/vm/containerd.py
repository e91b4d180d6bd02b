"""What containerd.sh needs in the virtual machine: the images of pods, on a disk."""
import subprocess

from lib.standalone import IMAGE, ROOT

from .image import HERE

SCRIPT = HERE / "containerd.sh"


def make_images(folder, kinds):
    """Makes the images of test pods, of sandboxes, and of these kinds of mount pods, in FOLDER/images."""
    images = folder / "images"
    images.mkdir(parents=True)
    for name, command in ((IMAGE, ["/bin/sh"]), ("berth.local/pause:1", ["/bin/sleep", "2147483647"])):
        subprocess.run([ROOT / "tools" / "make_image", images / f"{command[0][5:]}.tar", name, *command], check=True)
    for kind in kinds:
        subprocess.run([ROOT / "tools" / "pod_image", kind, images / f"mount-{kind}.tar"], check=True)
