# For scripts of machines with an API, block agents, and a Ceph cluster on the host whose images the kernel maps. It comes after
# shared_folder.sh and block_agents.sh. The files "objects" and "key" are the StorageCluster with what belongs to it, and its key.

reach_ceph() {
  device="$(device_of 52:54:00:ff:00:01)"
  ip addr add 10.9.0.15/24 dev "$device" && ip link set "$device" up
  ip route add default via 10.9.0.2
}

claim() {  # NAME SIZE [SNAPSHOT]
  {
    cat <<YAML
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: $1}
spec:
  accessModes: [ReadWriteOnce]
  storageClassName: ceph
  resources: {requests: {storage: $2}}
YAML
    [ -z "$3" ] || echo "  dataSourceRef: {apiGroup: storage.berth.dev, kind: BlockSnapshot, name: $3}"
  } | berth apply -f -
}
# Starts the API, and makes the StorageCluster and a claim.
serve_claim() {
  start_api
  berth apply -f ./objects
  until_true 'the StorageCluster to be ready' 'berth get storagecluster ceph | grep -q Ready'
  claim data 64Mi
  until_bound data
}
until_bound() { until_true "claim $1 to be bound" "berth get pvc $1 | grep -q Bound"; }
until_event() { until_true "the event '$1'" "berth get events | grep -q '$1'"; }

# The devices of the kernel's client, and the size of the only one in MiB.
devices() { ls /sys/bus/rbd/devices 2>/dev/null | wc -l; }
mebibytes() { echo $(($(cat /sys/bus/rbd/devices/*/size) >> 20)); }
until_unmapped() { until_true 'the device to go' '[ "$(devices)" = 0 ]'; }

kill_agent() {
  kill -9 "$agent"
  wait "$agent" || true
}
# Has the agent die at a step, to which a call of the driver leads, and starts another one, for which the call may wait.
die_at() {  # STEP COMMAND
  kill_agent
  export BERTH_FAULTS="$1=crash"
  start_agent
  unset BERTH_FAULTS
  eval "$2" &
  call=$!
  wait "$agent" || true
  echo "died at $1 with $(devices) devices"
  start_agent
  wait "$call" || true
}
