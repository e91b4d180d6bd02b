"""The documented rules of the OpenAPI documents, which kubectl reads before it applies and explains."""
import kinds
import pytest

GROUPS = sorted({kind.root for kind in kinds.BUILT_IN})
EACH = pytest.mark.parametrize("kind", kinds.BUILT_IN, ids=str)
V2_PROTOBUF = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"


@pytest.mark.parametrize("accept", [V2_PROTOBUF, f"{V2_PROTOBUF},application/json"])
def test_openapi_v2_as_protobuf(api, accept):
    reply = api.get("/openapi/v2", accept=accept)
    assert reply.code == 200 and "protobuf" in reply.type, reply.code


@pytest.fixture(scope="module")
def documents(api):
    """Gives the documents of /openapi/v3, each when it is first asked for."""
    index = api.get("/openapi/v3").json["paths"]
    read = {}

    def document(root):
        if root not in read:
            reply = api.get(index[root.lstrip("/")]["serverRelativeURL"])
            assert reply.code == 200 and reply.type.startswith("application/json"), root
            read[root] = reply.json
        return read[root]
    document.index = index
    return document


@pytest.mark.parametrize("root", GROUPS)
def test_openapi_v3_lists_the_group(documents, root):
    url = documents.index[root.lstrip("/")]["serverRelativeURL"]
    assert url.startswith(f"/openapi/v3{root}?hash=")


@pytest.mark.parametrize("root", GROUPS)
def test_a_document_is_openapi_3(documents, root):
    document = documents(root)
    assert document["openapi"].startswith("3.0") and document["info"]["title"] and document["info"]["version"]


def test_a_document_with_its_hash_may_be_kept(api, documents):
    url = documents.index["api/v1"]["serverRelativeURL"]
    first = api.get(url)
    assert first.headers.get("ETag") or first.headers.get("Cache-Control")


@EACH
def test_patch_of_the_kind_takes_field_validation(documents, kind):
    document = documents(kind.root)
    path = kind.path("{namespace}", "{name}")
    patch = document["paths"][path]["patch"]
    assert {"group": kind.group, "version": kind.version, "kind": kind.kind} == patch["x-kubernetes-group-version-kind"]
    parameters = patch.get("parameters", []) + document["paths"][path].get("parameters", [])
    assert any(p.get("name") == "fieldValidation" and p.get("in") == "query" for p in parameters), parameters


def schema_of(document, kind):
    for name, schema in document["components"]["schemas"].items():
        for one in schema.get("x-kubernetes-group-version-kind", ()):
            if (one["group"], one["version"], one["kind"]) == (kind.group, kind.version, kind.kind):
                return name, schema
    raise AssertionError(f"no schema of {kind}")


@EACH
def test_the_kind_has_a_schema(documents, kind):
    name, schema = schema_of(documents(kind.root), kind)
    assert schema["type"] == "object" and name.endswith(f".{kind.kind}")
    assert {"apiVersion", "kind", "metadata"} <= set(schema["properties"])
    assert set(kind.body) <= set(schema["properties"])


@pytest.mark.parametrize("root", GROUPS)
def test_references_lead_somewhere(documents, root):
    document = documents(root)
    schemas = document["components"]["schemas"]

    def walk(node):
        if isinstance(node, dict):
            reference = node.get("$ref")
            if isinstance(reference, str):
                assert reference.startswith("#/components/schemas/")
                assert reference.rpartition("/")[2] in schemas, reference
            for value in node.values():
                walk(value)
        elif isinstance(node, list):
            for value in node:
                walk(value)
    walk(document)


def test_list_types_are_told(documents):
    _, schema = next((n, s) for n, s in documents("/api/v1")["components"]["schemas"].items()
                     if n.endswith("core.v1.PodSpec"))
    containers = schema["properties"]["containers"]
    assert containers["x-kubernetes-list-type"] == "map" and containers["x-kubernetes-list-map-keys"] == ["name"]
    assert containers["x-kubernetes-patch-merge-key"] == "name"
    assert "merge" in containers["x-kubernetes-patch-strategy"]


def test_an_unknown_group_has_no_document(api):
    assert api.get("/openapi/v3/apis/no.such.group/v1").code == 404
