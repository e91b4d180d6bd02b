"""A process of Berth that serves one volume as a FUSE file, and the calls on its socket (base/ipc/export_call.h)."""
import contextlib
import json
import os
import pathlib
import signal
import socket
import subprocess

from lib import direct_io
from lib.fake_agent import HEADER, frame
from lib.standalone import Failure, wait_for


class Export:
    """Runs `program serve` with the settings; the command begins with `inside`. `file` shows the volume once `start` has
    returned."""

    def __init__(self, folder, program, settings, inside=()):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True)
        self.file = self.folder / "file"
        self.file.touch()
        self.socket = self.folder / "socket"
        self.command = [*inside, program, "serve"]
        self.settings = settings | {"socket": str(self.socket), "file": str(self.file)}
        self.process = None

    def begin(self):
        """Starts the process, without waiting until it serves."""
        with open(self.folder / "log", "wb") as log:
            self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)
        with self.process.stdin:
            self.process.stdin.write(json.dumps(self.settings).encode())
        return self

    def start(self):
        self.begin()
        wait_for("the volume to be served", lambda: self._lives() and self._answers())
        return self

    def failure(self):
        """Starts the process, which does not get to serve, and gives its error."""
        result = subprocess.run(self.command, input=json.dumps(self.settings), capture_output=True, text=True, timeout=60)
        if result.returncode != 1:
            raise Failure(f"exit code {result.returncode}: {result.stdout}{result.stderr}")
        return json.loads(result.stdout)["error"]

    def _lives(self):
        if self.process.poll() is not None:
            raise Failure(f"it ended: {self.process.stdout.read().decode()}{(self.folder / 'log').read_text()}")
        return True

    def _answers(self):
        with contextlib.suppress(OSError):
            return self.call("export.status")
        return None

    def call(self, method):
        """Gives the reply to a call."""
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(60)
            client.connect(str(self.socket))
            client.sendall(frame({"method": method}))
            data = b""
            while part := client.recv(65536):
                data += part
                if len(data) >= HEADER.size and len(data) >= HEADER.size + HEADER.unpack(data[:HEADER.size])[3]:
                    break
        return json.loads(data[HEADER.size:])

    def serves(self):
        return self.process.poll() is None and os.path.ismount(self.file)

    def write_block(self, block, letter):
        """Fills a block with a letter, without a page cache; block -1 is the last one. OSError: it is refused."""
        direct_io.write_block(self.file, block * direct_io.BLOCK, letter)

    def signal(self, number):
        self.process.send_signal(number)

    def open(self):
        return os.open(self.file, os.O_RDWR)

    def stop(self):
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
            self.process.wait()
        subprocess.run(["umount", "--lazy", self.file], capture_output=True, check=False)
