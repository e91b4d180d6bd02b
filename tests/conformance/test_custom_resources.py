"""The documented rules of CustomResourceDefinitions and of the objects that they define."""
import copy
import http.client
import time

import pytest
from kinds import CRD, NAMESPACE, Kind
from lib import kube
from lib.protobuf import unwrap
from maker import RUN, Maker

GROUP = f"{RUN}.example.com"
SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object", "required": ["size"],
            "properties": {
                "size": {"type": "integer", "minimum": 1, "maximum": 10},
                "colour": {"type": "string", "enum": ["blue", "green"], "default": "blue"},
                "word": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 5, "minLength": 2},
                "tags": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set",
                         "maxItems": 3},
                "ports": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port"],
                          "items": {"type": "object", "required": ["port"], "properties": {
                              "port": {"type": "integer"}, "name": {"type": "string"}}}},
                "share": {"x-kubernetes-int-or-string": True},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}},
                "ratio": {"type": "number", "multipleOf": 0.5},
                "maybe": {"type": "string", "nullable": True},
                "when": {"type": "string", "format": "date-time"},
                "nested": {"type": "object", "default": {}, "properties": {
                    "depth": {"type": "integer", "default": 3}}},
            }},
        "status": {"type": "object", "properties": {"phase": {"type": "string"}, "count": {"type": "integer"}}},
    }}
COLUMNS = [{"name": "Size", "type": "integer", "jsonPath": ".spec.size", "description": "how large"},
           {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
           {"name": "Colour", "type": "string", "jsonPath": ".spec.colour", "priority": 1},
           {"name": "Made", "type": "date", "jsonPath": ".metadata.creationTimestamp"}]


def definition(plural, kind, scope="Namespaced", **version):
    first = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": copy.deepcopy(SCHEMA)},
             "subresources": {"status": {}}, "additionalPrinterColumns": COLUMNS, **version}
    return {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.{GROUP}"},
            "spec": {"group": GROUP, "scope": scope,
                     "names": {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List",
                               "shortNames": [f"{RUN}{plural[0]}"], "categories": ["conformance"]},
                     "versions": [first]}}


def conditions_of(api, path):
    """Gives a definition's conditions by type. A new definition has none, or null."""
    return {one["type"]: one for one in (api.get(path).json.get("status") or {}).get("conditions") or []}


def establish(api, maker, item):
    made = maker(CRD, item)
    path = CRD.path(name=item["metadata"]["name"])
    deadline = time.monotonic() + 20
    while True:
        conditions = conditions_of(api, path)
        if conditions.get("Established", {}).get("status") == "True":
            break
        assert time.monotonic() < deadline, api.get(path)
        time.sleep(0.02)
    plural = item["spec"]["names"]["plural"]
    for version in item["spec"]["versions"]:  # a cluster may need a moment until all servers serve it
        while version["served"] and api.get(f"/apis/{GROUP}/{version['name']}/{plural}").code != 200:
            assert time.monotonic() < deadline
            time.sleep(0.02)
    return made


@pytest.fixture(scope="module")
def widgets(api, ns):
    """Gives a definition with all features, in two served versions and one that is not served."""
    maker = Maker(api, ns)
    item = definition("widgets", "Widget")
    versions = item["spec"]["versions"]
    versions.append({**copy.deepcopy(versions[0]), "name": "v1beta1", "storage": False})
    versions.append({**copy.deepcopy(versions[0]), "name": "v1alpha1", "storage": False, "served": False})
    establish(api, maker, item)
    yield Kind("Widget", f"{GROUP}/v1", "widgets", True, ("Name", "Size", "Phase", "*Colour", "Made"),
               {"spec": {"size": 3}}, status=True, unconditional_update=False, generation=1)
    maker.clean()


@pytest.fixture
def widget(make, widgets):
    """Gives a function that makes widgets of a given spec."""
    def one(**spec):
        return make(widgets, spec={"size": 3, **spec})
    return one


# -- definitions

def test_a_definition_says_what_was_accepted(api, widgets):
    status = api.get(CRD.path(name=f"widgets.{GROUP}")).json["status"]
    conditions = {c["type"]: c for c in status["conditions"]}
    assert conditions["Established"]["status"] == "True" and conditions["NamesAccepted"]["status"] == "True"
    assert conditions["NamesAccepted"]["reason"] == "NoConflicts" and conditions["Established"]["lastTransitionTime"]
    names = status["acceptedNames"]
    assert names["plural"] == "widgets" and names["kind"] == "Widget" and names["listKind"] == "WidgetList"
    assert names["shortNames"] == [f"{RUN}w"] and names["categories"] == ["conformance"]
    assert status["storedVersions"] == ["v1"]


def test_names_default_from_the_kind(api, make):
    item = definition("doodads", "Doodad")
    for name in ("singular", "listKind"):
        del item["spec"]["names"][name]
    names = api.post(CRD.path(), item, dryRun="All").json["spec"]["names"]
    assert names["singular"] == "doodad" and names["listKind"] == "DoodadList"
    assert api.post(CRD.path(), item, dryRun="All").json["spec"]["conversion"]["strategy"] == "None"


def broken(change):
    item = definition("doodads", "Doodad")
    change(item)
    return item


# What is the same in all versions is named as a part of the whole definition, not of a version.
BROKEN = {
    "name": (lambda i: i["metadata"].update(name="other"), "metadata.name"),
    "no-group": (lambda i: i["spec"].update(group=""), "spec.group"),
    "scope": (lambda i: i["spec"].update(scope="Sideways"), "spec.scope"),
    "no-versions": (lambda i: i["spec"].update(versions=[]), "spec.versions"),
    "no-schema": (lambda i: i["spec"]["versions"][0].pop("schema"), "spec.versions[0].schema.openAPIV3Schema"),
    "no-storage": (lambda i: i["spec"]["versions"][0].update(storage=False), "spec.versions"),
    "two-storages": (lambda i: i["spec"]["versions"].append({**i["spec"]["versions"][0], "name": "v2"}),
                     "spec.versions"),
    "same-version-twice": (lambda i: i["spec"]["versions"].append(
        {**i["spec"]["versions"][0], "storage": False}), "spec.versions"),
    "version-name": (lambda i: i["spec"]["versions"][0].update(name="V_1"), "spec.versions[0].name"),
    "kind": (lambda i: i["spec"]["names"].update(kind="not a kind"), "spec.names.kind"),
    "property-without-type": (lambda i: i["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"].update(
        x={"description": "y"}), "spec.validation.openAPIV3Schema.properties[x].type"),
    "root-without-type": (lambda i: i["spec"]["versions"][0]["schema"]["openAPIV3Schema"].pop("type"),
                          "spec.validation.openAPIV3Schema.type"),
    "array-without-items": (lambda i: i["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"].update(
        x={"type": "array"}), "spec.validation.openAPIV3Schema.properties[x].items"),
    "default-against-the-schema": (
        lambda i: i["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"].update(
            x={"type": "integer", "default": "y"}),
        "spec.validation.openAPIV3Schema.properties[x].default"),
    "reference": (lambda i: i["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"].update(
        x={"type": "object", "$ref": "#/y"}), "spec.validation.openAPIV3Schema.properties[x].$ref"),
    "column-path": (lambda i: i["spec"]["versions"][0].update(additionalPrinterColumns=[
        {"name": "X", "type": "string", "jsonPath": "spec["}]),
        "spec.additionalPrinterColumns[0].JSONPath"),
    "column-type": (lambda i: i["spec"]["versions"][0].update(additionalPrinterColumns=[
        {"name": "X", "type": "colour", "jsonPath": ".spec.x"}]),
        "spec.additionalPrinterColumns[0].type"),
}


@pytest.mark.parametrize("change,field", BROKEN.values(), ids=BROKEN)
def test_a_broken_definition_is_refused(api, make, change, field):
    item = broken(change)
    make.clean_later(CRD.path(name=item["metadata"]["name"]))
    reply = api.post(CRD.path(), item)
    assert reply.code == 422 and reply.json["reason"] == "Invalid", reply
    named = [cause.get("field", "") for cause in reply.json["details"]["causes"]]
    assert any(name.startswith(field) for name in named), named


@pytest.mark.parametrize("change", [{"group": "other.example.com"}, {"scope": "Cluster"},
                                    {"names": {"kind": "Other"}}, {"names": {"plural": "others"}}], ids=str)
def test_an_established_definition_keeps(api, widgets, change):
    reply = api.patch(CRD.path(name=f"widgets.{GROUP}"), {"spec": change})
    assert reply.code == 422, reply


def test_a_name_that_is_taken_is_not_accepted(api, make, widgets):
    item = definition("gizmos", "Widget")
    make(CRD, item)
    path = CRD.path(name=f"gizmos.{GROUP}")
    deadline = time.monotonic() + 20
    while True:
        conditions = conditions_of(api, path)
        if "NamesAccepted" in conditions:
            break
        assert time.monotonic() < deadline
        time.sleep(0.02)
    assert conditions["NamesAccepted"]["status"] == "False"
    assert conditions.get("Established", {"status": "False"})["status"] == "False"
    assert api.get(f"/apis/{GROUP}/v1/gizmos").code == 404


def test_a_definition_takes_its_objects_with_it(api, make):
    item = definition("leavers", "Leaver")
    establish(api, make, item)
    path = f"/apis/{GROUP}/v1/namespaces/{make.ns}/leavers"
    assert api.post(path, {"apiVersion": f"{GROUP}/v1", "kind": "Leaver", "metadata": {"name": "a"},
                           "spec": {"size": 1}}).code == 201
    assert api.delete(CRD.path(name=f"leavers.{GROUP}")).code == 200
    deadline = time.monotonic() + 30
    while api.get(CRD.path(name=f"leavers.{GROUP}")).code != 404 or api.get(path).code != 404:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    # A new definition of the same name starts empty.
    establish(api, make, definition("leavers", "Leaver"))
    assert api.get(path).json["items"] == []


def test_a_cluster_scoped_resource(api, make):
    establish(api, make, definition("globes", "Globe", scope="Cluster"))
    globes = Kind("Globe", f"{GROUP}/v1", "globes", False, ())
    make(globes, {**globes.new(make.name()), "spec": {"size": 1}})
    assert len(api.get(f"/apis/{GROUP}/v1/globes").json["items"]) == 1
    assert api.get(f"/apis/{GROUP}/v1/namespaces/{make.ns}/globes").code == 404


def test_without_the_status_subresource_the_status_is_a_field(api, make):
    establish(api, make, definition("plains", "Plain", subresources=None))
    plains = Kind("Plain", f"{GROUP}/v1", "plains", True, ())
    made = make(plains, {**plains.new(make.name(), make.ns), "spec": {"size": 1}, "status": {"phase": "x"}})
    path = make.path(plains, made)
    assert made["status"] == {"phase": "x"} and api.get(path + "/status").code == 404
    # Every change outside of metadata increases the generation.
    assert api.patch(path, {"status": {"phase": "y"}}).json["metadata"]["generation"] == 2


def test_columns_by_default_are_name_and_age(api, make):
    establish(api, make, definition("bares", "Bare", additionalPrinterColumns=None))
    reply = api.get(f"/apis/{GROUP}/v1/bares", accept="application/json;as=Table;v=v1;g=meta.k8s.io")
    assert reply.code == 200 and [c["name"] for c in reply.json["columnDefinitions"]] == ["Name", "Age"], reply


# -- discovery and documents

def test_a_resource_is_discovered(api, widgets):
    group = api.get(f"/apis/{GROUP}").json
    assert [v["version"] for v in group["versions"]] == ["v1", "v1beta1"]
    assert group["preferredVersion"]["version"] == "v1"
    rows = {row["name"]: row for row in api.get(f"/apis/{GROUP}/v1").json["resources"]}
    assert rows["widgets"]["kind"] == "Widget" and rows["widgets"]["namespaced"]
    assert rows["widgets"]["singularName"] == "widget" and rows["widgets"]["shortNames"] == [f"{RUN}w"]
    assert rows["widgets"]["categories"] == ["conformance"]
    assert set(rows["widgets/status"]["verbs"]) == {"get", "patch", "update"}
    assert api.get(f"/apis/{GROUP}/v1alpha1").code == 404


def test_a_resource_is_discovered_in_the_aggregate(api, widgets):
    document = api.get("/apis", accept="application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList").json
    (item,) = [i for i in document["items"] if i["metadata"]["name"] == GROUP]
    assert [v["version"] for v in item["versions"]] == ["v1", "v1beta1"]
    assert "widgets" in {r["resource"] for r in item["versions"][0]["resources"]}


def test_a_resource_is_in_openapi(api, widgets):
    deadline = time.monotonic() + 15
    while True:  # the address has a hash of the document, which changes with each definition of the group
        entry = api.get("/openapi/v3").json["paths"].get(f"apis/{GROUP}/v1")
        if entry and (reply := api.get(entry["serverRelativeURL"])).code == 200:
            break
        assert time.monotonic() < deadline, entry
        time.sleep(0.1)
    document = reply.json
    (schema,) = [s for s in document["components"]["schemas"].values()
                 if {"group": GROUP, "version": "v1", "kind": "Widget"} in s.get("x-kubernetes-group-version-kind", [])]
    assert schema["properties"]["spec"]["properties"]["size"]["type"] == "integer"
    path = f"/apis/{GROUP}/v1/namespaces/{{namespace}}/widgets/{{name}}"
    assert document["paths"][path]["patch"]["x-kubernetes-group-version-kind"]["kind"] == "Widget"


# -- objects

def test_defaults_are_filled_in(widget):
    made = widget()
    assert made["spec"] == {"size": 3, "colour": "blue", "nested": {"depth": 3}}


def test_what_the_schema_does_not_know_is_pruned(api, widget, make, widgets):
    made = widget(foo="bar", nested={"depth": 1, "deep": 2}, free={"any": {"thing": [1]}})
    assert "foo" not in made["spec"] and made["spec"]["nested"] == {"depth": 1}
    assert made["spec"]["free"] == {"any": {"thing": [1]}}
    assert "foo" not in api.get(make.path(widgets, made)).json["spec"]


def test_unknown_fields_are_told(api, make, widgets):
    item = make.new(widgets, spec={"size": 1, "foo": 1})
    reply = api.post(widgets.path(make.ns), item, fieldValidation="Strict")
    assert reply.code == 400 and 'unknown field "spec.foo"' in reply.message, reply
    make.clean_later(make.path(widgets, item))
    reply = api.post(widgets.path(make.ns), item)
    assert reply.code == 201 and '299 - "unknown field \\"spec.foo\\""' in reply.warnings, reply.warnings


INVALID = {
    "minimum": ({"size": 0}, "spec.size", "FieldValueInvalid", "greater than or equal to 1"),
    "maximum": ({"size": 11}, "spec.size", "FieldValueInvalid", "less than or equal to 10"),
    "required": ({"size": None}, "spec.size", "FieldValueRequired", "Required value"),
    "type": ({"size": "three"}, "spec.size", "FieldValueTypeInvalid", "must be of type integer"),
    "fraction": ({"size": 1.5}, "spec.size", "FieldValueTypeInvalid", "must be of type integer"),
    "enum": ({"colour": "red"}, "spec.colour", "FieldValueNotSupported", 'supported values: "blue", "green"'),
    "pattern": ({"word": "AB"}, "spec.word", "FieldValueInvalid", "should match '^[a-z]+$'"),
    "max-length": ({"word": "toolong"}, "spec.word", "FieldValueTooLong", "5"),
    "min-length": ({"word": "a"}, "spec.word", "FieldValueInvalid", "2"),
    "set": ({"tags": ["a", "a"]}, "spec.tags[1]", "FieldValueDuplicate", "Duplicate value"),
    "map-key": ({"ports": [{"port": 1}, {"port": 1}]}, "spec.ports[1]", "FieldValueDuplicate", "Duplicate value"),
    "max-items": ({"tags": ["a", "b", "c", "d"]}, "spec.tags", "FieldValueTooMany", "3"),
    "int-or-string": ({"share": True}, "spec.share", "FieldValueTypeInvalid", "integer,string"),
    "additional": ({"labels": {"a": 1}}, "spec.labels.a", "FieldValueTypeInvalid", "must be of type string"),
    "multiple": ({"ratio": 0.7}, "spec.ratio", "FieldValueInvalid", "multiple of 0.5"),
    "format": ({"when": "soon"}, "spec.when", "FieldValueTypeInvalid", "date-time"),
}


@pytest.mark.parametrize("spec,field,reason,words", INVALID.values(), ids=INVALID)
def test_an_object_is_validated(api, make, widgets, spec, field, reason, words):
    item = make.new(widgets, spec={k: v for k, v in {"size": 3, **spec}.items() if v is not None})
    make.clean_later(make.path(widgets, item))
    reply = api.post(widgets.path(make.ns), item)
    assert reply.code == 422 and reply.json["reason"] == "Invalid", reply
    name = item["metadata"]["name"]
    assert reply.message.startswith(f'Widget.{GROUP} "{name}" is invalid: ') and words in reply.message, reply
    causes = {cause["field"]: cause["reason"] for cause in reply.json["details"]["causes"]}
    assert causes.get(field) == reason, causes


VALID = {"share-as-number": {"share": 5}, "share-as-text": {"share": "50%"}, "null": {"maybe": None},
         "ratio": {"ratio": 1.5}, "when": {"when": "2024-01-01T00:00:00Z"}, "labels": {"labels": {"a": "b"}}}


@pytest.mark.parametrize("spec", VALID.values(), ids=VALID)
def test_an_object_keeps(widget, spec):
    assert spec.items() <= widget(**spec)["spec"].items()


def test_null_for_a_field_with_a_default_is_the_default(widget):
    assert widget(colour=None)["spec"]["colour"] == "blue"


def test_generation_counts_changes_of_all_but_metadata_and_status(api, make, widgets, widget):
    made = widget()
    path = make.path(widgets, made)
    assert made["metadata"]["generation"] == 1
    assert api.patch(path, {"spec": {"size": 4}}).json["metadata"]["generation"] == 2
    assert api.patch(path, {"metadata": {"labels": {"a": "b"}}}).json["metadata"]["generation"] == 2
    assert api.patch(path + "/status", {"status": {"phase": "x"}}).json["metadata"]["generation"] == 2


def test_the_status_is_apart(api, make, widgets):
    made = make(widgets, {**make.new(widgets), "status": {"phase": "early"}})
    path = make.path(widgets, made)
    assert "status" not in made
    reply = api.patch(path + "/status", {"status": {"phase": "done", "foo": 1}, "spec": {"size": 9}})
    assert reply.code == 200 and reply.json["status"] == {"phase": "done"} and reply.json["spec"]["size"] == 3, reply
    reply = api.patch(path, {"status": {"phase": "no"}, "spec": {"size": 5}})
    assert reply.json["status"] == {"phase": "done"} and reply.json["spec"]["size"] == 5, reply
    assert api.patch(path + "/status", {"status": {"count": "many"}}).code == 422


def test_versions_show_one_object(api, make, widgets, widget):
    made = widget()
    other = make.path(widgets, made).replace("/v1/", "/v1beta1/")
    read = api.get(other).json
    assert read["apiVersion"] == f"{GROUP}/v1beta1" and read["metadata"]["uid"] == made["metadata"]["uid"]
    reply = api.patch(other, {"spec": {"size": 7}})
    assert reply.code == 200 and reply.json["apiVersion"] == f"{GROUP}/v1beta1", reply
    assert api.get(make.path(widgets, made)).json["spec"]["size"] == 7
    assert api.get(other.replace("/v1beta1/", "/v1alpha1/")).code == 404


def test_the_version_of_a_body_is_that_of_its_url(api, make, widgets):
    item = {**make.new(widgets), "apiVersion": f"{GROUP}/v1beta1"}
    assert api.post(widgets.path(make.ns), item).code == 400


@pytest.mark.parametrize("body,content_type", [({"spec": {"size": 4}}, kube.MERGE), (
    [{"op": "replace", "path": "/spec/size", "value": 4}], kube.JSON_PATCH)], ids=["merge", "json"])
def test_patches(api, make, widgets, widget, body, content_type):
    reply = api.patch(make.path(widgets, widget()), body, content_type)
    assert reply.code == 200 and reply.json["spec"]["size"] == 4, reply


def test_strategic_merge_is_unsupported(api, make, widgets, widget):
    reply = api.patch(make.path(widgets, widget()), {"spec": {"size": 4}}, kube.STRATEGIC)
    assert reply.code == 415 and reply.json["reason"] == "UnsupportedMediaType", reply


def test_a_patch_is_validated(api, make, widgets, widget):
    made = widget()
    reply = api.patch(make.path(widgets, made), {"spec": {"size": 99}})
    assert reply.code == 422, reply
    assert api.get(make.path(widgets, made)).json["spec"]["size"] == 3


def test_apply_merges_lists_by_their_keys(api, make, widgets):
    item = make.new(widgets, spec={"size": 1, "ports": [{"port": 1, "name": "a"}], "tags": ["x"]})
    path = make.path(widgets, item)
    make.clean_later(path)
    assert api.apply(path, item, "one").code == 201
    other = {**item, "spec": {"ports": [{"port": 2, "name": "b"}], "tags": ["y"]}}
    reply = api.apply(path, other, "two")
    assert reply.code == 200, reply
    assert [p["port"] for p in reply.json["spec"]["ports"]] == [1, 2]
    assert reply.json["spec"]["tags"] == ["x", "y"]
    reply = api.apply(path, {**other, "spec": {"size": 2}}, "two")
    assert reply.code == 409 and ".spec.size" in reply.message, reply


def test_a_put_needs_a_version(api, make, widgets, widget):
    made = widget()
    version = made["metadata"].pop("resourceVersion")
    reply = api.put(make.path(widgets, made), made)
    assert reply.code == 422 and "metadata.resourceVersion" in reply.message, reply
    made["metadata"]["resourceVersion"] = version
    made["spec"]["size"] = 8
    assert api.put(make.path(widgets, made), made).json["spec"]["size"] == 8
    stale = api.put(make.path(widgets, made), made)
    assert stale.code == 409 or stale.json["metadata"]["resourceVersion"] != version


def test_a_list_and_a_watch(api, make, widgets, widget):
    made = widget()
    document = api.get(widgets.path(make.ns)).json
    assert document["kind"] == "WidgetList" and document["apiVersion"] == f"{GROUP}/v1"
    assert made["metadata"]["uid"] in {i["metadata"]["uid"] for i in document["items"]}
    with api.watch(widgets.path(make.ns), resourceVersion=document["metadata"]["resourceVersion"]) as watch:
        api.patch(make.path(widgets, made), {"spec": {"size": 5}})
        event, item = watch.event()
        assert event == "MODIFIED" and item["spec"]["size"] == 5 and item["kind"] == "Widget"
        api.delete(make.path(widgets, made))
        assert watch.event()[0] == "DELETED"


def test_columns_are_those_of_the_version(api, make, widgets, widget):
    made = widget()
    api.patch(make.path(widgets, made) + "/status", {"status": {"phase": "done"}})
    document = api.get(widgets.path(make.ns), accept="application/json;as=Table;v=v1;g=meta.k8s.io",
                       fieldSelector=f"metadata.name={made['metadata']['name']}").json
    shown = [("*" if c["priority"] else "") + c["name"] for c in document["columnDefinitions"]]
    assert tuple(shown) == widgets.columns
    cells = document["rows"][0]["cells"]
    assert cells[:4] == [made["metadata"]["name"], 3, "done", "blue"]
    assert isinstance(cells[4], str) and cells[4].endswith("s")  # a date is shown as an age
    assert {c["name"]: c["description"] for c in document["columnDefinitions"]}["Size"] == "how large"


def test_the_reply_of_a_delete_is_a_status(api, make, widgets, widget):
    made = widget()
    reply = api.delete(make.path(widgets, made))
    assert reply.json["status"] == "Success" and reply.json["details"]["uid"] == made["metadata"]["uid"], reply
    assert reply.json["details"]["kind"] == "widgets" and reply.json["details"]["group"] == GROUP


def test_messages_name_resource_and_group(api, make, widgets, widget):
    reply = api.get(widgets.path(make.ns, "no-such"))
    assert reply.message == f'widgets.{GROUP} "no-such" not found'
    name = widget()["metadata"]["name"]
    reply = api.post(widgets.path(make.ns), widgets.new(name, make.ns))
    assert reply.code == 409 and reply.message == f'widgets.{GROUP} "{name}" already exists'


def test_protobuf_is_not_acceptable(api, make, widgets, widget):
    widget()
    assert api.get(widgets.path(make.ns), accept=kube.PROTOBUF).code == 406
    # It is named all the same, because the metadata alone is served in it.
    reply = api.get(widgets.path(make.ns), accept="text/html")
    assert reply.code == 406 and reply.message == (
        f"only the following media types are accepted: {kube.JSON}, {kube.YAML}, {kube.PROTOBUF}"), reply
    reply = api.get(widgets.path(make.ns),
                    accept=f"{kube.PROTOBUF};as=PartialObjectMetadataList;g=meta.k8s.io;v=v1")
    assert reply.code == 200 and unwrap(reply.body)[1] == "PartialObjectMetadataList", reply
    assert api.get(widgets.path(make.ns), accept=f"{kube.PROTOBUF},application/json").code == 200


def test_protobuf_cannot_be_written(api, make, widgets):
    try:
        reply = api.post(widgets.path(make.ns), b"k8s\x00", content_type=kube.PROTOBUF)
    except (ConnectionError, http.client.HTTPException):
        return  # kube-apiserver ends such a request by closing the connection
    assert reply.code == 415, reply


def test_field_selectors_are_name_and_namespace(api, make, widgets, widget):
    name = widget()["metadata"]["name"]
    found = api.get(widgets.path(), fieldSelector=f"metadata.name={name},metadata.namespace={make.ns}").json["items"]
    assert [i["metadata"]["name"] for i in found] == [name]
    assert api.get(widgets.path(make.ns), fieldSelector="spec.size=3").code == 400


def test_dry_run(api, make, widgets):
    item = make.new(widgets)
    reply = api.post(widgets.path(make.ns), item, dryRun="All")
    assert reply.code == 201 and reply.json["spec"]["colour"] == "blue", reply
    assert api.get(make.path(widgets, item)).code == 404


def test_a_namespace_takes_custom_objects_with_it(api, make, widgets):
    space = make(NAMESPACE)["metadata"]["name"]
    assert api.post(widgets.path(space), widgets.new("a", space)).code == 201
    assert api.delete(NAMESPACE.path(name=space)).code in (200, 202)
    deadline = time.monotonic() + 60
    while api.get(NAMESPACE.path(name=space)).code != 404:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    assert api.get(widgets.path(space, "a")).code == 404
