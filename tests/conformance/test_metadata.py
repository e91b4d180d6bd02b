"""The documented rules of an object's metadata."""
import re
import time

import kinds
import pytest
from kinds import ATTACHMENT, CLAIM, CONFIG_MAP, LEASE, POD, SECRET, VOLUME

UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
SECONDS = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$")
SUFFIX = "[bcdfghjklmnpqrstvwxz2456789]{5}"
EACH = pytest.mark.parametrize("kind", kinds.KINDS, ids=str)


def served(api, kind):
    if kind.optional and api.get(kind.root).code == 404:
        pytest.skip(f"{kind.api_version} is not served here")


@EACH
def test_a_new_object_gets_its_metadata(api, make, kind):
    served(api, kind)
    made = make(kind)
    metadata = made["metadata"]
    assert made["apiVersion"] == kind.api_version and made["kind"] == kind.kind
    assert UUID.match(metadata["uid"])
    assert metadata["resourceVersion"].isdecimal()
    assert SECONDS.match(metadata["creationTimestamp"])
    assert metadata.get("namespace") == (make.ns if kind.namespaced else None)
    assert metadata.get("generation") == kind.generation
    assert "selfLink" not in metadata
    read = api.get(make.path(kind, made)).json
    assert read["metadata"]["uid"] == metadata["uid"]


@EACH
def test_a_put_without_resource_version(api, make, kind):
    served(api, kind)
    made = make(kind)
    path = make.path(kind, made)
    changed = api.get(path).json
    del changed["metadata"]["resourceVersion"]
    changed["metadata"]["labels"] = {**changed["metadata"].get("labels", {}), "changed": "yes"}
    reply = api.put(path, changed)
    if kind.unconditional_update:
        assert reply.code == 200 and reply.json["metadata"]["labels"]["changed"] == "yes", reply
    else:
        assert reply.code == 422 and reply.json["reason"] == "Invalid", reply
        assert "metadata.resourceVersion" in reply.message and "must be specified for an update" in reply.message


@EACH
def test_a_put_of_a_missing_object(api, make, kind):
    served(api, kind)
    missing = make.new(kind)
    path = make.path(kind, missing)
    make.clean_later(path)
    reply = api.put(path, missing)
    if kind.create_on_update:
        assert reply.code == 201, reply
        assert api.get(path).code == 200
    else:
        # Where a resourceVersion is required, the server may report that first.
        wanted = (404,) if kind.unconditional_update else (404, 422)
        assert reply.code in wanted, reply
        assert api.get(path).code == 404


@EACH
def test_an_update_that_changes_nothing_keeps_the_version(api, make, kind):
    served(api, kind)
    made = make(kind)
    path = make.path(kind, made)
    # The first update may store what a read fills in, such as the phase of a claim.
    while api.put(path, settled(api, path)).code == 409:
        pass
    before = settled(api, path)
    reply = api.put(path, before)
    assert reply.code == 200, reply
    assert reply.json["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
    reply = api.patch(path, {"metadata": {"name": made["metadata"]["name"]}})
    assert reply.json["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"], reply


def settled(api, path, seconds=5):
    """Waits until the object has not changed for a while, because controllers may still write it, and gives it."""
    deadline = time.monotonic() + seconds
    last, since = api.get(path).json, time.monotonic()
    while time.monotonic() < deadline and time.monotonic() - since < 0.3:
        time.sleep(0.05)
        now = api.get(path).json
        if now["metadata"]["resourceVersion"] != last["metadata"]["resourceVersion"]:
            last, since = now, time.monotonic()
    return last


@EACH
def test_a_stale_version_conflicts(api, make, kind):
    served(api, kind)
    made = make(kind)
    path = make.path(kind, made)
    first = settled(api, path)
    assert api.patch(path, {"metadata": {"labels": {"turn": "two"}}}).code == 200
    first["metadata"]["labels"] = {**first["metadata"].get("labels", {}), "turn": "late"}
    reply = api.put(path, first)
    assert reply.code == 409 and reply.json["reason"] == "Conflict", reply
    name = made["metadata"]["name"]
    assert reply.message == (f'Operation cannot be fulfilled on {kind.resource} "{name}": the object has been '
                             "modified; please apply your changes to the latest version and try again")


def test_an_update_that_changes_nothing_is_no_event(api, make):
    made = make(CONFIG_MAP)
    path = make.path(CONFIG_MAP, made)
    with api.watch(CONFIG_MAP.path(make.ns), resourceVersion=made["metadata"]["resourceVersion"],
                   fieldSelector=f"metadata.name={made['metadata']['name']}") as watch:
        assert api.put(path, made).code == 200
        assert api.patch(path, {"data": {"key": "value"}}).code == 200
        api.patch(path, {"data": {"key": "other"}})
        kind, item = watch.event()
        assert kind == "MODIFIED" and item["data"]["key"] == "other"


@pytest.mark.parametrize("field,value", [
    ("uid", "11111111-2222-3333-4444-555555555555"), ("creationTimestamp", "2001-01-01T00:00:00Z"),
    ("deletionTimestamp", "2001-01-01T00:00:00Z"), ("deletionGracePeriodSeconds", 7), ("selfLink", "/x")])
def test_create_discards_from_the_client(api, make, field, value):
    for kind in (CONFIG_MAP, POD):
        item = make.new(kind)
        item["metadata"][field] = value
        assert make(kind, item)["metadata"].get(field) != value


@pytest.mark.parametrize("kind,kept", [(CONFIG_MAP, 77), (CLAIM, 77), (POD, 1), (kinds.DAEMON_SET, 1)], ids=str)
def test_create_sets_the_generation_of_kinds_that_count_it(api, make, kind, kept):
    item = make.new(kind)
    item["metadata"]["generation"] = 77
    made = make(kind, item)
    assert made["metadata"]["generation"] == kept
    assert api.patch(make.path(kind, made), {"metadata": {"generation": 99}}).json["metadata"]["generation"] == kept


def test_a_negative_generation_is_refused(api, make):
    item = make.new(CONFIG_MAP)
    item["metadata"]["generation"] = -1
    reply = api.post(CONFIG_MAP.path(make.ns), item)
    assert reply.code == 422 and reply.json["details"]["causes"][0]["field"] == "metadata.generation", reply


@pytest.mark.parametrize("kind,status", [
    (POD, {"phase": "Running", "podIP": "10.1.2.3"}), (CLAIM, {"phase": "Bound", "capacity": {"storage": "9Gi"}}),
    (VOLUME, {"phase": "Bound"}), (ATTACHMENT, {"attached": True}),
    (kinds.NAMESPACE, {"phase": "Terminating"}),
    (kinds.DAEMON_SET, {"numberReady": 9, "currentNumberScheduled": 9})], ids=str)
def test_create_discards_the_status(api, make, kind, status):
    made = make(kind, status=status)
    for key, value in status.items():
        assert (made.get("status") or {}).get(key) != value


def test_create_with_a_resource_version_fails(api, make):
    item = make.new(CONFIG_MAP)
    item["metadata"]["resourceVersion"] = "5"
    make.clean_later(make.path(CONFIG_MAP, item))
    reply = api.post(CONFIG_MAP.path(make.ns), item)
    assert reply.code in (400, 422, 500), reply
    assert "resourceVersion should not be set on objects to be created" in reply.message


@pytest.mark.parametrize("prefix", ["gen-", "a" * 58, "b" * 70])
def test_generate_name(api, make, prefix):
    names = set()
    for _ in range(3):
        item = {"metadata": {"generateName": prefix}}
        made = make(CONFIG_MAP, item)
        names.add(made["metadata"]["name"])
        assert made["metadata"]["generateName"] == prefix
        assert re.fullmatch(re.escape(prefix[:58]) + SUFFIX, made["metadata"]["name"])
    assert len(names) == 3


def test_a_name_wins_over_generate_name(api, make):
    item = make.new(CONFIG_MAP)
    item["metadata"]["generateName"] = "other-"
    assert make(CONFIG_MAP, item)["metadata"]["name"] == item["metadata"]["name"]


def test_without_name_and_generate_name_is_invalid(api, make):
    reply = api.post(CONFIG_MAP.path(make.ns), {"metadata": {}})
    assert reply.code == 422 and "name or generateName is required" in reply.message, reply


def test_one_counter_orders_all_kinds(api, make):
    versions = []
    for kind in (CONFIG_MAP, SECRET, VOLUME, CONFIG_MAP):
        versions.append(int(make(kind)["metadata"]["resourceVersion"]))
    assert versions == sorted(set(versions))


def test_generation_of_a_pod_counts_changes_of_the_spec(api, make):
    made = make(POD)
    path = make.path(POD, made)
    assert made["metadata"]["generation"] == 1
    assert api.patch(path, {"metadata": {"labels": {"a": "b"}}}).json["metadata"]["generation"] == 1
    reply = api.patch(path, {"spec": {"containers": [{"name": "main", "image": "conformance.example.com/none:2"}]}},
                      content_type="application/strategic-merge-patch+json")
    assert reply.json["metadata"]["generation"] == 2, reply
    status = api.patch(path + "/status", {"status": {"message": "hello"}})
    assert status.code == 200 and status.json["metadata"]["generation"] == 2, status


@pytest.mark.parametrize("kind", [VOLUME, CLAIM, ATTACHMENT], ids=str)
def test_generation_stays_unset(api, make, kind):
    made = make(kind)
    changed = api.patch(make.path(kind, made), {"metadata": {"labels": {"a": "b"}}}).json
    assert "generation" not in changed["metadata"]


def test_micro_times_have_six_decimals(api, make):
    made = make(LEASE, spec={"holderIdentity": "me", "leaseDurationSeconds": 1,
                             "renewTime": "2024-05-06T07:08:09.120000Z",
                             "acquireTime": "2024-05-06T09:08:09.000000+02:00"})
    assert made["spec"]["renewTime"] == "2024-05-06T07:08:09.120000Z"
    assert made["spec"]["acquireTime"] == "2024-05-06T07:08:09.000000Z"


@pytest.mark.parametrize("end,rest,form", [("Z", "Z", ".000000"), (".120Z", ".120Z", ".000000"),
                                           (".123456789Z", "789Z", "Z07:00")])
def test_a_micro_time_of_other_decimals_is_refused(api, make, end, rest, form):
    item = make.new(LEASE, spec={"holderIdentity": "me", "renewTime": f"2024-05-06T07:08:09{end}"})
    reply = api.post(LEASE.path(make.ns), item)
    assert reply.code == 400 and reply.json["reason"] == "BadRequest", reply
    # A server may name the field before it says what is wrong.
    assert reply.message.startswith('Lease in version "v1" cannot be handled as a Lease: ')
    assert reply.message.endswith(f'parsing time "2024-05-06T07:08:09{end}" as "2006-01-02T15:04:05.000000Z07:00": '
                                  f'cannot parse "{rest}" as "{form}"'), reply


@pytest.mark.parametrize("change,words", [
    ({"metadata": {"name": "other"}}, "name of the object"),
    ({"metadata": {"namespace": "other"}}, "namespace of the provided object"),
])
def test_a_put_must_name_what_its_url_names(api, make, change, words):
    made = make(CONFIG_MAP)
    made["metadata"].update(change["metadata"])
    reply = api.put(CONFIG_MAP.path(make.ns, make.paths[0].rpartition("/")[2]), made)
    assert reply.code == 400 and words in reply.message, reply


def test_a_post_must_name_the_namespace_of_its_url(api, make):
    item = make.new(CONFIG_MAP)
    item["metadata"]["namespace"] = "default"
    reply = api.post(CONFIG_MAP.path(make.ns), item)
    assert reply.code == 400 and "namespace of the provided object" in reply.message, reply


def test_the_uid_of_an_object_cannot_be_changed(api, make):
    made = make(CONFIG_MAP)
    made["metadata"]["uid"] = "11111111-2222-3333-4444-555555555555"
    reply = api.put(make.path(CONFIG_MAP, made), made)
    assert reply.code in (409, 422), reply


def test_server_set_metadata_cannot_be_changed_by_a_put(api, make):
    made = make(CONFIG_MAP)
    sent = {**made, "metadata": {**made["metadata"], "creationTimestamp": "2001-01-01T00:00:00Z", "generation": 9}}
    reply = api.put(make.path(CONFIG_MAP, made), sent)
    assert reply.code == 200, reply
    assert reply.json["metadata"]["creationTimestamp"] == made["metadata"]["creationTimestamp"]
    assert reply.json["metadata"].get("generation") is None


BAD_NAMES = {"upper-case": "Upper", "underscore": "a_b", "leading-dash": "-a", "trailing-dot": "a.",
             "too-long": "a" * 254, "slash": "a/b"}


@pytest.mark.parametrize("name", BAD_NAMES.values(), ids=BAD_NAMES)
def test_a_name_must_be_a_dns_subdomain(api, make, name):
    item = make.new(CONFIG_MAP)
    item["metadata"]["name"] = name
    reply = api.post(CONFIG_MAP.path(make.ns), item)
    assert reply.code == 422 and reply.json["details"]["causes"][0]["field"] == "metadata.name", reply


BAD_METADATA = {
    "label-key": ({"labels": {"a b": "c"}}, "metadata.labels"),
    "label-value": ({"labels": {"a": "b c"}}, "metadata.labels"),
    "label-value-too-long": ({"labels": {"a": "x" * 64}}, "metadata.labels"),
    "annotation-key": ({"annotations": {"a b": "c"}}, "metadata.annotations"),
    "annotations-too-large": ({"annotations": {"a": "x" * (257 * 1024)}}, "metadata.annotations"),
    "finalizer-without-domain": ({"finalizers": ["Not A Name"]}, "metadata.finalizers[0]"),
    "owner-without-uid": ({"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": ""}]},
                          "metadata.ownerReferences.uid"),
    "owner-without-kind": ({"ownerReferences": [{"apiVersion": "v1", "kind": "", "name": "a", "uid": "b"}]},
                           "metadata.ownerReferences.kind"),
    "two-controllers": ({"ownerReferences": [
        {"apiVersion": "v1", "kind": "Pod", "name": n, "uid": n, "controller": True} for n in ("a", "b")]},
        "metadata.ownerReferences"),
}


@pytest.mark.parametrize("metadata,field", BAD_METADATA.values(), ids=BAD_METADATA)
def test_metadata_is_validated(api, make, metadata, field):
    item = make.new(CONFIG_MAP)
    item["metadata"].update(metadata)
    make.clean_later(make.path(CONFIG_MAP, item))
    reply = api.post(CONFIG_MAP.path(make.ns), item)
    assert reply.code == 422, reply
    # Releases differ in whether they give an item's index.
    fields = [re.sub(r"\[\d+\]\.", ".", cause["field"]) for cause in reply.json["details"]["causes"]]
    assert any(one.startswith(field) or field.startswith(one) for one in fields), reply


@pytest.mark.parametrize("metadata", [{"labels": {}}, {"annotations": {}}, {"finalizers": []},
                                      {"ownerReferences": []}, {"labels": None}], ids=str)
def test_an_empty_field_is_as_good_as_none(api, make, metadata):
    made = make(CONFIG_MAP)
    changed = api.patch(make.path(CONFIG_MAP, made), {"metadata": metadata}).json
    assert changed["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"], changed
    assert not set(metadata) & set(changed["metadata"])
