"""An NFS server in the virtual machine, for the machine itself."""

# The script exports /srv/nfs as the root of NFS 4.
SERVE_NFS = """
set -e
mkdir -p /srv/nfs /var/lib/nfs/v4recovery && touch /etc/exports /var/lib/nfs/etab
modprobe nfsd && modprobe nfsv4
mount -t nfsd nfsd /proc/fs/nfsd
exportfs -o rw,no_root_squash,insecure,fsid=0,no_subtree_check 127.0.0.1:/srv/nfs
rpc.mountd --no-nfs-version 3
rpc.nfsd --no-nfs-version 3 1
echo Y >/proc/fs/nfsd/v4_end_grace  # no client of an earlier life is waited for
"""
