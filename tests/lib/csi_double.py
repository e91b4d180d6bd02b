"""The CSI driver double (tests/doubles) as a process of its own: it serves working volumes, and breaks rules on
command."""
import pathlib
import subprocess

from lib.standalone import ROOT, wait_for

PROGRAM = ROOT / "build" / "bin" / "csi_double"
NAME = "double.csi.example.com"


def rules():
    """Gives (name, section, rule, what the double does instead) of each switch. Names of switches for one method end
    in ":METHOD"."""
    listing = subprocess.run([PROGRAM, "--list"], capture_output=True, text=True, check=True).stdout
    return [tuple(line.split("\t")) for line in listing.splitlines()]


class CsiDouble:
    def __init__(self, folder, registration_folder=None, by_fuse=False, share=None, name=NAME, nodes=None, data=None):
        """`by_fuse`: each volume is staged by a FUSE file system with a process of its own. `share`: each volume is a
        share with this (source, type), which the runtime of a sandbox mounts. `nodes`: the ids of this node and of another
        one, to which volumes can be attached as well. `data`: the folder of the volumes, if it is another driver's, too."""
        self.name = name
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True, exist_ok=True)
        self.socket = self.folder / "csi.sock"
        self.data = pathlib.Path(data or self.folder / "data")
        self.registration_folder = registration_folder
        self.by_fuse = by_fuse
        self.share = share
        self.nodes = nodes
        self.process = None

    def start(self):
        command = [PROGRAM, "--endpoint", self.socket, "--data", self.data, "--switches", self.folder / "switches",
                   "--calls", self.folder / "calls", "--name", self.name]
        if self.registration_folder:
            # The node agent makes the folder, but perhaps only after its API has answered.
            pathlib.Path(self.registration_folder).mkdir(parents=True, exist_ok=True)
            command += ["--registration-folder", self.registration_folder]
        if self.by_fuse:
            command += ["--stage-by-fuse", PROGRAM.with_name("fuse_double")]
        if self.share:
            command += ["--defer-share", *self.share]
        if self.nodes:
            command += ["--node-id", self.nodes[0], "--other-node", self.nodes[1]]
        with open(self.folder / "log", "ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        wait_for("the double to serve", lambda: "serves" in self.log().rpartition("\n")[0].rpartition("\n")[2]
                 or self.process.poll() is not None)
        assert self.process.poll() is None, self.log()
        return self

    def log(self):
        return (self.folder / "log").read_text(errors="replace")

    def alive(self):
        return self.process is not None and self.process.poll() is None

    def stop(self):
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def be_wrong(self, *switches):
        """Sets the switches from the next call on. Without switches the driver keeps to the rules again. A call that
        hangs goes on."""
        new = self.folder / "switches.new"
        new.write_text("".join(f"{switch}\n" for switch in switches))
        new.rename(self.folder / "switches")

    def calls(self, method, event="begin"):
        """Gives the volumes of a method's calls that began, were done, or failed."""
        try:
            lines = (self.folder / "calls").read_text().splitlines()
        except FileNotFoundError:
            return []
        return [line.split(" ", 2)[2] for line in lines if line.split(" ", 2)[:2] == [event, method]]

    def forget_calls(self):
        (self.folder / "calls").write_text("")  # the double appends

    def volumes(self):
        """Gives the content folders of all volumes."""
        return sorted((self.data / "volumes").iterdir())

    def snapshots(self):
        """Gives the content folders of all snapshots."""
        return sorted((self.data / "snapshots").iterdir())

    def attached(self):
        """Gives (volume, node) for each attached volume."""
        return {(file.name, node) for file in (self.data / "attached").iterdir() for node in file.read_text().split()}

    def announcement(self):
        """Gives the path of the registration socket, by which a node agent finds the driver."""
        return pathlib.Path(self.registration_folder) / f"{self.name}-reg.sock"
