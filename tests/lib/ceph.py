"""A real Ceph cluster for tests: a monitor, an object store in memory and a metadata server. They have network,
mount and process namespaces of their own; one end of a veth pair is on the host as long as the cluster lives. Nothing
is installed on the host: 36 MB of packages are fetched and unpacked, as for the virtual machine.
"""
import base64
import contextlib
import json
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import uuid

from lib.mounts import let_go_of_others, wait_unshared
from lib.standalone import ROOT, Failure, wait_for
from lib.veth import Veth

LIBRARIES = "usr/lib/x86_64-linux-gnu"
BINDING = "usr/lib/python3/dist-packages/rados.cpython-311-x86_64-linux-gnu.so"
RBD_BINDING = "usr/lib/python3/dist-packages/rbd.cpython-311-x86_64-linux-gnu.so"
# One file of each package, which proves that the package is there.
PACKAGES = {
    "ceph-base": f"{LIBRARIES}/rados-classes/libcls_cephfs.so",
    "ceph-mon": "usr/bin/ceph-mon",
    "ceph-osd": "usr/bin/ceph-osd",
    "ceph-mds": "usr/bin/ceph-mds",
    "ceph-fuse": "usr/bin/ceph-fuse",
    "librados2": f"{LIBRARIES}/ceph/libceph-common.so.2",
    "librbd1": f"{LIBRARIES}/librbd.so.1",
    "libfuse2": "lib/x86_64-linux-gnu/libfuse.so.2",
    "libboost-thread1.74.0": f"{LIBRARIES}/libboost_thread.so.1.74.0",
    "libboost-iostreams1.74.0": f"{LIBRARIES}/libboost_iostreams.so.1.74.0",
    "libboost-program-options1.74.0": f"{LIBRARIES}/libboost_program_options.so.1.74.0",
    "libgoogle-perftools4": f"{LIBRARIES}/libtcmalloc.so.4",
    "libtcmalloc-minimal4": f"{LIBRARIES}/libtcmalloc_minimal.so.4",
    "libleveldb1d": f"{LIBRARIES}/libleveldb.so.1d",
    "liblua5.3-0": f"{LIBRARIES}/liblua5.3.so.0",
    "libsnappy1v5": f"{LIBRARIES}/libsnappy.so.1",
    "python3-rados": BINDING,
    "python3-rbd": RBD_BINDING,
}
# What a manager needs beside them. Its module "volumes" makes the subvolumes that CSI drivers ask for.
PYTHON = "usr/lib/python3/dist-packages"
MANAGER_PACKAGES = {
    "ceph-mgr": "usr/bin/ceph-mgr",
    "ceph-mgr-modules-core": "usr/share/ceph/mgr/volumes/__init__.py",
    "libboost-python1.74.0": f"{LIBRARIES}/libboost_python311.so.1.74.0",
    "libpython3.11": f"{LIBRARIES}/libpython3.11.so.1.0",
    "libcephfs2": f"{LIBRARIES}/libcephfs.so.2",
    "python3-cephfs": f"{PYTHON}/cephfs.cpython-311-x86_64-linux-gnu.so",
    "python3-ceph-common": f"{PYTHON}/ceph/__init__.py",
    "python3-ceph-argparse": f"{PYTHON}/ceph_argparse.py",
    "python3-prettytable": f"{PYTHON}/prettytable/__init__.py",
    "python3-wcwidth": f"{PYTHON}/wcwidth/__init__.py",
    "python3-openssl": f"{PYTHON}/OpenSSL/__init__.py",
    "python3-dateutil": f"{PYTHON}/dateutil/__init__.py",
    "python3-six": f"{PYTHON}/six.py",
    "python3-yaml": f"{PYTHON}/yaml/__init__.py",
}
# The capabilities of each user whose key the monitor begins with.
CAPABILITIES = {
    "mon.": {"mon": "allow *"},
    "client.admin": {"mon": "allow *", "osd": "allow *", "mds": "allow *", "mgr": "allow *"},
    "osd.0": {"mon": "allow profile osd", "osd": "allow *"},
    "mds.a": {"mon": "allow profile mds", "osd": "allow *", "mds": "allow *"},
    "mgr.a": {"mon": "allow profile mgr", "osd": "allow *", "mds": "allow *"},
}

# Run as PID 1 of the namespaces. $1: the real ceph-fuse; $2: the cluster's folder; $3: the cluster's address, which is
# set up when the file `go` appears.
START = r"""
set -e
ip link set lo up
while ! [ -e "$2/go" ]; do sleep 0.05; done
# Where utilities are looked for; it finds its libraries by itself.
mount -t tmpfs tmpfs /usr/local/sbin
printf '#!/bin/sh\nexec env LD_LIBRARY_PATH=%s %s "$@"\n' "$LD_LIBRARY_PATH" "$1" >/usr/local/sbin/ceph-fuse
chmod 755 /usr/local/sbin/ceph-fuse
mount -t tmpfs tmpfs "$2/var"
mkdir "$2/var/mon" "$2/var/osd" "$2/var/mds" "$2/var/mgr" "$2/var/run"
cd "$2"
monmaptool --create --fsid "$FSID" --addv a "[v2:$3:3300,v1:$3:6789]" monmap
ceph-mon --mkfs -i a --monmap monmap --keyring keyring
ceph-mon -i a --public-addr "$3"
touch started
exec sleep infinity
"""

CONFIGURATION = """
[global]
fsid = {fsid}
mon host = [v2:{address}:3300,v1:{address}:6789]
mon initial members = a
auth cluster required = cephx
auth service required = cephx
auth client required = cephx
osd pool default size = 1
osd pool default min size = 1
osd crush chooseleaf type = 0
osd objectstore = memstore
osd client watch timeout = 15
memstore device bytes = 134217728
mon data avail crit = 1
keyring = {folder}/keyring
run dir = {folder}/var/run
admin socket = {folder}/var/run/$name.asok
log file = {folder}/$name.log
mon data = {folder}/var/mon
osd data = {folder}/var/osd
mds data = {folder}/var/mds
mgr data = {folder}/var/mgr
mgr module path = {modules}
osd class dir = {base}/rados-classes
erasure code dir = {base}/ceph/erasure-code
plugin dir = {base}/ceph
"""

# Run with the folder of the configuration, one command as JSON, and who gets it, "mon" or "mgr"; prints the answer.
ASK = """
import sys, rados
with rados.Rados(conffile=sys.argv[1] + "/ceph.conf", name="client.admin") as cluster:
    code, out, error = getattr(cluster, sys.argv[3] + "_command")(sys.argv[2], b"", timeout=30)
    print(out.decode())
    sys.exit(f"{sys.argv[2]}: {code} {error}" if code else 0)
"""


class Missing(Exception):
    """A package could not be fetched."""


def unpacked(packages):
    """Gives {package: the folder that it is unpacked in} for {package: a file of it}."""
    folders = {}
    for name, file in packages.items():
        result = subprocess.run([ROOT / "tools" / "debian_package", name, file], capture_output=True, text=True)
        if result.returncode != 0:
            raise Missing(result.stderr.strip())
        folders[name] = result.stdout.strip().removesuffix(f"/{file}")
    return folders


def _new_key():
    """Makes a key in Ceph's form: type AES, the time when it was made, 16 bytes."""
    return base64.b64encode(struct.pack("<HIIH", 1, 0, 0, 16) + os.urandom(16)).decode()


class CephCluster:
    """`manager`: the cluster has a manager, too."""

    def __init__(self, folder, manager=False):
        self.manager = manager
        self.folder = pathlib.Path(folder)
        (self.folder / "var").mkdir(parents=True)
        self.keys = {name: _new_key() for name in CAPABILITIES}
        self.environment = self.process = self.pid = None
        self.veth = Veth("bc")
        self.address = self.veth.address
        self.monitor = f"{self.address}:6789"

    def _configure(self):
        folders = unpacked(PACKAGES | (MANAGER_PACKAGES if self.manager else {}))
        fsid = str(uuid.uuid4())
        self.fuse = f"{folders['ceph-fuse']}/usr/bin/ceph-fuse"
        libraries = [f"{folder}/{place}" for folder in sorted(set(folders.values())) if folder
                     for place in (LIBRARIES, f"{LIBRARIES}/ceph", "lib/x86_64-linux-gnu")]
        programs = [f"{folder}/usr/bin" for folder in sorted(set(folders.values()))]
        self.environment = os.environ | {
            "PATH": ":".join([*programs, os.environ["PATH"]]), "LD_LIBRARY_PATH": ":".join(libraries), "FSID": fsid,
            "CEPH_CONF": str(self.folder / "ceph.conf"),
            "PYTHONPATH": ":".join([f"{folder}/{PYTHON}" for folder in sorted(set(folders.values())) if folder]
                                   # What all modules of a manager import.
                                   + [f"{folders.get('ceph-mgr', '')}/usr/share/ceph/mgr"])}
        base = f"{folders['ceph-base']}/{LIBRARIES}"
        (self.folder / "ceph.conf").write_text(
            CONFIGURATION.format(fsid=fsid, address=self.address, folder=self.folder, base=base,
                                 modules=f"{folders.get('ceph-mgr-modules-core', '')}/usr/share/ceph/mgr"))
        (self.folder / "keyring").write_text("".join(
            f"[{name}]\nkey = {self.keys[name]}\n" + "".join(f'caps {of} = "{what}"\n' for of, what in given.items())
            for name, given in CAPABILITIES.items()))

    def start(self):
        self._configure()
        with open(self.folder / "start.log", "wb") as log:
            self.process = subprocess.Popen(
                ["unshare", "--net", "--mount", "--propagation", "private", "--pid", "--fork", "--kill-child",
                 "--mount-proc", "sh", "-c", START, "sh", self.fuse, self.folder, self.address],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.environment)
        [child] = wait_for("the cluster's namespaces", lambda: self._lives() and pathlib.Path(
            f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split())
        self.pid = int(child)
        wait_unshared(self.pid)
        let_go_of_others(self.pid, own=self.folder)
        self.veth.connect(self.pid)
        (self.folder / "go").touch()
        wait_for("the monitor to start", lambda: self._lives() and (self.folder / "started").exists())
        self._serve()
        return self

    def _lives(self):
        if self.process.poll() is not None:
            raise Failure(f"the Ceph monitor did not start: {(self.folder / 'start.log').read_text()}")
        return True

    def _serve(self):
        self.start_object_store()
        self.start_file_system()
        if self.manager:
            self.start_manager()

    def start_object_store(self):
        osd = str(uuid.uuid4())
        self.ask('{"prefix": "osd new", "uuid": "%s", "id": 0}' % osd)
        self.inside("ceph-osd", "-i", "0", "--mkfs", "--osd-uuid", osd)
        self.inside("ceph-osd", "-i", "0", "--public-addr", self.address)

    def start_file_system(self):
        for pool in ("meta", "data"):
            self.ask('{"prefix": "osd pool create", "pool": "%s", "pg_num": 8}' % pool)
        self.ask('{"prefix": "fs new", "fs_name": "fs", "metadata": "meta", "data": "data"}')
        self.inside("ceph-mds", "-i", "a", "--public-addr", self.address)
        wait_for("the metadata server", lambda: "up:active" in self.ask('{"prefix": "mds stat"}'), interval=0.2)

    def start_manager(self):
        self.inside("ceph-mgr", "-i", "a", "--public-addr", self.address)
        wait_for("the manager", lambda: json.loads(self.ask('{"prefix": "mgr dump", "format": "json"}'))["available"], interval=0.2)

    def inside(self, *command, environment=None):
        """Runs a program in the cluster's namespaces, and returns its output."""
        result = subprocess.run(
            ["nsenter", "--target", str(self.pid), "--net", "--mount", "--pid", *map(str, command)],
            capture_output=True, text=True, timeout=120, env=environment or self.environment)
        if result.returncode != 0:
            raise Failure(f"{' '.join(map(str, command))}: {result.stdout}{result.stderr}")
        return result.stdout

    def ask(self, command, whom="mon"):
        """Gives the answer of the monitor, or of the manager, to a command in JSON."""
        return self.inside("/usr/bin/python3", "-c", ASK, self.folder, command, whom)

    def connect_network(self, inside=()):
        """Makes the cluster's address reachable from the network namespace of this process, or from that in which a command that
        begins with `inside` runs, beside the one in which the cluster was started. Gives the Veth, which ends with either
        namespace."""
        way = Veth("bc")
        way.connect(self.pid, link=way.link, inside=inside)
        subprocess.check_call([*inside, "ip", "route", "add", self.address, "via", way.address])
        return way

    def path_with_ceph_fuse(self):
        """Gives a PATH for a program of this machine that runs ceph-fuse."""
        script = self.folder / "bin" / "ceph-fuse"
        script.parent.mkdir(exist_ok=True)
        script.write_text(f"#!/bin/sh\nexec env LD_LIBRARY_PATH={self.environment['LD_LIBRARY_PATH']} {self.fuse} \"$@\"\n")
        script.chmod(0o755)
        return f"{script.parent}:{os.environ['PATH']}"

    def stop(self):
        if self.process is not None:
            if self.pid is not None:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(self.pid, signal.SIGKILL)
            self.process.kill()
            self.process.wait()
        self.veth.delete()
        shutil.rmtree(self.folder, ignore_errors=True)
