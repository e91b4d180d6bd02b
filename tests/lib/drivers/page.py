"""Writes the section of docs/compatibility.md about drivers that others wrote. BERTH_COMPATIBILITY names the file; without it nothing
is written. Only the cases that were run are written anew."""
import fcntl
import os
import re

PAGE = os.environ.get("BERTH_COMPATIBILITY")
HEADING = "## Drivers that others wrote"
TEXT = """
`BERTH_DRIVERS=FOLDER BERTH_COMPATIBILITY=docs/compatibility.md ./dev test --label drivers` writes this section. Each driver runs as a
process beside `berth up`, whose node agent finds it by its socket and whose controllers provision, attach, grow and snapshot its
volumes. Pods in containerd use them, or `berth mount` in the virtual machine. After each case nothing may be left: with Berth, in the
kernel, in the driver's storage. A case is passed unless it says something else.

| driver | version | what was run | what was found |
| --- | --- | --- | --- |
"""

SEPARATOR = "<br>"  # of the cases in a row
NOTHING_FOUND = "nothing that Berth has to do differently"

_rows = {}  # title → (version, {case: its outcome}, found)


def section_of(text):
    """Gives the section in a page, or an empty text. It is the last one."""
    start = text.find(f"{HEADING}\n")
    return text[start:] if start >= 0 else ""


def note_case(report):
    """Keeps the outcome of a test; its properties say which driver and which case it is of."""
    properties = dict(report.user_properties)
    if PAGE and "driver" in properties and (report.when == "call" or report.failed):
        _, cases, _ = _rows.setdefault(properties["driver"], (properties["version"], {}, properties["found"]))
        cases[properties["case"]] = report.outcome


def write_section():
    if not PAGE or not _rows:
        return
    # The cases of the virtual machine run in a process of their own.
    with open(PAGE, "r+") as page:
        fcntl.flock(page, fcntl.LOCK_EX)
        text = with_rows(page.read(), _rows)
        page.seek(0)
        page.truncate()
        page.write(text)


def with_rows(text, new):
    """Gives the page with the outcomes of a run. What was found earlier with the same version of a driver stays, because a case may
    run alone."""
    old = section_of(text)
    rows = {}
    for title, version, cases, found in re.findall(r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", old, re.MULTILINE):
        if title not in ("driver", "---"):
            rows[title] = (version, dict(_outcome(case) for case in cases.split(SEPARATOR)), found)
    for title, (version, cases, found) in new.items():
        earlier = rows[title][1] if title in rows and rows[title][0] == version else {}
        rows[title] = (version, earlier | cases, found or NOTHING_FOUND)
    body = "".join(f"| {title} | {version} | {SEPARATOR.join(map(_shown, cases.items()))} | {found} |\n"
                   for title, (version, cases, found) in sorted(rows.items()))
    return text.removesuffix(old).rstrip("\n") + f"\n\n{HEADING}\n{TEXT}{body}"


def _shown(case_and_outcome):
    case, outcome = case_and_outcome
    return case if outcome == "passed" else f"{case} ({outcome})"


def _outcome(shown):
    match = re.fullmatch(r"(.*) \((failed|skipped)\)", shown)
    return (match[1], match[2]) if match else (shown, "passed")
