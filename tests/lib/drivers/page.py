"""Writes the section of docs/compatibility.md about drivers that others wrote. BERTH_COMPATIBILITY names the file; without it nothing
is written. Only the rows of the drivers that were run are written anew."""
import fcntl
import os
import re

PAGE = os.environ.get("BERTH_COMPATIBILITY")
HEADING = "## Drivers that others wrote"
TEXT = """
`BERTH_DRIVERS=FOLDER BERTH_COMPATIBILITY=docs/compatibility.md ./dev test --label drivers` writes this section. Each driver runs as a
process beside `berth up`, whose node agent finds it by its socket and whose controllers provision, attach, grow and snapshot its
volumes. Pods in containerd use them. After each case nothing may be left: with Berth, in the kernel, in the driver's storage.

| driver | version | what was run | what was found |
| --- | --- | --- | --- |
"""

_rows = {}  # title → (version, [case], found)


def section_of(text):
    """Gives the section in a page, or an empty text. It is the last one."""
    start = text.find(f"{HEADING}\n")
    return text[start:] if start >= 0 else ""


def note_case(report):
    """Keeps the outcome of a test; its properties say which driver and which case it is of."""
    properties = dict(report.user_properties)
    if PAGE and "driver" in properties and (report.when == "call" or report.failed):
        _, cases, _ = _rows.setdefault(properties["driver"], (properties["version"], [], properties["found"]))
        cases.append(properties["case"] if report.passed else f"{properties['case']}: {report.outcome}")


def write_section():
    if not PAGE or not _rows:
        return
    # The cases of the virtual machine run in a process of their own.
    with open(PAGE, "r+") as page:
        fcntl.flock(page, fcntl.LOCK_EX)
        text = _with_rows(page.read())
        page.seek(0)
        page.truncate()
        page.write(text)


def _with_rows(text):
    """Gives the page with the rows of this run in place of the old ones of the same drivers."""
    old = section_of(text)
    rows = dict(re.findall(r"^\| ([^|]+) \| (.*) \|$", old.partition("| --- |")[2].partition("\n")[2], re.MULTILINE))
    rows |= {title: f"{version} | {'; '.join(cases)} | {found or 'nothing that Berth has to do differently'}"
             for title, (version, cases, found) in _rows.items()}
    body = "".join(f"| {title} | {rest} |\n" for title, rest in sorted(rows.items()))
    return text.removesuffix(old).rstrip("\n") + f"\n\n{HEADING}\n{TEXT}{body}"
