"""The documented rules of tables, which kubectl get prints."""
import re
import time

import kinds
import pytest
from kinds import ATTACHMENT, CLAIM, CONFIG_MAP, DAEMON_SET, NODE, POD, SECRET, STORAGE_CLASS, VOLUME, of

ACCEPT = ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,"
          "application/json")
EACH = pytest.mark.parametrize("kind", kinds.KINDS, ids=str)
AGE = re.compile(r"(\d+[smhdy]){1,2}$")


def table(api, kind, ns, made=None, accept=ACCEPT, **query):
    if made is not None:
        query["fieldSelector"] = f"metadata.name={made['metadata']['name']}"
    reply = api.get(kind.path(ns), accept=accept, **query)
    assert reply.code == 200, reply
    return reply.json


def row(api, kind, ns, made):
    """Gives the cells of an object by their columns' names."""
    document = table(api, kind, ns, made)
    (only,) = document["rows"]
    return dict(zip((c["name"] for c in document["columnDefinitions"]), only["cells"]))


@EACH
def test_the_columns_of(api, make, kind):
    if kind.optional and api.get(kind.root).code == 404:
        pytest.skip(f"{kind.api_version} is not served here")
    made = make(kind)
    document = table(api, kind, make.ns, made)
    assert document["kind"] == "Table" and document["apiVersion"] == "meta.k8s.io/v1"
    assert document["metadata"]["resourceVersion"].isdecimal()
    shown = tuple(("*" if column["priority"] else "") + column["name"] for column in document["columnDefinitions"])
    assert shown == kind.columns
    for column in document["columnDefinitions"]:
        assert {"name", "type", "format", "description", "priority"} <= set(column)
        assert column["type"] in ("string", "integer", "number", "boolean", "date")
    (only,) = document["rows"]
    assert len(only["cells"]) == len(kind.columns)
    name = made["metadata"]["name"]
    assert name in [str(cell) for cell in only["cells"]]
    if "Age" in kind.columns:
        age = only["cells"][kind.columns.index("Age")]
        assert AGE.match(age), age


def test_the_object_of_a_row_is_its_metadata(api, make):
    made = make(CONFIG_MAP)
    for query in ({}, {"includeObject": "Metadata"}):
        (only,) = table(api, CONFIG_MAP, make.ns, made, **query)["rows"]
        assert only["object"]["kind"] == "PartialObjectMetadata"
        assert only["object"]["apiVersion"] == "meta.k8s.io/v1"
        assert only["object"]["metadata"]["uid"] == made["metadata"]["uid"] and "data" not in only["object"]


def test_the_object_of_a_row_is_whole_on_request(api, make):
    made = make(CONFIG_MAP)
    (only,) = table(api, CONFIG_MAP, make.ns, made, includeObject="Object")["rows"]
    assert only["object"]["kind"] == "ConfigMap" and only["object"]["data"] == made["data"]


def test_the_object_of_a_row_is_left_out_on_request(api, make):
    (only,) = table(api, CONFIG_MAP, make.ns, make(CONFIG_MAP), includeObject="None")["rows"]
    assert only.get("object") is None


def test_another_include_is_refused(api, make):
    reply = api.get(CONFIG_MAP.path(make.ns), accept=ACCEPT, includeObject="Some")
    assert reply.code == 400, reply


def test_one_object_as_a_table(api, make):
    made = make(CONFIG_MAP)
    document = api.get(make.path(CONFIG_MAP, made), accept=ACCEPT).json
    assert document["kind"] == "Table" and document["rows"][0]["cells"][0] == made["metadata"]["name"]


def test_the_older_version_of_tables(api, make):
    document = table(api, CONFIG_MAP, make.ns, make(CONFIG_MAP),
                     accept="application/json;as=Table;v=v1beta1;g=meta.k8s.io")
    assert document["kind"] == "Table" and document["apiVersion"] == "meta.k8s.io/v1beta1"


def test_an_unknown_version_of_tables_is_not_acceptable(api, make):
    reply = api.get(CONFIG_MAP.path(make.ns), accept="application/json;as=Table;v=v9;g=meta.k8s.io")
    assert reply.code == 406, reply


def test_plain_json_where_tables_are_not_asked_for_first(api, make):
    document = table(api, CONFIG_MAP, make.ns, accept="application/json," + ACCEPT)
    assert document["kind"] == "ConfigMapList"


def test_an_error_is_no_table(api, make):
    reply = api.get(CONFIG_MAP.path(make.ns, "no-such"), accept=ACCEPT)
    assert reply.code == 404 and reply.json["kind"] == "Status"


def test_pages_of_a_table(api, make):
    for _ in range(3):
        make(CONFIG_MAP)
    first = table(api, CONFIG_MAP, make.ns, limit=2)
    assert len(first["rows"]) == 2 and first["metadata"]["continue"]
    rest = table(api, CONFIG_MAP, make.ns, limit=500, continue_=first["metadata"]["continue"])
    assert rest["rows"] and not rest["metadata"].get("continue")


CELLS = {
    "volume": (VOLUME, {"spec": {**kinds.VOLUME_SPEC, "accessModes": ["ReadWriteOnce", "ReadOnlyMany"],
                                 "claimRef": {"namespace": "a", "name": "b"}}},
               {"Capacity": "1Gi", "Access Modes": "RWO,ROX", "Reclaim Policy": "Retain", "Claim": "a/b",
                "StorageClass": kinds.DRIVER, "VolumeAttributesClass": "<unset>", "VolumeMode": "Filesystem"}),
    "claim": (CLAIM, {}, {"Status": "Pending", "Volume": "", "Capacity": "", "Access Modes": "",
                          "StorageClass": kinds.DRIVER, "VolumeAttributesClass": "<unset>",
                          "VolumeMode": "Filesystem"}),
    "class": (STORAGE_CLASS, {"allowVolumeExpansion": True},
              {"Provisioner": kinds.DRIVER, "ReclaimPolicy": "Delete", "VolumeBindingMode": "Immediate",
               "AllowVolumeExpansion": True}),
    "attachment": (ATTACHMENT, {}, {"Attacher": kinds.DRIVER, "PV": "conformance-none",
                                    "Node": "conformance-nowhere", "Attached": False}),
    "csi-node": (of("CSINode"), {}, {"Drivers": 1}),
    "csi-driver": (of("CSIDriver"), {}, {"AttachRequired": True, "PodInfoOnMount": False, "StorageCapacity": False,
                                         "TokenRequests": "<unset>", "RequiresRepublish": False,
                                         "Modes": "Persistent"}),
    "secret": (SECRET, {"data": {"a": "", "b": ""}}, {"Type": "Opaque", "Data": 2}),
    "config-map": (CONFIG_MAP, {"data": {"a": "", "b": ""}, "binaryData": {"c": ""}}, {"Data": 3}),
    "lease": (of("Lease"), {}, {"Holder": "me"}),
    "runtime-class": (of("RuntimeClass"), {}, {"Handler": "runc"}),
    "attributes-class": (of("VolumeAttributesClass"), {}, {"DriverName": kinds.DRIVER}),
    "pod": (POD, {}, {"Ready": "0/1", "Status": "Pending", "Restarts": "0", "IP": "<none>", "Node": "<none>",
                      "Nominated Node": "<none>", "Readiness Gates": "<none>"}),
    "namespace": (kinds.NAMESPACE, {}, {"Status": "Active"}),
    "node": (NODE, {"spec": {"unschedulable": True}}, {"Roles": "<none>", "Internal-IP": "<none>",
                                                       "External-IP": "<none>", "OS-Image": "<unknown>"}),
    "event": (kinds.EVENT, {}, {"Type": "Normal", "Reason": "Tested", "Object": "pod/some-pod", "Message": "a test",
                                "Source": "conformance", "Count": 3}),
    "daemon-set": (DAEMON_SET, {}, {"Desired": 0, "Current": 0, "Ready": 0, "Up-to-date": 0, "Available": 0,
                                    "Containers": "main", "Images": "conformance.example.com/none:1",
                                    "Selector": "app=conformance",
                                    "Node Selector": "conformance.example.com/nowhere=true"}),
    "controller-revision": (of("ControllerRevision"), {}, {"Controller": "<none>", "Revision": 7}),
}


@pytest.mark.parametrize("kind,fields,wanted", CELLS.values(), ids=CELLS)
def test_cells_of(api, make, kind, fields, wanted):
    cells = row(api, kind, make.ns, make(kind, **fields))
    # Booleans are cells of their own type in some kinds and words in others; kubectl prints both alike.
    plain = {name: str(value).lower() if isinstance(value, bool) else value for name, value in cells.items()}
    for name, value in wanted.items():
        assert plain[name] == (str(value).lower() if isinstance(value, bool) else value), (name, cells)


def test_a_kind_without_columns_shows_when_its_objects_were_made(api, make):
    kind = of("CSIStorageCapacity")
    made = make(kind)
    assert row(api, kind, make.ns, made) == {"Name": made["metadata"]["name"],
                                             "Created At": made["metadata"]["creationTimestamp"]}


def test_a_default_class_says_so(api, make):
    """Checks the default classes that exist. The test makes no further one, because it would become the class of
    other users' claims."""
    make(STORAGE_CLASS)
    for one in table(api, STORAGE_CLASS, None, includeObject="Metadata")["rows"]:
        metadata = one["object"]["metadata"]
        mark = metadata.get("annotations", {}).get("storageclass.kubernetes.io/is-default-class")
        assert one["cells"][0] == metadata["name"] + (" (default)" if mark == "true" else "")


@pytest.mark.parametrize("kind", [VOLUME, CLAIM], ids=str)
def test_what_is_being_deleted_is_terminating(api, make, kind):
    item = make.new(kind)
    item["metadata"]["finalizers"] = ["conformance.example.com/hold"]
    made = make(kind, item)
    api.delete(make.path(kind, made))
    assert row(api, kind, make.ns, made)["Status"] == "Terminating"


@pytest.mark.parametrize("mode,word", [("ReadWriteMany", "RWX"), ("ReadWriteOncePod", "RWOP"),
                                       ("ReadOnlyMany", "ROX")])
def test_access_modes_are_short(api, make, mode, word):
    made = make(VOLUME, spec={**kinds.VOLUME_SPEC, "accessModes": [mode]})
    assert row(api, VOLUME, make.ns, made)["Access Modes"] == word


AGES = [(10, "10s"), (119, "119s"), (121, "2m1s"), (180, "3m"), (599, "9m59s"), (660, "11m"), (3600, "60m"),
        (3 * 3600, "3h"), (3 * 3600 + 300, "3h5m"), (8 * 3600 + 900, "8h"), (47 * 3600, "47h"), (49 * 3600, "2d1h"),
        (72 * 3600, "3d"), (7 * 86400 + 3600 * 5, "7d5h"), (9 * 86400 + 3600 * 5, "9d"), (364 * 86400, "364d"),
        (800 * 86400, "2y70d"), (9 * 365 * 86400 + 86400 * 3, "9y")]


@pytest.mark.parametrize("seconds,word", AGES)
def test_age_is_told_as_kubectl_does(api, make, seconds, word):
    """Checks Last Seen of an event whose age the test chooses; a second may pass meanwhile."""
    def stamp(ago):
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(time.time() - ago))
    made = make(kinds.EVENT, lastTimestamp=stamp(seconds), firstTimestamp=stamp(seconds))
    shown = row(api, kinds.EVENT, make.ns, made)["Last Seen"]
    assert shown in (word, told(seconds + 1), told(seconds + 2)), shown


def told(s):
    """Formats an age by the documented rule."""
    m, h, d = s // 60, s // 3600, s // 86400

    def two(first, second):
        return first + (second if second[0] != "0" else "")
    if s < 120:
        return f"{s}s"
    if m < 10:
        return two(f"{m}m", f"{s % 60}s")
    if m < 180:
        return f"{m}m"
    if h < 8:
        return two(f"{h}h", f"{m % 60}m")
    if h < 48:
        return f"{h}h"
    if d < 8:
        return two(f"{d}d", f"{h % 24}h")
    if d < 730:
        return f"{d}d"
    return two(f"{d // 365}y", f"{d % 365}d") if d < 8 * 365 else f"{d // 365}y"
