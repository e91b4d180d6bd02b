"""The mount table, and the loop devices behind it."""
import subprocess

OF_TESTS = ("/var/tmp/b", "/tmp/berth-")  # how the folders of tests begin: those of Python and of C++


def targets(pid="self"):
    """Gives the mount points that a process sees. os.path.ismount cannot see a bind mount within one file system."""
    with open(f"/proc/{pid}/mountinfo") as table:
        return [line.split()[4] for line in table]


def unmount_below(folder):
    """Unmounts what a failed test left mounted below a folder."""
    for target in sorted((t for t in targets() if t.startswith(f"{folder}/")), reverse=True):
        subprocess.run(["umount", "--lazy", target], check=False)


def _copies(pid, own):
    """Gives the mounts of other tests that a process keeps. One that is shared, or a slave, ends with the mount it was copied from."""
    with open(f"/proc/{pid}/mountinfo") as table:
        for line in table:
            fields = line.split()
            target, propagation = fields[4], fields[6:fields.index("-")]
            if target.startswith(OF_TESTS) and not propagation and not (own and f"{target}/".startswith(f"{own}/")):
                yield target


def let_go_of_others(pid, own=None):
    """Unmounts other tests' mounts in the copied mount namespace of a process, because the copy would keep them busy
    as long as the process lives. Mounts below `own` stay. The process's root has to be the host's."""
    for target in sorted(_copies(pid, own), reverse=True):
        # In the process namespace, too: umount(8) asks /proc for itself. Some of these mounts are gone already, because
        # they were below another one.
        subprocess.run(["nsenter", f"--target={pid}", "--mount", "--pid", "umount", "--lazy", target], check=False,
                       capture_output=True)
    left = list(_copies(pid, own))
    assert not left, f"process {pid} keeps mounts of other tests: {left}"


def loops_below(folder):
    """Gives the loop devices of files below a folder."""
    listing = subprocess.run(["losetup", "--list", "--noheadings", "--output", "NAME,BACK-FILE"],
                             capture_output=True, text=True, check=True).stdout
    lines = (line.partition(" ") for line in listing.splitlines())
    return [name for name, _, backing in lines if backing.strip().startswith(str(folder))]


def detach_loops_below(folder):
    """Detaches the devices of files below a folder."""
    for name in loops_below(folder):
        subprocess.run(["losetup", "--detach", name], check=False)
