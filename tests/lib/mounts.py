"""The mount table, and the loop devices behind it."""
import pathlib
import subprocess

from lib.standalone import wait_for

OF_TESTS = ("/var/tmp/b", "/tmp/berth-")  # how the folders of tests begin: those of Python and of C++


def targets(pid="self"):
    """Gives the mount points that a process sees. os.path.ismount cannot see a bind mount within one file system."""
    with open(f"/proc/{pid}/mountinfo") as table:
        return [line.split()[4] for line in table]


def unmount_below(folder):
    """Unmounts what a failed test left mounted below a folder."""
    for target in sorted((t for t in targets() if t.startswith(f"{folder}/")), reverse=True):
        subprocess.run(["umount", "--lazy", target], check=False)


def wait_unshared(pid):
    """Waits until unshare(1), which sets the propagation of the mounts after its process is in the namespace, has become
    the program that it runs. A child has its parent's name at first: Popen returns when the kernel closes its pipe, shortly
    before it gives the process the new name."""
    before = {"unshare\n", pathlib.Path("/proc/thread-self/comm").read_text()}
    wait_for("unshare to run its program", lambda: pathlib.Path(f"/proc/{pid}/comm").read_text() not in before)


def _copies(pid, own):
    """Gives the mounts of other tests that a process keeps. A mount on one that is shared, or a slave, ends with
    the mount it was copied from."""
    with open(f"/proc/{pid}/mountinfo") as table:
        mounts = [line.split() for line in table]
    # What is mounted on one of these, and unmounted, elsewhere is so here, too.
    propagating = {fields[0] for fields in mounts if fields[6] != "-"}
    for _, parent, _, _, target, *_ in mounts:
        foreign = target.startswith(OF_TESTS) and not (own and f"{target}/".startswith(f"{own}/"))
        if foreign and parent not in propagating:
            yield target


def let_go_of_others(pid, own=None):
    """Unmounts other tests' mounts in the copied mount namespace of a process, because the copy would keep them busy
    as long as the process lives. Mounts below `own` stay. The process's root has to be the host's."""
    # In the process namespace, too: mount(8) and umount(8) ask /proc for themselves.
    inside = ["nsenter", f"--target={pid}", "--mount", "--pid"]
    said = {}
    # Some of these mounts are gone already, because they were below another one, and some are seen only when the mount
    # that hides them is gone.
    for _ in range(5):
        copies = sorted(_copies(pid, own), reverse=True)
        for target in copies:
            # First of all the mounts on it are no longer shared with those of the other test, which would end, too.
            for command in (["mount", "--make-rprivate"], ["umount", "--lazy"]):
                result = subprocess.run([*inside, *command, target], check=False, text=True, capture_output=True)
                said[target] = result.stderr.strip()
        if not copies:
            return
    left = {target: said.get(target) for target in _copies(pid, own)}
    assert not left, f"process {pid} keeps mounts of other tests: {left}"


def loops_below(folder, inside=lambda *command: command):
    """Gives the loop devices of files below a folder. `inside` gives a command as it has to be run where the folder is
    seen: elsewhere the kernel gives another path."""
    listing = subprocess.run(inside("losetup", "--list", "--noheadings", "--output", "NAME,BACK-FILE"),
                             capture_output=True, text=True, check=True).stdout
    lines = (line.partition(" ") for line in listing.splitlines())
    return [name for name, _, backing in lines if backing.strip().startswith(str(folder))]


def attachment_of(device):
    """Gives the number that the kernel gave the attachment of a loop device, and gives no other one."""
    return pathlib.Path("/sys/block", device.removeprefix("/dev/"), "diskseq").read_text()


def detach_loops_below(folder):
    """Detaches the devices of files below a folder."""
    for name in loops_below(folder):
        subprocess.run(["losetup", "--detach", name], check=False)
