"""A berth-oci that dies at a chosen system call, as if it were killed there."""
import os
import pathlib
import shutil

# System calls by their numbers on x86-64. The create of a container passes them in this order. The create of a
# sandbox passes the first three, and so does the delete of a sandbox, after runc has done its part.
CALLS = {"connect": 42, "sendmsg": 46, "recvmsg": 47, "unshare": 272, "mount": 165, "mkdir": 83, "move_mount": 429,
         "link": 86, "rename": 82}
OF_SANDBOX = ("connect", "sendmsg", "recvmsg")

# A file KIND-CALL orders one death at that call. The first create or delete of a container removes one such file and
# dies; further ones of the same container do not die. The seccomp filter is inherited by execve, and kills the process
# with SIGSYS when the call begins.
WRAPPER = """\
#!/usr/bin/python3 -S
import ctypes, json, os, struct, sys
TURNS, SEEN, PROGRAM, CALLS, MARKS = {turns!r}, {seen!r}, {program!r}, {calls!r}, {marks!r}
CRI = "io.kubernetes.cri."
def whose():
    "What is done, and to which container."
    if "create" in sys.argv:
        with open(sys.argv[sys.argv.index("--bundle") + 1] + "/config.json") as config:
            said = json.load(config)["annotations"]
        return said[CRI + "container-type"], said[CRI + "sandbox-uid"] + said.get(CRI + "container-name", "")
    if "delete" in sys.argv and os.path.exists(MARKS + "/" + sys.argv[-1]):
        return "delete", sys.argv[-1]
    return None, None
def turn():
    left = os.listdir(TURNS)
    kind, container = whose() if left else (None, None)
    if kind is None:
        return None
    try:
        os.mkdir(SEEN + "/" + container)
    except FileExistsError:
        return None
    for name in sorted(left):
        if name.startswith(kind + "-"):
            try:
                os.unlink(TURNS + "/" + name)
                return name.partition("-")[2]
            except FileNotFoundError:
                pass
call = turn()
if call is not None:
    filter = ctypes.create_string_buffer(
        struct.pack("HBBI", 0x20, 0, 0, 0) + struct.pack("HBBI", 0x15, 0, 1, CALLS[call])
        + struct.pack("HBBI", 0x06, 0, 0, 0x80000000) + struct.pack("HBBI", 0x06, 0, 0, 0x7fff0000))
    program = struct.pack("HxxxxxxP", 4, ctypes.addressof(filter))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(38, 1, 0, 0, 0) != 0 or libc.prctl(22, 2, program, 0, 0) != 0:
        sys.exit("seccomp: " + os.strerror(ctypes.get_errno()))
os.execv(PROGRAM, sys.argv)
"""


class OciKiller:
    """Takes the place of a handler's berth-oci for as long as it is entered."""

    def __init__(self, handler):
        self.oci = pathlib.Path(handler.oci)
        self.folder = self.oci.parent / "killer"
        self.turns = self.folder / "turns"
        self.seen = self.folder / "seen"
        self.marks = handler.run / "sandboxes"

    def __enter__(self):
        self.turns.mkdir(parents=True)
        self.seen.mkdir()
        real = self.folder / "berth-oci"
        shutil.copy(self.oci, real)
        shutil.copy(f"{self.oci}.json", f"{real}.json")
        self.put(WRAPPER.format(turns=str(self.turns), seen=str(self.seen), program=str(real), calls=CALLS,
                                marks=str(self.marks)).encode())
        return self

    def __exit__(self, *_):
        self.put((self.folder / "berth-oci").read_bytes())
        shutil.rmtree(self.folder)

    def put(self, content):
        """Replaces the program in one step, because it may be called at any moment."""
        fresh = self.oci.with_name(".berth-oci")
        fresh.write_bytes(content)
        fresh.chmod(0o755)
        os.rename(fresh, self.oci)

    def die_at(self, kind, calls):
        for call in calls:
            (self.turns / f"{kind}-{call}").touch()

    def left(self):
        return sorted(path.name for path in self.turns.iterdir())
