"""The documented rules of server-side apply."""
import re

import kinds
import pytest
import yaml
from kinds import CONFIG_MAP, DAEMON_SET, NODE, POD
from lib import kube


@pytest.fixture
def item(make):
    """Gives a ConfigMap's apiVersion, kind and name, and the path that it will have."""
    new = make.new(CONFIG_MAP)
    new["metadata"].pop("namespace")
    del new["data"]
    path = CONFIG_MAP.path(make.ns, new["metadata"]["name"])
    make.clean_later(path)
    return new, path


def entry(document, manager, operation="Apply", subresource=None):
    for one in document["metadata"].get("managedFields") or []:
        if (one["manager"], one["operation"], one.get("subresource")) == (manager, operation, subresource):
            return one
    return None


@pytest.mark.parametrize("kind", kinds.BUILT_IN, ids=str)
def test_apply_creates_and_then_changes_nothing(api, make, kind):
    new = make.new(kind)
    new["metadata"]["labels"] = {"applied": "yes"}
    path = make.path(kind, new)
    make.clean_later(path)
    made = api.apply(path, new, "me")
    assert made.code == 201, made
    again = api.apply(path, new, "me")
    assert again.code == 200, again
    owned = entry(again.json, "me")
    assert owned and owned["apiVersion"] == kind.api_version and owned["fieldsType"] == "FieldsV1"


def test_applying_the_same_keeps_the_version(api, item):
    new, path = item
    first = api.apply(path, {**new, "data": {"a": "1"}}, "me").json
    again = api.apply(path, {**new, "data": {"a": "1"}}, "me").json
    assert again["metadata"]["resourceVersion"] == first["metadata"]["resourceVersion"]
    assert again["metadata"]["managedFields"] == first["metadata"]["managedFields"]


def test_managed_fields_say_who_owns_what(api, item):
    new, path = item
    made = api.apply(path, {**new, "data": {"a": "1"}, "metadata": {**new["metadata"], "labels": {"l": "x"}}}, "me")
    owned = entry(made.json, "me")
    assert owned["fieldsV1"] == {"f:data": {"f:a": {}}, "f:metadata": {"f:labels": {"f:l": {}}}}
    assert re.match(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$", owned["time"])


def test_apply_takes_yaml(api, item):
    new, path = item
    reply = api.apply(path, yaml.safe_dump({**new, "data": {"a": "1"}}), "me")
    assert reply.code == 201 and reply.json["data"] == {"a": "1"}, reply


def test_a_field_applied_no_more_is_removed(api, item):
    new, path = item
    api.apply(path, {**new, "data": {"a": "1", "b": "2"}}, "me")
    reply = api.apply(path, {**new, "data": {"b": "2"}}, "me")
    assert reply.json["data"] == {"b": "2"}


def test_a_field_that_another_owns_too_stays(api, item):
    new, path = item
    api.apply(path, {**new, "data": {"a": "1", "b": "2"}}, "one")
    api.apply(path, {**new, "data": {"b": "2", "c": "3"}}, "two")
    assert api.apply(path, {**new, "data": {"a": "1"}}, "one").json["data"] == {"a": "1", "b": "2", "c": "3"}
    assert api.apply(path, {**new, "data": {"c": "3"}}, "two").json["data"] == {"a": "1", "c": "3"}


def test_a_conflict_names_manager_and_field(api, item):
    new, path = item
    api.apply(path, {**new, "data": {"a": "1"}}, "one")
    reply = api.apply(path, {**new, "data": {"a": "2"}}, "two")
    assert reply.code == 409 and reply.json["reason"] == "Conflict", reply
    assert reply.message == 'Apply failed with 1 conflict: conflict with "one": .data.a'
    assert reply.json["details"]["causes"] == [
        {"reason": "FieldManagerConflict", "message": 'conflict with "one"', "field": ".data.a"}]
    assert api.get(path).json["data"] == {"a": "1"}


def test_a_conflict_with_an_update_names_the_version(api, item):
    new, path = item
    api.apply(path, {**new, "data": {"a": "1"}}, "one")
    assert api.patch(path, {"data": {"a": "other"}}, fieldManager="editor").code == 200
    reply = api.apply(path, {**new, "data": {"a": "2"}}, "two")
    assert reply.code == 409
    assert re.fullmatch(r'Apply failed with 1 conflict: conflict with "editor" using v1( at [0-9TZ:-]+)?: \.data\.a',
                        reply.message), reply.message


def test_several_conflicts_are_listed(api, item):
    new, path = item
    api.apply(path, {**new, "data": {"a": "1", "b": "1"}}, "one")
    reply = api.apply(path, {**new, "data": {"a": "2", "b": "2"}}, "two")
    assert reply.message == ('Apply failed with 2 conflicts: conflicts with "one":\n- .data.a\n- .data.b'), reply
    assert len(reply.json["details"]["causes"]) == 2


def test_force_takes_the_field(api, item):
    new, path = item
    api.apply(path, {**new, "data": {"a": "1", "b": "1"}}, "one")
    reply = api.apply(path, {**new, "data": {"a": "2"}}, "two", force=True)
    assert reply.code == 200 and reply.json["data"] == {"a": "2", "b": "1"}, reply
    assert entry(reply.json, "one")["fieldsV1"] == {"f:data": {"f:b": {}}}
    assert entry(reply.json, "two")["fieldsV1"] == {"f:data": {"f:a": {}}}


def test_the_same_value_is_shared(api, item):
    new, path = item
    api.apply(path, {**new, "data": {"a": "1"}}, "one")
    reply = api.apply(path, {**new, "data": {"a": "1"}}, "two")
    assert reply.code == 200, reply
    assert entry(reply.json, "one") and entry(reply.json, "two")


def test_a_manager_that_applies_nothing_is_forgotten(api, item):
    new, path = item
    api.apply(path, {**new, "data": {"a": "1"}}, "one")
    api.apply(path, {**new, "data": {"b": "1"}}, "two")
    reply = api.apply(path, new, "two")
    assert reply.json["data"] == {"a": "1"}
    left = entry(reply.json, "two")
    assert left is None or left["fieldsV1"] == {}


def test_writes_are_recorded_as_updates(api, make):
    made = make(CONFIG_MAP)
    # Without a given manager, the first word of the user agent is the manager.
    owned = entry(made, "conformance", "Update")
    assert owned and owned["fieldsV1"]["f:data"] == {".": {}, "f:key": {}}, made
    reply = api.patch(make.path(CONFIG_MAP, made), {"data": {"key": "x"}}, fieldManager="editor")
    assert entry(reply.json, "editor", "Update")["fieldsV1"] == {"f:data": {"f:key": {}}}
    left = entry(reply.json, "conformance", "Update")
    assert "f:key" not in (left or {"fieldsV1": {}})["fieldsV1"].get("f:data", {})


def test_status_writes_are_recorded_apart(api, make):
    made = make(POD)
    reply = api.patch(make.path(POD, made) + "/status", {"status": {"message": "x"}}, fieldManager="agent")
    owned = entry(reply.json, "agent", "Update", "status")
    assert owned and owned["fieldsV1"] == {"f:status": {"f:message": {}}}, reply


def test_apply_to_the_status(api, make):
    made = make(NODE)
    path = make.path(NODE, made)
    body = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": made["metadata"]["name"]},
            "status": {"volumesInUse": ["x"]}, "spec": {"unschedulable": True}}
    reply = api.apply(path + "/status", body, "agent")
    assert reply.code == 200 and reply.json["status"]["volumesInUse"] == ["x"], reply
    assert not reply.json.get("spec", {}).get("unschedulable")
    assert entry(reply.json, "agent", "Apply", "status")["fieldsV1"]["f:status"], reply


def test_lists_of_named_items_merge(api, make):
    new = make.new(DAEMON_SET)
    path = make.path(DAEMON_SET, new)
    make.clean_later(path)
    assert api.apply(path, new, "one").code == 201
    side = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": new["metadata"]["name"]},
            "spec": {"template": {"spec": {"containers": [{"name": "side", "image": "x"}]}}}}
    reply = api.apply(path, side, "two")
    assert reply.code == 200, reply
    containers = reply.json["spec"]["template"]["spec"]["containers"]
    assert [one["name"] for one in containers] == ["main", "side"]
    owned = entry(reply.json, "two")["fieldsV1"]["f:spec"]["f:template"]["f:spec"]["f:containers"]
    assert owned == {'k:{"name":"side"}': {".": {}, "f:name": {}, "f:image": {}}}
    # An item is removed when its only owner no longer applies it.
    del side["spec"]
    reply = api.apply(path, side, "two")
    assert [c["name"] for c in reply.json["spec"]["template"]["spec"]["containers"]] == ["main"], reply


def test_sets_merge(api, item):
    new, path = item
    for manager, name in (("one", "a.example.com/x"), ("two", "a.example.com/y")):
        reply = api.apply(path, {**new, "metadata": {**new["metadata"], "finalizers": [name]}}, manager)
    assert sorted(reply.json["metadata"]["finalizers"]) == ["a.example.com/x", "a.example.com/y"], reply
    assert entry(reply.json, "two")["fieldsV1"] == {"f:metadata": {"f:finalizers": {'v:"a.example.com/y"': {}}}}
    reply = api.apply(path, new, "one")
    assert reply.json["metadata"]["finalizers"] == ["a.example.com/y"], reply


def test_atomic_lists_have_one_owner(api, make):
    new = make.new(NODE, spec={"taints": [{"key": "a.example.com/a", "effect": "NoSchedule"}]})
    path = make.path(NODE, new)
    make.clean_later(path)
    api.apply(path, new, "one")
    reply = api.apply(path, {**new, "spec": {"taints": [{"key": "a.example.com/b", "effect": "NoSchedule"}]}}, "two")
    assert reply.code == 409 and ".spec.taints" in reply.message, reply


def test_a_duplicate_key_in_a_list_is_refused(api, make):
    new = make.new(DAEMON_SET)
    new["spec"]["template"]["spec"]["containers"] *= 2
    path = make.path(DAEMON_SET, new)
    make.clean_later(path)
    reply = api.apply(path, new, "one")
    assert reply.code in (400, 422, 500) and "duplicate" in reply.message.lower(), reply


BAD_REQUESTS = {
    "no-manager": ({}, {}, (422,), "fieldManager"),
    "managed-fields-in-the-body": ({"metadata": {"managedFields": [
        {"manager": "x", "operation": "Apply", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": {}}]}},
        {"fieldManager": "me"}, (400, 422), "metadata.managedFields must be nil"),
    "another-name": ({"metadata": {"name": "other"}}, {"fieldManager": "me"}, (400,), "name"),
    "another-kind": ({"kind": "Secret"}, {"fieldManager": "me"}, (400, 415, 500), ""),
    "unknown-field": ({"foo": 1}, {"fieldManager": "me", "fieldValidation": "Strict"}, (400, 422, 500), "foo"),
    "stale-version": ({"metadata": {"resourceVersion": "1"}}, {"fieldManager": "me"}, (409,), ""),
}


@pytest.mark.parametrize("fields,options,codes,words", BAD_REQUESTS.values(), ids=BAD_REQUESTS)
def test_a_bad_apply(api, make, fields, options, codes, words):
    made = make(CONFIG_MAP)
    body = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"key": "applied"}, **fields,
            "metadata": {"name": made["metadata"]["name"], **fields.get("metadata", {})}}
    reply = api.patch(make.path(CONFIG_MAP, made), body, kube.APPLY, force="true", **options)
    assert reply.code in codes and words in reply.message, reply
    assert api.get(make.path(CONFIG_MAP, made)).json["data"] == {"key": "value"}


@pytest.mark.parametrize("body", ["{", "- a\n- b", "apiVersion: v1\n kind: ["], ids=["cut", "list", "indent"])
def test_a_broken_body_is_a_bad_request(api, make, body):
    made = make(CONFIG_MAP)
    assert api.apply(make.path(CONFIG_MAP, made), body, "me").code == 400


def test_force_is_for_apply_only(api, make):
    made = make(CONFIG_MAP)
    reply = api.patch(make.path(CONFIG_MAP, made), {}, force="true")
    assert reply.code == 422 and "force" in reply.message, reply


def test_apply_with_a_version_of_something_missing_creates_it(api, item):
    """Only an object that exists has a version to compare with."""
    new, path = item
    body = {**new, "metadata": {**new["metadata"], "resourceVersion": "1"}}
    made = api.apply(path, body, "me")
    assert made.code == 201 and made.json["metadata"]["resourceVersion"] != "1", made
    assert api.get(path).json["metadata"]["uid"] == made.json["metadata"]["uid"]


def test_apply_with_a_uid_of_something_missing_is_a_conflict(api, item):
    new, path = item
    body = {**new, "metadata": {**new["metadata"], "uid": "11111111-2222-3333-4444-555555555555"}}
    assert api.apply(path, body, "me").code == 409


def test_managed_fields_can_be_cleared(api, make):
    made = make(CONFIG_MAP)
    reply = api.patch(make.path(CONFIG_MAP, made), {"metadata": {"managedFields": [{}]}})
    assert reply.code == 200 and not reply.json["metadata"].get("managedFields"), reply


def test_managed_fields_survive_a_put_without_them(api, make):
    made = make(CONFIG_MAP)
    del made["metadata"]["managedFields"]
    reply = api.put(make.path(CONFIG_MAP, made), {**made, "data": {"key": "x"}}, fieldManager="editor")
    assert entry(reply.json, "editor", "Update") and entry(reply.json, "conformance", "Update"), reply


def test_broken_managed_fields_are_replaced_not_fatal(api, make):
    made = make(CONFIG_MAP)
    made["metadata"]["managedFields"] = [{"manager": "x", "operation": "Frobnicate"}]
    assert api.put(make.path(CONFIG_MAP, made), made).code in (200, 422)
    assert api.get(make.path(CONFIG_MAP, made)).code == 200


def test_apply_validates(api, item):
    new, path = item
    reply = api.apply(path, {**new, "data": {"bad key": "x"}}, "me")
    assert reply.code == 422 and reply.json["reason"] == "Invalid", reply


def test_applied_defaults_belong_to_nobody(api, make):
    new = make.new(POD)
    path = make.path(POD, new)
    make.clean_later(path)
    made = api.apply(path, new, "me").json
    assert made["spec"]["restartPolicy"] == "Always"
    assert "f:restartPolicy" not in entry(made, "me")["fieldsV1"]["f:spec"]
