"""The documented rules of errors: what a Status says."""
import kinds
import pytest
from kinds import CLAIM, CONFIG_MAP, POD, STORAGE_CLASS
from lib import kube

EACH = pytest.mark.parametrize("kind", kinds.BUILT_IN, ids=str)


def check_status(reply, code, reason):
    status = reply.json
    assert reply.code == code, reply
    assert status["kind"] == "Status" and status["apiVersion"] == "v1" and status["status"] == "Failure"
    assert status["code"] == code and status["reason"] == reason and isinstance(status["metadata"], dict)
    return status


@EACH
def test_not_found(api, make, kind):
    status = check_status(api.get(kind.path(make.ns, "no-such")), 404, "NotFound")
    assert status["message"] == f'{kind.resource} "no-such" not found'
    assert status["details"]["name"] == "no-such" and status["details"]["kind"] == kind.plural
    assert status["details"].get("group", "") == kind.group


@EACH
@pytest.mark.parametrize("verb", ["delete", "patch"])
def test_not_found_for(api, make, kind, verb):
    path = kind.path(make.ns, "no-such")
    reply = api.delete(path) if verb == "delete" else api.patch(path, {"metadata": {"labels": {"a": "b"}}})
    assert check_status(reply, 404, "NotFound")["message"] == f'{kind.resource} "no-such" not found'


@EACH
def test_already_exists(api, make, kind):
    made = make(kind)
    name = made["metadata"]["name"]
    status = check_status(api.post(kind.path(make.ns), kind.new(name, make.ns)), 409, "AlreadyExists")
    assert status["message"] == f'{kind.resource} "{name}" already exists'
    assert status["details"]["name"] == name and status["details"]["kind"] == kind.plural


INVALID = {
    "value": (CONFIG_MAP, {"data": {"bad key": "x"}}, "data[bad key]", "FieldValueInvalid"),
    "required": (CLAIM, {"spec": {"accessModes": [], "resources": {"requests": {"storage": "1Gi"}}}},
                 "spec.accessModes", "FieldValueRequired"),
    "not-supported": (CLAIM, {"spec": {"accessModes": ["Sideways"], "resources": {"requests": {"storage": "1Gi"}}}},
                      "spec.accessModes", "FieldValueNotSupported"),
    "duplicate": (POD, {"spec": {**kinds.POD_SPEC, "containers": kinds.POD_SPEC["containers"] * 2}},
                  "spec.containers[1].name", "FieldValueDuplicate"),
    "grouped": (STORAGE_CLASS, {"provisioner": ""}, "provisioner", "FieldValueRequired"),
}


@pytest.mark.parametrize("kind,fields,field,reason", INVALID.values(), ids=INVALID)
def test_invalid(api, make, kind, fields, field, reason):
    item = make.new(kind, **fields)
    status = check_status(api.post(kind.path(make.ns), item), 422, "Invalid")
    name = item["metadata"]["name"]
    assert status["message"].startswith(f'{kind.qualified_kind} "{name}" is invalid: ')
    assert status["details"]["name"] == name and status["details"]["kind"] == kind.kind
    causes = {(cause["field"], cause["reason"]) for cause in status["details"]["causes"]}
    assert (field, reason) in causes, status
    assert all(cause["message"] for cause in status["details"]["causes"])


def test_invalid_names_each_field_once(api, make):
    item = make.new(CONFIG_MAP, data={"bad key": "x", "worse/key": "y"})
    status = check_status(api.post(CONFIG_MAP.path(make.ns), item), 422, "Invalid")
    fields = [cause["field"] for cause in status["details"]["causes"]]
    assert sorted(fields) == ["data[bad key]", "data[worse/key]"]
    # Several causes stand in brackets.
    assert ' is invalid: [' in status["message"] and status["message"].endswith("]")


def test_forbidden_change_names_the_field(api, make):
    made = make(POD)
    reply = api.patch(make.path(POD, made), {"spec": {"hostNetwork": True}})
    status = check_status(reply, 422, "Invalid")
    assert ("spec", "FieldValueForbidden") in {(c["field"], c["reason"]) for c in status["details"]["causes"]}
    assert "pod updates may not change fields other than" in status["message"]


@pytest.mark.parametrize("method,path", [("POST", "/api/v1/namespaces/default/configmaps/x"),
                                         ("PUT", "/api/v1/namespaces/default/configmaps"),
                                         ("PATCH", "/api/v1/namespaces/default/configmaps")])
def test_method_not_allowed(api, method, path):
    status = check_status(api.call(method, path, {}, kube.MERGE if method == "PATCH" else kube.JSON), 405,
                          "MethodNotAllowed")
    assert status["message"] == "the server does not allow this method on the requested resource"


def test_not_acceptable(api, make):
    types = f"{kube.JSON}, {kube.YAML}, {kube.PROTOBUF}"
    path = CONFIG_MAP.path(make.ns)
    for where, more in ((path, f", {kube.JSON};stream=watch, {kube.PROTOBUF};stream=watch"), (f"{path}/some", "")):
        status = check_status(api.get(where, accept="text/html"), 406, "NotAcceptable")
        assert status["message"] == f"406: Not Acceptable\n\nAvailable representations: {types}{more}"
    # The words differ if the media type is one of these, but not in the form that is asked for.
    status = check_status(api.get(path, accept="application/json;as=Table;v=v9;g=meta.k8s.io"), 406, "NotAcceptable")
    assert status["message"] == f"only the following media types are accepted: {types}"


def test_unsupported_media_type(api, make):
    reply = api.post(CONFIG_MAP.path(make.ns), "key=value", content_type="application/x-www-form-urlencoded")
    status = check_status(reply, 415, "UnsupportedMediaType")
    assert status["message"].startswith("the body of the request was in an unknown format - "
                                        "accepted media types include: ")


def test_too_large(api, make):
    item = make.new(CONFIG_MAP, data={"key": "x" * (4 << 20)})
    try:
        reply = api.post(CONFIG_MAP.path(make.ns), item)
    except ConnectionError:
        return  # the server may close the connection of a client that goes on sending
    check_status(reply, 413, "RequestEntityTooLarge")


BAD_BODIES = {"no-json": "{", "not-an-object": "[]", "another-kind": {"apiVersion": "v1", "kind": "Secret"},
              "another-group": {"apiVersion": "apps/v1", "kind": "ConfigMap"}, "empty": "",
              "wrong-type": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": 5}},
              "wrong-type-inside": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"},
                                    "data": {"a": {"b": "c"}}}}


@pytest.mark.parametrize("body", BAD_BODIES.values(), ids=BAD_BODIES)
def test_bad_request(api, make, body):
    check_status(api.post(CONFIG_MAP.path(make.ns), body), 400, "BadRequest")


def test_a_wrong_type_is_named(api, make):
    item = make.new(CONFIG_MAP, data={"a": {"b": "c"}})
    status = check_status(api.post(CONFIG_MAP.path(make.ns), item), 400, "BadRequest")
    assert 'ConfigMap in version "v1" cannot be handled as a ConfigMap' in status["message"]


def test_unauthorized(kubeconfig):
    """Without credentials a client is refused, or is a user without rights."""
    stranger = kube.Api(kubeconfig, authenticated=False)
    try:
        reply = stranger.get("/api/v1/namespaces/default/secrets")
    except OSError:
        return  # the handshake itself was refused
    assert reply.code in (401, 403), reply
    assert reply.json["reason"] in ("Unauthorized", "Forbidden")


def test_a_wrong_token_is_unauthorized(api):
    check_status(api.as_token("no-such-token").get("/api/v1/namespaces/default/secrets"), 401, "Unauthorized")


def test_an_object_in_a_missing_namespace(api):
    status = check_status(api.post(CONFIG_MAP.path("no-such-namespace"), CONFIG_MAP.new("a")), 404, "NotFound")
    assert status["message"] == 'namespaces "no-such-namespace" not found'


def test_a_list_in_a_missing_namespace_is_empty(api):
    reply = api.get(CONFIG_MAP.path("no-such-namespace"))
    assert reply.code == 200 and not reply.json["items"]


def test_a_namespaced_object_needs_a_namespace(api):
    reply = api.post(CONFIG_MAP.path(), CONFIG_MAP.new("a"))
    assert reply.code in (400, 405), reply
