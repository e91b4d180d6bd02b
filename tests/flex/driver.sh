# A right Flexvolume driver, which the wrong ones beside it change in one point each: a volume is a folder below the option
# "folder", bound to the pod.
#
# A wrong driver defines some of the functions below anew, then sources this file's `answer`:
#   . "$(dirname "$0")/../driver.sh"; ...; answer "$@"

say() { printf '%s\n' "$1"; }
succeed() { say '{"status": "Success"}'; exit 0; }
not_supported() { say '{"status": "Not supported"}'; exit 1; }
fail() { say "{\"status\": \"Failure\", \"message\": \"$1\"}"; exit 1; }

option() { printf %s "$1" | sed -n 's|.*"'"$2"'":"\([^"]*\)".*|\1|p'; }

# Sets source and access, from the options.
read_options() {
  folder=$(option "$1" folder)
  [ -n "$folder" ] || fail "the option 'folder' is missing"
  source=$folder/$(option "$1" 'kubernetes\.io/pvOrVolumeName')
  access=$(option "$1" 'kubernetes\.io/readwrite')
}

bind() { # FOLDER
  mkdir -p "$source"
  mountpoint -q "$1" && return 0
  mount --bind "$source" "$1" && mount -o "remount,bind,$access" "$1"
}
unbind() { # FOLDER
  if mountpoint -q "$1"; then umount "$1"; fi
}

do_init() { say '{"status": "Success", "capabilities": {"attach": false}}'; }
do_mount() { read_options "$2" && bind "$1" && succeed; fail "mount failed"; }
do_unmount() { unbind "$1" && succeed; fail "unmount failed"; }
do_other() { not_supported; }

answer() {
  command=$1
  [ $# -eq 0 ] || shift
  case $command in
    init) do_init ;;
    mount) do_mount "$@" ;;
    unmount) do_unmount "$@" ;;
    *) do_other "$command" "$@" ;;
  esac
}
