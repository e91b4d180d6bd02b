"""The documented rules of the verbs that write, of dry run and of field validation."""
import kinds
import pytest
from kinds import ATTACHMENT, CLAIM, CONFIG_MAP, DAEMON_SET, LEASE, NODE, POD, STORAGE_CLASS, VOLUME
from lib import kube

EACH = pytest.mark.parametrize("kind", kinds.BUILT_IN, ids=str)


@EACH
def test_post_answers_201_and_put_and_patch_200(api, make, kind):
    made = make(kind)  # make asserts the code 201
    path = make.path(kind, made)
    read = api.get(path)
    assert read.code == 200 and read.json["metadata"]["uid"] == made["metadata"]["uid"]
    changed = read.json
    changed["metadata"]["annotations"] = {"by": "put"}
    while (reply := api.put(path, changed)).code == 409:
        changed["metadata"]["resourceVersion"] = api.get(path).json["metadata"]["resourceVersion"]
    assert reply.code == 200 and reply.json["metadata"]["annotations"]["by"] == "put", reply
    reply = api.patch(path, {"metadata": {"annotations": {"by": "patch"}}})
    assert reply.code == 200 and reply.json["metadata"]["annotations"]["by"] == "patch", reply


STATUS = {
    POD: ({"message": "new"}, {"activeDeadlineSeconds": 77}),
    NODE: ({"phase": "Running"}, {"unschedulable": True}),
    VOLUME: ({"message": "new"}, {"persistentVolumeReclaimPolicy": "Delete"}),
    CLAIM: ({"capacity": {"storage": "3Gi"}}, {"volumeName": "other"}),
    ATTACHMENT: ({"attachmentMetadata": {"a": "b"}}, {"attacher": "other"}),
    # A field of the status that the kind's controller does not write.
    DAEMON_SET: ({"collisionCount": 3}, {"minReadySeconds": 9}),
}
# Fields of the status that a controller would write anyway. The test writes them, too, so that the controller does
# not.
SETTLED = {VOLUME: {"phase": "Available"}}
WITH_STATUS = pytest.mark.parametrize("kind", STATUS, ids=str)


@WITH_STATUS
@pytest.mark.parametrize("verb", ["put", "patch"])
def test_the_status_resource_writes_the_status_only(api, make, kind, verb):
    status, spec = STATUS[kind]
    status = {**status, **SETTLED.get(kind, {})}
    path = make.path(kind, make(kind))
    before = api.get(path).json
    if verb == "put":
        sent = {**before, "status": {**before.get("status", {}), **status},
                "spec": {**before.get("spec", {}), **spec}}
        sent["metadata"].pop("resourceVersion")
        if not kind.unconditional_update:
            sent["metadata"]["resourceVersion"] = api.get(path).json["metadata"]["resourceVersion"]
        while (reply := api.put(path + "/status", sent)).code == 409:  # its controller has written it, too
            sent["metadata"]["resourceVersion"] = api.get(path).json["metadata"]["resourceVersion"]
    else:
        reply = api.patch(path + "/status", {"status": status, "spec": spec})
    assert reply.code == 200, reply
    for field, value in status.items():
        assert reply.json["status"][field] == value
    # A cluster may change other fields meanwhile, such as the taints of a node.
    for field in spec:
        assert reply.json.get("spec", {}).get(field) == before.get("spec", {}).get(field)
    # Its controller may have written the rest of the status meanwhile.
    kept = api.get(path + "/status").json["status"]
    assert {field: kept[field] for field in status} == status


@WITH_STATUS
def test_the_main_resource_ignores_the_status(api, make, kind):
    status, _ = STATUS[kind]
    path = make.path(kind, make(kind))
    reply = api.patch(path, {"status": status, "metadata": {"annotations": {"a": "b"}}})
    assert reply.code == 200, reply
    for field, value in status.items():
        assert (reply.json.get("status") or {}).get(field) != value
    assert reply.json["metadata"]["annotations"]["a"] == "b"


def test_the_status_resource_leaves_deletion_alone(api, make):
    made = make(POD)
    reply = api.patch(make.path(POD, made) + "/status",
                      {"metadata": {"deletionTimestamp": "2024-01-01T00:00:00Z"}, "status": {"message": "x"}})
    assert reply.code in (200, 422) and not api.get(make.path(POD, made)).json["metadata"].get("deletionTimestamp")


# -- options

BAD_OPTIONS = {
    "manager-too-long": {"fieldManager": "x" * 129}, "manager-not-printable": {"fieldManager": "a\nb"},
    "dry-run-of-some": {"dryRun": "Some"}, "field-validation-unknown": {"fieldValidation": "Sometimes"},
}


@pytest.mark.parametrize("verb", ["post", "put", "patch"])
@pytest.mark.parametrize("options", BAD_OPTIONS.values(), ids=BAD_OPTIONS)
def test_bad_options_are_invalid(api, make, verb, options):
    made = make(CONFIG_MAP)
    item = make.new(CONFIG_MAP)
    reply = {"post": lambda: api.post(CONFIG_MAP.path(make.ns), item, **options),
             "put": lambda: api.put(make.path(CONFIG_MAP, made), made, **options),
             "patch": lambda: api.patch(make.path(CONFIG_MAP, made), {}, **options)}[verb]()
    make.clean_later(make.path(CONFIG_MAP, item))
    assert reply.code == 422 and reply.json["reason"] == "Invalid", reply
    assert api.get(make.path(CONFIG_MAP, item)).code == 404


def test_a_manager_of_128_characters_is_fine(api, make):
    item = make.new(CONFIG_MAP)
    make.clean_later(make.path(CONFIG_MAP, item))
    assert api.post(CONFIG_MAP.path(make.ns), item, fieldManager="x" * 128).code == 201


# -- dry run

@EACH
def test_dry_run_post_stores_nothing(api, make, kind):
    item = make.new(kind)
    reply = api.post(kind.path(make.ns), item, dryRun="All")
    assert reply.code == 201 and reply.json["metadata"]["uid"], reply
    assert api.get(make.path(kind, item)).code == 404


def test_dry_run_defaults_and_names(api, make):
    item = {"metadata": {"generateName": "dry-"}, "provisioner": "x.example.com"}
    made = api.post(STORAGE_CLASS.path(), item, dryRun="All").json
    assert made["metadata"]["name"].startswith("dry-") and made["reclaimPolicy"] == "Delete"
    assert api.get(STORAGE_CLASS.path(name=made["metadata"]["name"])).code == 404


@pytest.mark.parametrize("verb", ["put", "patch", "apply", "delete", "delete-by-body", "delete-collection", "status"])
def test_dry_run_changes_nothing(api, make, verb):
    kind = POD if verb == "status" else CONFIG_MAP
    made = make(kind)
    path = make.path(kind, made)
    name = made["metadata"]["name"]
    applied = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"new": "x"}}
    changed = {**made, "data": {"key": "changed"}}
    reply = {
        "put": lambda: api.put(path, changed, dryRun="All"),
        "patch": lambda: api.patch(path, {"data": {"key": "changed"}}, dryRun="All"),
        "apply": lambda: api.apply(path, applied, "me", dryRun="All"),
        "delete": lambda: api.delete(path, dryRun="All"),
        "delete-by-body": lambda: api.delete(path, {"dryRun": ["All"]}),
        "delete-collection": lambda: api.delete(kind.path(make.ns), fieldSelector=f"metadata.name={name}",
                                                dryRun="All"),
        "status": lambda: api.patch(path + "/status", {"status": {"message": "x"}}, dryRun="All"),
    }[verb]()
    assert reply.code == 200, reply
    if verb in ("put", "patch"):
        assert reply.json["data"]["key"] == "changed"
    if verb == "apply":
        assert reply.json["data"] == {"key": "value", "new": "x"}
    read = api.get(path).json
    assert read["metadata"]["resourceVersion"] == made["metadata"]["resourceVersion"]
    assert not read["metadata"].get("deletionTimestamp")


def test_dry_run_validates(api, make):
    reply = api.post(CONFIG_MAP.path(make.ns), make.new(CONFIG_MAP, data={"bad key": "x"}), dryRun="All")
    assert reply.code == 422
    made = make(CONFIG_MAP)
    assert api.post(CONFIG_MAP.path(make.ns), CONFIG_MAP.new(made["metadata"]["name"]), dryRun="All").code == 409


# -- field validation

def unknown(make):
    item = make.new(POD)
    item["spec"]["foo"] = 1
    item["spec"]["containers"] = [{**kinds.POD_SPEC["containers"][0], "bar": "x"}]
    return item


FIELDS = ("spec.foo", "spec.containers[0].bar")


def test_strict_refuses_unknown_fields(api, make):
    item = unknown(make)
    reply = api.post(POD.path(make.ns), item, fieldValidation="Strict")
    assert reply.code == 400 and reply.json["reason"] == "BadRequest", reply
    assert 'Pod in version "v1" cannot be handled as a Pod: strict decoding error: ' in reply.message
    for field in FIELDS:
        assert f'unknown field "{field}"' in reply.message
    assert api.get(make.path(POD, item)).code == 404


@pytest.mark.parametrize("validation", ["Warn", None], ids=["asked", "by-default"])
def test_warn_drops_unknown_fields_and_says_so(api, make, validation):
    item = unknown(make)
    make.clean_later(make.path(POD, item))
    reply = api.post(POD.path(make.ns), item, fieldValidation=validation)
    assert reply.code == 201 and "foo" not in reply.json["spec"], reply
    for field in FIELDS:
        assert f'299 - "unknown field \\"{field}\\""' in reply.warnings, reply.warnings


def test_ignore_drops_unknown_fields_silently(api, make):
    item = unknown(make)
    make.clean_later(make.path(POD, item))
    reply = api.post(POD.path(make.ns), item, fieldValidation="Ignore")
    assert reply.code == 201 and "foo" not in reply.json["spec"] and not reply.warnings, reply


@pytest.mark.parametrize("path,body", [
    ("data.key", '{"metadata":{"name":"NAME"},"data":{"key":"a","key":"b"}}'),
    ("metadata.name", '{"metadata":{"name":"NAME","name":"NAME"}}')], ids=["data", "metadata"])
def test_duplicate_fields(api, make, path, body):
    item = make.new(CONFIG_MAP)
    body = body.replace("NAME", item["metadata"]["name"])
    reply = api.post(CONFIG_MAP.path(make.ns), body, fieldValidation="Strict")
    assert reply.code == 400 and f'duplicate field "{path}"' in reply.message, reply
    make.clean_later(make.path(CONFIG_MAP, item))
    reply = api.post(CONFIG_MAP.path(make.ns), body, fieldValidation="Warn")
    assert reply.code == 201 and any("duplicate field" in one for one in reply.warnings), reply


@pytest.mark.parametrize("content_type", [kube.MERGE, kube.STRATEGIC, kube.JSON_PATCH])
def test_patches_are_validated_too(api, make, content_type):
    path = make.path(POD, make(POD))
    patch = ([{"op": "add", "path": "/spec/foo", "value": 1}] if content_type == kube.JSON_PATCH
             else {"spec": {"foo": 1}})
    reply = api.patch(path, patch, content_type, fieldValidation="Strict")
    assert reply.code in (400, 422) and 'unknown field "spec.foo"' in reply.message, reply
    reply = api.patch(path, patch, content_type, fieldValidation="Warn")
    assert reply.code == 200 and '299 - "unknown field \\"spec.foo\\""' in reply.warnings, reply
    reply = api.patch(path, patch, content_type, fieldValidation="Ignore")
    assert reply.code == 200 and not reply.warnings and "foo" not in reply.json["spec"], reply


def test_a_put_is_validated_too(api, make):
    made = make(CONFIG_MAP)
    reply = api.put(make.path(CONFIG_MAP, made), {**made, "foo": 1}, fieldValidation="Strict")
    assert reply.code == 400 and 'unknown field "foo"' in reply.message, reply


def test_unknown_fields_in_metadata(api, make):
    item = make.new(CONFIG_MAP)
    item["metadata"]["foo"] = "bar"
    reply = api.post(CONFIG_MAP.path(make.ns), item, fieldValidation="Strict")
    assert reply.code == 400 and 'unknown field "metadata.foo"' in reply.message, reply


def test_strict_takes_what_is_right(api, make):
    for kind in kinds.BUILT_IN:
        item = make.new(kind)
        make.clean_later(make.path(kind, item))
        reply = api.post(kind.path(make.ns), item, fieldValidation="Strict")
        warnings = [one for one in reply.warnings if "is deprecated" not in one]  # as v1 Endpoints
        assert reply.code == 201 and not warnings, reply
        # The server accepts the object that it returned.
        reply = api.put(make.path(kind, item), api.get(make.path(kind, item)).json, fieldValidation="Strict")
        assert reply.code in (200, 409), reply


def test_options_may_be_repeated_and_unknown_ones_are_ignored(api, make):
    item = make.new(LEASE)
    make.clean_later(make.path(LEASE, item))
    assert api.post(LEASE.path(make.ns) + "?pretty=true&noSuchOption=1", item).code == 201
