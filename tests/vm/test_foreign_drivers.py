"""CSI drivers that others wrote and that need what only the kernel of the virtual machine has. `berth mount` takes the part of pods."""
import json
import os
import pathlib
import shutil
import subprocess

import pytest
from lib import ceph
from lib.drivers import driver
from lib.drivers.cephcsi import CLUSTER
from lib.kubernetes.programs import version_of
from lib.rbd import POOL, RbdCluster
from lib.standalone import ROOT, wait_for
from lib.vm import image
from lib.vm.nfs import SERVE_NFS

pytestmark = [pytest.mark.drivers, pytest.mark.vm]

CASE = "claim to a mount, snapshot and restore, growth in use, driver killed, Berth killed, deletion"

NFS = SERVE_NFS + """
name=nfs.csi.k8s.io type=nfs4
. ./foreign_driver.sh
mkdir -p /run/work
begin_driver() { begin /drivers/nfsplugin --endpoint=unix://$socket --nodeid=vm --working-mount-dir=/run/work --v=2; }
is_empty() { [ -z "$(ls /srv/nfs)" ]; }
start --csi-driver $socket
serve
until_true 'the driver to be registered' is_registered
berth apply -f - <<YAML
apiVersion: storage.k8s.io/v1
kind: CSIDriver
metadata: {name: nfs.csi.k8s.io}
spec: {attachRequired: false, volumeLifecycleModes: [Persistent], fsGroupPolicy: File}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: foreign}
provisioner: nfs.csi.k8s.io
parameters: {server: 127.0.0.1, share: /}
mountOptions: [nfsvers=4.1]
allowVolumeExpansion: true
---
apiVersion: snapshot.storage.k8s.io/v1
kind: VolumeSnapshotClass
metadata: {name: foreign}
driver: nfs.csi.k8s.io
deletionPolicy: Delete
YAML
live 32Mi 64Mi
"""

# The guest reaches the cluster, which is in a network namespace of the host, by QEMU's network.
RBD = """
name=rbd.csi.ceph.com type=ext4 dies=mounting
. ./foreign_driver.sh
modprobe virtio_net
modprobe rbd
ip addr add 10.0.2.15/24 dev eth0
ip link set eth0 up
ip route add default via 10.0.2.2
mkdir -p /etc/ceph-csi-config /tmp/csi/keys
cp /drivers/config.json /etc/ceph-csi-config/
begin_driver() {
  begin env LD_LIBRARY_PATH=/drivers/lib "PATH=/drivers:$PATH" cephcsi --type=rbd --controllerserver --nodeserver \\
    --endpoint=unix://$socket --nodeid=vm --drivername=$name --pluginpath=/var/lib/berth/kubelet/plugins \\
    --stagingpath=/var/lib/berth/kubelet/plugins/kubernetes.io/csi --csi-addons-endpoint=unix:///run/addons.sock --v=4
}
is_empty() { [ -z "$(ls /sys/bus/rbd/devices)" ]; }
start --csi-driver $socket
berth apply -f /drivers/objects.yaml
serve
until_true 'the driver to be registered' is_registered
live 32Mi 64Mi
"""

# TopoLVM's controller and node are two drivers of one name. They and LVM's own daemon talk by the API of Berth.
TOPOLVM = """
name=topolvm.io type=ext4 port=7443 controller=/run/topolvm/controller.sock
. ./foreign_driver.sh
modprobe dm-mod
modprobe dm-thin-pool
mkdir -p /run/topolvm /etc/lvm /var/run/secrets/kubernetes.io/serviceaccount
cp /drivers/lvm.conf /etc/lvm/
printf default >/var/run/secrets/kubernetes.io/serviceaccount/namespace
# LVM is looked for at this path alone.
printf '#!/bin/sh\\nexec env LD_LIBRARY_PATH=/drivers/lib /drivers/lvm "$@"\\n' >/sbin/lvm
chmod 755 /sbin/lvm
lvm vgcreate -q group "$(readlink -f /dev/disk/lvm)"
lvm lvcreate -q --type thin-pool --size 3g --poolmetadatasize 16m --name pool group
begin_driver() {
  rm -f $controller
  begin /drivers/hypertopolvm lvmd --config /drivers/lvmd.yaml
  until_true 'lvmd to serve' '[ -S /run/topolvm/lvmd.sock ]'
  begin env KUBECONFIG=/var/lib/berth/kubeconfig /drivers/hypertopolvm topolvm-controller --csi-socket=$controller --cert-dir=/drivers \\
    --metrics-bind-address=127.0.0.1:8080 --health-probe-bind-address=127.0.0.1:8081 --webhook-addr=127.0.0.1:9443
  begin env KUBECONFIG=/var/lib/berth/kubeconfig /drivers/hypertopolvm topolvm-node --nodename=vm --csi-socket=$socket \\
    --lvmd-socket=/run/topolvm/lvmd.sock --metrics-bind-address=127.0.0.1:8082
}
is_empty() { [ "$(lvm lvs --noheadings | wc -l)" = 1 ]; }
start --csi-driver $controller
berth apply -f /drivers/topolvm.io_logicalvolumes.yaml
berth apply -f /drivers/objects.yaml
serve
until_true 'the driver to be registered' is_registered
live 1Gi 2Gi
"""

TOPOLVM_OBJECTS = """
apiVersion: storage.k8s.io/v1
kind: CSIDriver
metadata: {name: topolvm.io}
spec: {attachRequired: false, podInfoOnMount: true, storageCapacity: true, volumeLifecycleModes: [Persistent]}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: foreign}
provisioner: topolvm.io
parameters: {topolvm.io/device-class: thin, csi.storage.k8s.io/fstype: ext4}
allowVolumeExpansion: true
---
apiVersion: snapshot.storage.k8s.io/v1
kind: VolumeSnapshotClass
metadata: {name: foreign}
driver: topolvm.io
deletionPolicy: Delete
"""
LVMD = {"socket-name": "/run/topolvm/lvmd.sock", "device-classes": [
    {"name": "thin", "volume-group": "group", "default": True, "spare-gb": 0, "type": "thin",
     "thin-pool": {"name": "pool", "overprovision-ratio": 5.0}}]}
# The machine has no udev, so LVM makes the devices' files by itself.
LVM_CONF = """
activation { udev_sync = 0 udev_rules = 0 verify_udev_operations = 1 monitoring = 0 }
devices { obtain_device_list_from_udev = 0 external_device_info_source = "none" use_devicesfile = 0 }
global { thin_check_executable = "" event_activation = 0 use_lvmpolld = 0 }
backup { backup = 0 archive = 0 }
"""


def package(name, file):
    """Gives the path of a program of Debian that is not installed."""
    found = subprocess.run([ROOT / "tools" / "debian_package", name, file], capture_output=True, text=True)
    if found.returncode != 0:
        pytest.skip(found.stderr.strip())
    return pathlib.Path(found.stdout.strip())


def find(name):
    try:
        return driver.find(name)
    except driver.Missing as missing:
        pytest.skip(str(missing))


@pytest.fixture
def content(node):
    """The folder that becomes the disk "drivers" of the machine."""
    made = node.folder / "drivers"
    made.mkdir()
    node.files["foreign_driver.sh"] = pathlib.Path(__file__).with_name("foreign_driver.sh")
    return made


def add_libraries(content, programs, environment=None):
    """Copies programs to the disk, with the libraries that they need."""
    (content / "lib").mkdir(exist_ok=True)
    for program in programs:
        shutil.copy(program, content)
    for path in image.libraries(list(map(str, programs)), environment):
        if not pathlib.Path(path).name.startswith(("ld-linux", "libc.so")):
            shutil.copy(path, content / "lib")


@pytest.fixture
def live(node, content, record_property):
    """Gives a function that runs a driver's script, and checks what it said."""
    def run(title, version, script, memory="1024M", found="", clones=False):
        case = CASE.replace("restore", "restore, clone of a claim") if clones else CASE
        for name, value in (("driver", f"{title} (virtual machine)"), ("found", found), ("case", case), ("version", version)):
            record_property(name, value)
        node.memory = memory
        disk = node.add_disk("drivers", "640M").path
        subprocess.run(["mke2fs", "-q", "-t", "ext4", "-d", content, disk], check=True)
        output = node.run(f"clones={'yes' if clones else 'no'}\n{script}", seconds=1500).output
        said = [line.removeprefix("said: ") for line in output.splitlines() if line.startswith("said: ")]
        assert said == ["mounted", "grown", "driver killed", "nothing left"]
        assert "restored: precious, now changed\n" in output

    return run


def test_nfs(content, live):
    shutil.copy(find("nfsplugin"), content)
    live("csi-driver-nfs", find("nfsplugin.version").read_text().strip(), NFS)


@pytest.fixture
def cluster(tmp_path):
    find("cephcsi")  # without it no cluster is needed
    made = RbdCluster(tmp_path / "ceph", manager=True)
    try:
        yield made.start()
    except ceph.Missing as missing:
        pytest.skip(str(missing))
    finally:
        made.stop()


def rbd_objects(cluster):
    key = cluster.keys["client.admin"]
    of_steps = {f"csi.storage.k8s.io/{step}-secret-{what}": value
                for step in ("provisioner", "controller-expand", "node-stage", "snapshotter")
                for what, value in (("name", "ceph"), ("namespace", "default"))}
    snapshots = {name: value for name, value in of_steps.items() if "snapshotter" in name}
    made = [
        {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "ceph"}, "stringData": {"userID": "admin", "userKey": key}},
        {"apiVersion": "storage.k8s.io/v1", "kind": "CSIDriver", "metadata": {"name": "rbd.csi.ceph.com"},
         "spec": {"attachRequired": True, "fsGroupPolicy": "File"}},
        {"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass", "metadata": {"name": "foreign"}, "provisioner": "rbd.csi.ceph.com",
         "allowVolumeExpansion": True,
         # The driver says that it has topology, and names no key. So nodes are not asked for theirs.
         "allowedTopologies": [{"matchLabelExpressions": [{"key": "kubernetes.io/hostname", "values": ["vm"]}]}], "parameters": {
             "clusterID": CLUSTER, "pool": POOL, "imageFeatures": "layering", "csi.storage.k8s.io/fstype": "ext4",
             **{name: value for name, value in of_steps.items() if name not in snapshots}}},
        {"apiVersion": "snapshot.storage.k8s.io/v1", "kind": "VolumeSnapshotClass", "metadata": {"name": "foreign"},
         "driver": "rbd.csi.ceph.com", "deletionPolicy": "Delete", "parameters": {"clusterID": CLUSTER, **snapshots}}]
    return "\n---\n".join(map(json.dumps, made))


def test_rbd(content, node, live, cluster):
    add_libraries(content, [find("cephcsi"), package("ceph-common", "usr/bin/rbd")], os.environ | cluster.environment)
    (content / "config.json").write_text(json.dumps([{"clusterID": CLUSTER, "monitors": [cluster.monitor]}]))
    (content / "objects.yaml").write_text(rbd_objects(cluster))
    node.add_host_network()
    live("ceph-csi, RBD by the kernel", version_of(find("cephcsi")), RBD, memory="1536M", clones=True, found=(
        "it says that it has topology and names no key, so an immediate claim needs allowedTopologies, or a provisioner with "
        "`--immediate-topology=false`, as with Go; killed between two writes of its own journal while it makes a volume, it "
        "refuses that volume for good (`omap names mismatch`), so it is killed while it mounts one"))
    wait_for("the images to be gone", lambda: cluster.rbd("print(rbd.RBD().list(io))") == "[]\n")


def test_topolvm(content, node, live):
    shutil.copy(find("hypertopolvm"), content)
    shutil.copy(find("topolvm/topolvm.io_logicalvolumes.yaml"), content)
    libraries = [str(package(name, file).parent) for name, file in (
        ("libdevmapper-event1.02.1", "lib/x86_64-linux-gnu/libdevmapper-event.so.1.02.1"),
        ("libaio1", "lib/x86_64-linux-gnu/libaio.so.1"), ("libedit2", "usr/lib/x86_64-linux-gnu/libedit.so.2"))]
    add_libraries(content, [package("lvm2", "sbin/lvm")], os.environ | {"LD_LIBRARY_PATH": ":".join(libraries)})
    for name, text in (("lvmd.yaml", json.dumps(LVMD)), ("lvm.conf", LVM_CONF), ("objects.yaml", TOPOLVM_OBJECTS)):
        (content / name).write_text(text)
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj", "/CN=localhost",
                    "-keyout", content / "tls.key", "-out", content / "tls.crt"], check=True, capture_output=True)
    node.add_disk("lvm", "4G")
    live("TopoLVM, thin volumes", find("topolvm/version").read_text().strip(), TOPOLVM, memory="1536M")
