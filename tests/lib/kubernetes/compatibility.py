"""Writes docs/compatibility.md: each case with its outcome for the Go program and for Berth. BERTH_COMPATIBILITY names the file;
without it nothing is written. Tests that are run alone (BERTH_TEST_ALONE), and those of Berth's own API, change their cells of a page
that is there, and a new case gets its row."""
import os
import pathlib
import shutil

from lib.drivers import page as drivers_page
from lib.kubernetes import programs, runtimes

PAGE = os.environ.get("BERTH_COMPATIBILITY")
ALONE = bool(os.environ.get("BERTH_TEST_ALONE"))
SIDES = {"go": "Go", "berth": "Berth", "own-api": "Berth, own API"}
HEAD = """# Berth beside the real programs

`BERTH_KUBERNETES=FOLDER BERTH_COMPATIBILITY=docs/compatibility.md ./dev test --label kubernetes` writes this page, and the same with
`--label dropin` fills the last column. Each case runs with the Go program as the control, and then with Berth in its place, with the same
arguments and the same rights: on a real kube-apiserver with its controller manager, with RBAC on and a token of a service account, and on Berth's own API. What the Go
program did (objects, events, calls to the driver) is recorded in [tests/kubernetes/observed](../tests/kubernetes/observed), and Berth has to
do the same. Where Berth differs on purpose, [this page](migrate-from-sidecars.md#what-is-different) says so.

Where a kubelet runs pods, a case that names `containerd-1` or `containerd-2` ran under that one; a case that names neither ran under
`containerd-1`.
"""

_outcomes = {}  # (file, function, its parameters without the side) → {side: outcome}
_titles = {}
_notes = []


def note_outcome(report):
    """Keeps the outcome of a test. A test's title is the first sentence of its docstring."""
    if PAGE and "/kubernetes/" in f"/{report.nodeid}" and (report.when == "call" or not report.passed):
        file, _, name = report.nodeid.partition("::")
        function, _, parameters = name.rstrip("]").partition("[")
        words = parameters.split("-") if parameters not in SIDES else [parameters]
        side = next((side for side in SIDES if parameters == side or parameters.startswith(f"{side}-")
                     or parameters.endswith(f"-{side}")), "berth")
        rest = parameters.replace(side, "", 1).strip("-") if words else ""
        _outcomes.setdefault((pathlib.Path(file).stem, function, rest), {})[side] = report.outcome
        _titles.setdefault((pathlib.Path(file).stem, function), dict(report.user_properties).get("title"))


def add_note(heading, lines):
    """Adds a section to the page."""
    _notes.append((heading, lines))


def _versions():
    names = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubelet", "etcd", "csi-provisioner", "csi-attacher",
             "csi-resizer", "csi-snapshotter", "snapshot-controller", "csi-node-driver-registrar", "livenessprobe",
             "hostpathplugin", "csi-sanity")
    paths = {name: programs.find(name) for name in names}
    # Under which containerd a pod of a kubelet ran is a parameter of its case.
    paths |= {name: None if runtimes.missing(name) else runtimes.find(name) for name in (runtimes.MACHINES, runtimes.FOLDERS)}
    paths["runc"] = shutil.which("runc")
    return [f"| {name} | {programs.version_of(path)} |" for name, path in paths.items() if path]


def _rows():
    """Gives the beginning of each case's row, and its cells."""
    for (file, function, parameters), sides in _outcomes.items():
        title = _titles[file, function] or function.removeprefix("test_").replace("_", " ")
        start = f"| {file.removeprefix('test_')} | {title}{f' ({parameters})' if parameters else ''} |"
        yield start, [sides.get(side, "") for side in SIDES]


def write_page():
    if not PAGE or not _outcomes:
        return
    if ALONE or all(set(sides) == {"own-api"} for sides in _outcomes.values()):
        _change_cells()
        return
    rows = [f"{start} {' | '.join(cells)} |" for start, cells in _rows()]
    lines = [HEAD, "## Programs", "", "| program | version |", "| --- | --- |", *_versions(), "", "## Cases", "",
             f"| | what is checked | {' | '.join(SIDES.values())} |", "| --- | --- | --- | --- | --- |", *rows]
    for heading, text in _notes:
        lines += ["", f"## {heading}", "", *text]
    path = pathlib.Path(PAGE)
    # The suite of foreign drivers has written the last section, which stays.
    kept = drivers_page.section_of(path.read_text()) if path.exists() else ""
    path.write_text("\n".join(lines) + "\n" + (f"\n{kept}" if kept else ""))


def _change_cells():
    lines = pathlib.Path(PAGE).read_text().splitlines()
    for start, cells in _rows():
        number = next((number for number, line in enumerate(lines) if line.startswith(start)), None)
        if number is None:
            number = _row_after(lines, start)
            lines.insert(number, start + " | " * len(SIDES))
        before = [cell.strip() for cell in lines[number].removeprefix(start).split("|")]
        lines[number] = f"{start} {' | '.join(new or old for new, old in zip(cells, before))} |"
    pathlib.Path(PAGE).write_text("\n".join(lines) + "\n")


def _row_after(lines, start):
    """Gives the number of the line below the rows of a new row's file, or below all rows."""
    of_file = start[:start.index("|", 1)]
    numbers = [number for number, line in enumerate(lines) if line.startswith(of_file)]
    return (numbers or [number for number, line in enumerate(lines) if line.count("|") == len(SIDES) + 3])[-1] + 1
