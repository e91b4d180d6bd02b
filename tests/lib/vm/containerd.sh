# For scripts in the virtual machine: containerd, for pods that use the machine's network.

# start_containerd FOLDER: its data are there, and the images in FOLDER/images are imported.
start_containerd() {
  mount --make-rshared /
  # There is no network for pods, and containerd wants to see one.
  mkdir -p /etc/containerd /etc/cni/net.d
  cat >/etc/cni/net.d/10-none.conflist <<JSON
{"cniVersion": "0.4.0", "name": "none", "plugins": [{"type": "loopback"}]}
JSON
  cat >/etc/containerd/config.toml <<TOML
version = 2
root = "$1/containerd"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "berth.local/pause:1"
TOML
  containerd >/run/containerd.log 2>&1 &
  for _ in $(seq 600); do
    ! ctr version >/run/said 2>&1 || break
    sleep 0.2
  done
  for image in "$1"/images/*; do ctr -n k8s.io images import "$image"; done
}
