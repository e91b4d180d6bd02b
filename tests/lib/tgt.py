"""A real iSCSI target for one test: tgtd of Debian's package tgt, which needs no kernel module. It is not installed: its
packages are fetched and unpacked. It listens on the loopback interface, and has a control socket of its own, so that
several run beside each other and beside the machine's.
"""
import os
import pathlib
import signal
import socket
import subprocess

from lib.standalone import ROOT, Failure, wait_for

LIBRARIES = "usr/lib/x86_64-linux-gnu"
# One file of each package, which proves that the package is there.
PACKAGES = {
    "tgt": "usr/sbin/tgtd",
    "libaio1": f"{LIBRARIES}/libaio.so.1",
    "libibverbs1": f"{LIBRARIES}/libibverbs.so.1",
    "librdmacm1": f"{LIBRARIES}/librdmacm.so.1",
    "libnl-3-200": "lib/x86_64-linux-gnu/libnl-3.so.200",
    "libnl-route-3-200": f"{LIBRARIES}/libnl-route-3.so.200",
}
TARGET = "iqn.2003-01.org.example:berth"
MIB = 1024 * 1024


class Missing(Exception):
    """A package could not be fetched."""


def unpacked():
    """Gives {package: the folder that it is unpacked in}."""
    folders = {}
    for name, file in PACKAGES.items():
        result = subprocess.run([ROOT / "tools" / "debian_package", name, file], capture_output=True, text=True)
        if result.returncode != 0:
            raise Missing(result.stderr.strip())
        folders[name] = result.stdout.strip().removesuffix(f"/{file}")
    return folders


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Tgt:
    """A target TARGET with LUNs whose data are files of `folder`: LUN 1 is `folder`/lun1, and so on."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self.portal = f"127.0.0.1:{self.port}"
        self.process = None
        self.luns = {}  # number: parameters
        self.accounts = []
        folders = unpacked()
        self.programs = f"{folders['tgt']}/usr/sbin"
        libraries = [f"{folder}/{place}" for folder in sorted(set(folders.values())) if folder
                     for place in (LIBRARIES, "lib/x86_64-linux-gnu")]
        self.environment = os.environ | {"TGT_IPC_SOCKET": str(self.folder / "control"),
                                         "LD_LIBRARY_PATH": ":".join(libraries)}

    def start(self):
        with open(self.folder / "tgtd.log", "ab") as log:
            self.process = subprocess.Popen(
                [f"{self.programs}/tgtd", "--foreground", "--control-port", "0", "--iscsi", f"portal={self.portal}"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=self.environment)
        wait_for("tgtd", lambda: self._lives() and self._tgtadm("--op", "show", "--mode", "system").returncode == 0)
        self.adm("--op", "new", "--mode", "target", "--tid", 1, "--targetname", TARGET)
        for lun in self.luns:
            self._attach(lun)
        for user, password in self.accounts:
            self._account(user, password)
        self.adm("--op", "bind", "--mode", "target", "--tid", 1, "--initiator-address", "ALL")
        return self

    def _lives(self):
        if self.process.poll() is not None:
            raise Failure(f"tgtd ended: {(self.folder / 'tgtd.log').read_text()}")
        return True

    def _tgtadm(self, *arguments):
        return subprocess.run([f"{self.programs}/tgtadm", "--control-port", "0", "--lld", "iscsi", *map(str, arguments)],
                              capture_output=True, text=True, timeout=30, env=self.environment)

    def adm(self, *arguments):
        result = self._tgtadm(*arguments)
        if result.returncode != 0:
            raise Failure(f"tgtadm {' '.join(map(str, arguments))}: {result.stdout}{result.stderr}")
        return result.stdout

    # -- LUNs

    def file(self, lun):
        return self.folder / f"lun{lun}"

    def add(self, lun, size=16 * MIB, block=512, serial=None, thin=False):
        """Adds a LUN of zeroes."""
        self.luns[lun] = {"block": block, "serial": serial or f"berth{lun}", "thin": thin}
        with open(self.file(lun), "wb") as data:
            data.truncate(size)
        if self.process is not None:
            self._attach(lun)
        return self

    def _attach(self, lun):
        of = self.luns[lun]
        self.adm("--op", "new", "--mode", "logicalunit", "--tid", 1, "--lun", lun, "--backing-store", self.file(lun),
                 "--blocksize", of["block"])
        self.adm("--op", "update", "--mode", "logicalunit", "--tid", 1, "--lun", lun, "--params",
                 f"scsi_sn={of['serial']},thin_provisioning={int(of['thin'])}")

    def grow(self, lun, size):
        """tgtd looks at a file's size only when it opens the file."""
        os.truncate(self.file(lun), size)
        for parameter in ("online=0", f"path={self.file(lun)}"):
            self.adm("--op", "update", "--mode", "logicalunit", "--tid", 1, "--lun", lun, "--params", parameter)

    def data(self, lun):
        return self.file(lun).read_bytes()

    # -- access

    def require_chap(self, user, password):
        self.accounts.append((user, password))
        self._account(user, password)

    def _account(self, user, password):
        self.adm("--op", "new", "--mode", "account", "--user", user, "--password", password)
        self.adm("--op", "bind", "--mode", "account", "--tid", 1, "--user", user)

    # -- death

    def kill(self):
        self.process.send_signal(signal.SIGCONT)
        self.process.kill()
        self.process.wait()
        self.process = None
        for path in self.folder.glob("control*"):
            path.unlink()

    def stop(self):
        if self.process is not None:
            self.kill()
