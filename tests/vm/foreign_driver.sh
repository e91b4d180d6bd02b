# For scripts in the virtual machine: a driver that others wrote, on the disk "drivers", beside a Berth without a container runtime.
# The script sets `name`, the driver's name, and `command`, which serves it at $socket.
mkdir -p /drivers && mount /dev/disk/drivers /drivers
. ./berth.sh
trap '[ $? = 0 ] || { tail -40 /run/berth.log; tail -40 /run/driver.log; }' EXIT
socket=/var/lib/berth/kubelet/plugins/$name/csi.sock

serve() {
  mkdir -p "$(dirname "$socket")"
  rm -f "$socket"
  eval "$command" >>/run/driver.log 2>&1 &
  driver=$!
  until_true 'the driver to serve' '[ -S "$socket" ]'
}

registered() { berth get csinodes vm -o json | grep -q "\"$name\""; }

kill_driver() {
  kill -9 "$driver"
  wait "$driver" || true
}

# restore NAME SNAPSHOT: a claim from a snapshot
restore() {
  berth apply -f - <<YAML
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: $1}
spec:
  accessModes: [ReadWriteOnce]
  storageClassName: foreign
  resources: {requests: {storage: 8Mi}}
  dataSource: {apiGroup: snapshot.storage.k8s.io, kind: VolumeSnapshot, name: $2}
YAML
}

snapshot() {
  berth apply -f - <<YAML
apiVersion: snapshot.storage.k8s.io/v1
kind: VolumeSnapshot
metadata: {name: $1}
spec: {volumeSnapshotClassName: foreign, source: {persistentVolumeClaimName: $2}}
YAML
  until_true "snapshot $1" "berth get volumesnapshot $1 -o json | grep -q '\"readyToUse\": *true'"
}
