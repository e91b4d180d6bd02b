"""The documented rules of deletes: what a delete does, and when an object is gone."""
import time

import kinds
import pytest
from kinds import CONFIG_MAP, NAMESPACE, POD, SECRET, STORAGE_CLASS

EACH = pytest.mark.parametrize("kind", kinds.BUILT_IN, ids=str)
FINALIZER = "conformance.example.com/hold"


def held(make, kind=CONFIG_MAP, **fields):
    item = make.new(kind, **fields)
    item["metadata"]["finalizers"] = [FINALIZER]
    return make(kind, item)


def wait_gone(api, path, seconds=30):
    deadline = time.monotonic() + seconds
    while (reply := api.get(path)).code != 404:
        assert time.monotonic() < deadline, f"still there: {reply}"
        time.sleep(0.05)


@EACH
def test_the_reply_of_a_delete(api, make, kind):
    made = make(kind)
    path = make.path(kind, made)
    reply = api.delete(path)
    assert reply.code in (200, 202), reply
    document = reply.json
    if kind.delete_gives_object:
        assert document["kind"] == kind.kind and document["metadata"]["uid"] == made["metadata"]["uid"]
    else:
        assert document["kind"] == "Status" and document["status"] == "Success"
        assert document["details"]["name"] == made["metadata"]["name"]
        assert document["details"]["kind"] == kind.plural and document["details"].get("group", "") == kind.group
        assert document["details"]["uid"] == made["metadata"]["uid"]
    wait_gone(api, path)


def test_a_deleted_object_with_finalizers_waits_for_them(api, make):
    made = held(make)
    path = make.path(CONFIG_MAP, made)
    reply = api.delete(path)
    assert reply.code == 200 and reply.json["kind"] == "ConfigMap", reply
    metadata = reply.json["metadata"]
    assert metadata["deletionTimestamp"] and metadata["deletionGracePeriodSeconds"] == 0
    # A second delete changes nothing.
    again = api.delete(path)
    assert again.code == 200 and again.json["metadata"]["resourceVersion"] == metadata["resourceVersion"], again
    assert api.patch(path, {"data": {"key": "still writable"}}).code == 200
    reply = api.patch(path, {"metadata": {"finalizers": None}})
    assert reply.code == 200, reply
    assert api.get(path).code == 404


def test_a_put_that_removes_the_last_finalizer_deletes(api, make):
    made = held(make)
    path = make.path(CONFIG_MAP, made)
    deleting = api.delete(path).json
    deleting["metadata"]["finalizers"] = []
    assert api.put(path, deleting).code == 200
    assert api.get(path).code == 404


def test_no_finalizers_are_added_to_what_is_being_deleted(api, make):
    made = held(make)
    path = make.path(CONFIG_MAP, made)
    api.delete(path)
    reply = api.patch(path, {"metadata": {"finalizers": [FINALIZER, "conformance.example.com/new"]}})
    assert reply.code == 422 and reply.json["details"]["causes"][0]["field"] == "metadata.finalizers", reply
    assert "no new finalizers can be added if the object is being deleted" in reply.message
    assert reply.json["details"]["causes"][0]["reason"] == "FieldValueForbidden"


def test_a_deletion_cannot_be_taken_back(api, make):
    made = held(make)
    path = make.path(CONFIG_MAP, made)
    stamp = api.delete(path).json["metadata"]["deletionTimestamp"]
    reply = api.patch(path, {"metadata": {"deletionTimestamp": None, "deletionGracePeriodSeconds": None}})
    assert reply.code in (200, 422)
    assert api.get(path).json["metadata"]["deletionTimestamp"] == stamp


def test_deletion_raises_the_generation_of_what_has_one(api, make):
    made = held(make, POD)
    reply = api.delete(make.path(POD, made), {"gracePeriodSeconds": 0})
    assert reply.json["metadata"]["generation"] == made["metadata"]["generation"] + 1, reply
    without = held(make)
    assert "generation" not in api.delete(make.path(CONFIG_MAP, without)).json["metadata"]


PRECONDITIONS = {
    "uid": ("uid", "11111111-2222-3333-4444-555555555555", "UID",
            "The object might have been deleted and then recreated"),
    "version": ("resourceVersion", "1", "ResourceVersion", "The object might have been modified"),
}


@pytest.mark.parametrize("kind", [CONFIG_MAP, STORAGE_CLASS], ids=str)
@pytest.mark.parametrize("field,wrong,word,guess", PRECONDITIONS.values(), ids=PRECONDITIONS)
def test_a_precondition(api, make, kind, field, wrong, word, guess):
    made = make(kind)
    path = make.path(kind, made)
    name, right = made["metadata"]["name"], made["metadata"][field]
    reply = api.delete(path, {"preconditions": {field: wrong}})
    assert reply.code == 409 and reply.json["reason"] == "Conflict", reply
    # These errors name the kind, not the resource.
    assert reply.message == (f'Operation cannot be fulfilled on {kind.qualified_kind} "{name}": the {word} in the '
                             f"precondition ({wrong}) does not match the {word} in record ({right}). {guess}")
    details = reply.json["details"]
    assert (details["name"], details["kind"], details.get("group", "")) == (name, kind.kind, kind.group)
    assert api.delete(path, {"preconditions": {field: right}}).code == 200
    assert api.get(path).code == 404


@pytest.mark.parametrize("policy,finalizer", [("Foreground", "foregroundDeletion"), ("Orphan", "orphan")])
@pytest.mark.parametrize("where", ["body", "query"])
def test_propagation_leaves_its_finalizer(api, make, policy, finalizer, where):
    made = held(make)
    path = make.path(CONFIG_MAP, made)
    reply = (api.delete(path, {"propagationPolicy": policy}) if where == "body"
             else api.delete(path, propagationPolicy=policy))
    assert reply.code == 200 and finalizer in reply.json["metadata"]["finalizers"], reply
    assert reply.json["metadata"]["deletionTimestamp"]


def test_the_old_word_for_orphan(api, make):
    made = held(make)
    reply = api.delete(make.path(CONFIG_MAP, made), {"orphanDependents": True})
    assert "orphan" in reply.json["metadata"]["finalizers"], reply


def test_background_leaves_no_finalizer(api, make):
    made = held(make)
    reply = api.delete(make.path(CONFIG_MAP, made), {"propagationPolicy": "Background"})
    assert reply.json["metadata"]["finalizers"] == [FINALIZER], reply


BAD_OPTIONS = {
    "unknown-policy": ({"propagationPolicy": "Sideways"}, (422,)),
    "both-words": ({"propagationPolicy": "Orphan", "orphanDependents": True}, (422,)),
    "dry-run-of-some": ({"dryRun": ["Some"]}, (422,)),
    "no-json": ("{", (400,)),
    "wrong-type": ({"gracePeriodSeconds": "soon"}, (400,)),
    "another-kind": ({"kind": "Pod", "apiVersion": "v1"}, (400,)),
}


@pytest.mark.parametrize("options,codes", BAD_OPTIONS.values(), ids=BAD_OPTIONS)
def test_bad_options(api, make, options, codes):
    made = make(CONFIG_MAP)
    reply = api.delete(make.path(CONFIG_MAP, made), options)
    assert reply.code in codes and reply.json["kind"] == "Status", reply
    assert api.get(make.path(CONFIG_MAP, made)).code == 200


# -- owners: needs the garbage collector

def owned(make, owner, block=True):
    item = make.new(SECRET)
    item["metadata"]["ownerReferences"] = [
        {"apiVersion": "v1", "kind": "ConfigMap", "name": owner["metadata"]["name"],
         "uid": owner["metadata"]["uid"], "blockOwnerDeletion": block}]
    return make(SECRET, item)


def test_in_the_background_dependents_follow(api, make):
    owner = make(CONFIG_MAP)
    dependent = owned(make, owner)
    assert api.delete(make.path(CONFIG_MAP, owner)).code == 200
    assert api.get(make.path(CONFIG_MAP, owner)).code == 404
    wait_gone(api, make.path(SECRET, dependent))


def test_in_the_foreground_dependents_go_first(api, make):
    owner = make(CONFIG_MAP)
    item = make.new(SECRET)
    dependent = owned(make, owner)
    hold = make.path(SECRET, dependent)
    assert api.patch(hold, {"metadata": {"finalizers": [FINALIZER]}}).code == 200
    assert item and api.delete(make.path(CONFIG_MAP, owner), {"propagationPolicy": "Foreground"}).code == 200
    deadline = time.monotonic() + 30
    while not api.get(hold).json["metadata"].get("deletionTimestamp"):
        assert time.monotonic() < deadline, "the dependent is not deleted"
        time.sleep(0.05)
    waiting = api.get(make.path(CONFIG_MAP, owner))
    assert waiting.code == 200 and waiting.json["metadata"]["finalizers"] == ["foregroundDeletion"]
    api.patch(hold, {"metadata": {"finalizers": None}})
    wait_gone(api, make.path(CONFIG_MAP, owner))


def test_orphans_stay_and_forget_their_owner(api, make):
    owner = make(CONFIG_MAP)
    dependent = owned(make, owner)
    assert api.delete(make.path(CONFIG_MAP, owner), {"propagationPolicy": "Orphan"}).code == 200
    wait_gone(api, make.path(CONFIG_MAP, owner))
    left = api.get(make.path(SECRET, dependent)).json
    assert not left["metadata"].get("ownerReferences") and not left["metadata"].get("deletionTimestamp")


# -- pods: grace

def bound(make, grace=None):
    """Gives a pod on a node that does not exist, so that only the API can end it."""
    spec = {**kinds.POD_SPEC, "nodeName": "conformance-nowhere"}
    if grace is not None:
        spec["terminationGracePeriodSeconds"] = grace
    return make(POD, spec=spec)


@pytest.mark.parametrize("spec,asked,wanted", [(None, None, 30), (45, None, 45), (45, 20, 20), (None, 1, 1)])
def test_the_grace_of_a_pod(api, make, spec, asked, wanted):
    path = make.path(POD, bound(make, spec))
    reply = api.delete(path, None if asked is None else {"gracePeriodSeconds": asked})
    assert reply.code == 200 and reply.json["metadata"]["deletionGracePeriodSeconds"] == wanted, reply
    assert api.get(path).json["metadata"]["deletionTimestamp"]


def test_grace_zero_is_at_once(api, make):
    path = make.path(POD, bound(make))
    assert api.delete(path, {"gracePeriodSeconds": 0}).code == 200
    assert api.get(path).code == 404


def test_grace_by_query(api, make):
    path = make.path(POD, bound(make))
    assert api.delete(path, gracePeriodSeconds=7).json["metadata"]["deletionGracePeriodSeconds"] == 7


def test_a_pod_on_no_node_goes_at_once(api, make):
    path = make.path(POD, make(POD))
    assert api.delete(path).code == 200
    assert api.get(path).code == 404


def test_a_second_delete_can_only_shorten(api, make):
    path = make.path(POD, bound(make))
    grace = []
    for asked in (20, 60, 5):
        reply = api.delete(path, {"gracePeriodSeconds": asked})
        grace.append(reply.json["metadata"]["deletionGracePeriodSeconds"])
    assert grace == [20, 20, 5]
    assert api.delete(path, {"gracePeriodSeconds": 0}).code == 200
    assert api.get(path).code == 404


# -- collections

def test_delete_collection_by_label(api, make):
    group = make.name("group")
    made = []
    for number in range(4):
        item = make.new(CONFIG_MAP)
        item["metadata"]["labels"] = {"group": group, "even": str(number % 2 == 0).lower()}
        made.append(make(CONFIG_MAP, item))
    reply = api.delete(CONFIG_MAP.path(make.ns), labelSelector=f"group={group},even=true")
    assert reply.code == 200 and reply.json["kind"] in ("ConfigMapList", "Status"), reply
    codes = [api.get(make.path(CONFIG_MAP, item)).code for item in made]
    assert codes == [404, 200, 404, 200]
    assert api.delete(CONFIG_MAP.path(make.ns), labelSelector=f"group={group}").code == 200
    assert [api.get(make.path(CONFIG_MAP, item)).code for item in made] == [404] * 4


def test_delete_collection_by_field(api, make):
    one, other = make(CONFIG_MAP), make(CONFIG_MAP)
    api.delete(CONFIG_MAP.path(make.ns), fieldSelector=f"metadata.name={one['metadata']['name']}")
    assert api.get(make.path(CONFIG_MAP, one)).code == 404 and api.get(make.path(CONFIG_MAP, other)).code == 200


def test_delete_collection_keeps_other_namespaces(api, make):
    one = make(CONFIG_MAP)
    assert api.delete(CONFIG_MAP.path("no-such-namespace")).code in (200, 404)
    assert api.get(make.path(CONFIG_MAP, one)).code == 200


# -- namespaces: needs the namespace controller

def test_a_namespace_takes_its_objects_with_it(api, make):
    space = make(NAMESPACE)["metadata"]["name"]
    for kind in (CONFIG_MAP, SECRET):
        assert api.post(kind.path(space), kind.new("inside", space)).code == 201
    reply = api.delete(NAMESPACE.path(name=space))
    assert reply.code in (200, 202), reply
    wait_gone(api, NAMESPACE.path(name=space), 60)
    assert api.get(CONFIG_MAP.path(space, "inside")).code == 404
    assert not api.get(SECRET.path(space)).json["items"]


def test_nothing_is_created_in_a_namespace_that_goes(api, make):
    space = make(NAMESPACE)["metadata"]["name"]
    hold = CONFIG_MAP.new("hold", space)
    hold["metadata"]["finalizers"] = [FINALIZER]
    assert api.post(CONFIG_MAP.path(space), hold).code == 201
    make.clean_later(CONFIG_MAP.path(space, "hold"))
    api.delete(NAMESPACE.path(name=space))
    terminating = api.get(NAMESPACE.path(name=space)).json
    assert terminating["status"]["phase"] == "Terminating" and terminating["metadata"]["deletionTimestamp"]
    reply = api.post(CONFIG_MAP.path(space), CONFIG_MAP.new("late", space))
    assert reply.code == 403 and reply.json["reason"] == "Forbidden", reply
    assert "because it is being terminated" in reply.message
    assert "NamespaceTerminating" in {cause["reason"] for cause in reply.json["details"]["causes"]}
    api.patch(CONFIG_MAP.path(space, "hold"), {"metadata": {"finalizers": None}})
    wait_gone(api, NAMESPACE.path(name=space), 60)
