"""Debian's PostgreSQL as an image, and what its programs are called there."""
import pathlib
import subprocess
import tempfile

from lib import debian_root
from lib.standalone import ROOT

PACKAGES = ["postgresql-15", "postgresql-client-15", "tzdata"]
IMAGE = "berth.local/postgres:1"
BIN = "/usr/lib/postgresql/15/bin"
# Its server refuses to run as root.
USER = 65534


def import_image(runtime_socket):
    """debian_root.Missing: the packages could not be fetched."""
    root = debian_root.cached(PACKAGES)
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        archive = pathlib.Path(folder) / "image.tar"
        subprocess.run([ROOT / "tools" / "make_image", *(word for part in ("usr", "lib", "lib64")
                                                         for word in ("--add", f"{root / part}=/{part}")),
                        archive, IMAGE], check=True)
        subprocess.run(["ctr", "--address", runtime_socket, "-n", "k8s.io", "images", "import", archive],
                       check=True, capture_output=True)
