#!/usr/bin/python3
"""A Kata as a CRUST handler sees it: sandboxes whose containers get direct-assigned volumes by the files that Kata reads, and shims
that answer at their sockets. A virtual machine is a mount namespace here, and its block device a descriptor, as QEMU has one.

    kata_double.py FOLDER pod | begin POD | run SANDBOX SOURCE SCRIPT | end SANDBOX | forget POD   (docs/crust.md, "How to run the suite")
    kata_double.py FOLDER start SANDBOX SOURCE SCRIPT     begins a container and leaves it running; prints its number
    kata_double.py FOLDER stop SANDBOX NUMBER             ends it

FOLDER/run has what Kata has in /run, FOLDER/bundles what containerd has, FOLDER/kubelet the pods. It does as the Go runtime of Kata
does (direct-volume/utils.go, createBlockDevices, shim_management.go). Like Kata's, its agent has no resize. Switches in FOLDER/wrong,
one a line, are in WRONG.
"""
import base64
import json
import os
import pathlib
import shutil
import signal
import socket
import socketserver
import stat
import subprocess
import sys
import threading
import time
import urllib.parse
import uuid
from http.server import BaseHTTPRequestHandler

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

from lib import mounts  # noqa: E402

WRONG = {
    "stats-hang": "does not answer",
    "stats-garbage": "answers with what is no JSON",
    "stats-truncated": "breaks its answer off",
    "stats-refused": "answers with an error",
    "stats-too-much": "says that more is used than there is",
    "resize-works": "has the file system grow, as a later agent might",
    "resize-lies": "says that the file system has grown, and does nothing",
}
NO_CONTAINER = 125
SECONDS = 60


class Place:
    """The folders."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.volumes = self.folder / "run" / "kata-containers" / "shared" / "direct-volumes"
        self.bundles = self.folder / "bundles"
        self.pods = self.folder / "kubelet" / "pods"

    def sandbox(self, name):
        return self.folder / "run" / "vc" / "sbs" / name

    def is_wrong(self, switch):
        wrong = self.folder / "wrong"
        return wrong.exists() and switch in wrong.read_text().split()


# -- a container, in a mount namespace of its own

def give_to_group(path, gid, read_only):
    """What Kata's agent does for an fsGroup (recursive_ownership_change)."""
    mask = 0o440 if read_only else 0o660
    if path.is_dir():
        for entry in path.iterdir():
            give_to_group(entry, gid, read_only)
        mask |= 0o110 | stat.S_ISGID
    if path.is_symlink():
        return
    os.chown(path, -1, gid)
    os.chmod(path, stat.S_IMODE(path.stat().st_mode) | mask)


def container(folder, source, info, script):
    """Runs the script where the volume is mounted, or in the shared folder `source`. Says "ready" first."""
    place = Place(folder)
    mounts.let_go_of_others(os.getpid(), own=place.folder)
    device = None
    if info is None:
        os.chdir(source)
    else:
        read_only = "ro" in info.get("options", [])
        device = os.open(info["device"], os.O_RDONLY if read_only else os.O_RDWR)
        guest = place.folder / "guest"
        guest.mkdir(exist_ok=True)
        options = ["-o", ",".join(info["options"])] if info.get("options") else []
        subprocess.run(["mount", "-t", info["fstype"], *options, info["device"], guest], check=True)
        metadata = info.get("metadata", {})
        if "fsGroup" in metadata:
            gid = int(metadata["fsGroup"])
            root = guest.stat()
            fits = root.st_gid == gid and root.st_mode & 0o2770 == 0o2770
            if not (metadata.get("fsGroupChangePolicy") == "OnRootMismatch" and fits):
                give_to_group(guest, gid, read_only)
        os.chdir(guest)
    print("ready", flush=True)
    code = subprocess.run(["/bin/sh", "-c", script], check=False).returncode
    os.chdir("/")
    if device is not None:
        subprocess.run(["umount", guest], check=True)
        os.close(device)
    sys.exit(code)


# -- a shim

class Shim:
    def __init__(self, place, name):
        self.place = place
        self.name = name
        self.lock = threading.Lock()
        self.containers = {}  # number: (process, the volume's device or None)

    def look_up(self, source):
        """Gives what mountInfo.json says of the source of a mount; None: it is an ordinary folder."""
        folder = self.place.volumes / base64.urlsafe_b64encode(source.encode()).decode()
        try:
            info = json.loads((folder / "mountInfo.json").read_text())
        except (FileNotFoundError, ValueError):
            return None
        (folder / self.name).touch(0o600)
        return info

    def begin(self, source, script):
        """Gives a container's number when its mounts are made. Raises OSError if it cannot be made."""
        info = self.look_up(source)
        command = ["unshare", "--mount", "--propagation", "private", sys.executable, "-B", __file__, self.place.folder, "container",
                   source, json.dumps(info), script]
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, start_new_session=True)
        if process.stdout.readline() != "ready\n":
            process.wait()
            raise OSError(f"the container could not mount {source}")
        with self.lock:
            number = str(len(self.containers))
            self.containers[number] = (process, info and info["device"])
        return number

    def finish(self, number):
        process = self.containers[number][0]
        output = process.stdout.read()
        return {"code": process.wait(), "output": output}

    def kill(self, number):
        process = self.containers[number][0]
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def process_with(self, device):
        with self.lock:
            for process, has in self.containers.values():
                if has == device and process.poll() is None:
                    return process.pid
        raise LookupError(f"mount {device} not found in sandbox")

    def stats(self, device):
        os.stat(device)
        found = os.statvfs(f"/proc/{self.process_with(device)}/cwd")

        def usage(unit, total, free):
            numbers = {"available": free, "total": total, "used": total - free, "unit": unit}
            return {name: number for name, number in numbers.items() if number}  # as Go leaves out what is zero
        return {"usage": [usage(1, found.f_blocks * found.f_frsize, found.f_bfree * found.f_frsize),
                          usage(2, found.f_files, found.f_ffree)],
                "volume_condition": {"message": "OK"}}

    def resize(self, device):
        pid = self.process_with(device)
        if self.place.is_wrong("resize-lies"):
            return
        if not self.place.is_wrong("resize-works"):
            raise LookupError("rpc error: code = Unimplemented desc = resize_volume is not implemented in kata-agent")
        subprocess.run(["nsenter", f"--mount=/proc/{pid}/ns/mnt", "xfs_growfs", self.place.folder / "guest"], check=True,
                       stdout=subprocess.DEVNULL)


def handler_of(shim):
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def answer(self, code, text, length=None):
            self.send_response(code)
            self.send_header("Content-Length", str(len(text) if length is None else length))
            self.end_headers()
            self.wfile.write(text.encode())
            self.close_connection = True

        def do_GET(self):  # pylint: disable=invalid-name
            url = urllib.parse.urlsplit(self.path)
            path = urllib.parse.parse_qs(url.query).get("path")
            if url.path != "/direct-volume/stats":
                return self.answer(404, "404 page not found\n")
            if not path:
                return self.answer(400, "Required parameter path not found")
            wrong = shim.place.is_wrong
            if wrong("stats-hang"):
                self.rfile.read(1)  # until the client goes
                return None
            if wrong("stats-garbage"):
                return self.answer(200, "Usage: [VolumeUsage { total: 5 }]")
            if wrong("stats-truncated"):
                return self.answer(200, '{"usage":[{"total":', length=500)
            if wrong("stats-refused"):
                return self.answer(500, "agent: connection\nlost\x00")
            if wrong("stats-too-much"):
                return self.answer(200, '{"usage":[{"total":5,"used":6,"unit":1}]}')
            try:
                return self.answer(200, json.dumps(shim.stats(urllib.parse.unquote(path[0]))))
            except (LookupError, OSError) as error:
                return self.answer(500, str(error))

        def do_POST(self):  # pylint: disable=invalid-name
            request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            try:
                shim.resize(request["VolumePath"])
                self.answer(200, "")
            except (LookupError, OSError) as error:
                self.answer(500, str(error))

        def log_message(self, *_):
            pass

        def address_string(self):
            return "client"
    return Handler


def control_of(shim, ended):
    class Control(socketserver.StreamRequestHandler):
        def handle(self):
            request = json.loads(self.rfile.readline())
            try:
                answer = {"run": lambda: shim.finish(shim.begin(request["source"], request["script"])),
                          "start": lambda: {"number": shim.begin(request["source"], request["script"])},
                          "stop": lambda: shim.kill(request["number"]) or {},
                          "end": lambda: ended.set() or {}}[request["verb"]]()
            except OSError as error:
                answer = {"error": str(error)}
            self.wfile.write(json.dumps(answer).encode() + b"\n")
    return Control


class Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True
    request_queue_size = 32


def serve(folder, name):
    place = Place(folder)
    shim = Shim(place, name)
    ended = threading.Event()
    for path, handler in (("shim-monitor.sock", handler_of(shim)), ("control.sock", control_of(shim, ended))):
        server = Server(str(place.sandbox(name) / path), handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
    print("ready", flush=True)
    ended.wait()
    for number in list(shim.containers):
        shim.kill(number)
    shutil.rmtree(place.sandbox(name))


# -- the command

def ask(place, sandbox, **request):
    with socket.socket(socket.AF_UNIX) as peer:
        peer.settimeout(SECONDS)
        peer.connect(str(place.sandbox(sandbox) / "control.sock"))
        with peer.makefile("rw") as stream:
            stream.write(json.dumps(request) + "\n")
            stream.flush()
            answer = json.loads(stream.readline())
    if "error" in answer:
        print(answer["error"], file=sys.stderr)
        sys.exit(NO_CONTAINER)
    return answer


def make_pod(place):
    uid = str(uuid.uuid4())
    targets = [place.pods / uid / "volumes" / "c" / f"v{i}" for i in range(3)]
    for target in targets:
        target.mkdir(parents=True)
    print(json.dumps({"uid": uid, "targets": list(map(str, targets))}))


def begin_sandbox(place, pod):
    name = uuid.uuid4().hex
    bundle = place.bundles / name
    bundle.mkdir(parents=True)
    (bundle / "config.json").write_text(json.dumps({"annotations": {
        "io.kubernetes.cri.container-type": "sandbox", "io.kubernetes.cri.sandbox-id": name, "io.kubernetes.cri.sandbox-uid": pod}}))
    place.sandbox(name).mkdir(parents=True)
    with open(place.folder / "shims.log", "ab") as log:
        shim = subprocess.Popen([sys.executable, "-B", __file__, place.folder, "shim", name], stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=log, start_new_session=True)
    assert shim.stdout.readline() == b"ready\n", "the shim did not begin"
    (bundle / "shim.pid").write_text(str(shim.pid))
    print(name)


def end_sandbox(place, name):
    ask(place, name, verb="end")
    deadline = time.monotonic() + SECONDS
    while place.sandbox(name).exists():
        assert time.monotonic() < deadline, f"sandbox {name} does not end"
        time.sleep(0.01)
    shutil.rmtree(place.bundles / name)


def main(folder, verb, *arguments):
    place = Place(folder)
    if verb == "pod":
        make_pod(place)
    elif verb == "begin":
        begin_sandbox(place, *arguments)
    elif verb == "run":
        ran = ask(place, arguments[0], verb="run", source=arguments[1], script=arguments[2])
        sys.stdout.write(ran["output"])
        sys.exit(ran["code"])
    elif verb == "start":
        print(ask(place, arguments[0], verb="start", source=arguments[1], script=arguments[2])["number"])
    elif verb == "stop":
        ask(place, arguments[0], verb="stop", number=arguments[1])
    elif verb == "end":
        end_sandbox(place, *arguments)
    elif verb == "forget":
        shutil.rmtree(place.pods / arguments[0], ignore_errors=True)
    elif verb == "shim":
        serve(folder, *arguments)
    else:
        source, info, script = arguments
        container(folder, source, json.loads(info), script)


if __name__ == "__main__":
    main(*sys.argv[1:])
