"""The mount table, and the loop devices behind it."""
import subprocess


def targets(pid="self"):
    """Where something is mounted, as a process sees it. os.path.ismount cannot see a bind within one file system."""
    with open(f"/proc/{pid}/mountinfo") as table:
        return [line.split()[4] for line in table]


def unmount_below(folder):
    """Takes away what a failed test left mounted below a folder."""
    for target in sorted((t for t in targets() if t.startswith(f"{folder}/")), reverse=True):
        subprocess.run(["umount", "--lazy", target], check=False)


def let_go_of_others(pid, own=None):
    """Unmounts, in the mount namespace that a process got as a copy, what other tests have mounted, which a copy would
    keep busy for as long as the process lives. What lies below `own` stays. The process's root is the host's."""
    others = [t for t in targets(pid) if t.startswith("/var/tmp/b") and not (own and f"{t}/".startswith(f"{own}/"))]
    for target in sorted(others, reverse=True):
        # Here and there it is gone already: its own test unmounts a folder, and this one what was below.
        subprocess.run(["nsenter", f"--mount=/proc/{pid}/ns/mnt", "umount", "--lazy", target], check=False,
                       capture_output=True)


def detach_loops_below(folder):
    """Detaches the devices of files below a folder."""
    listing = subprocess.run(["losetup", "--list", "--noheadings", "--output", "NAME,BACK-FILE"],
                             capture_output=True, text=True, check=True).stdout
    for line in listing.splitlines():
        name, _, backing = line.partition(" ")
        if backing.strip().startswith(str(folder)):
            subprocess.run(["losetup", "--detach", name], check=False)
