"""Scripts of pods: one writes a blob to its volume, and a later one checks that it is there."""
import hashlib

LINES = 20000
BLOB = "".join(f"{i}\n" for i in range(1, LINES + 1)).encode()
SUM = hashlib.sha256(BLOB).hexdigest()


def write(folder):
    return f"seq 1 {LINES} > {folder}/blob && sync {folder}/blob"


def check(folder):
    """Fails the pod if the data is not what `write` wrote."""
    return f"echo '{SUM}  {folder}/blob' | sha256sum -c -"


def write_device(device):
    return f"seq 1 {LINES} | dd of={device} conv=fsync 2>/dev/null"


def check_device(device):
    return f"head -c {len(BLOB)} {device} | sha256sum | grep -q {SUM}"


def larger_than(folder, kib):
    return f"test $(df -k {folder} | tail -1 | awk '{{print $2}}') -gt {kib}"


def stay(script):
    """Runs a script, prints that it is done, and stays until it is told to end."""
    return f"({script}) >/dev/null && echo ready && trap 'exit 0' TERM && while :; do sleep 0.1; done"
