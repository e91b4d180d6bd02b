"""What Berth's roles put on a disk is for root alone, whatever the umask is and whatever was there before."""
import contextlib
import functools
import operator
import os
import pathlib
import re
import shutil
import stat
import subprocess
import tempfile

import pytest
from lib import block_agent, mounts, objects
from lib.csi_double import NAME, CsiDouble
from lib.roles import Role
from lib.standalone import wait_for

pytestmark = [pytest.mark.security, pytest.mark.e2e]

# What others may use, by its path below the test's folder: (path, the most that its mode may have, why). Each is in a
# data folder that others cannot enter, unless the reason says otherwise.
OPEN = [
    (r"data/kubelet", 0o755, "the kubelet's own folder has this mode; drivers and their pods know it"),
    (r"data/kubelet/(plugins|pods|plugins_registry|plugin-containers)(/.*)?", 0o755,
     "as the kubelet makes them: a driver's pod, which may run as another user, mounts and lists them"),
    (r"data/kubelet/pods/[^/]+/etc-hosts", 0o644, "each user of a container reads /etc/hosts"),
    (r"data/kubelet/pods/[^/]+/containers/.*", 0o666, "each user of a container writes its termination message"),
    (r"data/kubelet/pods/[^/]+/volumes(/.*)?", 0o777, "a volume is for the users of its containers; they see it by "
                                                       "its mount alone"),
    (r"data/pod-logs(/.*)?", 0o755, "as the kubelet's /var/log/pods"),
    (r"data/volume-plugins(/.*)?", 0o755, "Flexvolume drivers that an administrator installs; no secrets are in them"),
]


@pytest.fixture
def open_place():
    """Gives a folder that everybody may use, and a process umask that takes no right away."""
    folder = pathlib.Path(tempfile.mkdtemp(prefix="bt-", dir="/var/tmp"))
    before = os.umask(0)
    folder.chmod(0o777)
    try:
        yield folder
    finally:
        os.umask(before)
        mounts.unmount_below(folder)
        mounts.detach_loops_below(folder)
        shutil.rmtree(folder, ignore_errors=True)


def walk(folder, top):
    """Gives the paths below `folder` that are of its file system, as (path relative to `top`, stat)."""
    for entry in os.scandir(folder):
        info = entry.stat(follow_symlinks=False)
        if stat.S_ISLNK(info.st_mode):
            continue
        yield str(pathlib.Path(entry.path).relative_to(top)), info
        if stat.S_ISDIR(info.st_mode) and not os.path.ismount(entry.path):
            yield from walk(entry.path, top)


def offences(top, allowed):
    """Gives the files and folders to which others have rights that the list does not give them."""
    found = []
    for path, info in walk(top, top):
        mode = stat.S_IMODE(info.st_mode)
        most = [most for pattern, most, _ in allowed if re.fullmatch(pattern, path)]
        if mode & 0o077 & ~functools.reduce(operator.or_, most, 0):
            found.append(f"{path} has mode {mode:04o}")
    return found


def assert_private(top, allowed=()):
    found = offences(top, allowed)
    assert not found, "others may use:\n" + "\n".join(found)


def test_the_list_is_kept_to(tmp_path):
    (tmp_path / "secret").write_text("x")
    (tmp_path / "secret").chmod(0o640)
    (tmp_path / "known").mkdir()
    (tmp_path / "known").chmod(0o777)
    assert sorted(offences(tmp_path, [("known", 0o755, "")])) == ["known has mode 0777", "secret has mode 0640"]


@pytest.mark.parametrize("before", ["empty", "of-an-earlier-berth"])
def test_a_standalone_berth_in_an_open_folder(open_place, new_berth, before):
    berth = new_berth()
    berth.data = open_place / "data"
    berth.data.mkdir(mode=0o777)
    (berth.data / "api").mkdir(mode=0o755)
    if before == "of-an-earlier-berth":
        berth.start()
        berth.apply({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"key": "hidden"}})
        folders = [berth.data / name for name in (
            "", "api", "api/pki", "flight", "node", "node/pods", "node/volumes/devices", "pool", "pool/volumes", "run")]
        wait_for("its folders", lambda: all(folder.exists() for folder in folders))
        berth.kill()
        for folder in folders:
            folder.chmod(0o755)
        for path in [berth.data / "kubeconfig", *(berth.data / "api").glob("objects.db*"),
                     *(berth.data / "api/pki").iterdir()]:
            path.chmod(0o644)
    berth.start()
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "t"}, "stringData": {"key": "hidden"}}
    berth.apply([objects.storage_class("here", "ext4"), objects.claim("data", storage_class="here"), secret,
                 objects.pod("user", "sleep 1000", claims=["data"], volumes=[{"name": "t", "secret": {
                     "secretName": "t"}}, {"name": "e", "emptyDir": {}}])])
    berth.wait_phase("pod", "user", "Running")
    berth.run("token", "create", "somebody")
    assert stat.S_IMODE(berth.data.stat().st_mode) == 0o700
    assert "other users had rights to" in berth.log.read_text(), "it says what it closed"
    listed = {path for path, _ in walk(open_place, open_place)}
    for name in ("api/objects.db", "api/objects.db-wal", "api/objects.db-shm", "kubeconfig", "api/tokens.json"):
        assert f"data/{name}" in listed, "the test looks at nothing"
    backup = open_place / "backup"
    berth.run("backup", backup)
    assert_private(open_place, OPEN)
    berth.stop()
    berth.run("restore", backup)
    assert_private(berth.data / "api")
    berth.start()
    berth.remove_everything()


def as_nobody(*command):
    return subprocess.run(["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", *map(str, command)],
                          capture_output=True, text=True)


def test_nobody_reads_the_secrets_of_a_folder_that_was_open(open_place, new_berth):
    """The way in that was found: a local user reads the store of a data folder with mode 0755."""
    berth = new_berth()
    berth.data = open_place / "data"
    berth.data.mkdir(mode=0o755)
    berth.start()
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "t"}, "stringData": {"key": "hidden"}}
    berth.apply(secret)
    for name in ("objects.db", "objects.db-wal"):
        assert as_nobody("cat", berth.data / "api" / name).returncode != 0, name
    assert as_nobody("ls", berth.data).returncode != 0


def test_a_folder_that_all_users_share_is_refused(open_place, new_berth):
    """It must stay open, as /tmp must, and then others could put files of their own in the place of Berth's."""
    shared = open_place / "tmp"
    shared.mkdir(mode=0o777)
    shared.chmod(0o1777)
    berth = new_berth()
    berth.data = shared
    berth.start(wait=False)
    wait_for("'berth up' to give up", lambda: berth.process.poll() is not None)
    berth.kill()
    assert "all users share it" in berth.log_tail()
    assert stat.S_IMODE(shared.stat().st_mode) == 0o1777


def test_a_data_folder_at_the_root_of_a_disk(open_place, new_berth):
    """Others may use the disk as well, so it stays open, and what Berth makes on it is closed."""
    berth = new_berth()
    berth.data = open_place / "data"
    berth.data.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=256m,mode=0755", "berth-test", berth.data], check=True)
    (berth.data / "lost+found").mkdir(mode=0o700)
    berth.start()
    berth.apply([objects.storage_class("here", "ext4"), objects.claim("data", storage_class="here"),
                 objects.pod("user", "sleep 1000", claims=["data"], volumes=[{"name": "e", "emptyDir": {}}])])
    berth.wait_phase("pod", "user", "Running")
    assert stat.S_IMODE(berth.data.stat().st_mode) == 0o755
    assert "is the root of a mounted file system" in berth.log.read_text(), "it says what it leaves open"
    assert list((berth.data / "kubelet/pods").iterdir()), "the test looks at nothing"
    assert_private(berth.data, [(pattern.removeprefix("data/"), most, why) for pattern, most, why in OPEN
                                if pattern not in ("data/kubelet", r"data/pod-logs(/.*)?")] +
                   [(r"pod-logs/.*", 0o755, "nobody else can enter pod-logs")])
    for name in ("kubelet", "pod-logs", "api", "pool"):
        assert as_nobody("ls", berth.data / name).returncode != 0, name
    berth.remove_everything()
    berth.stop()


DRIVER_FOLDERS = (r"plugin|registry", 0o755, "as the kubelet makes a driver's folders")


@contextlib.contextmanager
def csi_driver(place):
    driver = Role(place.parent / f"{place.name}.log", "csi-driver", "--node-id", "n", "--pool", place / "pool",
                  "--endpoint", place / "plugin" / "csi.sock", "--registration-folder", place / "registry",
                  "--flight", place / "flight")
    try:
        wait_for("the driver to listen", (place / "plugin" / "csi.sock").exists)
        wait_for("its registration", lambda: list((place / "registry").glob("*.sock")))
        yield driver
    finally:
        driver.stop()
        driver.log_path.unlink()


def test_the_files_of_a_csi_driver(open_place):
    pool = open_place / "pool"
    pool.mkdir(mode=0o777)
    with csi_driver(open_place):
        assert stat.S_IMODE(pool.stat().st_mode) == 0o700
        assert_private(open_place, [DRIVER_FOLDERS])


def test_a_pool_in_a_folder_of_others_leaves_it_to_them(open_place):
    """An administrator names the folder in which all have their things: it is not closed, and Berth's images are."""
    pool = open_place / "pool"
    pool.mkdir(mode=0o755)
    (pool / "photos").mkdir(mode=0o755)
    with csi_driver(open_place) as driver:
        assert "'photos'" in driver.log(), "it says what it leaves open"
        assert as_nobody("ls", pool / "photos").returncode == 0
        assert as_nobody("ls", pool / "volumes").returncode != 0
        assert_private(open_place, [DRIVER_FOLDERS, (r"pool(/photos)?", 0o755, "it is not Berth's alone")])


HANDLERS = {"crust-handler": ("--oci-socket", "oci.sock", "--data", "data", "--run", "run", "--kubelet", "kubelet"),
            "kata-handler": ("--data", "data", "--kata-run", "run", "--bundles", "bundles", "--kubelet", "kubelet")}


@pytest.mark.parametrize("role", HANDLERS)
def test_the_files_of_a_handler(open_place, role):
    for name in ("data", "run"):
        (open_place / name).mkdir(mode=0o777)
    flags = [word if word.startswith("--") else open_place / word for word in HANDLERS[role]]
    handler = Role(open_place.parent / f"{open_place.name}.log", role, "--socket", open_place / "crust.sock", *flags)
    try:
        wait_for("the handler to listen", lambda: (open_place / "crust.sock").exists() or
                 handler.process.poll() is not None)
        assert (open_place / "crust.sock").exists(), handler.log()
        assert_private(open_place, [(r"run", 0o777, "it is Kata's")] if role == "kata-handler" else [])
    finally:
        handler.stop()
        handler.log_path.unlink()


def test_the_files_of_a_block_agent(open_place, berth):
    block_agent.define_kinds(berth)
    data = open_place / "data"
    data.mkdir(mode=0o777)
    agent = block_agent.BlockAgent(berth, "node-a", data, open_place)
    agent.log = berth.folder / "block-agent.log"
    try:
        agent.start()
        wait_for("its driver to be installed", lambda: list((data / "volume-plugins").glob("*/*")) and
                 agent.socket.exists())
        assert_private(open_place, OPEN)
    finally:
        agent.kill()


@pytest.mark.parametrize("role", ["utilities", "registrar", "controller"])
def test_the_files_of_a_role(open_place, berth, tmp_path, role):
    """With these roles a program serves utilities, announces a driver, or does a sidecar's work."""
    double = CsiDouble(tmp_path / "double").start()
    (open_place / "data").mkdir(mode=0o700)  # a kubelet's
    arguments, done = {
        "utilities": (["node", "--roles", "utilities", "--kubelet-dir", open_place / "data/kubelet",
                       "--utility-socket", open_place / "run/utilities.sock", "--container-runtime-endpoint",
                       f"unix://{berth.runtime_socket}"], open_place / "run/utilities.sock"),
        "registrar": (["node", "--roles", "registrar", "--csi-address", double.socket, "--kubelet-registration-path",
                       double.socket, "--plugin-registration-path", open_place], open_place / f"{NAME}-reg.sock"),
        "controller": (["controller", "--roles", "provisioner,attacher,resizer", "--csi-address", double.socket,
                        "--kubeconfig", berth.data / "kubeconfig", "--flight", open_place / "flight"],
                       open_place / "flight"),
    }[role]
    process = Role(tmp_path / "role.log", *arguments)
    try:
        wait_for("the role to make its file", lambda: done.exists() or process.process.poll() is not None)
        assert done.exists(), process.log()
        assert_private(open_place, OPEN + [("run", 0o755, "its sockets and records have modes of their own")])
    finally:
        process.stop()
        double.stop()
