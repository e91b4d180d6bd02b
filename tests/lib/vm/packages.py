"""Fetches the guest's kernel from Debian, and those of its programs that should not be installed on a host because
they would start services, and unpacks them below build/packages."""
import pathlib
import re
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[3]
PACKAGES = ROOT / "build" / "packages"
META = "linux-image-cloud-amd64"
FETCHED = {
    "nfs-kernel-server": ("usr/sbin/rpc.nfsd", "usr/sbin/rpc.mountd", "usr/sbin/exportfs"),
    "nfs-common": ("sbin/mount.nfs",),
    "rpcbind": ("sbin/rpcbind",),
    "nbd-client": ("sbin/nbd-client",),
}


class Missing(Exception):
    """Something could not be fetched."""


def _debian_package(name, file):
    result = subprocess.run([ROOT / "tools" / "debian_package", name, file], capture_output=True, text=True)
    if result.returncode != 0:
        raise Missing(result.stderr.strip() or f"'{name}' could not be fetched")
    return pathlib.Path(result.stdout.strip())


def _kernel_package():
    """Gives the name of the package with the kernel itself. A kernel that was fetched before is good enough."""
    here = sorted(PACKAGES.glob("linux-image-*-cloud-amd64/boot/vmlinuz-*"), key=lambda path: path.stat().st_mtime)
    if here:
        return here[-1].parents[1].name
    depends = subprocess.run(["apt-cache", "depends", META], capture_output=True, text=True).stdout
    found = re.search(r"Depends: (linux-image-\S+)", depends)
    if not found:
        raise Missing(f"apt knows no '{META}': did 'apt-get update' run?")
    return found[1]


def kernel():
    """Gives (vmlinuz, modules folder such as .../lib/modules/6.1.0-56-cloud-amd64)."""
    name = _kernel_package()
    release = name.removeprefix("linux-image-")
    vmlinuz = _debian_package(name, f"boot/vmlinuz-{release}")
    modules = vmlinuz.parents[1] / "lib" / "modules" / release
    if not (modules / "modules.dep.bin").exists():
        # Debian makes this file when the package is installed.
        subprocess.run(["/sbin/depmod", "-b", vmlinuz.parents[1], release], check=True)
    return vmlinuz, modules


def programs():
    """Gives the fetched programs."""
    return [_debian_package(name, file) for name, files in FETCHED.items() for file in files]
