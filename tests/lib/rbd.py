"""A Ceph cluster with a pool for RBD, and `berth-rbd` as its user."""
import json
import subprocess

from lib.ceph import LIBRARIES, CephCluster, unpacked
from lib.direct_io import BLOCK
from lib.standalone import BINARY, Failure, wait_for

PROGRAM = BINARY.parent / "berth-rbd"
POOL = "volumes"
MIB = 1 << 20
# What a user needs for everything but taking addresses off the blocklist.
PROFILE = {"mon": "profile rbd", "osd": f"profile rbd pool={POOL}"}
UNFENCER = PROFILE | {"mon": 'profile rbd, allow command "osd blocklist"'}

# Run with the folder of the configuration, the pool and Python code, which has `rbd` and the pool as `io`.
WITH_RBD = """
import sys, rados, rbd
with rados.Rados(conffile=sys.argv[1] + "/ceph.conf", name="client.admin") as cluster:
    with cluster.open_ioctx(sys.argv[2]) as io:
        exec(sys.argv[3])
"""

# How far a call has come that makes an image as a copy of another one, in this order (src/rbd/records.h, src/rbd/copies.cc).
STEPS = (
    "recorded",  # the record says that the image is being made
    "pointed",  # the origin has the snapshot from which it is copied
    "cloning",  # an image has the temporary name
    "grown",  # that image is larger than the origin
    "identified",  # the record has the id of the image, which is complete
    "renaming",  # the image is found by its name, and is not listed by it
    "named",  # it is listed by its name
    "made")  # the record says so

# Run with the folder of the configuration, the pool, what to wait for, a name, the image's origin, and STEPS. Kills the process
# whose id it then reads as soon as that is so; prints whether it is still so after that:
#   lock, watch   an image whose name begins so has its exclusive lock, or is watched without a lock
#   a step        the call that makes the image of that name has come so far
KILL_WHEN = """
import json, os, signal, struct, sys, time, rados, rbd
QUERY = struct.pack("<BBII", 1, 1, 12, 8) + b"rbd_lock"
_, folder, pool, what, name, origin, *steps = sys.argv

def header(io):
    with rados.ReadOpCtx() as read:
        entries, _ = io.get_omap_vals(read, "", "name_" + name, 1)
        try:
            io.operate_read_op(read, "rbd_directory")
        except rados.ObjectNotFound:  # before the first image
            return []
        return ["rbd_header." + value[4:].decode() for _, value in entries]

def is_locked(io, header):
    try:
        _, info = io.execute(header, "lock", "get_info", QUERY)
    except rados.ObjectNotFound:
        return False
    return struct.unpack_from("<I", info, 6)[0] > 0

def is_watched(io, header):
    try:
        # An image that is only read is not watched by its reader.
        with rbd.Image(io, image_id=header.removeprefix("rbd_header."), read_only=True) as image:
            return any(image.watchers_list())
    except rbd.ImageNotFound:
        return False

class Use:
    def __init__(self, io):
        self.io, self.found = io, []

    def holds(self):
        self.found = self.found or header(self.io)
        if not self.found:
            return False
        if what == "lock":
            return is_locked(self.io, self.found[0])
        return is_watched(self.io, self.found[0]) and not is_locked(self.io, self.found[0])

    is_reached = holds

def value_of(io, place, key):
    with rados.ReadOpCtx() as read:
        values, _ = io.get_omap_vals_by_keys(read, (key,))
        try:
            io.operate_read_op(read, place)
        except rados.ObjectNotFound:
            return None
        return dict(values).get(key)

def exists(io, place):
    try:
        io.stat(place)
    except rados.ObjectNotFound:
        return False
    return True

def size_of(io, image):
    try:
        with rbd.Image(io, image, read_only=True) as opened:
            return opened.size()
    except rbd.Error:  # it is not complete
        return 0

class Step:
    def __init__(self, io):
        self.io, self.size = io, size_of(io, origin)

    def last(self):
        text = value_of(self.io, "berth.images", name)
        if text is None:
            return -1
        record = json.loads(text)
        return steps.index(self.of_record(record))

    def of_record(self, record):
        if record["state"] != "making":
            return "made"
        if value_of(self.io, "rbd_directory", "name_" + name):
            return "named"
        if exists(self.io, "rbd_id." + name):
            return "renaming"
        if record.get("id"):
            return "identified"
        if value_of(self.io, "rbd_directory", "name_" + record["madeAs"]):
            return "grown" if size_of(self.io, record["madeAs"]) > self.size else "cloning"
        with rbd.Image(self.io, origin, read_only=True) as image:
            return "pointed" if any(one["name"] == "berth." + name for one in image.list_snaps()) else "recorded"

    def is_reached(self):
        return self.last() >= steps.index(what)

    def holds(self):
        return self.last() == steps.index(what)

def runs(process):
    with open(f"/proc/{process}/stat") as file:
        return file.read().rsplit(")", 1)[1].split()[0] not in "ZX"

with rados.Rados(conffile=folder + "/ceph.conf", name="client.admin") as cluster:
    with cluster.open_ioctx(pool) as io:
        goal = Step(io) if what in steps else Use(io)
        print("ready", flush=True)
        process = int(input())
        # The call runs for half a millisecond at a time, so that it does not take and give back the lock between two looks.
        while runs(process):
            os.kill(process, signal.SIGSTOP)
            if goal.is_reached():
                break
            os.kill(process, signal.SIGCONT)
            time.sleep(0.0005)
        os.kill(process, signal.SIGKILL)
        while runs(process):
            pass
        time.sleep(1)  # what the call sent last, as that it gives the lock back, may be on its way
        print(goal.holds())
"""

class CallError(AssertionError):
    def __init__(self, error):
        super().__init__(f"{error['code']}: {error['message']}")
        self.code, self.message = error["code"], error["message"]


class RbdCluster(CephCluster):
    """The users are `berth`, who may do all that Berth does, and `plain`, who may not end a fence."""

    has_bare_manager = False

    def _serve(self):
        self.start_object_store()
        self.ask('{"prefix": "osd pool create", "pool": "%s", "pg_num": 8}' % POOL)
        self.ask('{"prefix": "osd pool application enable", "pool": "%s", "app": "rbd"}' % POOL)
        if self.manager:
            self.start_manager()
        self.users = {"berth": self.add_user("berth", UNFENCER), "plain": self.add_user("plain", PROFILE)}
        wait_for("the pool", lambda: self.rbd("print(rbd.RBD().list(io))") == "[]\n")

    def start_bare_manager(self):
        """Starts the daemon by whose statistics the monitor knows what a pool uses, unless it runs. It has no modules."""
        if self.has_bare_manager:
            return
        folders = unpacked({"ceph-mgr": "usr/bin/ceph-mgr",
                            "libboost-python1.74.0": f"{LIBRARIES}/libboost_python311.so.1.74.0"})
        (self.folder / "mgr").mkdir()
        key = self.add_key("mgr.x", {"mon": "allow profile mgr", "osd": "allow *", "mds": "allow *"})
        keyring = self.folder / "mgr" / "keyring"
        keyring.write_text(f"[mgr.x]\nkey = {key}\n")
        self.inside(f"{folders['ceph-mgr']}/usr/bin/ceph-mgr", "-i", "x", "--keyring", keyring, "--mgr-module-path",
                    self.folder / "mgr", "--mgr-data", self.folder / "mgr", environment=self.environment | {
                        "LD_LIBRARY_PATH": f"{self.environment['LD_LIBRARY_PATH']}:{folders['libboost-python1.74.0']}/{LIBRARIES}"})
        self.has_bare_manager = True

    def add_user(self, name, capabilities):
        """Returns the key of the new user."""
        return self.add_key(f"client.{name}", capabilities)

    def add_key(self, entity, capabilities):
        caps = [text for pair in capabilities.items() for text in pair]
        made = self.ask(json.dumps({"prefix": "auth get-or-create", "entity": entity, "caps": caps,
                                    "format": "json"}))
        return json.loads(made)[0]["key"]

    def rbd(self, code):
        """Runs Python code with Ceph's own binding, as a witness; returns what it prints."""
        return self.inside("/usr/bin/python3", "-c", WITH_RBD, self.folder, POOL, code)

    def settings(self, user="berth", **other):
        return {"monitors": [self.monitor], "pool": POOL, "namespace": "", "user": user,
                "key": self.users[user]} | other

    def request(self, call, node="n1", cluster=None, **members):
        return {"call": call, "node": node, "cluster": cluster or self.settings()} | members

    def call(self, name, node="n1", cluster=None, **members):
        """Makes one call, and returns its result. CallError: it failed as calls do."""
        return finish(begin(self.request(name, node, cluster, **members)))

    def kill_with_use(self, use, prefix, name, **members):
        """Makes a call, and kills it when it has the "lock" of an image whose name begins so, or a "watch" and no lock. Returns
        whether it died with that."""
        return self._kill_when([use, prefix, ""], name, members)

    def kill_at_step(self, step, made, origin, name, /, **members):
        """Makes a call that makes the image `made` as a copy of another one, and kills it when it has come to one of STEPS. Returns
        whether it died there."""
        return self._kill_when([step, made, origin], name, members)

    def _kill_when(self, goal, name, members):
        watching = subprocess.Popen(["/usr/bin/python3", "-c", KILL_WHEN, self.folder, POOL, *goal, *STEPS], text=True,
                                    stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=self.environment)
        try:
            assert watching.stdout.readline() == "ready\n"
            process = begin(self.request(name, **members))
            try:
                out = watching.communicate(f"{process.pid}\n", timeout=60)[0]
            finally:
                process.kill()
                process.communicate()
        finally:
            watching.kill()
            watching.communicate()
        if watching.returncode != 0:
            raise Failure(f"the killer of a call failed: {watching.returncode}")
        return out == "True\n"

    def blocklist(self):
        return json.loads(self.ask('{"prefix": "osd dump", "format": "json"}'))["blocklist"]


def begin(request, environment=None):
    """Starts a call with the request on its standard input."""
    process = subprocess.Popen([PROGRAM, "call"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                               env=environment)
    process.stdin.write(json.dumps(request).encode())
    process.stdin.close()
    process.stdin = None
    return process


def finish(process, seconds=60):
    """Waits for the end of a call. The output and the log never have the key."""
    try:
        out, log = process.communicate(timeout=seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        raise Failure(f"berth-rbd did not end within {seconds} s; log: {process.communicate()[1].decode()}") from None
    try:
        reply = json.loads(out)
    except ValueError:
        raise Failure(f"berth-rbd: {process.returncode} {out!r} {log.decode()}") from None
    if process.returncode == 0:
        return reply
    if process.returncode != 1:
        raise Failure(f"berth-rbd: {process.returncode} {reply} {log.decode()}")
    raise CallError(reply["error"])


def letters(ceph, image, blocks):
    """Gives the first letter of each block of an image, as Ceph's own binding reads it; "." for a block of zeros."""
    out = ceph.rbd(f"""
with rbd.Image(io, '{image}', read_only=True) as opened:
    print(''.join(chr(opened.read(block * {BLOCK}, 1)[0] or 46) for block in range({blocks})))""")
    return out.strip()
