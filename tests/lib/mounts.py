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


def detach_loops_below(folder):
    """Detaches the devices of files below a folder."""
    listing = subprocess.run(["losetup", "--list", "--noheadings", "--output", "NAME,BACK-FILE"],
                             capture_output=True, text=True, check=True).stdout
    for line in listing.splitlines():
        name, _, backing = line.partition(" ")
        if backing.strip().startswith(str(folder)):
            subprocess.run(["losetup", "--detach", name], check=False)
