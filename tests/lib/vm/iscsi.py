"""An iSCSI target in the virtual machine: tgtd of Debian's package tgt, from a root file system that has it."""

TARGET = "iqn.2026-01.com.example:storage"
PORTAL = "127.0.0.1:3260"

# serve_target ROOT SIZE serves LUN 1, a file of that size. ROOT sees the machine's /tmp and its devices. $adm is the command of tgtd.
SERVE_TARGET = f"""
serve_target() {{
  adm="chroot $1 tgtadm --lld iscsi"
  truncate -s "$2" /tmp/lun
  chroot "$1" tgtd
  for _ in $(seq 100); do $adm --op show --mode system >/dev/null 2>&1 && break; sleep 0.1; done
  $adm --op new --mode target --tid 1 --targetname {TARGET}
  $adm --op new --mode logicalunit --tid 1 --lun 1 --backing-store /tmp/lun
  $adm --op bind --mode target --tid 1 --initiator-address ALL
}}
"""

# What udev does, which the machine has not: the link of LUN 1 that the kubelet waits for.
LINK_LUN = f"""
link_lun() {{
  link=/dev/disk/by-path/ip-{PORTAL}-iscsi-{TARGET}-lun-1
  mkdir -p "${{link%/*}}"
  while sleep 0.5; do
    [ -e "$link" ] || rm -f "$link"
    for disk in /sys/class/iscsi_session/session*/device/target*/*:1/block/*; do
      [ ! -e "$disk" ] || ln -sfn "/dev/${{disk##*/}}" "$link"
    done
  done
}}
"""
