# For scripts in the virtual machine: a driver that others wrote, on the disk "drivers", beside a Berth without a container runtime.
# `berth mount` takes the part of pods. The script sets `name`, the driver's name, and `type`, that of the file systems that it mounts,
# and if need be `dies` (the driver is not killed while it makes a volume, but while it mounts one: "mounting") and `clones` (a claim is
# cloned: "yes"). It defines `begin_driver`, which begins the driver's processes by `begin`, and `is_empty`, which tells whether its
# storage is empty.
mkdir -p /drivers /mnt/copy && mount /dev/disk/drivers /drivers
. ./berth.sh
trap '[ $? = 0 ] || { tail -40 /run/berth.log; grep -v "waiting for setting" /run/driver.log | tail -60; }' EXIT
socket=/var/lib/berth/kubelet/plugins/$name/csi.sock

begin() {
  "$@" >>/run/driver.log 2>&1 &
  processes="$processes $!"
}

serve() {
  processes=
  mkdir -p "$(dirname "$socket")"
  rm -f "$socket"
  begin_driver
  until_true 'the driver to serve' '[ -S "$socket" ]'
}

is_registered() { berth get csinodes vm -o json | grep -q "\"$name\""; }

kill_driver() {
  kill -9 $processes
  wait $processes || true
}

# copy NAME SOURCE SIZE: a claim from a snapshot, or from a claim if SOURCE begins with "claim/"
copy() {
  source="{apiGroup: snapshot.storage.k8s.io, kind: VolumeSnapshot, name: $2}"
  case $2 in claim/*) source="{kind: PersistentVolumeClaim, name: ${2#claim/}}" ;; esac
  berth apply -f - <<YAML
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: $1}
spec:
  accessModes: [ReadWriteOnce]
  storageClassName: foreign
  resources: {requests: {storage: $3}}
  dataSource: $source
YAML
}

# snapshot NAME CLAIM
snapshot() {
  berth apply -f - <<YAML
apiVersion: snapshot.storage.k8s.io/v1
kind: VolumeSnapshot
metadata: {name: $1}
spec: {volumeSnapshotClassName: foreign, source: {persistentVolumeClaimName: $2}}
YAML
  until_true "snapshot $1" "berth get volumesnapshot $1 -o json | grep -q '\"readyToUse\": *true'"
}

kilobytes() { df -k "$1" | awk 'END { print $(NF - 4) }'; }

# live SMALL BIG: all that claims of these sizes go through, with the driver and Berth killed in the midst.
live() {
  claim data foreign "$1"
  berth mount data /mnt/claim --timeout 240
  grep -q " /mnt/claim .* - $type " /proc/self/mountinfo
  echo precious >/mnt/claim/file
  sync /mnt/claim/file
  echo 'said: mounted'

  snapshot monday data
  echo changed >/mnt/claim/file
  copy restored monday "$1"
  berth mount restored /mnt/copy --timeout 240
  echo "restored: $(cat /mnt/copy/file), now $(cat /mnt/claim/file)"
  berth umount /mnt/copy --timeout 240
  if [ "$clones" = yes ]; then
    copy clone claim/restored "$1"
    berth mount clone /mnt/copy --timeout 240
    [ "$(cat /mnt/copy/file)" = precious ]
    berth umount /mnt/copy --timeout 240
    berth delete pvc clone --wait=false
  fi

  before=$(kilobytes /mnt/claim)
  claim data foreign "$2"
  until_true 'the claim to grow' "berth get pvc data -o json | grep -A3 '\"capacity\"' | grep -q '\"$2\"'"
  # The size of an NFS share is that of the server's file system.
  [ "$type" = nfs4 ] || [ "$(kilobytes /mnt/claim)" -gt $((before * 3 / 2)) ]
  echo 'said: grown'

  claim other foreign "$1"
  if [ "$dies" = mounting ]; then
    until_true 'the claim to be bound' "berth get pvc other -o json | grep -q '\"Bound\"'"
    berth mount other /mnt/copy --timeout 240 &
    mount=$!
  fi
  sleep 0.2
  kill_driver
  [ "$(cat /mnt/claim/file)" = changed ]
  serve
  if [ "$dies" = mounting ]; then wait $mount; else berth mount other /mnt/copy --timeout 240; fi
  echo kept >/mnt/copy/file
  echo 'said: driver killed'

  berth delete volumesnapshot monday --wait=false
  kill -9 "$up"
  start --csi-driver "${controller:-$socket}"
  [ "$(cat /mnt/claim/file) $(cat /mnt/copy/file)" = 'changed kept' ]
  for path in /mnt/copy /mnt/claim; do berth umount $path --timeout 240; done
  for each in data restored other; do berth delete pvc $each --wait=false; done
  until_true 'the objects to be gone' '! berth get pv -o json | grep -q pvc-'
  until_true 'the contents to be gone' '! berth get volumesnapshotcontents -o json | grep -q snapcontent-'
  until_true 'the storage to be empty' is_empty
  ! grep -q '/kubernetes.io~csi/\|/kubernetes.io/csi/' /proc/self/mountinfo
  echo 'said: nothing left'
}
