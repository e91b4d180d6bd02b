# For scripts in the virtual machine: a Berth whose data folder is on the disk "data". It has a container runtime only if the script says so.
set -e
blkid /dev/disk/data >/dev/null || mkfs.ext4 -q /dev/disk/data
mkdir -p /var/lib/berth /mnt/claim
# Seen once, under load: mount found no file system where blkid had just found one, and the kernel said nothing.
mount /dev/disk/data /var/lib/berth || {
  dmesg | tail -20
  dd if=/dev/disk/data bs=4096 count=1 2>&1 | od -A d -t x1
  echo 'again:'
  mount /dev/disk/data /var/lib/berth
}
trap '[ $? = 0 ] || tail -40 /run/berth.log' EXIT

# start [FLAG...]: sets `up`, the process. `port`, if set, is that of the API, and `runtime` the socket of a container runtime.
start() {
  berth up --port "${port:-0}" --node-name vm --container-runtime-endpoint "unix://${runtime:-/run/none.sock}" "$@" \
    >>/run/berth.log 2>&1 &
  up=$!
  until_true 'Berth to be up' 'berth get nodes vm >/run/nodes 2>&1'
}

# until_true WHAT COMMAND: tries it for a minute at least.
until_true() {
  # Each look starts programs, which an emulated processor does slowly, so there are few of them.
  for _ in $(seq 300); do
    if eval "$2"; then return; fi
    sleep 1
  done
  echo "gave up waiting for $1"
  exit 1
}

# claim NAME [CLASS [SIZE]]
claim() {
  berth apply -f - <<YAML
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: $1}
spec:
  accessModes: [ReadWriteOnce]
  storageClassName: ${2:-local}
  resources: {requests: {storage: ${3:-8Mi}}}
YAML
}

is_mounted() { grep -q " $1 " /proc/self/mountinfo; }
loops() { cat /sys/block/loop*/loop/backing_file 2>/dev/null | wc -l; }
images() { find /var/lib/berth/pool -name '*.img' | wc -l; }
