"""`berth kata-handler` in front of the double of a Kata (tests/doubles/kata_double.py)."""
import os
import pathlib
import signal
import subprocess
import sys

from lib.standalone import BINARY, ROOT, wait_for

PROGRAM = ROOT / "tests" / "doubles" / "kata_double.py"


class KataDouble:
    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.kubelet = self.folder / "kubelet"
        self.bundles = self.folder / "bundles"
        for path in (self.kubelet / "pods", self.bundles):
            path.mkdir(parents=True)
        # The command by which a suite makes pods and sandboxes.
        self.command = f"{sys.executable} -B {PROGRAM} {self.folder}"

    def start(self, sandbox, source, script):
        """Begins a container with a volume, and leaves it running. Gives its number."""
        return self._run("start", sandbox, source, script).strip()

    def stop(self, sandbox, number):
        self._run("stop", sandbox, number)

    def kill_shim(self, sandbox):
        """Kills the shim, and not the containers (a virtual machine lives on)."""
        os.kill(int((self.bundles / sandbox / "shim.pid").read_text()), signal.SIGKILL)

    def be_wrong(self, *switches):
        (self.folder / "wrong").write_text("".join(f"{switch}\n" for switch in switches))

    def told(self):
        """Gives the volumes that Kata is told of."""
        return list((self.folder / "run" / "kata-containers" / "shared" / "direct-volumes").glob("*/mountInfo.json"))

    def _run(self, *arguments):
        return subprocess.run([*self.command.split(), *map(str, arguments)], check=True, capture_output=True, text=True,
                              timeout=120).stdout


class KataHandler:
    def __init__(self, folder, double, flags=()):
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True)
        self.socket = self.folder / "kata.sock"
        self.command = [BINARY, "kata-handler", "--socket", self.socket, "--data", self.folder / "data", "--kubelet", double.kubelet,
                        "--kata-run", double.folder / "run", "--bundles", double.bundles, *flags]
        self.process = None

    def start(self):
        self.socket.unlink(missing_ok=True)  # the socket of a killed handler would pass for this one's
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)
        wait_for("the handler to listen", lambda: self.socket.exists() or self.process.poll() is not None)
        return self

    def kill(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def stop(self):
        if self.process is not None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(30)
            self.process = None

    def records(self):
        return sorted(path.stem for path in (self.folder / "data" / "pods").glob("*.json"))
