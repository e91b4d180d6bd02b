"""Measures how long a developer waits in a clean clone with an empty compiler cache: from the clone to the end of the
demonstration, until all tests are built, and from one changed file to a new `berth`."""
import os
import statistics
import subprocess
import time

RUN_MINUTES, ALL_MINUTES, EDIT_SECONDS, STRIPPED_MB = 8, 16, 15, 16
EDITS = 5
# A file in the middle of the node agent's volumes.
EDITED = "src/node/volumes/volume_steps.cc"


def _time(command, **options):
    """Runs the command, and returns the seconds that it took."""
    began = time.monotonic()
    result = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, **options)
    if result.returncode != 0:
        raise SystemExit(f"bench: {' '.join(map(str, command))}: {result.stderr[-4000:]}")
    return time.monotonic() - began


def _edit(clone, number):
    """Makes a change that the compiler cache does not have."""
    with open(clone / EDITED, "a") as source:
        source.write(f"\n[[maybe_unused]] static constexpr int kEdit{number} = {time.time_ns() % 1_000_000};\n")


def measure(root, folder):
    """Returns (figure, bar, holds). `root` is the tree whose committed state is cloned, `folder` an empty folder."""
    clone = folder / "clone"
    environment = os.environ | {"CCACHE_DIR": str(folder / "ccache")}
    began = time.monotonic()
    _time(["git", "clone", "--quiet", root, clone])
    _time(["./dev", "run"], cwd=clone, env=environment)
    run = time.monotonic() - began
    everything = run + _time(["./dev", "build"], cwd=clone, env=environment)
    edits = []
    for number in range(EDITS):
        _edit(clone, number)
        edits.append(_time(["tools/build", "dev", "berth"], cwd=clone, env=environment))
    edit = statistics.median(edits)
    stripped = folder / "berth"
    _time(["strip", "-o", stripped, root / "build" / "release" / "bin" / "berth"])
    megabytes = stripped.stat().st_size / 1e6
    figure = (f"run {run / 60:.1f} min (to the end of the demonstration); everything {everything / 60:.1f} min; "
              f"edit {edit:.1f} s (the slowest of {EDITS} {max(edits):.1f}); stripped {megabytes:.1f} MB")
    bar = (f"run {RUN_MINUTES} min, everything {ALL_MINUTES} min, one changed file {EDIT_SECONDS} s, "
           f"berth stripped {STRIPPED_MB} MB")
    return figure, bar, (run <= RUN_MINUTES * 60 and everything <= ALL_MINUTES * 60 and edit <= EDIT_SECONDS
                         and megabytes <= STRIPPED_MB)
