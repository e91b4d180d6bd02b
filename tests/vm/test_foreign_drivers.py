"""CSI drivers that others wrote and that need what only the kernel of the virtual machine has. `berth mount` takes the part of pods."""
import pathlib
import shutil
import subprocess

import pytest
from lib.drivers import driver
from lib.vm.nfs import SERVE_NFS

pytestmark = [pytest.mark.drivers, pytest.mark.vm]

NFS = SERVE_NFS + """
name=nfs.csi.k8s.io
mkdir -p /run/work
command='/drivers/nfsplugin --endpoint=unix://$socket --nodeid=vm --working-mount-dir=/run/work --v=2'
. ./foreign_driver.sh
start --csi-driver $socket
serve
until_true 'the driver to be registered' registered
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
claim data foreign
berth mount data /mnt/claim --timeout 120
grep -q ' /mnt/claim .* - nfs4 ' /proc/self/mountinfo
echo precious >/mnt/claim/file
echo 'said: mounted'

snapshot monday data
echo changed >/mnt/claim/file
restore copy monday
mkdir -p /mnt/copy
berth mount copy /mnt/copy --timeout 120
echo "restored: $(cat /mnt/copy/file), now $(cat /mnt/claim/file)"
berth umount /mnt/copy --timeout 120

claim data foreign 16Mi
until_true 'the claim to grow' 'berth get pvc data -o json | grep -A3 "\\"capacity\\"" | grep -q 16Mi'
echo 'said: grown'

claim other foreign
sleep 0.2
kill_driver
[ "$(cat /mnt/claim/file)" = changed ]
serve
berth mount other /mnt/copy --timeout 180
echo kept >/mnt/copy/file
echo 'said: driver killed'

pid=$(pgrep -f 'berth up' | head -1)
berth delete volumesnapshot monday --wait=false
kill -9 "$pid"
start --csi-driver $socket
[ "$(cat /mnt/claim/file) $(cat /mnt/copy/file)" = 'changed kept' ]
for path in /mnt/copy /mnt/claim; do berth umount $path --timeout 180; done
for each in data copy other; do berth delete pvc $each --wait=false; done
until_true 'the volumes to be gone' '[ -z "$(ls /srv/nfs)" ]'
until_true 'the objects to be gone' '! berth get pv -o json | grep -q pvc-'
! grep -q nfs4 /proc/self/mountinfo
echo 'said: nothing left'
"""


@pytest.fixture
def machine_with(node):
    """Gives a function that makes the machine with a driver's program on a disk."""
    def make(program):
        try:
            path = driver.find(program)
        except driver.Missing as missing:
            pytest.skip(str(missing))
        content = node.folder / "drivers"
        content.mkdir()
        shutil.copy(path, content)
        subprocess.run(["mke2fs", "-q", "-t", "ext4", "-d", content, node.add_disk("drivers", "256M").path], check=True)
        node.files["foreign_driver.sh"] = pathlib.Path(__file__).with_name("foreign_driver.sh")
        return node

    return make


def test_nfs(machine_with, record_property):
    """claim to a mount, snapshot and restore, growth in use, driver killed, Berth killed, deletion"""
    machine = machine_with("nfsplugin")
    for name, value in (("driver", "csi-driver-nfs (virtual machine)"), ("found", ""), ("case", test_nfs.__doc__),
                        ("version", driver.find("nfsplugin.version").read_text().strip())):
        record_property(name, value)
    output = machine.run(NFS, seconds=900).output
    said = [line.removeprefix("said: ") for line in output.splitlines() if line.startswith("said: ")]
    assert said == ["mounted", "grown", "driver killed", "nothing left"]
    assert "restored: precious, now changed\n" in output
