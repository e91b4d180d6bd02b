# For scripts of machines with an API and block agents, after shared_folder.sh. The scripts do what a kubelet does:
# they call the driver.

PLUGINS=/var/lib/plugins
# The other machines see that this one has failed before the server among them ends.
trap '[ $? = 0 ] || { touch $STEPS/failed; tail -n 30 /run/*.log /run/answer; sleep 3; }' EXIT

start_api() {
  berth up --node-name server --container-runtime-endpoint unix:///run/none.sock >/run/berth.log 2>&1 &
  until_true 'the API' 'berth get nodes server >/run/said 2>&1'
}

# Makes a Node and a pod on it that uses the claim "data", and tells the node about them and the API.
make_pod() {  # NODE
  berth apply -f - <<YAML
apiVersion: v1
kind: Node
metadata: {name: $1}
---
apiVersion: v1
kind: Pod
metadata: {name: on-$1}
spec:
  nodeName: $1
  containers: [{name: main, image: none}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
YAML
  token="$(berth token create "$1" --role block-agent)"
  sed "s/client-certificate-data:.*/token: $token/; /client-key-data/d" /var/lib/berth/kubeconfig >/run/kubeconfig.$1
  uid="$(berth get pod "on-$1" -o yaml | sed -n 's/^  uid: //p')"
  volume="$(berth get pvc data -o yaml | sed -n 's/^  volumeName: //p')"
  cp "/run/kubeconfig.$1" "$STEPS/$1.kubeconfig"
  echo "POD=on-$1 POD_UID=$uid VOLUME=$volume" >"$STEPS/$1.making" && mv "$STEPS/$1.making" "$STEPS/$1.pod"
}

# Starts the block agent of this node, whose process is then `agent`, and calls init of its driver.
start_agent() {
  until_true 'a pod' '[ -e $STEPS/$NODE.pod ]'
  . "$STEPS/$NODE.pod"
  MOUNT="/var/lib/kubelet/pods/$POD_UID/volumes/berth.dev~block/$VOLUME"
  DRIVER="$PLUGINS/berth.dev~block/block"
  mkdir -p "$MOUNT" $PLUGINS
  cp "$STEPS/$NODE.kubeconfig" /run/kubeconfig
  berth block-agent --kubeconfig /run/kubeconfig --node-name "$NODE" --data /var/lib/block-agent \
    --socket /run/agent.sock --volume-plugin-dir $PLUGINS --node-silence 2s >>/run/agent.log 2>&1 &
  agent=$!
  until_true 'the driver' '[ -x $DRIVER ]'
  until_true 'the handshake' '$DRIVER init >/run/answer'
}

# Calls the driver; its answer is in /run/answer.
mount_volume() {
  $DRIVER mount "$MOUNT" "{\"kubernetes.io/pod.namespace\": \"default\", \"kubernetes.io/pod.name\": \"$POD\",
    \"kubernetes.io/pod.uid\": \"$POD_UID\", \"kubernetes.io/fsType\": \"ext4\", \"kubernetes.io/readwrite\": \"rw\"}" \
    >/run/answer
}
until_mounted() { until_true 'the volume' mount_volume; }
until_unmounted() { until_true 'the end of the volume' '$DRIVER unmount "$MOUNT" >/run/answer'; }
until_refused() {  # REASON
  until_true "the refusal '$1'" "! mount_volume && grep -q '$1' /run/answer"
  cat /run/answer
}

# The API listens at 127.0.0.1 of the server. Nodes send what is for 127.0.0.1 to the server, by their second cables.
own_second_cable() {  # MAC ADDRESS
  device="$(device_of "$1")"
  echo 1 >"/proc/sys/net/ipv4/conf/$device/route_localnet"
  ip addr add "$2/24" dev "$device" && ip link set "$device" up
}
reach_api() {  # NUMBER OF THE NODE
  own_second_cable "52:54:00:01:0$1:02" "10.1.$1.2"
  ip addr del 127.0.0.1/8 dev lo
  ip route add 127.0.0.1/32 via "10.1.$1.1" dev "$device" src "10.1.$1.2"
}

# Starts the API, and makes a StorageCluster with a claim, and a pod on each node.
serve_api() {
  own_second_cable 52:54:00:01:01:01 10.1.1.1
  own_second_cable 52:54:00:01:02:01 10.1.2.1
  mkdir /srv/berth && mount --bind /srv /srv/berth  # the folder has one path on all machines
  start_api
  berth apply -f - <<YAML
apiVersion: storage.berth.dev/v1alpha1
kind: StorageCluster
metadata: {name: main}
spec: {backend: {images: {folder: /srv/berth/images}}}
---
apiVersion: storage.k8s.io/v1
kind: StorageClass
metadata: {name: block}
provisioner: block.berth.dev
parameters: {cluster: main, csi.storage.k8s.io/fstype: ext4}
---
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], storageClassName: block, resources: {requests: {storage: 16Mi}}}
YAML
  until_true 'the claim to be bound' 'berth get pvc data | grep -q Bound'
  make_pod one
  make_pod two
}

# Each block of the file says who wrote it last, and in which round. It is written where it is, so that the image has
# no older copy of it.
write_round() {  # ROUND
  for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16; do printf '%-4096s' "by $NODE in round $1"; done >/run/round
  dd if=/run/round of="$MOUNT/blocks" bs=4096 conv=notrunc,fsync 2>/run/dd
}
# Writes until a write fails. /run/rounds has the number of rounds that were synced.
write_rounds() {
  round=1
  while write_round $round; do
    echo "$NODE synced round $round"
    echo $round >/run/rounds
    [ $round != 2 ] || touch "$STEPS/$NODE-wrote"
    round=$((round + 1))
  done
}
print_writers() {  # FILE
  grep -a -o 'by [a-z]* in round [0-9]*' "$1" | sort | uniq -c | sed 's/^/blocks:/'
}
