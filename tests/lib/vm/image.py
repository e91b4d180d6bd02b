"""Makes the guest's root file system and initramfs from the host's programs and Debian's kernel.

The root image is an ext4 image of the programs named here, the shared libraries that they need, busybox for the
rest, and all modules of the kernel. Each boot writes to a throw-away overlay of it. The image is kept in build/vm
and made anew when one of its files has changed.
"""
import fcntl
import functools
import hashlib
import os
import pathlib
import re
import shutil
import subprocess

from . import packages

ROOT = packages.ROOT
FOLDER = ROOT / "build" / "vm"
HERE = pathlib.Path(__file__).resolve().parent
BUILT = (ROOT / "build" / "bin").resolve()

# A test that needs another program adds it here. Programs that are missing on the host are left out.
PROGRAMS = """
mke2fs mkfs.ext4 e2fsck fsck.ext4 resize2fs tune2fs dumpe2fs
mkfs.xfs fsck.xfs xfs_repair xfs_growfs xfs_admin xfs_db xfs_io
mkfs.btrfs fsck.btrfs btrfs btrfstune
dash sync timeout setsid dmsetup mount umount findmnt losetup blkid mkswap fsfreeze modprobe nbdkit
containerd containerd-shim-runc-v2 ctr runc
""".split()
# Libraries that programs load by name, so that ldd does not find them.
FILES = ["/usr/lib/x86_64-linux-gnu/nbdkit/plugins/nbdkit-file-plugin.so", "/etc/netconfig"]
# From the build: Berth, and the tests that need a machine of their own. Each machine unpacks all of it when it begins, so what no test of
# tests/vm runs is left out.
BUILT_PATTERNS = ("berth", "berth-export", "berth-flex", "berth-rbd", "berth-shim", "berth_platform_root_test",
                  "berth_volume_remote_root_test", "*_vm_test")

FOLDERS = ("proc", "sys", "dev", "run", "tmp", "root", "work", "mnt", "etc", "usr/bin", "usr/sbin", "usr/lib",
           "usr/lib64", "usr/local/bin", "var/lib/nfs", "var/tmp")
ETC = {
    "passwd": "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n",
    "group": "root:x:0:\nnogroup:x:65534:\n",
    "hosts": "127.0.0.1 localhost vm\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
    "services": "nfs 2049/tcp\nsunrpc 111/tcp\n",
    "protocols": "ip 0 IP\ntcp 6 TCP\nudp 17 UDP\n",
}
EARLY_MODULES = ("virtio_mmio", "virtio_blk", "virtio_console")


def _run(*command, **options):
    result = subprocess.run([str(part) for part in command], capture_output=True, text=True, **options)
    if result.returncode != 0:
        raise RuntimeError(f"{command[0]}: {result.stderr or result.stdout}")
    return result.stdout


def libraries(programs, environment=None):
    """Gives the shared libraries of all programs, by the paths at which the loader looks for them."""
    listing = subprocess.run(["ldd", *programs], capture_output=True, text=True, env=environment).stdout
    missing = re.findall(r"(\S+) => not found", listing)
    if missing:
        raise RuntimeError(f"libraries are missing on this machine, run ./dev setup: {' '.join(sorted(set(missing)))}")
    return sorted(set(re.findall(r"(/\S+) \(0x", listing)))


def _in_usr(path):
    """Gives the path in an image whose /bin, /sbin, /lib and /lib64 are links to those in /usr."""
    return path if path.startswith(("/usr/", "/etc/")) else f"/usr{path}"


def contents():
    """path in the image → file of the host."""
    found = {}
    for name in PROGRAMS:
        path = shutil.which(name)
        if path:
            found[_in_usr(path)] = path
    for path in packages.programs():
        found[f"/usr/sbin/{path.name}"] = str(path)
    for pattern in BUILT_PATTERNS:
        for path in BUILT.glob(pattern):
            found[f"/usr/local/bin/{path.name}"] = str(path)
    found |= {path: path for path in FILES if os.path.exists(path)}
    programs = [path for path in found.values() if os.access(path, os.X_OK) or path.endswith(".so")]
    found |= {_in_usr(path): path for path in libraries(programs)}
    found["/usr/bin/busybox"] = "/bin/busybox"
    found["/usr/sbin/init"] = str(HERE / "init")
    return found


def _key(found, modules):
    """Gives a digest that changes whenever the image would."""
    text = pathlib.Path(__file__).read_text() + str(modules)
    for path, source in sorted(found.items()):
        status = os.stat(source)
        text += f"{path} {source} {status.st_size} {status.st_mtime_ns}\n"
    return hashlib.sha256(text.encode()).hexdigest()


def _fill(folder, found, modules):
    for name in FOLDERS:
        (folder / name).mkdir(parents=True, exist_ok=True)
    for name in ("bin", "sbin", "lib", "lib64"):
        (folder / name).symlink_to(f"usr/{name}")
    for name, text in ETC.items():
        (folder / "etc" / name).write_text(text)
    (folder / "etc" / "mtab").symlink_to("/proc/self/mounts")
    for path, source in found.items():
        target = folder / path.lstrip("/")
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.startswith(str(BUILT)):
            _run("strip", "--strip-all", "-o", target, source)  # a tenth of the size
        else:
            shutil.copy(source, target)
        target.chmod(0o755)
    (folder / "usr" / "bin" / "sh").symlink_to("dash")  # busybox's shell would prefer its own mount to the real one
    for applet in _run("/bin/busybox", "--list").split():
        if not any((folder / "usr" / place / applet).exists() for place in ("bin", "sbin")):
            (folder / "usr" / "bin" / applet).symlink_to("busybox")
    shutil.copytree(modules, folder / "lib" / "modules" / modules.name, symlinks=True)


@functools.cache
def root_image():
    """Gives the path of the root image, and makes the image if it is missing or old. A process looks once, because that
    takes half a second of processor time."""
    found = contents()
    _, modules = packages.kernel()
    FOLDER.mkdir(parents=True, exist_ok=True)
    with open(FOLDER / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # another machine may be starting at the same time
        image = FOLDER / f"root-{_key(found, modules)[:16]}.img"
        if not image.exists():
            _make_image(image, found, modules)
    return image


def _make_image(image, found, modules):
    for old in FOLDER.glob("root-*"):
        shutil.rmtree(old) if old.is_dir() else old.unlink()
    folder = FOLDER / "root-folder"
    folder.mkdir()
    _fill(folder, found, modules)
    size = sum(path.lstat().st_size for path in folder.rglob("*")) * 5 // 4 + (256 << 20)
    making = FOLDER / "root-making"
    _run("mke2fs", "-q", "-t", "ext4", "-O", "^has_journal", "-m", "0", "-d", folder, making, f"{size >> 10}k")
    shutil.rmtree(folder)
    making.rename(image)


def _module_order(modules):
    """Gives the files of the modules that are loaded early, after those that they need."""
    needs = {}
    for line in (modules / "modules.dep").read_text().splitlines():
        path, _, rest = line.partition(":")
        needs[path] = rest.split()
    by_name = {pathlib.Path(path).stem.replace("-", "_"): path for path in needs}
    order = []

    def add(path):
        for need in needs[path]:
            add(need)
        if path not in order:
            order.append(path)

    for name in EARLY_MODULES:
        add(by_name[name])
    return [modules / path for path in order]


def _archive(folder, path):
    names = "\n".join(sorted(str(p.relative_to(folder)) for p in folder.rglob("*")))
    with open(path, "wb") as out:
        subprocess.run(["/bin/busybox", "cpio", "-o", "-H", "newc"], cwd=folder, input=names.encode(), stdout=out,
                       stderr=subprocess.DEVNULL, check=True)


def initramfs(folder, files):
    """Writes the initramfs of one boot into `folder`; `files` (name → text or path) appear in the guest's /work."""
    _, modules = packages.kernel()
    tree = pathlib.Path(folder) / "initramfs"
    shutil.rmtree(tree, ignore_errors=True)
    for name in ("bin", "proc", "sys", "dev", "root", "modules", "work"):
        (tree / name).mkdir(parents=True)
    shutil.copy("/bin/busybox", tree / "bin" / "busybox")
    shutil.copy(HERE / "stage1", tree / "init")
    (tree / "init").chmod(0o755)
    order = _module_order(modules)
    for path in order:
        shutil.copy(path, tree / "modules" / path.name)
    (tree / "modules" / "order").write_text("".join(f"{path.name}\n" for path in order))
    for name, content in files.items():
        if isinstance(content, pathlib.Path):
            shutil.copy(content, tree / "work" / name)
        else:
            (tree / "work" / name).write_text(content)
    archive = pathlib.Path(folder) / "initramfs.cpio"
    _archive(tree, archive)
    shutil.rmtree(tree)
    return archive
