"""The user story of mount utilities in pods. The host has no GlusterFS client, and pods use GlusterFS volumes by the
DaemonSet of deploy/mount-pod, with a real server. The mount pod is upgraded by generations and by the taint."""
import os
import pathlib
import re
import shutil
import subprocess
import tempfile

import pytest
from lib import debian_root, gluster, mount_pods, objects, pod_image
from lib.ended_pods import judge_end, run_to_end
from lib.mounts import targets
from lib.standalone import wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.mountpod]

HOST_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

# Appends numbers for ever, syncs each to the server before the next, and prints errors.
WRITER = """
i=0
while :; do
  echo $i | dd of=/data/numbers oflag=append conv=notrunc,fsync 2>/dev/null || echo "write $i failed"
  [ "$(tail -n 1 /data/numbers)" = $i ] || echo "$i is not what was read"
  i=$((i + 1))
  [ -e /data/stop ] && echo "wrote $i" && exit 0
  sleep 0.02
done
"""


@pytest.fixture(scope="module")
def server():
    folder = pathlib.Path(tempfile.mkdtemp(prefix="bt-", dir="/var/tmp"))
    server = gluster.GlusterServer(folder)
    try:
        yield server.start()
    except debian_root.Missing as missing:
        pytest.skip(str(missing))
    finally:
        server.stop()


@pytest.fixture(scope="module")
def image(runtime, tmp_path_factory):
    pod_image.import_into(runtime, "glusterfs", tmp_path_factory.mktemp("image") / "image.tar")


@pytest.fixture
def pods_of_gluster(server, image, berth):
    pods = mount_pods.MountPods(berth, "glusterfs").apply()
    yield pods
    berth.remove_everything(seconds=60)
    pods.delete()


def volume_of(server, berth, name):
    """Makes a new volume of the server, and gives it as a pod's volume `data`."""
    server.volume(name)
    berth.apply({"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": name},
                 "subsets": [{"addresses": [{"ip": server.address}], "ports": [{"port": 1}]}]})
    return {"name": "data", "glusterfs": {"endpoints": name, "path": name}}


def pod(name, script, volume):
    return objects.pod(name, script, mounts=[{"name": "data", "mountPath": "/data"}], volumes=[volume])


def daemon_of(berth, name):
    """Gives the UID of the mount pod that serves the GlusterFS volume of a pod."""
    uid = berth.get("pod", name)["metadata"]["uid"]
    serving = {served for path, served in mount_pods.daemons(berth.data).items() if f"/pods/{uid}/" in path}
    assert len(serving) == 1, mount_pods.daemons(berth.data)
    return serving.pop()


def taints(berth):
    return berth.get("node", "node-a").get("spec", {}).get("taints")


def numbers(server, volume):
    return server.read(volume, "numbers").split()


def wait_for_more(server, volume, what):
    before = len(numbers(server, volume))
    wait_for(what, lambda: len(numbers(server, volume)) > before + 3)


def test_the_host_has_no_client():
    for program in ("mount.glusterfs", "glusterfs", "glusterfsd"):
        assert shutil.which(program, path=f"{HOST_PATH}:{os.environ['PATH']}") is None


def test_a_glusterfs_volume_by_the_utilities_of_a_pod(server, berth, pods_of_gluster):
    volume = volume_of(server, berth, "story")

    # The administrator deploys one DaemonSet.
    first = pods_of_gluster.wait_ready()
    found = {f["name"]: f for f in mount_pods.doctor(berth) if f["area"] == "mount pods"}
    assert {"propagation", "registration", "utilities"} == set(found)
    assert not [f for f in found.values() if f["verdict"] != "ok"], "mkfs and fsck are there, too"

    # A user creates a pod with a GlusterFS volume, configures nothing else, and sees it run.
    berth.apply(pod("writer", WRITER, volume))
    berth.wait_phase("pod", "writer", "Running")
    wait_for("the pod to make its file", lambda: server.has("story", "numbers"))
    wait_for_more(server, "story", "the first data")
    assert daemon_of(berth, "writer") == first["metadata"]["uid"]

    # Upgrade by generations: the new pod starts beside the old one, and new mounts go to it at once.
    pods_of_gluster.change("second")
    second = pods_of_gluster.wait_ready("second")
    wait_for("the old mount pod to be deleted", pods_of_gluster.leaving)
    berth.apply(pod("reader", "tail -n 1 /data/numbers && sleep 1000", volume))
    berth.wait_phase("pod", "reader", "Running")
    assert daemon_of(berth, "reader") == second["metadata"]["uid"]
    assert daemon_of(berth, "writer") == first["metadata"]["uid"], "who mounted it serves it"
    wait_for_more(server, "story", "data by the old generation")

    # The node agent is restarted meanwhile. The old generation is in its grace period of days, and stays.
    berth.stop()
    berth.start()
    wait_for_more(server, "story", "data after the agent's restart")
    assert [p["metadata"]["uid"] for p in pods_of_gluster.leaving()] == [first["metadata"]["uid"]]
    assert daemon_of(berth, "writer") == first["metadata"]["uid"]

    # The old pod's last mount is unmounted, and the old pod ends. The newer one keeps its mounts.
    berth.run("exec", "reader", "--", "touch", "/data/stop")
    said = judge_end(berth, "writer")[1].strip()
    written = re.fullmatch(r"wrote (\d+)", said)
    assert written, f"not one error, but: {said}"
    assert numbers(server, "story") == [str(i) for i in range(int(written[1]))]
    berth.delete("pod", "writer")
    wait_for("the old generation to end", lambda: not pods_of_gluster.leaving())
    # A client of GlusterFS keeps what it knows of a file's size for a second.
    wait_for("the reader to see all that was written",
             lambda: berth.run("exec", "reader", "--", "cat", "/data/numbers").stdout.split() == numbers(server, "story"))

    # Upgrade by emptying the node: it is tainted, the pod is replaced, and the taint is removed.
    pods_of_gluster.change("third", strategy={"type": "OnDelete"})
    upgrade = ("upgrade", "mount-pod", "--node", "node-a")
    plan = berth.run(*upgrade, "--dry-run").stdout
    assert "would evict pod default/reader" in plan, plan
    assert f"would delete mount pod {mount_pods.NAMESPACE}/{second['metadata']['name']}" in plan, plan
    assert berth.get("pod", "reader") and not taints(berth)
    said = berth.run(*upgrade, "--timeout", "90", timeout=120).stdout
    assert "removed the taint" in said, said
    third = pods_of_gluster.wait_ready("third")
    assert berth.get("pod", "reader") is None
    assert not taints(berth)
    assert "nothing to do" in berth.run(*upgrade).stdout

    # Users notice nothing, and the data is there.
    _, said = run_to_end(berth, pod("again", "cat /data/numbers", volume))
    assert said.split() == numbers(server, "story")
    assert pods_of_gluster.registered() == third["metadata"]["uid"]


def test_without_a_mount_pod_the_event_says_what_lacks(server, berth):
    volume = volume_of(server, berth, "alone")
    berth.apply(pod("alone", "true", volume))

    def told():
        return [e["message"] for e in berth.events("alone") if e["reason"] == "FailedMount" and "glusterfs" in e["message"]]
    wait_for("an event", told)
    assert berth.get("pod", "alone")["status"]["phase"] == "Pending"
    assert not [t for t in targets() if t.startswith(f"{berth.data}/kubelet/pods/") and "glusterfs" in t]


# The steps of an administrator on a node with an unmodified kubelet, and then the mount that the kubelet would make.
# Overlays cover the host's folders, so that nothing stays on this machine.
PLAIN_MOUNT = """
for folder in /usr/sbin /etc; do
  mkdir -p {work}$folder/upper {work}$folder/work
  mount -t overlay overlay -o lowerdir=$folder,upperdir={work}$folder/upper,workdir={work}$folder/work $folder
done
{berth} install-shims glusterfs --socket {socket}
mount -t glusterfs {source} {target}
echo by the shim > {target}/file
cat {target}/file
! mount -t glusterfs {source}-that-is-not-there {target} || exit 1
{berth} remove-shims
! [ -e /sbin/mount.glusterfs ]
"""


def test_a_plain_mount_through_the_shim(server, berth, pods_of_gluster):
    mount_pod = pods_of_gluster.wait_ready()
    source = f"{server.address}:/shim"
    server.volume("shim")
    target = berth.data / "kubelet" / "by-hand"
    target.mkdir()
    with tempfile.TemporaryDirectory(dir="/dev/shm") as work:  # the layers of an overlay must not be on an overlay
        script = PLAIN_MOUNT.format(work=work, berth=berth.binary, socket=berth.data / "run" / "utilities.sock",
                                    source=source, target=target)
        result = subprocess.run(["unshare", "--mount", "--propagation", "slave", "sh", "-ec", script],
                                capture_output=True, text=True, timeout=120)
    assert result.returncode == 0, result.stdout + result.stderr
    assert "by the shim" in result.stdout
    assert server.read("shim", "file") == "by the shim\n"
    assert str(target) in targets(), "the host sees it"
    assert mount_pods.daemons(target.parent) == {str(target): mount_pod["metadata"]["uid"]}
    subprocess.run(["umount", target], check=True)
    wait_for("the daemon to end", lambda: not mount_pods.daemons(target.parent))


def test_a_pod_on_a_folder_of_the_host_leaves_the_hosts_mounts_alone(berth):
    """A mount pod sees the host's own /sys, /dev, and mounts of other pods."""
    folder = berth.folder / "of-the-host"
    (folder / "inner").mkdir(parents=True)
    subprocess.run(["mount", "-t", "tmpfs", "of-the-host", folder / "inner"], check=True)
    try:
        berth.apply(pod("guest", "touch /data/inner/seen", {"name": "data", "hostPath": {"path": str(folder)}}))
        berth.wait_phase("pod", "guest", "Succeeded")
        assert (folder / "inner" / "seen").exists()
        berth.delete("pod", "guest")
        assert str(folder / "inner") in targets()
    finally:
        subprocess.run(["umount", folder / "inner"], check=False)
