# For scripts of three machines: an NFS server, and two nodes with a folder of images on it.
# Each node has a cable to the server: device_of MAC, addresses 10.0.1.x (node one) and 10.0.2.x (node two).

modprobe virtio_net

device_of() {
  for device in /sys/class/net/*; do
    [ "$(cat "$device/address")" != "$1" ] || echo "${device##*/}"
  done
}

until_true() {  # WHAT CONDITION
  # Each look starts programs, which an emulated processor does slowly, so there are few of them.
  for _ in $(seq 1500); do
    if eval "$2"; then return 0; fi
    [ ! -e "$STEPS/failed" ] || break
    sleep 0.5
  done
  echo "waited in vain for $1"
  exit 1
}

# Files by which the machines wait for each other. If one fails, the others end.
STEPS=/srv/steps
trap '[ $? = 0 ] || touch $STEPS/failed' EXIT

serve() {
  hostname server
  ip addr add 10.0.1.1/24 dev "$(device_of 52:54:00:00:01:01)" && ip link set "$(device_of 52:54:00:00:01:01)" up
  ip addr add 10.0.2.1/24 dev "$(device_of 52:54:00:00:02:01)" && ip link set "$(device_of 52:54:00:00:02:01)" up
  mkdir -p /srv && mount -t tmpfs tmpfs /srv  # the export has to be of a file system of its own
  mkdir -p /srv/images /srv/steps /var/lib/nfs/v4recovery && touch /etc/exports /var/lib/nfs/etab
  modprobe nfsd
  mount -t nfsd nfsd /proc/fs/nfsd
  echo 10 >/proc/fs/nfsd/nfsv4leasetime
  echo 10 >/proc/fs/nfsd/nfsv4gracetime
  exportfs -o rw,no_root_squash,insecure,fsid=0,no_subtree_check '*:/srv'
  rpc.mountd --no-nfs-version 3
  rpc.nfsd --no-nfs-version 3 4
  echo Y >/proc/fs/nfsd/v4_end_grace
}

# Waits until the node of this address is off: a node whose server ends first hangs in its own end.
until_off() {  # ADDRESS
  until_true "$1 to be off" "! ping -c 1 -W 2 $1 >/dev/null"
}

# Gives this node its name, and mounts the server's folder. Without lookupcache=none a node would take a file that
# was missing once for missing a long time.
join() {  # NAME SUBNET MAC
  STEPS=/srv/berth/steps
  hostname "$1"
  modprobe loop
  ip addr add "10.0.$2.2/24" dev "$(device_of "$3")" && ip link set "$(device_of "$3")" up
  modprobe nfsv4
  mkdir -p /srv/berth
  until_true 'the server' "timeout -s KILL 20 mount -i -t nfs4 -o vers=4.2,addr=10.0.$2.1,clientaddr=10.0.$2.2,timeo=50,retrans=1,lookupcache=none 10.0.$2.1:/ /srv/berth 2>/dev/null"
  export NODE="$1" FOLDER=/srv/berth/images STEPS
}
