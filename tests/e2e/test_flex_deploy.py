"""deploy/flexvolume: tests of the deployment image's script, with busybox's shell and Debian's, and of its
DaemonSet."""
import os
import pathlib
import re
import signal
import subprocess

import pytest
import yaml
from lib import flex
from lib.standalone import ROOT, wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.flex]


@pytest.fixture(params=["busybox", "dash"])
def deploy(request, tmp_path):
    """Runs the script on folders of the test's own."""
    if request.param == "busybox":
        bin_folder = tmp_path / "bin"
        bin_folder.mkdir()
        for applet in subprocess.check_output(["busybox", "--list"], text=True).split():
            (bin_folder / applet).symlink_to("/bin/busybox")
        return Deploy(tmp_path, [bin_folder / "sh"], str(bin_folder))
    return Deploy(tmp_path, ["/bin/dash"], os.environ["PATH"])


def end_sleep(process):
    """Kills the processes that the script leaves. In a container the script is process 1, and they end with it."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


class Deploy:
    def __init__(self, folder, shell, path):
        self.image = folder / "image"
        self.node = folder / "node"
        self.done = folder / "done"
        self.shell, self.path = shell, path
        self.kubelet = folder / "kubelet"
        self.image.mkdir()
        self.node.mkdir()
        (self.kubelet / "pods").mkdir(parents=True)

    def put(self, path, text, mode=0o755):
        file = self.image / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
        file.chmod(mode)
        return file

    def start(self, *arguments, **env):
        self.done.unlink(missing_ok=True)
        return subprocess.Popen(
            [*self.shell, flex.DEPLOY / "flex-deploy", *arguments], text=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True,
            env={"PATH": self.path, "DRIVERS": str(self.image), "FLEXMNT": str(self.node), "DONE": str(self.done),
                 "KUBELET": str(self.kubelet), "PAUSE": "0.1", **env})

    def run(self, *arguments, **env):
        """Runs the script until its work is done or it fails, and gives its output."""
        process = self.start(*arguments, **env)
        wait_for("the script to be done", lambda: self.done.exists() or process.poll() is not None)
        if self.done.exists():
            assert process.poll() is None, "it stays"
            process.send_signal(signal.SIGTERM)
            said = process.communicate(timeout=30)[0]
            assert process.returncode == 0, said
            end_sleep(process)
        else:
            said = process.communicate(timeout=30)[0]
            assert process.returncode == 1, said
        return said

    def on_node(self):
        """Gives {path: content} of all files but the script's own."""
        return {str(path.relative_to(self.node)): path.read_text() for path in sorted(self.node.rglob("*"))
                if path.is_file() and path.name != ".flex-deploy"}


def test_installs_drivers_of_any_name_with_all_their_files(deploy):
    deploy.put("acme.com~nfs/nfs", "1")
    deploy.put("acme.com~nfs/lib/with a space", "2", 0o644)
    deploy.put("acme.com~nfs/.git/config", "no driver's", 0o644)
    (deploy.image / "acme.com~nfs/link").symlink_to("lib/with a space")
    deploy.put("plain/plain", "3")
    said = deploy.run()
    assert deploy.on_node() == {"acme.com~nfs/lib/with a space": "2", "acme.com~nfs/link": "2", "acme.com~nfs/nfs": "1",
                                "plain/plain": "3"}
    assert (deploy.node / "acme.com~nfs/link").readlink() == pathlib.Path("lib/with a space")
    assert (deploy.node / "plain/plain").stat().st_mode & 0o777 == 0o755
    assert (deploy.node / "acme.com~nfs/lib/with a space").stat().st_mode & 0o777 == 0o644
    assert f"installed {deploy.node}/acme.com~nfs" in said


def test_installs_again_without_touching_a_file(deploy):
    deploy.put("acme.com~nfs/nfs", "1")
    deploy.run()
    before = (deploy.node / "acme.com~nfs/nfs").stat()
    assert "is as in this image" in deploy.run("install")
    after = (deploy.node / "acme.com~nfs/nfs").stat()
    assert (before.st_ino, before.st_ctime_ns) == (after.st_ino, after.st_ctime_ns)
    (deploy.image / "acme.com~nfs/nfs").chmod(0o700)
    deploy.run()
    assert (deploy.node / "acme.com~nfs/nfs").stat().st_mode & 0o777 == 0o700


def test_an_update_is_another_file_and_the_executable_comes_last(deploy, tmp_path):
    deploy.put("acme.com~nfs/a", "1", 0o644)
    deploy.put("acme.com~nfs/nfs", "1")
    deploy.put("acme.com~nfs/old", "1", 0o644)
    deploy.put("acme.com~nfs/z", "1", 0o644)
    deploy.run()
    (deploy.node / "acme.com~nfs/state").write_text("the driver's own")
    (deploy.node / "acme.com~nfs/.nfs.flex-deploy").write_text("of one that was cut short")
    running = open(deploy.node / "acme.com~nfs/nfs")

    for name in "a", "nfs", "z":
        deploy.put(f"acme.com~nfs/{name}", "2")
    (deploy.image / "acme.com~nfs/old").unlink()
    watch = subprocess.Popen(["/usr/bin/python3", "-c", WATCH, deploy.node / "acme.com~nfs"], stdout=subprocess.PIPE, text=True)
    assert watch.stdout.readline() == "watching\n"
    deploy.run()
    (deploy.node / "acme.com~nfs/the end").touch()
    renamed = watch.communicate(timeout=30)[0].split()
    assert running.read() == "1", "who runs it keeps it"
    assert deploy.on_node() == {"acme.com~nfs/a": "2", "acme.com~nfs/nfs": "2", "acme.com~nfs/z": "2",
                                "acme.com~nfs/state": "the driver's own", "acme.com~nfs/the end": ""}
    assert renamed == ["a", "z", "nfs"], "renamed, and nothing else written there"


# Prints the names that appear in a folder by a rename, in their order, and those of files that are written in place
# with WRITTEN- in front.
WATCH = """
import ctypes, os, struct, sys
libc = ctypes.CDLL(None)
fd = libc.inotify_init()
assert libc.inotify_add_watch(fd, sys.argv[1].encode(), 0x80 | 0x2 | 0x100) >= 0  # moved to, modified, created
print("watching", flush=True)
while True:
    data = os.read(fd, 65536)
    while data:
        _, mask, _, size = struct.unpack("iIII", data[:16])
        name = data[16:16 + size].rstrip(b"\\0").decode()
        data = data[16 + size:]
        if name == "the end":
            sys.exit()
        if not name.startswith("."):
            print(name if mask & 0x80 else "WRITTEN-" + name, flush=True)
"""


def test_a_stale_copy_is_never_put_in_place(deploy):
    deploy.put("acme.com~nfs/nfs", "1")
    deploy.run()
    (deploy.node / "acme.com~nfs/.nfs.flex-deploy").write_text("half of another")
    deploy.run()
    assert deploy.on_node() == {"acme.com~nfs/nfs": "1"}


def test_removes_its_drivers_and_no_other(deploy):
    deploy.put("acme.com~nfs/nfs", "1")
    deploy.put("acme.com~nfs/lib", "1", 0o644)
    deploy.run()
    other = deploy.node / "other.com~nfs"
    other.mkdir()
    (other / "nfs").write_text("not mine")
    assert f"removed {deploy.node}/acme.com~nfs" in deploy.run("remove")
    assert deploy.on_node() == {"other.com~nfs/nfs": "not mine"}
    assert not (deploy.node / "acme.com~nfs").exists()
    assert "is not there" in deploy.run("remove")


def read_until(process, text):
    for line in process.stdout:
        if text in line:
            return line
    raise AssertionError(f"it ended without a line with {text!r}")


def test_a_driver_stays_until_no_volume_of_it_is_mounted(deploy):
    deploy.put("acme.com~nfs/nfs", "1")
    deploy.run()
    mounted = [deploy.kubelet / "pods/uid-1/volumes/acme.com~nfs/my data",
               deploy.kubelet / "plugins/kubernetes.io/flexvolume/acme.com/nfs/mounts/pv-1"]
    for folder in (*mounted, deploy.kubelet / "pods/uid-2/volumes/other.com~nfs/pv-2"):
        folder.mkdir(parents=True)
    process = deploy.start("remove")
    assert read_until(process, "volume my data of pod uid-1 still needs acme.com~nfs")
    assert read_until(process, "the device of volume pv-1 still needs acme.com~nfs")
    mounted[0].rmdir()
    assert read_until(process, "the device of volume pv-1 still needs acme.com~nfs"), "what is left is told"
    assert process.poll() is None and not deploy.done.exists(), "it waits"
    assert deploy.on_node() == {"acme.com~nfs/nfs": "1"}
    mounted[1].rmdir()
    assert read_until(process, f"removed {deploy.node}/acme.com~nfs")
    wait_for("the script to be done", deploy.done.exists)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=30) == 0
    process.stdout.close()
    end_sleep(process)


def test_a_signal_ends_the_wait_for_a_volume_and_the_driver_stays(deploy):
    deploy.put("acme.com~nfs/nfs", "1")
    deploy.run()
    (deploy.kubelet / "pods/uid-1/volumes/acme.com~nfs/data").mkdir(parents=True)
    process = deploy.start("remove", PAUSE="600")
    assert read_until(process, "stop these pods")
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=30) == 0
    process.stdout.close()
    end_sleep(process)
    assert deploy.on_node() == {"acme.com~nfs/nfs": "1"} and not deploy.done.exists()


def test_a_driver_is_removed_at_once_only_if_one_says_so(deploy):
    deploy.put("acme.com~nfs/nfs", "1")
    deploy.run()
    assert "nobody knows which volumes are mounted" in deploy.run("remove", KUBELET="/nowhere")
    assert deploy.on_node() == {"acme.com~nfs/nfs": "1"}
    (deploy.kubelet / "pods/uid-1/volumes/acme.com~nfs/data").mkdir(parents=True)
    assert f"removed {deploy.node}/acme.com~nfs" in deploy.run("remove", "now")
    assert not (deploy.node / "acme.com~nfs").exists()
    assert "'remove soon' is neither" in deploy.run("remove", "soon")


def test_refuses_what_is_no_driver_before_it_touches_the_node(deploy):
    assert "there is no driver below" in deploy.run()
    deploy.put("acme.com~good/good", "1")
    for path, mode, text in (("acme.com~nfs/other", 0o755, "1"), ("acme.com~nfs/nfs", 0o644, "1"), ("acme.com~nfs/nfs", 0o755, ""),
                             ("a~b~c/c", 0o755, "1")):
        file = deploy.put(path, text, mode)
        assert re.search("there is no executable file|is no name of a driver", deploy.run()), path
        file.unlink()
        file.parent.rmdir()
    assert not list(deploy.node.iterdir())
    assert "is neither install nor remove" in deploy.run("instal")
    (deploy.node / "acme.com~good").symlink_to("/tmp")
    assert "is a symbolic link" in deploy.run()
    assert "there is no driver folder" in deploy.run(FLEXMNT="/nowhere")


def test_a_signal_ends_it_soon(deploy):
    deploy.put("acme.com~nfs/nfs", "1")
    process = deploy.start()
    wait_for("the script to be done", deploy.done.exists)
    process.send_signal(signal.SIGTERM)
    assert process.wait(timeout=30) == 0
    assert deploy.on_node() == {"acme.com~nfs/nfs": "1"}, "the driver stays"
    process.stdout.close()
    end_sleep(process)


def test_files_get_their_label_before_they_get_their_name(deploy, tmp_path):
    """Uses a chcon that records its arguments."""
    tools, asked = tmp_path / "tools", tmp_path / "asked"
    tools.mkdir()
    (tools / "chcon").write_text(f'#!/bin/sh\necho "$@" >>{asked}\n')
    (tools / "chcon").chmod(0o755)
    deploy.path = f"{tools}:{deploy.path}"
    deploy.put("acme.com~nfs/nfs", "1")
    deploy.put("acme.com~nfs/lib", "1", 0o644)
    deploy.run(SELINUX_LABEL="system_u:object_r:bin_t:s0")
    target = deploy.node / "acme.com~nfs"
    assert asked.read_text().splitlines() == [f"system_u:object_r:bin_t:s0 {target}/./.{name}.flex-deploy"
                                              for name in ("lib", "nfs")]


def test_a_label_that_cannot_be_given_stops_it(deploy, tmp_path):
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "chcon").write_text("#!/bin/sh\necho no such label >&2\nexit 1\n")
    (tools / "chcon").chmod(0o755)
    deploy.path = f"{tools}:{deploy.path}"
    deploy.put("acme.com~nfs/nfs", "1")
    assert "no such label" in deploy.run(SELINUX_LABEL="x")
    assert "acme.com~nfs/nfs" not in deploy.on_node()


def test_the_daemonset_reaches_what_it_needs_and_no_more():
    daemon_set = yaml.safe_load((flex.DEPLOY / "daemonset.yaml").read_text())
    spec = daemon_set["spec"]["template"]["spec"]
    [container] = spec["containers"]
    drivers, kubelet = container["volumeMounts"]
    assert drivers == {"name": "drivers", "mountPath": "/flexmnt"}
    # Without the propagation, the pod would keep volumes mounted that the node has unmounted.
    assert kubelet == {"name": "kubelet", "mountPath": "/kubelet", "readOnly": True, "mountPropagation": "HostToContainer"}
    paths = {volume["name"]: volume["hostPath"] for volume in spec["volumes"]}
    assert paths["kubelet"] == {"path": "/var/lib/kubelet", "type": "Directory"}
    assert paths["drivers"] == {"path": "/usr/libexec/kubernetes/kubelet-plugins/volume/exec", "type": "DirectoryOrCreate"}
    assert container["args"] == ["install"]
    assert "privileged" not in container["securityContext"]
    assert container["securityContext"]["capabilities"]["drop"] == ["ALL"]
    assert {t["key"] for t in spec["tolerations"]} == {"node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"}
    assert daemon_set["spec"]["selector"]["matchLabels"] == daemon_set["spec"]["template"]["metadata"]["labels"]


def test_the_recipe_is_what_the_tests_make():
    recipe = (flex.DEPLOY / "Containerfile").read_text()
    lines = [line for line in recipe.splitlines() if line and not line.startswith("#")]
    assert lines[1:] == ["ARG DRIVERS", "COPY deploy/flexvolume/flex-deploy /flex-deploy", "COPY ${DRIVERS} /drivers",
                         'ENTRYPOINT ["/flex-deploy"]']
    assert (ROOT / "deploy/flexvolume/flex-deploy").stat().st_mode & 0o111
