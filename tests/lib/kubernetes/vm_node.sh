# The node in the virtual machine (vm_node.py), up to its kubelet. The disk "node" has what vm_node.py wrote for it.
set -e
. ./containerd.sh
mkdir -p /node && mount /dev/disk/node /node
modprobe virtio_net
ip addr add 10.0.2.15/24 dev eth0 && ip link set eth0 up && ip route add default via 10.0.2.2
# Only the mount pods have them, and the shims take their place on the node.
rm /usr/sbin/mount.nfs /usr/sbin/mkfs.xfs
berth install-shims nfs iscsi
berth install-shims --plugin kubernetes.io/iscsi mkfs.xfs

mkdir -p /node/target/dev /node/target/proc /node/target/sys /node/target/tmp /node/target/run
for folder in dev proc sys tmp run; do mount --rbind "/$folder" "/node/target/$folder"; done
serve_target /node/target 400M  # mkfs.xfs takes no less than 300M
link_lun &

start_containerd /node
