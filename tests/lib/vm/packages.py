"""Fetches the guest's kernel from Debian, and those of its programs that should not be installed on a host because
they would start services or are of use nowhere else, and unpacks them below build/packages."""
import functools
import os
import pathlib
import re
import struct
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[3]
PACKAGES = ROOT / "build" / "packages"
META = "linux-image-cloud-amd64"
LZ4_LEGACY = b"\x02\x21\x4c\x18"  # the first bytes of its format
FETCHED = {
    "nfs-kernel-server": ("usr/sbin/rpc.nfsd", "usr/sbin/rpc.mountd", "usr/sbin/exportfs"),
    "nfs-common": ("sbin/mount.nfs",),
    "rpcbind": ("sbin/rpcbind",),
    "nbd-client": ("sbin/nbd-client",),
    "secilc": ("usr/bin/secilc",),
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


def _unpack(vmlinuz):
    """Gives the kernel that is packed in a bzImage, as an ELF file beside it, because the guest's processor would take a
    second to unpack it. Gives the bzImage itself if it is not packed by LZ4."""
    vmlinux = vmlinuz.with_name(vmlinuz.name.replace("vmlinuz", "vmlinux"))
    if vmlinux.exists():
        return vmlinux
    image = vmlinuz.read_bytes()
    # The fields setup_sects, payload_offset and payload_length of the kernel's boot protocol.
    begin = (image[0x1F1] + 1) * 512 + struct.unpack_from("<I", image, 0x248)[0]
    end = begin + struct.unpack_from("<I", image, 0x24C)[0]
    if image[begin:begin + 4] != LZ4_LEGACY:
        return vmlinuz
    making = vmlinux.with_name(f"{vmlinux.name}.{os.getpid()}")
    with open(making, "wb") as out:
        # The last four bytes are the unpacked size, which is no part of the format.
        subprocess.run(["lz4", "-d", "-"], input=image[begin:end - 4], stdout=out, stderr=subprocess.DEVNULL, check=True)
    making.rename(vmlinux)
    return vmlinux


@functools.cache
def kernel():
    """Gives (kernel, modules folder such as .../lib/modules/6.1.0-56-cloud-amd64)."""
    name = _kernel_package()
    release = name.removeprefix("linux-image-")
    vmlinuz = _debian_package(name, f"boot/vmlinuz-{release}")
    modules = vmlinuz.parents[1] / "lib" / "modules" / release
    if not (modules / "modules.dep.bin").exists():
        # Debian makes this file when the package is installed.
        subprocess.run(["/sbin/depmod", "-b", vmlinuz.parents[1], release], check=True)
    return _unpack(vmlinuz), modules


def programs():
    """Gives the fetched programs."""
    return [_debian_package(name, file) for name, files in FETCHED.items() for file in files]
