# The node in the virtual machine (vm_node.py), up to its kubelet. The disk "node" has what vm_node.py wrote for it.
set -e
mount --make-rshared /
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

# The node has no network for pods, and the kubelet wants to see one.
mkdir -p /etc/containerd /etc/cni/net.d
cat >/etc/cni/net.d/10-none.conflist <<JSON
{"cniVersion": "0.4.0", "name": "none", "plugins": [{"type": "loopback"}]}
JSON
cat >/etc/containerd/config.toml <<TOML
version = 2
root = "/node/containerd"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "berth.local/pause:1"
TOML
containerd &
for _ in $(seq 600); do
  ! ctr version >/run/said 2>&1 || break
  sleep 0.2
done
for image in /node/images/*; do ctr -n k8s.io images import "$image"; done
