"""After a reboot mounts and loop devices are gone, and their records are not; Berth makes them anew."""
import pytest

pytestmark = pytest.mark.vm

BEFORE = """
. ./berth.sh
start
claim data
berth mount data /mnt/claim
echo precious >/mnt/claim/file
cp /proc/sys/kernel/random/boot_id /var/lib/berth/boot-id
"""

AFTER = """
. ./berth.sh
cmp -s /proc/sys/kernel/random/boot_id /var/lib/berth/boot-id && exit 1
[ "$(loops)" = 0 ] && [ "$(find /var/lib/berth/pool/node /var/lib/berth/node/volumes -name '*.json' | wc -l)" = 3 ]
losetup -f --show /var/lib/berth/boot-id >/run/taken  # the number of the device that the records name
start
until_true 'the claim to be mounted again' 'is_mounted /mnt/claim'
echo "data: $(cat /mnt/claim/file)"
losetup -d "$(cat /run/taken)"
berth umount /mnt/claim
berth delete pvc data
until_true 'its image to be gone' '[ "$(images)" = 0 ]'
echo "left: $(loops) loop devices, $(find /var/lib/berth/pool/*/ -type f | wc -l) files"
"""


def test_a_claim_is_mounted_again_after_a_reboot(node):
    node.run(BEFORE)
    after = node.run(AFTER).output
    assert "data: precious\n" in after
    assert "left: 0 loop devices, 0 files\n" in after
