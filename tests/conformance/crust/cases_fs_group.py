"""RuntimePublishVolume with an fsGroup: the kubelet's rules for the files of a volume. They are set and read on the host."""
import os
import stat

from crust_case import BLOCK, case

PUBLISH = "RuntimePublishVolume"
GID, OTHER = 4242, 4343
ALWAYS = (BLOCK, "FS_GROUP_CHANGE_POLICY_ALWAYS")
MISMATCH = (BLOCK, "FS_GROUP_CHANGE_POLICY_ROOT_MISMATCH")
RW, FOLDER = 0o660, stat.S_ISGID | 0o770


def state(path):
    found = os.lstat(path)
    return found.st_gid, stat.S_IMODE(found.st_mode)


def with_files(bench, root):
    """Makes a device whose root has the group and mode `root`, and has a folder with a file and a symlink."""
    device = bench.device()
    with bench.mounted(device) as folder:
        (folder / "below").mkdir(0o755)
        (folder / "below" / "file").write_text("")
        os.chmod(folder / "below" / "file", 0o644)
        os.symlink("/etc/passwd", folder / "link")
        os.chown(folder, 0, root[0])
        os.chmod(folder, root[1])
    return device


def states_after(bench, device, **fields):
    """Publishes and unpublishes the device, and gives (group, mode) of its root, folder and file, and the symlink's group."""
    pod, sandbox = bench.sandbox()
    bench.unpublish(bench.publish(device, pod.targets[0], sandbox_id=sandbox, **fields))
    bench.wait_free(device, 2)
    with bench.mounted(device) as folder:
        return [state(folder / name) for name in (".", "below", "below/file")] + [state(folder / "link")[0]]


def has_group(found, gid):
    root, folder, file, link = found
    for what, (group, mode), least in (("root", root, FOLDER), ("folder", folder, FOLDER), ("file", file, RW)):
        assert group == gid, f"the {what} has group {group}, not {gid}"
        assert mode & least == least, f"the {what} has mode {mode:o}, without {least & ~mode:o}"
    assert link == gid, f"the symlink has group {link}, not {gid}"


@case("fs-group-ignored", PUBLISH, "every file has the group, and the group may write", ALWAYS)
def _(bench):
    passwd = state("/etc/passwd")
    has_group(states_after(bench, with_files(bench, (0, 0o755)), fsgroup_gid=GID), GID)
    assert state("/etc/passwd") == passwd, "a symlink led out of the volume"


@case("fs-group-always-skips", PUBLISH, "Always looks at each file, also if the root has the group", ALWAYS)
def _(bench):
    has_group(states_after(bench, with_files(bench, (GID, FOLDER)), fsgroup_gid=GID, fsgroup_policy="Always"), GID)


@case("fs-group-mismatch-walks", PUBLISH, "OnRootMismatch changes nothing if the root has group and mode", MISMATCH)
def _(bench):
    _, folder, file, _ = states_after(bench, with_files(bench, (GID, FOLDER)), fsgroup_gid=GID, fsgroup_policy="OnRootMismatch")
    assert folder == (0, 0o755) and file == (0, 0o644), f"{folder}, {file}"


@case("fs-group-mismatch-ignored", PUBLISH, "OnRootMismatch changes each file if the root has another group or mode", MISMATCH)
def _(bench):
    for root in ((OTHER, FOLDER), (GID, 0o700)):
        has_group(states_after(bench, with_files(bench, root), fsgroup_gid=GID, fsgroup_policy="OnRootMismatch"), GID)


@case("fs-group-of-readonly", PUBLISH, "a read-only volume is published as it is", ALWAYS)
def _(bench):
    device = with_files(bench, (0, 0o755))
    before = device.digest()
    pod, sandbox = bench.sandbox()
    bench.unpublish(bench.publish(device, pod.targets[0], sandbox_id=sandbox, fsgroup_gid=GID, mount_options=["ro"]))
    assert device.digest() == before, "the device was written"


@case("accepts-bad-group", PUBLISH, "INVALID_ARGUMENT for an id below 0 or above 4294967294, and for an unknown policy", ALWAYS)
def _(bench):
    pod, sandbox = bench.sandbox()
    device = bench.device()
    for fields in ({"fsgroup_gid": -1}, {"fsgroup_gid": 2**32 - 1}, {"fsgroup_gid": 2**40},
                   {"fsgroup_gid": GID, "fsgroup_policy": "Sometimes"}):
        bench.refuses(PUBLISH, "INVALID_ARGUMENT", **bench.request(device, pod.targets[0], sandbox_id=sandbox, **fields))
    bench.wait_free(device, 2)
