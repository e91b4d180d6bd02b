"""The documented rules of lists, of their snapshots and selectors."""
import base64
import gzip
import json

import kinds
import pytest
import yaml
from kinds import CLAIM, CONFIG_MAP, EVENT, NAMESPACE, NODE, POD, SECRET


@pytest.fixture
def five(make):
    """Makes five labelled ConfigMaps, and gives the selector that finds only them."""
    group = make.name("five")
    made = [make(CONFIG_MAP, labelled(make, group, number)) for number in range(5)]
    return made, f"group={group}"


def labelled(make, group, number):
    item = make.new(CONFIG_MAP)
    item["metadata"]["labels"] = {"group": group, "number": str(number), "half": "low" if number < 2 else "high",
                                  **({"first": "yes"} if number == 0 else {})}
    return item


def names(reply):
    assert reply.code == 200, reply
    return [item["metadata"]["name"] for item in reply.json["items"]]


@pytest.mark.parametrize("kind", kinds.BUILT_IN, ids=str)
def test_a_list_has_kind_version_and_items(api, make, kind):
    made = make(kind)
    document = api.get(kind.path(make.ns)).json
    assert document["kind"] == f"{kind.kind}List" and document["apiVersion"] == kind.api_version
    assert document["metadata"]["resourceVersion"].isdecimal()
    item = next(i for i in document["items"] if i["metadata"]["name"] == made["metadata"]["name"])
    assert item["metadata"]["uid"] == made["metadata"]["uid"]
    assert int(item["metadata"]["resourceVersion"]) <= int(document["metadata"]["resourceVersion"])


@pytest.mark.parametrize("kind", [kind for kind in kinds.BUILT_IN if kind.namespaced], ids=str)
def test_a_list_of_all_namespaces_holds_the_namespaces(api, make, kind):
    made = make(kind)
    everywhere = api.get(kind.path()).json["items"]
    assert (make.ns, made["metadata"]["name"]) in {(i["metadata"]["namespace"], i["metadata"]["name"])
                                                   for i in everywhere}


def test_an_empty_list_has_items(api, make):
    reply = api.get(CONFIG_MAP.path(make.ns), labelSelector="no-such=label")
    assert reply.json["items"] == []


def test_pages_show_one_snapshot(api, make, five):
    made, selector = five
    path = CONFIG_MAP.path(make.ns)
    first = api.get(path, labelSelector=selector, limit=2)
    version = first.json["metadata"]["resourceVersion"]
    assert len(names(first)) == 2
    # Changes made meanwhile do not show in later pages.
    late = make(CONFIG_MAP, labelled(make, selector.partition("=")[2], 9))
    api.delete(make.path(CONFIG_MAP, made[4]))
    found, token = names(first), first.json["metadata"]["continue"]
    while token:
        page = api.get(path, labelSelector=selector, limit=2, continue_=token)
        found += names(page)
        assert page.json["metadata"]["resourceVersion"] == version
        token = page.json["metadata"].get("continue")
    assert found == [item["metadata"]["name"] for item in made]
    assert late["metadata"]["name"] not in found


def test_the_continue_token_is_of_the_documented_form(api, make, five):
    reply = api.get(CONFIG_MAP.path(make.ns), labelSelector=five[1], limit=2)
    token = reply.json["metadata"]["continue"]
    assert "=" not in token
    content = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    assert content["v"] == "meta.k8s.io/v1" and isinstance(content["rv"], int) and content["start"]
    assert str(content["rv"]) == reply.json["metadata"]["resourceVersion"]


def test_the_last_page_has_no_token(api, make, five):
    reply = api.get(CONFIG_MAP.path(make.ns), labelSelector=five[1], limit=500)
    assert len(names(reply)) == 5 and not reply.json["metadata"].get("continue")
    assert len(names(api.get(CONFIG_MAP.path(make.ns), labelSelector=five[1], limit=0))) == 5
    # After all selected objects were shown, the server may have more to look through, but the list must end.
    reply, found = api.get(CONFIG_MAP.path(make.ns), labelSelector=five[1], limit=5), []
    for _ in range(100):
        found += names(reply)
        token = reply.json["metadata"].get("continue")
        if not token:
            break
        reply = api.get(CONFIG_MAP.path(make.ns), labelSelector=five[1], limit=5, continue_=token)
    assert len(found) == 5 and not token


def test_remaining_items_are_counted_without_a_selector(api, make, five):
    """The count is optional, but must be right where it is given."""
    path = CONFIG_MAP.path(make.ns)
    whole = len(names(api.get(path)))
    remaining = api.get(path, limit=2).json["metadata"].get("remainingItemCount")
    assert remaining in (None, whole - 2)


def test_continue_with_a_resource_version_is_refused(api, make, five):
    token = api.get(CONFIG_MAP.path(make.ns), limit=1).json["metadata"]["continue"]
    reply = api.get(CONFIG_MAP.path(make.ns), limit=1, continue_=token, resourceVersion="5")
    assert reply.code == 400, reply


@pytest.mark.parametrize("token", ["%%%", "bm8ganNvbg", base64.urlsafe_b64encode(
    b'{"v":"meta.k8s.io/v9","rv":1,"start":"a"}').decode().rstrip("=")], ids=["no-base64", "no-json", "version"])
def test_a_broken_token_is_refused(api, make, token):
    reply = api.get(CONFIG_MAP.path(make.ns), limit=1, continue_=token)
    assert reply.code == 400 and reply.json["reason"] == "BadRequest", reply


@pytest.mark.parametrize("version", ["0", "older", "now"])
@pytest.mark.parametrize("match", [None, "NotOlderThan"])
def test_a_list_not_older_than(api, make, five, version, match):
    path, (made, selector) = CONFIG_MAP.path(make.ns), five
    asked = {"0": "0", "older": made[0]["metadata"]["resourceVersion"],
             "now": made[-1]["metadata"]["resourceVersion"]}[version]
    reply = api.get(path, labelSelector=selector, resourceVersion=asked, resourceVersionMatch=match)
    assert reply.code == 200, reply
    assert int(reply.json["metadata"]["resourceVersion"]) >= int(asked)
    if version == "now":
        assert len(names(reply)) == 5


def test_a_list_newer_than_everything_times_out(api, make):
    ahead = int(make(CONFIG_MAP)["metadata"]["resourceVersion"]) + 10 ** 9
    reply = api.get(CONFIG_MAP.path(make.ns), resourceVersion=ahead)
    assert reply.code == 504 and reply.json["reason"] == "Timeout", reply
    assert reply.json["details"]["retryAfterSeconds"] >= 1
    assert "ResourceVersionTooLarge" in {cause["reason"] for cause in reply.json["details"]["causes"]}


def test_a_list_at_exactly_a_version_shows_the_past(api, make, five):
    path, (made, selector) = CONFIG_MAP.path(make.ns), five
    then = api.get(path, labelSelector=selector).json["metadata"]["resourceVersion"]
    api.patch(make.path(CONFIG_MAP, made[0]), {"data": {"key": "later"}})
    api.delete(make.path(CONFIG_MAP, made[1]))
    reply = api.get(path, labelSelector=selector, resourceVersion=then, resourceVersionMatch="Exact")
    assert names(reply) == [item["metadata"]["name"] for item in made]
    assert reply.json["items"][0]["data"]["key"] == "value"
    assert reply.json["metadata"]["resourceVersion"] == then


def test_a_limited_list_at_a_version_is_exact(api, make, five):
    path, (made, selector) = CONFIG_MAP.path(make.ns), five
    then = api.get(path, labelSelector=selector).json["metadata"]["resourceVersion"]
    api.delete(make.path(CONFIG_MAP, made[0]))
    reply = api.get(path, labelSelector=selector, resourceVersion=then, resourceVersionMatch="Exact", limit=1)
    assert names(reply) == [made[0]["metadata"]["name"]]
    rest = api.get(path, labelSelector=selector, limit=10, continue_=reply.json["metadata"]["continue"])
    assert names(rest) == [item["metadata"]["name"] for item in made[1:]]


@pytest.mark.parametrize("version", ["x", "-1", "1.5"])
def test_a_version_that_is_no_number_is_refused(api, make, version):
    reply = api.get(CONFIG_MAP.path(make.ns), resourceVersion=version)
    assert reply.code in (400, 422), reply


BAD_COMBINATIONS = {
    "match-without-version": {"resourceVersionMatch": "Exact"},
    "match-with-continue": {"resourceVersionMatch": "NotOlderThan", "continue_": "TOKEN", "limit": 1},
    "exact-with-zero": {"resourceVersionMatch": "Exact", "resourceVersion": "0"},
    "unknown-match": {"resourceVersionMatch": "Roughly", "resourceVersion": "5"},
    "initial-events-on-a-list": {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan"},
    "watch-match-without-initial-events": {"watch": "true", "resourceVersionMatch": "NotOlderThan",
                                           "resourceVersion": "5"},
    "watch-initial-events-without-match": {"watch": "true", "sendInitialEvents": "true"},
    "watch-initial-events-exact": {"watch": "true", "sendInitialEvents": "true", "resourceVersionMatch": "Exact",
                                   "resourceVersion": "5"},
}


@pytest.mark.parametrize("query", BAD_COMBINATIONS.values(), ids=BAD_COMBINATIONS)
def test_a_bad_combination_is_invalid(api, make, five, query):
    if query.get("continue_"):
        token = api.get(CONFIG_MAP.path(make.ns), limit=1).json["metadata"]["continue"]
        query = {**query, "continue_": token}
    reply = api.get(CONFIG_MAP.path(make.ns), timeoutSeconds=1, **query)
    assert reply.code == 422 and reply.json["reason"] == "Invalid", reply
    assert reply.message.startswith('ListOptions.meta.k8s.io "" is invalid: '), reply


LABELS = {
    "equals": ("number=1", {1}), "double-equals": ("number==1", {1}), "not-equals": ("number!=1", {0, 2, 3, 4}),
    "not-equals-includes-missing": ("first!=yes", {1, 2, 3, 4}), "in": ("number in (1, 3,9)", {1, 3}),
    "notin": ("number notin (1,3)", {0, 2, 4}), "notin-includes-missing": ("first notin (yes)", {1, 2, 3, 4}),
    "exists": ("first", {0}), "absent": ("!first", {1, 2, 3, 4}), "all-of": ("half=high,number!=3", {2, 4}),
    "set-and-equality": ("half in (low),number=1", {1}), "none": ("half=middle", set()),
    "greater": ("number>2", {3, 4}), "less": ("number<2", {0, 1}),
}


@pytest.mark.parametrize("selector,wanted", LABELS.values(), ids=LABELS)
def test_label_selector(api, make, five, selector, wanted):
    made, group = five
    reply = api.get(CONFIG_MAP.path(make.ns), labelSelector=f"{group},{selector}")
    assert names(reply) == [made[number]["metadata"]["name"] for number in sorted(wanted)]


@pytest.mark.parametrize("selector", ["a=b=c", "a in b", "a in (", "=", "a b", "!!a", "a=b c", ",", "bad key!=x"])
def test_a_bad_label_selector_is_refused(api, make, selector):
    reply = api.get(CONFIG_MAP.path(make.ns), labelSelector=selector)
    assert reply.code == 400 and reply.json["reason"] == "BadRequest", reply


@pytest.mark.parametrize("kind", kinds.BUILT_IN, ids=str)
def test_every_kind_is_selected_by_name(api, make, kind):
    made = make(kind)
    make(kind)
    name = made["metadata"]["name"]
    assert names(api.get(kind.path(make.ns), fieldSelector=f"metadata.name={name}")) == [name]
    if kind.namespaced:
        found = names(api.get(kind.path(), fieldSelector=f"metadata.namespace={make.ns},metadata.name={name}"))
        assert found == [name]


@pytest.mark.parametrize("kind", [kind for kind in kinds.BUILT_IN], ids=str)
def test_an_unknown_field_is_no_selector(api, make, kind):
    reply = api.get(kind.path(make.ns), fieldSelector="spec.no.such=x")
    assert reply.code == 400 and reply.json["reason"] == "BadRequest", reply
    assert "spec.no.such" in reply.message


FIELDS = {
    "pod-node": (POD, {"spec": {**kinds.POD_SPEC, "nodeName": "conformance-nowhere"}},
                 "spec.nodeName=conformance-nowhere", "spec.nodeName=other"),
    "pod-restart-policy": (POD, {"spec": {**kinds.POD_SPEC, "restartPolicy": "Never"}},
                           "spec.restartPolicy=Never", "spec.restartPolicy!=Never"),
    "pod-scheduler": (POD, {}, f"spec.schedulerName={kinds.DRIVER}", "spec.schedulerName=other"),
    "pod-account": (POD, {}, "spec.serviceAccountName=default", "spec.serviceAccountName=other"),
    "pod-host-network": (POD, {"spec": {**kinds.POD_SPEC, "hostNetwork": True}}, "spec.hostNetwork=true",
                         "spec.hostNetwork=false"),
    "pod-phase": (POD, {}, "status.phase=Pending", "status.phase!=Pending"),
    "pod-ip": (POD, {}, "status.podIP=", "status.podIP=10.9.8.7"),
    "pod-ips": (POD, {}, "status.podIPs=", "status.podIPs=10.9.8.7"),
    "pod-nominated-node": (POD, {}, "status.nominatedNodeName=", "status.nominatedNodeName=x"),
    "node-unschedulable": (NODE, {"spec": {"unschedulable": True}}, "spec.unschedulable=true",
                           "spec.unschedulable=false"),
    "namespace-phase": (NAMESPACE, {}, "status.phase=Active", "status.phase=Terminating"),
    "secret-type": (SECRET, {"type": "example.com/one"}, "type=example.com/one", "type=Opaque"),
    "event-kind": (EVENT, {}, "involvedObject.kind=Pod", "involvedObject.kind=Node"),
    "event-namespace": (EVENT, {}, "involvedObject.namespace=NS", "involvedObject.namespace=other"),
    "event-name": (EVENT, {}, "involvedObject.name=some-pod", "involvedObject.name=other"),
    "event-uid": (EVENT, {}, "involvedObject.uid=", "involvedObject.uid=x"),
    "event-api-version": (EVENT, {}, "involvedObject.apiVersion=v1", "involvedObject.apiVersion=v2"),
    "event-version": (EVENT, {}, "involvedObject.resourceVersion=", "involvedObject.resourceVersion=1"),
    "event-field-path": (EVENT, {}, "involvedObject.fieldPath=", "involvedObject.fieldPath=x"),
    "event-reason": (EVENT, {}, "reason=Tested", "reason!=Tested"),
    "event-reporter": (EVENT, {"reportingComponent": "conformance"}, "reportingComponent=conformance",
                       "reportingComponent=other"),
    "event-source": (EVENT, {}, "source=conformance", "source=other"),
    "event-type": (EVENT, {}, "type=Normal", "type=Warning"),
}


@pytest.mark.parametrize("kind,fields,match,miss", FIELDS.values(), ids=FIELDS)
def test_field_selector(api, make, kind, fields, match, miss):
    name = make(kind, **fields)["metadata"]["name"]
    path = kind.path(make.ns)
    assert name in names(api.get(path, fieldSelector=match.replace("NS", make.ns)))
    assert name not in names(api.get(path, fieldSelector=miss))
    assert names(api.get(path, fieldSelector=f"{match.replace('NS', make.ns)},metadata.name={name}")) == [name]


def test_a_field_selector_names_what_is_not_supported(api, make):
    reply = api.get(POD.path(make.ns), fieldSelector="spec.dnsPolicy=x")
    assert reply.code == 400 and "field label not supported: spec.dnsPolicy" in reply.message, reply


def test_a_bad_field_selector_is_refused(api, make):
    assert api.get(POD.path(make.ns), fieldSelector="metadata.name").code == 400


def test_lists_are_compressed_on_request(api, make):
    for _ in range(3):
        make(CONFIG_MAP, data={"key": "x" * 100_000})
    path = CONFIG_MAP.path(make.ns)
    plain = api.get(path)
    packed = api.get(path, headers={"Accept-Encoding": "gzip"})
    assert packed.headers.get("Content-Encoding") == "gzip"
    assert json.loads(gzip.decompress(packed.body))["items"] == plain.json["items"]
    assert plain.headers.get("Content-Encoding") is None


@pytest.mark.parametrize("kind", [CONFIG_MAP, CLAIM], ids=str)
def test_partial_metadata_lists(api, make, kind):
    made = make(kind)
    accept = ("application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,"
              "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1beta1")
    document = api.get(kind.path(make.ns), accept=accept).json
    assert document["kind"] == "PartialObjectMetadataList" and document["apiVersion"] == "meta.k8s.io/v1"
    item = next(i for i in document["items"] if i["metadata"]["name"] == made["metadata"]["name"])
    assert set(item) <= {"kind", "apiVersion", "metadata"}
    assert item["metadata"]["uid"] == made["metadata"]["uid"]


def test_partial_metadata_of_one(api, make):
    made = make(CONFIG_MAP)
    document = api.get(make.path(CONFIG_MAP, made),
                       accept="application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1").json
    assert document["kind"] == "PartialObjectMetadata" and "data" not in document
    assert document["metadata"]["uid"] == made["metadata"]["uid"]


def test_yaml_is_read_and_written(api, make):
    item = make.new(CONFIG_MAP, data={"key": "yes", "number": "1"})
    reply = api.post(CONFIG_MAP.path(make.ns), yaml.safe_dump(item), content_type="application/yaml",
                     accept="application/yaml")
    assert reply.code == 201 and reply.type.startswith("application/yaml"), reply
    make.clean_later(make.path(CONFIG_MAP, item))
    assert yaml.safe_load(reply.body)["data"] == {"key": "yes", "number": "1"}
