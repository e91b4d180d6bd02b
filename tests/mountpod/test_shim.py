"""berth-shim runs under the names of mount utilities. The tests check its requests to the agent, and what its caller
sees."""
import json
import os
import shutil
import subprocess

import pytest
from lib.fake_agent import frame
from lib.shims import SHIM, Shims

pytestmark = pytest.mark.mountpod


@pytest.fixture
def shims(tmp_path):
    shims = Shims(tmp_path)
    yield shims
    shims.stop()


def test_it_stands_alone_and_is_small():
    assert SHIM.resolve().stat().st_size < 1 << 20
    headers = subprocess.run(["readelf", "--program-headers", SHIM], check=True, capture_output=True, text=True).stdout
    assert "INTERP" not in headers and "LOAD" in headers


def test_the_agent_runs_what_the_shim_is_called_as(shims):
    shims.install("glusterfs").answer(lambda request: {"exit": 0, "out": "o\udcff", "err": "e"})
    result = shims.run("mount.glusterfs", "10.0.0.7:/v", "/k/a b", "-o", b"x=\xff", env={"A": "b"}, cwd="/usr")
    assert (result.returncode, result.stdout, result.stderr) == (0, b"o\xff", b"e")
    request = shims.agent.requests[0]
    assert request["method"] == "utility.run"
    assert request["plugin"] == "kubernetes.io/glusterfs"
    assert request["argv"] == ["mount.glusterfs", "10.0.0.7:/v", "/k/a b", "-o", "x=\udcff"]
    assert "A=b" in request["env"]
    assert request["cwd"] == "/usr"


def test_mount_finds_it(shims):
    shims.install("--plugin", "kubernetes.io/glusterfs", "mount.berthtest").answer(
        lambda request: {"exit": 32, "out": "", "err": "from the pod\n"})
    target = shims.folder / "target"
    target.mkdir()
    result = shims.mount("-t", "berthtest", "-o", "rw", "10.0.0.7:/v", target)
    assert result.returncode == 32, result.stderr
    assert "from the pod" in result.stderr
    assert shims.agent.requests[0]["argv"] == ["mount.berthtest", "10.0.0.7:/v", str(target), "-o", "rw"]


@pytest.mark.parametrize("utility, code", [("mount.nfs", 32), ("fsck.xfs", 8), ("mkfs.xfs", 1)])
def test_what_cannot_be_run_fails_as_the_caller_reads_it(shims, utility, code):
    shims.install("--plugin", "kubernetes.io/nfs", utility)
    result = shims.run(utility)
    assert result.returncode == code
    assert b"node agent is not there" in result.stderr and result.stderr.startswith(utility.encode() + b": ")
    shims.answer(lambda request: {"error": "no pod that runs on this node is registered for kubernetes.io/nfs"})
    result = shims.run(utility)
    assert result.returncode == code
    assert result.stderr == f"{utility}: no pod that runs on this node is registered for kubernetes.io/nfs\n".encode()


def test_exit_codes_and_output_come_back_as_they_are(shims):
    shims.install("--plugin", "p", "fsck.xfs").answer(
        lambda request: {"exit": int(request["argv"][1]), "out": "x" * 500_000, "err": ""})
    for code in 1, 4, 127, 143, 255:
        result = shims.run("fsck.xfs", str(code))
        assert result.returncode == code
        assert result.stdout == b"x" * 500_000


@pytest.mark.parametrize("answer, words", [
    (b"", b"gave no answer"),
    (frame({"exit": 0})[:20], b"gave no answer"),
    (b"HTTP/1.1 400 Bad Request\r\n\r\n", b"not of this protocol"),
    (frame({"exit": 0}, version=2), b"speaks version 2 of the protocol"),
    (frame({"out": "x"}), b"without an exit code"),
    (frame({"exit": "0"}), b"without an exit code"),
    (frame({"exit": {}}), b"at byte "),
])
def test_an_agent_that_dies_or_talks_nonsense_is_a_failure(shims, answer, words):
    shims.install("nfs").answer(lambda request: answer)
    result = shims.run("mount.nfs", "s:/x", "/k/x")
    assert result.returncode == 32
    assert words in result.stderr


def test_what_is_to_read_standard_input_is_refused(shims):
    shims.install("--plugin", "p", "mkfs.xfs").answer(lambda request: {"exit": 0, "out": "", "err": ""})
    read, write = os.pipe()
    os.write(write, b"y\n")
    result = shims.run("mkfs.xfs", stdin=read)
    assert result.returncode == 1 and b"standard input" in result.stderr
    assert os.read(read, 10) == b"y\n"
    assert shims.run("mkfs.xfs", "--key-file=-").returncode == 1
    with open("/etc/passwd") as file:
        assert shims.run("mkfs.xfs", stdin=file).returncode == 1
    assert shims.agent.requests == []
    # A pipe that gives no data does not count as input.
    assert shims.run("mkfs.xfs", stdin=read).returncode == 0
    os.close(write)
    assert shims.run("mkfs.xfs", stdin=read).returncode == 0
    os.close(read)
    assert len(shims.agent.requests) == 2


def test_what_comes_on_standard_input_too_late_is_told(shims):
    read, write = os.pipe()

    def answer(request):
        os.write(write, b"secret\n")
        return {"exit": 1, "out": "", "err": "no password\n"}

    shims.install("--plugin", "p", "mount.cifs").answer(answer)
    result = shims.run("mount.cifs", stdin=read)
    assert result.stderr == b"no password\nmount.cifs: what came on standard input meanwhile was not read\n"
    os.close(read)
    os.close(write)


def test_a_shim_that_is_no_shim_of_ours_says_so(shims):
    shutil.copy(SHIM, shims.sbin / "mount.nfs")
    result = shims.run("mount.nfs")
    assert result.returncode == 32
    assert b"'berth install-shims'" in result.stderr
    shims.records.mkdir()
    (shims.records / "mount.nfs.json").write_text('{"plugin":')
    assert b"names no plugin" in shims.run("mount.nfs").stderr
    assert subprocess.run([SHIM], capture_output=True).returncode == 1


def test_shims_come_and_go_by_command(shims):
    first = shims.install("nfs", "glusterfs").berth("install-shims", "nfs")
    assert first.returncode == 0 and "renewed" in first.stdout
    assert sorted(os.listdir(shims.sbin)) == ["mount.glusterfs", "mount.nfs", "mount.nfs4"]
    assert (shims.sbin / "mount.nfs").read_bytes() == SHIM.read_bytes()
    assert json.loads((shims.records / "mount.nfs.json").read_text())["plugin"] == "kubernetes.io/nfs"
    (shims.sbin / "mount.nfs").write_text("a real one")
    refused = shims.berth("install-shims", "nfs")
    assert refused.returncode != 0 and "is a real utility" in refused.stderr
    removed = shims.berth("remove-shims")
    assert removed.returncode == 0, removed.stderr
    assert os.listdir(shims.sbin) == ["mount.nfs"]
    assert os.listdir(shims.records) == []
