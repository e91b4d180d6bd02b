"""Imports the images that Berth's own manifests name into the tests' containerd."""
import subprocess

from lib.standalone import ROOT


def import_into(runtime_socket, kind, archive):
    """`kind` is a kind of tools/pod_image, which makes the image at the path `archive`."""
    subprocess.run([ROOT / "tools" / "pod_image", kind, archive], check=True, timeout=300)
    subprocess.run(["ctr", "--address", runtime_socket, "-n", "k8s.io", "images", "import", archive],
                   check=True, capture_output=True, timeout=120)
    archive.unlink()
