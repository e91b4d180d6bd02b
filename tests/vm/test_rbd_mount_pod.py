"""Disks of a network as in-tree volumes of pods that containerd runs, with the mount pods of deploy/mount-pod: all utilities and the
kernel's modules are theirs. Berth's node agent is beside no kubelet here, because kubelets from 1.31 on know no `rbd`."""
import json
import subprocess

import pytest
import yaml
from lib import debian_root, mount_pods, objects
from lib.ceph import Missing
from lib.rbd import MIB, POOL, RbdCluster
from lib.vm import containerd

pytestmark = [pytest.mark.vm, pytest.mark.storage]

# The machine has no `rbd`, and loses what else the mount pod has.
SCRIPT = """
modprobe virtio_net
ip addr add 10.0.2.15/24 dev eth0 && ip link set eth0 up && ip route add default via 10.0.2.2
. ./berth.sh
rm /usr/sbin/mkfs.ext4 /usr/sbin/mke2fs /usr/sbin/fsck.ext4 /usr/sbin/e2fsck
touch /etc/resolv.conf
mkdir -p /content && mount /dev/disk/content /content
. ./containerd.sh
start_containerd /content
runtime=/run/containerd/containerd.sock
start --utility-socket /run/berth/utilities.sock
# until_phase POD PHASE
until_phase() { until_true "pod $1 to be $2" "berth get pod $1 -o json | grep -q '\\"phase\\": *\\"$2\\"'"; }
berth apply -f /content/mount-pod.json
until_true 'the mount pod to be registered' '[ -e /var/lib/berth/kubelet/plugin-containers/kubernetes.io~rbd.json ]'
[ ! -e /sys/bus/rbd ]
# As for a kubelet of before 1.31, which calls the utility on the node.
berth install-shims rbd
rbd --version | grep -q '^ceph version'
for pod in writer reader; do
  berth apply -f /content/$pod.json
  until_phase $pod Succeeded
  berth delete pod $pod
done
until_true 'the image to be unmapped' '[ -z "$(ls /sys/bus/rbd/devices)" ]'
echo 'said: written and read'
"""


@pytest.fixture
def cluster(tmp_path):
    made = RbdCluster(tmp_path / "ceph")
    try:
        debian_root.fetch(mount_pods.packages("rbd"))
        yield made.start()
    except (Missing, debian_root.Missing) as missing:
        pytest.skip(str(missing))
    finally:
        made.stop()


def mount_pod(kind):
    """Gives what deploy/mount-pod/KIND has, for the kubelet's folder of `berth up`."""
    text = mount_pods.render(kind).replace("/var/lib/kubelet", "/var/lib/berth/kubelet")
    return {"apiVersion": "v1", "kind": "List", "items": list(yaml.safe_load_all(text))}


def pod(cluster, name, script):
    """Gives a pod with the image `data` at /data, and the Secret of its user."""
    volume = {"name": "data", "rbd": {"monitors": [cluster.monitor], "pool": POOL, "image": "data", "fsType": "ext4", "user": "plain",
                                      "secretRef": {"name": "ceph"}}}
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "ceph"}, "type": "kubernetes.io/rbd",
              "stringData": {"key": cluster.users["plain"]}}
    user = objects.pod(name, f"grep ' /data ext4 ' /proc/mounts && {script}", mounts=[{"name": "data", "mountPath": "/data"}],
                       volumes=[volume], hostNetwork=True)
    return {"apiVersion": "v1", "kind": "List", "items": [secret, user]}


def fill_disk(machine, files):
    """Makes the disk "content" with images of pods and these objects."""
    folder = machine.folder / "content"
    containerd.make_images(folder, ["rbd"])
    for name, content in files.items():
        (folder / f"{name}.json").write_text(json.dumps(content))
    subprocess.run(["mke2fs", "-q", "-t", "ext4", "-d", folder, machine.add_disk("content", "3G").path], check=True)


def test_an_image_of_a_ceph_pool_is_mounted_by_the_mount_pod(node, cluster):
    cluster.rbd(f"rbd.RBD().create(io, 'data', {64 * MIB})")
    fill_disk(node, {"mount-pod": mount_pod("rbd"), "writer": pod(cluster, "writer", "echo kept > /data/file"),
                     "reader": pod(cluster, "reader", "grep -x kept /data/file")})
    node.files[containerd.SCRIPT.name] = containerd.SCRIPT
    node.add_host_network()
    node.memory = "2G"
    assert "said: written and read" in node.run(SCRIPT).output
