"""Shims in a folder of the test's own."""
import os
import shutil
import subprocess

from lib.fake_agent import FakeAgent
from lib.standalone import ROOT

SHIM = ROOT / "build" / "bin" / "berth-shim"
BERTH = ROOT / "build" / "bin" / "berth"


class Shims:
    """Shims that `berth install-shims` installed. They ask at `socket`, where answer() starts a fake agent."""

    def __init__(self, folder, socket=None):
        self.folder = folder
        self.sbin = folder / "sbin"
        self.records = folder / "shims"
        self.socket = socket or folder / "agent.sock"
        self.sbin.mkdir()
        self.agent = None

    def berth(self, command, *arguments):
        return subprocess.run([BERTH, command, "--sbin", self.sbin, "--records", self.records, *arguments],
                              capture_output=True, text=True, timeout=60)

    def install(self, *arguments):
        result = self.berth("install-shims", "--socket", self.socket, *arguments)
        assert result.returncode == 0, result.stderr
        return self

    def answer(self, answer):
        self.agent = FakeAgent(self.socket, answer)
        return self

    def run(self, utility, *arguments, env=None, **keywords):
        keywords.setdefault("stdin", subprocess.DEVNULL)
        environment = {"PATH": os.environ["PATH"], "BERTH_SHIMS": str(self.records), **(env or {})}
        return subprocess.run([self.sbin / utility, *arguments], env=environment, capture_output=True, timeout=60,
                              **keywords)

    def mount(self, *arguments):
        return self.host("mount", *arguments)

    def host(self, program, *arguments):
        """Runs a program in a mount namespace where the shims are in /sbin, beside the other programs, because
        mount(8), mkfs(8) and fsck(8) look for helpers there."""
        upper, work = self.folder / "upper", self.folder / "work"
        shutil.copytree(self.sbin, upper, dirs_exist_ok=True)
        work.mkdir(exist_ok=True)
        script = 'sbin=$(readlink -f /sbin); mount -t overlay -o "lowerdir=$sbin,upperdir=$0,workdir=$1" none $sbin; ' \
                 'shift; exec "$@"'
        return subprocess.run(["unshare", "--mount", "sh", "-ec", script, upper, work, program, *arguments],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60,
                              env={**os.environ, "BERTH_SHIMS": str(self.records)})

    def stop(self):
        if self.agent is not None:
            self.agent.stop()
