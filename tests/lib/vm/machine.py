"""A virtual machine for tests: boots in about two seconds, runs a shell script as root with all capabilities, and
gives back its output and exit code.

    machine = Machine(folder)
    machine.add_disk("data", "64M")             # /dev/disk/data in the guest; keeps its content over boots
    machine.run("mkfs.ext4 -q /dev/disk/data")  # boots, runs, shuts down cleanly
    machine.run("...", cut=True)                # the power goes when the script ends
    machine.run("...", cut_at="written 100")    # the power goes when the script has said so
    with machine.running("...") as output:      # the power goes at the end of the block

Each run is a boot, with a boot id of its own. The processor is emulated (QEMU's TCG). KVM is not used, because it is
missing or hangs where tests run inside a virtual machine.
"""
import contextlib
import os
import pathlib
import queue
import re
import shutil
import subprocess
import threading
import time

from . import image, packages, tsc
from .disk import Disk

QEMU = "qemu-system-x86_64"
# The address by which a guest with add_host_network() reaches what listens at 127.0.0.1 of the host.
HOST = "10.0.2.2"
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
BEGIN = "\036begin\n"
EXIT = re.compile("\036exit (\\d+)\n")
# A boot takes some seconds. On a busy host a few boots hang for ever in the first steps of the emulated processors.
BOOT_SECONDS = 60
BOOTS = 4
# Only a script that hangs takes longer. Beside all other tests a script was seen to take seven times as long as alone.
SCRIPT_SECONDS = 600


class Failure(AssertionError):
    """A script failed, or the machine did not end in time."""


class Result:
    def __init__(self, code, output):
        self.code = code  # None: the power was cut before the script ended
        self.output = output

    def __repr__(self):
        return f"<exit {self.code}>\n{self.output}"


def bytes_of(size):
    """"64M" → 67108864."""
    return int(size[:-1]) * UNITS[size[-1]] if size[-1] in UNITS else int(size)


class Machine:
    def __init__(self, folder, echo=None, memory="1024M"):
        """`folder` is the machine's own and short: it holds UNIX sockets. `echo` is given output as it comes."""
        self.folder = pathlib.Path(folder)
        self.echo = echo
        self.memory = memory
        self.disks = {}
        self.networks = []  # (its address, the back end as QEMU's options)
        self.console = self.folder / "console.log"
        self.kernel_arguments = ""  # more of them, such as "security=selinux"
        self.files = {}  # name → text or pathlib.Path: in the guest's /work
        self._process = None  # QEMU, of the last boot

    def add_disk(self, name, size):
        self.disks[name] = Disk(self.folder, name, bytes_of(size))
        return self.disks[name]

    def add_cable(self, mac, own, other):
        """Adds a network device with this address, at one end of a cable to another machine. The ends are paths of
        sockets, `own` of this machine."""
        self.networks.append((mac, f"dgram,local.type=unix,local.path={own},remote.type=unix,remote.path={other}"))

    def add_host_network(self, network="10.0.2", forward=None):
        """Adds a network device for the address 10.0.2.15/24, by which the guest reaches the host as HOST. In another network the
        guest has its address 15, and the host is 2. `forward`: {port of 127.0.0.1 on the host: port of the guest}."""
        forwards = [f",hostfwd=tcp:127.0.0.1:{ours}-:{its}" for ours, its in (forward or {}).items()]
        self.networks.append(("52:54:00:ff:00:01", f"user,net={network}.0/24{''.join(forwards)}"))

    def close(self):
        for disk in self.disks.values():
            disk.close()

    def run(self, script, seconds=SCRIPT_SECONDS, cut=False, cut_at=None, keep=None, check=True):
        """Boots and runs a script. Without a cut the machine then shuts down, as `poweroff` does. With a cut
        everything that was not flushed to a disk is lost; `keep` is the seed by which some of it is kept.
        A Failure tells what the script and the console said."""
        process, output = self._begin(script, "cut" if cut or cut_at else "off")
        deadline = time.monotonic() + seconds
        try:
            end = output.wait(cut_at, deadline)
            if end == "silence":
                raise Failure(f"the machine did not end within {seconds} s{self._told(output)}")
            if cut or end == "cut" or not self.disks:  # without disks nothing could be lost
                process.kill()
            elif not _ends(process, deadline):
                raise Failure(f"the machine did not shut down within {seconds} s{self._told(output)}")
        finally:
            process.kill()
            process.wait()
        for disk in self.disks.values():
            disk.lose(keep)
        return self._result(output, end, cut_at, check)

    @contextlib.contextmanager
    def running(self, script):
        """Boots, and gives what tells the output of a script while the script runs. The power goes at the end of the block."""
        process, output = self._begin(script, "cut")
        try:
            yield output
        finally:
            process.kill()
            process.wait()
            for disk in self.disks.values():
                disk.lose()

    def _begin(self, script, end):
        """Gives a machine whose script has begun. A boot that does not come so far is tried again, because nothing
        was done until then."""
        for _ in range(BOOTS):
            process = self._boot(script, end)
            output = _Output(process.stdout, self.echo)
            try:
                if output.begins(time.monotonic() + BOOT_SECONDS):
                    return process, output
            except BaseException:
                process.kill()
                process.wait()
                raise
            process.kill()
            process.wait()
        raise Failure(f"the machine did not boot within {BOOT_SECONDS} s, {BOOTS} times{self._told(output)}")

    def _result(self, output, end, cut_at, check):
        match = EXIT.search(output.text)
        result = Result(int(match[1]) if match else None, EXIT.sub("", output.text))
        if end == "end" and match is None:
            raise Failure(f"the machine ended before its script{self._told(output)}")
        if cut_at and end != "cut":
            raise Failure(f"the script ended with {result.code} and never said {cut_at!r}{self._told(output)}")
        if check and result.code not in (0, None):
            raise Failure(f"the script ended with {result.code}{self._told(output)}")
        return result

    def shell(self):
        """Opens a console for a person. The machine ends with the shell."""
        self._boot("", "shell").wait()

    def _told(self, output):
        console = self.console.read_text(errors="replace").splitlines()[-40:] if self.console.exists() else []
        said = EXIT.sub("", output.text).splitlines()[-60:]
        return "\n".join([":", *said, "-- its console:", *console])

    def _boot(self, script, end):
        kernel, _ = packages.kernel()
        initramfs = image.initramfs(self.folder, self.files | {"script": script})
        command_line = (f"console=ttyS0 quiet loglevel=4 panic=-1 reboot=t edd=off tsc=reliable "
                        f"tsc_early_khz={tsc.kilohertz()} vm.end={end} vm.time={int(time.time())} {self.kernel_arguments}")
        command = [
            QEMU, "-M", "microvm", "-accel", "tcg", "-cpu", "max", "-smp", "2",
            "-m", self.memory, "-nodefaults", "-no-user-config", "-display", "none", "-no-reboot",
            "-kernel", kernel, "-initrd", initramfs, "-append", command_line,
            "-drive", f"if=none,id=root,format=raw,snapshot=on,file={image.root_image()}",
            "-device", "virtio-blk-device,drive=root,serial=root",
        ]
        for disk in self.disks.values():
            command += ["-blockdev", f"driver=nbd,node-name={disk.name},server.type=unix,server.path={disk.socket}",
                        "-device", f"virtio-blk-device,drive={disk.name},serial={disk.name}"]
        for number, (mac, back_end) in enumerate(self.networks):
            command += ["-netdev", f"{back_end},id=network{number}",
                        "-device", f"virtio-net-device,netdev=network{number},mac={mac}"]
        if end == "shell":
            command += ["-serial", "mon:stdio"]
            return subprocess.Popen(command)
        self.console.unlink(missing_ok=True)
        command += ["-serial", f"file:{self.console}", "-chardev", "stdio,id=out,signal=off",
                    "-device", "virtio-serial-device", "-device", "virtserialport,chardev=out,name=out"]
        errors = open(self.folder / "qemu.log", "wb")
        with errors:
            # Standard input stays open, because at its end QEMU tells the guest that nobody listens.
            self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors)
        return self._process

    def signal(self, number):
        """Sends a signal to the machine that runs: SIGSTOP freezes it, SIGCONT wakes it up."""
        self._process.send_signal(number)


def _ends(process, deadline):
    try:
        process.wait(max(0.0, deadline - time.monotonic()))
        return True
    except subprocess.TimeoutExpired:
        return False


class _Output:
    """The output of the guest's script, which a thread reads until the machine has ended."""

    def __init__(self, stream, echo):
        self.text = ""
        self._chunks = queue.Queue()
        self._echo = echo
        threading.Thread(target=self._read, args=(stream,), daemon=True).start()

    def _read(self, stream):
        while chunk := os.read(stream.fileno(), 65536):
            self._chunks.put(chunk.decode(errors="replace"))
        self._chunks.put(None)
        stream.close()

    def begins(self, deadline):
        """Tells whether the script began, and drops the output from before."""
        while BEGIN not in self.text:
            try:
                chunk = self._chunks.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                return False
            if chunk is None:
                return False
            self.text += chunk.replace("\r\n", "\n")
        self.text = self.text.partition(BEGIN)[2]
        if self._echo:
            self._echo(self.text)
        return True

    def tail(self, lines):
        """Gives the last lines of what has come by now."""
        with contextlib.suppress(queue.Empty):
            while (chunk := self._chunks.get_nowait()) is not None:
                self.text += chunk.replace("\r\n", "\n")
        return "\n".join(self.text.splitlines()[-lines:])

    def wait(self, text, deadline):
        """Tells what came first: the text ("cut"), the script's end ("exit"), the machine's end ("end"), or nothing
        ("silence")."""
        while True:
            if text and text in self.text:
                return "cut"
            if EXIT.search(self.text):
                return "exit"
            try:
                chunk = self._chunks.get(timeout=max(0.0, deadline - time.monotonic()))
            except queue.Empty:
                return "silence"
            if chunk is None:
                return "end"
            self.text += chunk.replace("\r\n", "\n")
            if self._echo:
                self._echo(chunk)


def available():
    """Gives the reason why no machine can be made here, or None."""
    if not shutil.which(QEMU):
        return f"{QEMU} is missing: run ./dev setup"
    try:
        packages.kernel(), packages.programs()
    except packages.Missing as missing:
        return str(missing)
    return None
