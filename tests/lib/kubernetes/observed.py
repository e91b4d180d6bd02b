"""What the Go programs did in a case: recorded as data when they run, and what Berth does is compared with it, also where the
real programs are not at hand."""
import difflib
import json
import os
import pathlib
import re

FOLDER = pathlib.Path(__file__).resolve().parent.parent.parent / "kubernetes" / "observed"
RECORD = bool(os.environ.get("BERTH_RECORD"))  # what the Go programs do replaces what is recorded

UID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z")
HASH = re.compile(r"csi-[0-9a-f]{64}")
# The provisioner's own identity: milliseconds, a random number, the driver.
IDENTITY = re.compile(r"\d{13}-\d{1,4}-")
KEPT_METADATA = ("name", "namespace", "labels", "annotations", "finalizers", "deletionTimestamp", "generateName")


def whole(item):
    """Gives what an object says, without what differs from one run to the next."""
    if item is None:
        return None
    meta = {key: value for key, value in item["metadata"].items() if key in KEPT_METADATA and value}
    if "finalizers" in meta:
        meta["finalizers"] = sorted(meta["finalizers"])
    rest = {key: value for key, value in item.items() if key not in ("metadata", "apiVersion", "kind")}
    conditions = rest.get("status", {}).get("conditions")
    if conditions:
        rest["status"] = rest["status"] | {"conditions": sorted(conditions, key=lambda each: each["type"])}
    return {"metadata": meta, **rest}


def _without_empty(value):
    """Leaves out what is null or empty, as Go's codecs do for most fields, and versions of objects."""
    if isinstance(value, list):
        return [_without_empty(each) for each in value]
    if not isinstance(value, dict):
        return value
    kept = {key: _without_empty(each) for key, each in value.items() if key != "resourceVersion"}
    return {key: each for key, each in kept.items() if each not in (None, "", [], {})}


def without_names(value, names):
    """Gives the value with each text of `names` as its placeholder there, and without ids and times."""
    text = json.dumps(_without_empty(value), sort_keys=True)
    for name, placeholder in sorted(names.items(), key=lambda pair: -len(pair[0])):
        text = text.replace(name, placeholder)
    for pattern, placeholder in ((IDENTITY, "IDENTITY-"), (UID, "UID"), (TIME, "TIME"), (HASH, "csi-HASH")):
        text = pattern.sub(placeholder, text)
    return json.loads(text)


def _lines(value):
    return json.dumps(value, indent=1, sort_keys=True).splitlines()


class Observed:
    """The record of one case."""

    def __init__(self, case):
        self.path = FOLDER / f"{case}.json"
        self.values = json.loads(self.path.read_text()) if self.path.exists() else {}

    def compare(self, key, value, of_go):
        """Checks that a value is what was recorded. `of_go`: the Go program has done it, so that it may be recorded."""
        if of_go and RECORD:
            self.values[key] = value
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self.path.write_text(json.dumps(self.values, indent=1, sort_keys=True) + "\n")
        assert key in self.values, f"what the Go program does was never recorded for '{key}': run it with BERTH_RECORD=1"
        assert value == self.values[key], f"'{key}' is not what the Go program does:\n" + "\n".join(
            difflib.unified_diff(_lines(self.values[key]), _lines(value), "Go", "here", n=2, lineterm=""))
