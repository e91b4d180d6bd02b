"""The documented rules of discovery, by which a client finds out what the API serves."""
import kinds
import pytest
from lib import kube

ALL_VERBS = {"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}


def verbs_of(kind):
    # Namespaces can only be deleted one by one.
    return ALL_VERBS - {"deletecollection"} if kind == kinds.NAMESPACE else ALL_VERBS


BUILT_IN = pytest.mark.parametrize("kind", (*kinds.BUILT_IN, kinds.CRD), ids=str)
AGGREGATED = "application/json;g=apidiscovery.k8s.io;v={};as=APIGroupDiscoveryList"


@pytest.mark.parametrize("field", ["major", "minor", "gitVersion", "gitCommit", "gitTreeState", "buildDate",
                                   "goVersion", "compiler", "platform"])
def test_version_has_field(api, field):
    assert isinstance(api.get("/version").json[field], str)


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "/livez"])
def test_health_says_ok(api, path):
    reply = api.get(path, accept="*/*")
    assert reply.code == 200 and reply.body == b"ok", reply


def test_api_lists_the_core_versions(api):
    document = api.get("/api").json
    assert document["kind"] == "APIVersions" and document["versions"] == ["v1"]
    for entry in document["serverAddressByClientCIDRs"]:
        assert set(entry) == {"clientCIDR", "serverAddress"}


def test_apis_lists_groups_with_versions_and_a_preferred_one(api):
    document = api.get("/apis").json
    assert document["kind"] == "APIGroupList"
    names = {group["name"] for group in document["groups"]}
    assert {kind.group for kind in kinds.BUILT_IN if kind.group} <= names
    for group in document["groups"]:
        for version in group["versions"]:
            assert version["groupVersion"] == f"{group['name']}/{version['version']}"
        assert group["preferredVersion"] in group["versions"]


@pytest.mark.parametrize("group", sorted({kind.group for kind in (*kinds.BUILT_IN, kinds.CRD) if kind.group}))
def test_a_group_has_a_document(api, group):
    document = api.get(f"/apis/{group}").json
    assert document["kind"] == "APIGroup" and document["name"] == group
    assert document["preferredVersion"] in document["versions"]


@pytest.mark.parametrize("root", sorted({kind.root for kind in kinds.BUILT_IN}))
def test_a_resource_list_is_complete(api, root):
    document = api.get(root).json
    assert document["kind"] == "APIResourceList" and root.endswith(f"/{document['groupVersion']}")
    for resource in document["resources"]:
        assert {"name", "singularName", "namespaced", "kind", "verbs"} <= set(resource), resource


@BUILT_IN
def test_the_resource_list_names_the_kind(api, kind):
    rows = {row["name"]: row for row in api.get(kind.root).json["resources"]}
    row = rows[kind.plural]
    assert row["kind"] == kind.kind and row["namespaced"] == kind.namespaced
    assert row["singularName"] == kind.singular
    assert set(row.get("shortNames", ())) == set(kind.short)
    assert set(row["verbs"]) == verbs_of(kind)


@pytest.mark.parametrize("kind", [kind for kind in (*kinds.BUILT_IN, kinds.CRD) if kind.status], ids=str)
def test_the_resource_list_names_the_status(api, kind):
    rows = {row["name"]: row for row in api.get(kind.root).json["resources"]}
    row = rows[f"{kind.plural}/status"]
    assert row["kind"] == kind.kind and {"get", "patch", "update"} <= set(row["verbs"])


@pytest.mark.parametrize("name,kind,group", [
    ("pods/log", "Pod", None), ("pods/exec", "PodExecOptions", None),
    ("pods/attach", "PodAttachOptions", None), ("pods/portforward", "PodPortForwardOptions", None),
    ("pods/binding", "Binding", None),
    ("serviceaccounts/token", "TokenRequest", "authentication.k8s.io")])
def test_the_resource_list_names_the_subresource(api, name, kind, group):
    row = {row["name"]: row for row in api.get("/api/v1").json["resources"]}[name]
    assert row["kind"] == kind and row.get("group") == group


@pytest.mark.parametrize("plural,kind", [("selfsubjectaccessreviews", "SelfSubjectAccessReview"),
                                         ("selfsubjectrulesreviews", "SelfSubjectRulesReview")])
def test_reviews_can_only_be_created(api, plural, kind):
    row = {row["name"]: row for row in api.get("/apis/authorization.k8s.io/v1").json["resources"]}[plural]
    assert row["kind"] == kind and row["verbs"] == ["create"]


@pytest.mark.parametrize("plural", ["pods", "daemonsets"])
def test_category_all_holds(api, plural):
    root = {kind.plural: kind.root for kind in kinds.BUILT_IN}[plural]
    assert "all" in {row["name"]: row for row in api.get(root).json["resources"]}[plural]["categories"]


ACCEPTS = {
    "v2": (f"{AGGREGATED.format('v2')},{AGGREGATED.format('v2beta1')},application/json", ("v2",)),
    "v2beta1-alone": (f"{AGGREGATED.format('v2beta1')},application/json", ("v2beta1", None)),
    "with-a-profile": (f"{AGGREGATED.format('v2')};profile=nopeer,{AGGREGATED.format('v2')},application/json",
                       ("v2",)),
}


@pytest.mark.parametrize("path", ["/api", "/apis"])
@pytest.mark.parametrize("accept,versions", ACCEPTS.values(), ids=ACCEPTS)
def test_aggregated_discovery_names_itself_in_the_content_type(api, path, accept, versions):
    reply = api.get(path, accept=accept)
    assert reply.code == 200, reply
    if reply.json["kind"] != "APIGroupDiscoveryList":
        assert None in versions, reply
        return
    parameters = set(reply.type.replace(" ", "").split(";"))
    version = reply.json["apiVersion"].rpartition("/")[2]
    assert {"application/json", "g=apidiscovery.k8s.io", f"v={version}", "as=APIGroupDiscoveryList"} <= parameters
    assert version in versions


def aggregated(api, kind):
    reply = api.get("/apis" if kind.group else "/api", accept=ACCEPTS["v2"][0])
    for item in reply.json["items"]:
        if item["metadata"].get("name", "") == kind.group:
            for version in item["versions"]:
                if version["version"] == kind.version:
                    return {resource["resource"]: resource for resource in version["resources"]}, version
    raise AssertionError(f"no {kind.api_version} in {reply}")


@BUILT_IN
def test_aggregated_discovery_holds_the_kind(api, kind):
    resources, version = aggregated(api, kind)
    row = resources[kind.plural]
    assert version["freshness"] == "Current"
    # A built-in kind is of the group and version that list it, so its own are left empty.
    assert row["responseKind"] == {"group": "", "version": "", "kind": kind.kind}
    assert row["scope"] == ("Namespaced" if kind.namespaced else "Cluster")
    assert row["singularResource"] == kind.singular
    assert set(row.get("shortNames", ())) == set(kind.short)
    assert set(row["verbs"]) == verbs_of(kind)
    subresources = {sub["subresource"]: sub for sub in row.get("subresources", ())}
    assert ("status" in subresources) == kind.status
    for sub in subresources.values():
        assert {"group", "version", "kind"} <= set(sub["responseKind"]) and sub["verbs"]
    if kind.status:
        assert subresources["status"]["responseKind"] == row["responseKind"]


def test_aggregated_discovery_names_a_kind_of_another_group_in_full(api):
    resources, _ = aggregated(api, kinds.SERVICE_ACCOUNT)
    (token,) = [sub for sub in resources["serviceaccounts"]["subresources"] if sub["subresource"] == "token"]
    assert token["responseKind"] == {"group": "authentication.k8s.io", "version": "v1", "kind": "TokenRequest"}


def test_plain_json_stays_plain(api):
    for path, kind in (("/api", "APIVersions"), ("/apis", "APIGroupList")):
        assert api.get(path, accept="application/json, */*").json["kind"] == kind


@pytest.mark.parametrize("path", ["/apis/no.such.group", "/apis/no.such.group/v1", "/api/v1/teapots",
                                  "/apis/storage.k8s.io/v7", "/no/such/path"])
def test_an_unknown_path_is_not_found(api, path):
    reply = api.get(path)
    assert reply.code == 404, reply


def test_an_unknown_resource_is_not_found_in_words(api):
    reply = api.get("/api/v1/namespaces/default/teapots")
    assert reply.code == 404 and "could not find the requested resource" in (reply.body.decode()), reply


def test_api_services_are_listed(api):
    reply = api.get("/apis/apiregistration.k8s.io/v1/apiservices")
    assert reply.code == 200 and reply.json["kind"] == "APIServiceList", reply
    names = {item["metadata"]["name"] for item in reply.json["items"]}
    assert {"v1.", "v1.storage.k8s.io", "v1.apps"} <= names


def test_discovery_needs_no_accept_header(api):
    assert api.get("/api", accept=None).json["kind"] == "APIVersions"
    assert kube.JSON in api.get("/apis", accept=None).type
