"""The documented rules of access reviews and tokens."""
import base64
import json
import time

import kinds
import pytest
from kinds import POD, SERVICE_ACCOUNT

REVIEWS = "/apis/authorization.k8s.io/v1"


def review(api, **spec):
    return api.post(f"{REVIEWS}/selfsubjectaccessreviews",
                    {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": spec})


ALLOWED = {
    "one-object": {"resourceAttributes": {"namespace": "default", "verb": "get", "resource": "pods", "name": "a"}},
    "all-objects": {"resourceAttributes": {"verb": "list", "resource": "pods", "version": "v1"}},
    "grouped": {"resourceAttributes": {"verb": "create", "group": "storage.k8s.io", "resource": "storageclasses"}},
    "subresource": {"resourceAttributes": {"verb": "create", "resource": "pods", "subresource": "exec",
                                           "namespace": "default"}},
    "attach": {"resourceAttributes": {"verb": "create", "resource": "pods", "subresource": "attach"}},
    "portforward": {"resourceAttributes": {"verb": "create", "resource": "pods", "subresource": "portforward"}},
    "everything": {"resourceAttributes": {"verb": "*", "group": "*", "resource": "*"}},
    "path": {"nonResourceAttributes": {"path": "/healthz", "verb": "get"}},
}


@pytest.mark.parametrize("spec", ALLOWED.values(), ids=ALLOWED)
def test_the_administrator_may(api, spec):
    reply = review(api, **spec)
    assert reply.code == 201, reply
    assert reply.json["kind"] == "SelfSubjectAccessReview" and reply.json["status"]["allowed"] is True
    assert reply.json["spec"] == spec
    assert not reply.json["status"].get("denied")


BAD_REVIEWS = {"nothing": {}, "both": {**ALLOWED["path"], **ALLOWED["one-object"]}}


@pytest.mark.parametrize("spec", BAD_REVIEWS.values(), ids=BAD_REVIEWS)
def test_a_review_asks_one_thing(api, spec):
    reply = review(api, **spec)
    assert reply.code in (400, 422), reply
    assert reply.json["reason"] in ("BadRequest", "Invalid")


def test_rules_of_a_namespace(api):
    reply = api.post(f"{REVIEWS}/selfsubjectrulesreviews",
                     {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview",
                      "spec": {"namespace": "default"}})
    assert reply.code == 201, reply
    status = reply.json["status"]
    assert isinstance(status["incomplete"], bool)
    assert any(rule["verbs"] == ["*"] and rule["apiGroups"] == ["*"] and rule["resources"] == ["*"]
               for rule in status["resourceRules"])
    assert any("*" in rule["verbs"] or "get" in rule["verbs"] for rule in status["nonResourceRules"])


def test_rules_need_a_namespace(api):
    reply = api.post(f"{REVIEWS}/selfsubjectrulesreviews",
                     {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview", "spec": {}})
    assert reply.code == 400, reply


@pytest.mark.parametrize("resource", ["selfsubjectaccessreviews", "selfsubjectrulesreviews"])
def test_reviews_are_not_kept(api, resource):
    assert api.get(f"{REVIEWS}/{resource}").code in (404, 405)


# -- tokens

def request(api, make, account=None, **spec):
    account = account or make(SERVICE_ACCOUNT)
    return account, api.post(make.path(SERVICE_ACCOUNT, account) + "/token",
                             {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec})


def claims(token):
    body = token.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))


def test_a_token_says_whose_it_is(api, make):
    account, reply = request(api, make, audiences=["one", "two"], expirationSeconds=3600)
    assert reply.code == 201 and reply.json["kind"] == "TokenRequest", reply
    token = reply.json["status"]["token"]
    assert len(token.split(".")) == 3
    content = claims(token)
    assert content["sub"] == f"system:serviceaccount:{make.ns}:{account['metadata']['name']}"
    assert content["aud"] == ["one", "two"]
    assert abs(content["exp"] - time.time() - 3600) < 120
    own = content["kubernetes.io"]
    assert own["namespace"] == make.ns and own["serviceaccount"]["uid"] == account["metadata"]["uid"]
    assert reply.json["spec"]["expirationSeconds"] == 3600


def test_a_token_expires_when_the_status_says(api, make):
    _, reply = request(api, make, expirationSeconds=3600)
    stamp = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(claims(reply.json["status"]["token"])["exp"]))
    assert reply.json["status"]["expirationTimestamp"] == stamp


def test_the_default_life_is_an_hour(api, make):
    _, reply = request(api, make)
    assert reply.json["spec"]["expirationSeconds"] == 3600 and reply.json["spec"]["audiences"], reply


@pytest.mark.parametrize("seconds", [0, 599, 1 << 33])
def test_a_life_has_bounds(api, make, seconds):
    _, reply = request(api, make, expirationSeconds=seconds)
    assert reply.code == 422 and "spec.expirationSeconds" in reply.message, reply


def test_a_token_of_a_missing_account(api, make):
    reply = api.post(SERVICE_ACCOUNT.path(make.ns, "no-such") + "/token",
                     {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}})
    assert reply.code == 404 and reply.message == 'serviceaccounts "no-such" not found', reply


def pod_of(make, account):
    return make(POD, spec={**kinds.POD_SPEC, "serviceAccountName": account["metadata"]["name"]})


def test_a_token_bound_to_a_pod_names_it(api, make):
    account = make(SERVICE_ACCOUNT)
    pod = pod_of(make, account)
    reference = {"apiVersion": "v1", "kind": "Pod", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
    _, reply = request(api, make, account, boundObjectRef=reference)
    assert reply.code == 201, reply
    assert claims(reply.json["status"]["token"])["kubernetes.io"]["pod"] == {
        "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}


BOUND = {
    "another-uid": ({"uid": "11111111-2222-3333-4444-555555555555"}, (409,)),
    "missing": ({"name": "no-such"}, (404,)),
    "another-kind": ({"kind": "ConfigMap"}, (400, 422)),
}


@pytest.mark.parametrize("change,codes", BOUND.values(), ids=BOUND)
def test_a_token_is_bound_to_what_is_there(api, make, change, codes):
    account = make(SERVICE_ACCOUNT)
    pod = pod_of(make, account)
    reference = {"apiVersion": "v1", "kind": "Pod", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"],
                 **change}
    _, reply = request(api, make, account, boundObjectRef=reference)
    assert reply.code in codes, reply


def test_a_pod_uses_only_its_own_account(api, make):
    account, other = make(SERVICE_ACCOUNT), make(SERVICE_ACCOUNT)
    pod = pod_of(make, other)
    reference = {"apiVersion": "v1", "kind": "Pod", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
    _, reply = request(api, make, account, boundObjectRef=reference)
    assert reply.code == 400, reply


def test_a_token_is_no_administrator(api, make):
    """The account may not read secrets, whether or not a cluster knows it."""
    _, reply = request(api, make)
    stranger = api.as_token(reply.json["status"]["token"])
    answer = stranger.get(f"/api/v1/namespaces/{make.ns}/secrets")
    assert answer.code in (401, 403), answer


# -- streams: what is refused before a node is asked

STREAMS = ("exec", "attach", "portforward")
WORDS = {"exec": {"command": "true", "stdout": "true"}, "attach": {"stdout": "true"}, "portforward": {"ports": "80"}}


def stream(api, make, pod, what, **query):
    return api.post(f"{POD.path(make.ns, pod)}/{what}", None, **{**WORDS[what], **query})


@pytest.mark.parametrize("what", STREAMS)
def test_a_stream_of_a_missing_pod(api, make, what):
    reply = stream(api, make, "no-such", what)
    assert reply.code == 404 and reply.message == 'pods "no-such" not found', reply


@pytest.mark.parametrize("what", STREAMS)
def test_a_stream_of_a_pod_without_a_node(api, make, what):
    pod = make(POD)["metadata"]["name"]
    reply = stream(api, make, pod, what)
    assert reply.code == 400 and reply.message == f"pod {pod} does not have a host assigned", reply


@pytest.mark.parametrize("what", ["exec", "attach"])
def test_a_stream_of_a_container_that_is_not_there(api, make, what):
    pod = make(POD)["metadata"]["name"]
    reply = stream(api, make, pod, what, container="no-such")
    assert reply.code == 400 and f"container no-such is not valid for pod {pod}" in reply.message, reply


@pytest.mark.parametrize("what", STREAMS)
def test_a_stranger_has_no_stream(api, make, what):
    _, reply = request(api, make)
    pod = make(POD)["metadata"]["name"]
    answer = stream(api.as_token(reply.json["status"]["token"]), make, pod, what)
    assert answer.code in (401, 403), answer
