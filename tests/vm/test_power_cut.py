"""The power is cut while Berth works. Everything that it acknowledged, and all synced data of volumes, is there
afterwards."""
import re

import pytest

pytestmark = pytest.mark.vm

# Volumes are made as soon as their claims appear, so that the cut comes while images are made.
BEFORE = """
. ./berth.sh
start
berth get storageclass local -o yaml | sed 's/name: local/name: now/; s/WaitForFirstConsumer/Immediate/' |
  grep -Ev 'uid|resourceVersion|creationTimestamp|is-default-class|generation' | berth apply -f -
claim data
berth mount data /mnt/claim
echo precious >/mnt/claim/synced
sync /mnt/claim/synced /mnt/claim
for i in 1 2 3; do
  claim "c$i" now >/run/said
  echo "acknowledged c$i"
done
sleep 60
"""

AFTER = """
. ./berth.sh
[ "$(loops)" = 0 ]
start
echo "claims: $(berth get pvc -o name | sort | tr '\\n' ' ')"
until_true 'the claim to be mounted again' 'is_mounted /mnt/claim'
echo "data: $(cat /mnt/claim/synced)"
until_true 'all volumes' '[ "$(berth get pvc | grep -c Bound)" = 4 ]'
berth delete pvc c1 c2 c3
until_true 'their images to be gone' '[ "$(images)" = 1 ]'
echo more >>/mnt/claim/synced
berth umount /mnt/claim
berth delete pvc data
until_true 'the last image to be gone' '[ "$(images)" = 0 ]'
echo "left: $(loops) loop devices, $(find /var/lib/berth/pool/*/ -type f | wc -l) files"
"""


# With a seed the disk has written a part of its cache by itself, in any order.
@pytest.mark.parametrize("keep", [None, 1])
def test_what_was_acknowledged_and_synced_survives_a_power_cut(node, keep):
    before = node.run(BEFORE, cut_at="acknowledged c3", keep=keep).output
    acknowledged = re.findall(r"acknowledged (c\d)", before)
    assert len(acknowledged) == 3
    after = node.run(AFTER).output
    for name in ["data", *acknowledged]:
        assert f"persistentvolumeclaim/{name} " in after, after
    assert "data: precious\n" in after
    assert "left: 0 loop devices, 0 files\n" in after
