"""Makes root file systems from Debian's packages, without a registry, a daemon or root's apt. Installed packages are
copied by dpkg's lists; other packages are fetched and unpacked below build/packages; ldd finds the libraries that
their programs load. Nothing is installed on the host.

The result depends only on the packages' versions, because every file has the same time and owner.
"""
import contextlib
import hashlib
import os
import pathlib
import re
import shutil
import subprocess
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGES = ROOT / "build" / "packages"
INFO = pathlib.Path("/var/lib/dpkg/info")
# These are left out. Nobody reads documentation in a container, and no mount utility is a Python program.
# (GlusterFS's geo-replication is one, and has to be left out with python3, or glusterd does not start.) PostgreSQL
# does not compile queries where LLVM is missing.
LEFT_OUT = re.compile(r"/usr/(share/(doc|man|info|locale|lintian|bash-completion|emacs|initramfs-tools|xfsprogs|i18n)/"
                      r"|include/|lib/python|lib/gcc|lib/systemd|lib/ocf|lib/.*/pkgconfig/|lib/.*/glusterfs/(gsyncd$|python/)|lib/postgresql/.*/(bitcode/|llvmjit))|/etc/init.d/|/lib/systemd/")
# Debian 12 is one tree: these are links into /usr.
MERGED = ("bin", "sbin", "lib", "lib64")


class Missing(Exception):
    """A package could not be fetched."""


def names_in(file):
    """Gives the packages of a list with one package on a line; lines that begin with # are comments."""
    return [line for line in file.read_text().splitlines() if line and not line.startswith("#")]


def _installed(name):
    lists = [INFO / f"{name}.list", *INFO.glob(f"{name}:*.list")]
    return next((path for path in lists if path.exists()), None)


def _needs(names):
    """Gives {package: version} of the packages and of those dependencies that are not installed here. The answer is
    kept in a file, because apt takes a second to give it."""
    names = sorted(names)
    installed = {name: _installed_version(name) for name in names if _installed(name)}
    absent = [name for name in names if name not in installed]
    if not absent:
        return installed
    known = PACKAGES / f".needs-{hashlib.sha256(' '.join(absent).encode()).hexdigest()[:16]}"
    if not known.exists():
        # The cache is empty, because apt prints no address for packages that are in its own cache.
        with tempfile.TemporaryDirectory() as cache:
            os.mkdir(f"{cache}/partial")
            result = subprocess.run(["apt-get", "install", "--print-uris", "-qq", "--no-install-recommends", "-o",
                                     f"Dir::Cache::Archives={cache}", *absent], capture_output=True, text=True)
        if result.returncode != 0:
            raise Missing(f"apt knows no {' '.join(absent)}: did 'apt-get update' run? {result.stderr.strip()}")
        archives = re.findall(r"^'\S+' (\S+?)_(\S+)_\S+\.deb ", result.stdout, re.MULTILINE)
        PACKAGES.mkdir(parents=True, exist_ok=True)
        known.write_text("".join(f"{name} {version}\n" for name, version in archives if not name.startswith("python3")))
    needed = dict(line.split() for line in known.read_text().splitlines())
    return installed | {name: version for name, version in needed.items() if not _installed(name)}


def _installed_version(name):
    return subprocess.check_output(["dpkg-query", "-W", "-f", "${Version}\n", name], text=True).split()[0]


def versions(names):
    """Gives the packages' versions, on which alone a root depends."""
    return [f"{name}={version}" for name, version in sorted(_needs(names).items())]


def fetch(names):
    """Fetches packages that are not installed and unpacks them below build/packages, as tools/debian_package does,
    but all at once."""
    absent = [name for name in _needs(names) if not _installed(name) and not (PACKAGES / name / "usr").is_dir()]
    if not absent:
        return
    with tempfile.TemporaryDirectory(dir=PACKAGES) as folder:
        # As root apt would drop to a user who may not write here.
        result = subprocess.run(["apt-get", "download", "-qq", "-o", "APT::Sandbox::User=root", *absent],
                                cwd=folder, capture_output=True, text=True)
        if result.returncode != 0:
            raise Missing(f"{' '.join(absent)} could not be fetched: is there a network? {result.stderr.strip()}")
        for archive in pathlib.Path(folder).glob("*.deb"):
            name = archive.name.partition("_")[0]
            subprocess.run(["dpkg-deb", "-x", archive, f"{folder}/{name}"], check=True)
            shutil.rmtree(PACKAGES / name, ignore_errors=True)
            os.rename(f"{folder}/{name}", PACKAGES / name)


def _place(path):
    """Gives the path in the root of a package's path: /bin/sh is /usr/bin/sh."""
    parts = pathlib.PurePosixPath(path).parts[1:]
    return pathlib.Path("usr", *parts) if parts and parts[0] in MERGED else pathlib.Path(*parts)


def _copy(source, root, path):
    target = root / _place(path)
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.is_symlink() or target.exists():
        return target
    if source.is_symlink():
        target.symlink_to(os.readlink(source))
    elif source.is_dir():
        target.mkdir(exist_ok=True)
    else:
        shutil.copy2(source, target)
    return target


def _files(name):
    """Gives (file on this host, its path in the package) for each file of a package."""
    listing = _installed(name)
    if listing:
        for line in listing.read_text().splitlines():
            yield pathlib.Path(line), line
        return
    folder = PACKAGES / name
    for path in sorted(folder.rglob("*")):
        yield path, f"/{path.relative_to(folder)}"


def _is_elf(path):
    if path.is_symlink() or not path.is_file():
        return False
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def _add_libraries(root):
    """Copies libraries from this host that programs load and that no package of the list brought."""
    library_folders = [root / "usr/lib/x86_64-linux-gnu", root / "usr/lib"]
    # Programs know their package's own libraries by an absolute path, which is another one here.
    library_folders += sorted({path.parent for path in library_folders[0].glob("*/lib*.so.[0-9]*")})
    search = ":".join(str(folder) for folder in library_folders)
    objects = [path for path in sorted(root.rglob("*")) if _is_elf(path)]
    said = subprocess.run(["ldd", *objects], capture_output=True, text=True,
                          env=os.environ | {"LD_LIBRARY_PATH": search}).stdout
    missing = sorted(set(re.findall(r"^\t(\S+) => not found$", said, re.MULTILINE)))
    if missing:
        raise Missing(f"nothing brings {', '.join(missing)}")
    for library in sorted(set(re.findall(r"(/\S+) \(0x", said))):
        if not library.startswith(f"{root}/"):
            target = root / _place(library)
            if not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(os.path.realpath(library), target)


def assemble(names, root):
    """Fills the folder `root` with the packages and all that their programs load."""
    root = pathlib.Path(root)
    for top in MERGED:
        (root / "usr" / top).mkdir(parents=True, exist_ok=True)
        (root / top).symlink_to(f"usr/{top}")
    for folder, mode in (("tmp", 0o1777), ("run", 0o755), ("proc", 0o755), ("sys", 0o755), ("dev", 0o755),
                         ("root", 0o700), ("etc", 0o755), ("srv", 0o755), ("var/lib/glusterd", 0o755), ("var/log", 0o755), ("var/tmp", 0o1777)):
        (root / folder).mkdir(parents=True, exist_ok=True)
        (root / folder).chmod(mode)
    (root / "var/run").symlink_to("/run")
    (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534::/:/usr/sbin/nologin\n")
    (root / "etc/group").write_text("root:x:0:\nnogroup:x:65534:\n")
    (root / "etc/nsswitch.conf").write_text("passwd: files\ngroup: files\nhosts: files dns\nservices: files\n")
    fetch(names)
    for name in sorted(_needs(names)):
        for source, path in _files(name):
            if path == "/." or LEFT_OUT.search(path) or not os.path.lexists(source):
                continue
            _copy(source, root, path)
    if (root / "usr/bin/dash").exists() and not (root / "usr/bin/sh").exists():
        (root / "usr/bin/sh").symlink_to("dash")
    if (root / "usr/bin/mawk").exists() and not (root / "usr/bin/awk").exists():
        (root / "usr/bin/awk").symlink_to("mawk")  # Debian's alternatives make this link at installation
    _add_libraries(root)


def pack(root, archive):
    """Packs the folder into a tar that depends only on its content."""
    def plain(entry):
        entry.mtime, entry.uid, entry.gid, entry.uname, entry.gname = 0, 0, 0, "", ""
        return entry
    with tarfile.open(archive, "w", format=tarfile.GNU_FORMAT) as out:
        for path in sorted(pathlib.Path(root).rglob("*")):
            out.add(path, str(path.relative_to(root)), recursive=False, filter=plain)


def cached(names):
    """Gives the folder of such a root, which is made once for these versions. Nobody may write into it."""
    key = hashlib.sha256("\n".join([*versions(names), pathlib.Path(__file__).read_text()]).encode()).hexdigest()[:16]
    folder = ROOT / "build" / "roots" / key
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as made:
            assemble(names, pathlib.Path(made) / "root")
            with contextlib.suppress(OSError):  # another process was first
                os.rename(pathlib.Path(made) / "root", folder)
    return folder
