"""The documented rules of watches."""
import json
import time

import kinds
import pytest
from kinds import CONFIG_MAP, POD


def version_of(item):
    return int(item["metadata"]["resourceVersion"])


def labelled(make, value, **data):
    item = make.new(CONFIG_MAP, data=data or {"key": "value"})
    item["metadata"]["labels"] = {"watched": value}
    return item


@pytest.fixture
def mark(make):
    return make.name("mark")


@pytest.mark.parametrize("kind", kinds.BUILT_IN, ids=str)
def test_a_life_is_three_events(api, make, kind):
    start = api.get(kind.path(make.ns)).json["metadata"]["resourceVersion"]
    item = make.new(kind)
    with api.watch(kind.path(make.ns), resourceVersion=start,
                   fieldSelector=f"metadata.name={item['metadata']['name']}") as watch:
        assert watch.code == 200
        path = make.path(kind, make(kind, item))
        assert watch.event()[0] == "ADDED"
        api.patch(path, {"metadata": {"labels": {"changed": "yes"}}})
        event, seen = watch.until(lambda event, seen: seen["metadata"].get("labels", {}).get("changed"))
        assert event == "MODIFIED" and seen["kind"] == kind.kind and seen["apiVersion"] == kind.api_version
        make.remove(path)
        watch.until(lambda event, _: event == "DELETED", seconds=30)


def test_from_a_version_only_later_events_come(api, make, mark):
    first = make(CONFIG_MAP, labelled(make, mark))
    second = make(CONFIG_MAP, labelled(make, mark))
    third = make(CONFIG_MAP, labelled(make, mark))
    with api.watch(CONFIG_MAP.path(make.ns), resourceVersion=version_of(first),
                   labelSelector=f"watched={mark}") as watch:
        seen = [(kind, item["metadata"]["name"]) for kind, item in watch.events(2)]
    assert seen == [("ADDED", item["metadata"]["name"]) for item in (second, third)]


@pytest.mark.parametrize("version", [None, "0"], ids=["unset", "zero"])
def test_without_a_version_what_is_there_comes_first(api, make, mark, version):
    present = {make(CONFIG_MAP, labelled(make, mark))["metadata"]["name"] for _ in range(3)}
    with api.watch(CONFIG_MAP.path(make.ns), resourceVersion=version, labelSelector=f"watched={mark}") as watch:
        events = watch.events(3)
        assert {item["metadata"]["name"] for _, item in events} == present
        assert {kind for kind, _ in events} == {"ADDED"}
        late = make(CONFIG_MAP, labelled(make, mark))
        assert watch.event()[1]["metadata"]["name"] == late["metadata"]["name"]


def test_a_deleted_object_is_the_last_state_with_the_version_of_the_delete(api, make, mark):
    made = make(CONFIG_MAP, labelled(make, mark, key="last"))
    with api.watch(CONFIG_MAP.path(make.ns), resourceVersion=version_of(made),
                   labelSelector=f"watched={mark}") as watch:
        api.delete(make.path(CONFIG_MAP, made))
        event, item = watch.event()
    assert event == "DELETED" and item["data"] == {"key": "last"}
    assert item["metadata"]["uid"] == made["metadata"]["uid"]
    assert version_of(item) > version_of(made)
    assert version_of(item) <= int(api.get(CONFIG_MAP.path(make.ns)).json["metadata"]["resourceVersion"])


def test_versions_of_events_grow(api, make, mark):
    made = make(CONFIG_MAP, labelled(make, mark))
    with api.watch(CONFIG_MAP.path(make.ns), resourceVersion=version_of(made),
                   labelSelector=f"watched={mark}") as watch:
        for number in range(5):
            api.patch(make.path(CONFIG_MAP, made), {"data": {"number": str(number)}})
        versions = [version_of(item) for _, item in watch.events(5)]
    assert versions == sorted(set(versions))


def test_leaving_a_label_selector_is_a_delete_and_entering_an_add(api, make, mark):
    made = make(CONFIG_MAP, labelled(make, mark))
    path = make.path(CONFIG_MAP, made)
    with api.watch(CONFIG_MAP.path(make.ns), resourceVersion=version_of(made),
                   labelSelector=f"watched={mark}") as watch:
        left = api.patch(path, {"metadata": {"labels": {"watched": "other"}}, "data": {"key": "unseen"}}).json
        event, item = watch.event()
        assert event == "DELETED" and version_of(item) == version_of(left)
        assert item["metadata"]["labels"]["watched"] == mark and item["data"]["key"] == "value"
        back = api.patch(path, {"metadata": {"labels": {"watched": mark}}}).json
        event, item = watch.event()
        assert event == "ADDED" and version_of(item) == version_of(back)


def test_leaving_a_field_selector_is_a_delete(api, make):
    made = make(POD)
    with api.watch(POD.path(make.ns), resourceVersion=version_of(made),
                   fieldSelector=f"status.phase=Pending,metadata.name={made['metadata']['name']}") as watch:
        api.patch(make.path(POD, made) + "/status", {"status": {"phase": "Failed"}})
        assert watch.until(lambda event, _: event == "DELETED")


def test_a_watch_of_all_namespaces(api, make, mark):
    start = api.get(CONFIG_MAP.path()).json["metadata"]["resourceVersion"]
    with api.watch(CONFIG_MAP.path(), resourceVersion=start, labelSelector=f"watched={mark}") as watch:
        made = make(CONFIG_MAP, labelled(make, mark))
        assert watch.event()[1]["metadata"]["uid"] == made["metadata"]["uid"]


def test_the_server_ends_a_watch_after_its_time(api, make):
    start = api.get(CONFIG_MAP.path(make.ns)).json["metadata"]["resourceVersion"]
    began = time.monotonic()
    with api.watch(CONFIG_MAP.path(make.ns), resourceVersion=start, timeoutSeconds=1,
                   labelSelector="watched=nothing") as watch:
        assert watch.event(seconds=15) is None  # the stream ended cleanly, with the last chunk
    assert 0.9 <= time.monotonic() - began < 10


def test_watch_takes_other_words_for_true(api, make, mark):
    make(CONFIG_MAP, labelled(make, mark))
    for word in ("1", "true"):
        reply = api.get(CONFIG_MAP.path(make.ns), watch=word, timeoutSeconds=1, labelSelector=f"watched={mark}")
        assert json.loads(reply.body.splitlines()[0])["type"] == "ADDED"


def test_a_version_too_old_is_expired_or_replayed(api, make):
    """If history still goes back that far, the watch shows it; otherwise it gives 410, or an ERROR event with a
    Status."""
    with api.watch(CONFIG_MAP.path(make.ns), resourceVersion=1, timeoutSeconds=2) as watch:
        if watch.code == 200:
            event = watch.event()
            assert event is None or event[0] in ("ADDED", "MODIFIED", "DELETED") or (
                event[0] == "ERROR" and event[1]["code"] == 410 and event[1]["reason"] == "Expired")
        else:
            assert watch.code == 410


def test_send_initial_events(api, make, mark):
    made = [make(CONFIG_MAP, labelled(make, mark)) for _ in range(3)]
    with api.watch(CONFIG_MAP.path(make.ns), sendInitialEvents=True, resourceVersionMatch="NotOlderThan",
                   allowWatchBookmarks=True, labelSelector=f"watched={mark}") as watch:
        if watch.code == 422:
            pytest.skip("this server does not offer it: clients list and watch")
        added = watch.events(3)
        assert {item["metadata"]["name"] for _, item in added} == {item["metadata"]["name"] for item in made}
        assert {kind for kind, _ in added} == {"ADDED"}
        event, bookmark = watch.event()
        assert event == "BOOKMARK" and bookmark["kind"] == "ConfigMap"
        assert bookmark["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
        assert version_of(bookmark) >= version_of(made[-1])
        late = make(CONFIG_MAP, labelled(make, mark))
        assert watch.event()[1]["metadata"]["uid"] == late["metadata"]["uid"]


def test_send_initial_events_false_is_a_plain_watch(api, make, mark):
    made = make(CONFIG_MAP, labelled(make, mark))
    with api.watch(CONFIG_MAP.path(make.ns), sendInitialEvents=False, resourceVersionMatch="NotOlderThan",
                   resourceVersion=version_of(made), allowWatchBookmarks=True,
                   labelSelector=f"watched={mark}") as watch:
        if watch.code == 422:
            pytest.skip("this server does not offer it")
        late = make(CONFIG_MAP, labelled(make, mark))
        assert watch.event()[1]["metadata"]["uid"] == late["metadata"]["uid"]


def test_a_table_watch_names_the_columns_once(api, make, mark):
    first = make(CONFIG_MAP, labelled(make, mark))
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
    with api.watch(CONFIG_MAP.path(make.ns), accept, labelSelector=f"watched={mark}") as watch:
        second = make(CONFIG_MAP, labelled(make, mark))
        tables = [item for _, item in watch.events(2)]
    assert [table["kind"] for table in tables] == ["Table", "Table"]
    assert [column["name"] for column in tables[0]["columnDefinitions"]] == list(CONFIG_MAP.columns)
    assert not tables[1].get("columnDefinitions")
    for table, item in zip(tables, (first, second)):
        (row,) = table["rows"]
        assert row["cells"][0] == item["metadata"]["name"]
        assert row["object"]["kind"] == "PartialObjectMetadata"


def test_a_partial_metadata_watch(api, make, mark):
    make(CONFIG_MAP, labelled(make, mark))
    with api.watch(CONFIG_MAP.path(make.ns), "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
                   labelSelector=f"watched={mark}") as watch:
        _, item = watch.event()
    assert item["kind"] == "PartialObjectMetadata" and "data" not in item


def test_the_stream_is_chunked_json(api, make, mark):
    make(CONFIG_MAP, labelled(make, mark))
    with api.watch(CONFIG_MAP.path(make.ns), labelSelector=f"watched={mark}") as watch:
        assert watch.response.headers["Transfer-Encoding"] == "chunked"
        assert watch.response.headers["Content-Type"].startswith("application/json")
        watch.event()


def test_a_watch_of_one_object_by_its_name(api, make):
    one, other = make(CONFIG_MAP), make(CONFIG_MAP)
    with api.watch(CONFIG_MAP.path(make.ns), fieldSelector=f"metadata.name={one['metadata']['name']}") as watch:
        assert watch.event()[1]["metadata"]["uid"] == one["metadata"]["uid"]
        api.patch(make.path(CONFIG_MAP, other), {"data": {"a": "b"}})
        api.patch(make.path(CONFIG_MAP, one), {"data": {"a": "b"}})
        assert watch.event()[1]["metadata"]["uid"] == one["metadata"]["uid"]


def test_a_bad_selector_is_refused_before_the_stream(api, make):
    with api.watch(CONFIG_MAP.path(make.ns), labelSelector="a=b=c") as watch:
        assert watch.code == 400


def test_zz_bookmarks_come_about_each_minute(long_watch):
    """This test runs last, on a watch that was opened first."""
    assert long_watch.code == 200
    event, item = long_watch.event(seconds=100)
    assert event == "BOOKMARK" and item["kind"] == "Secret" and item["apiVersion"] == "v1"
    assert item["metadata"]["resourceVersion"].isdecimal()
    assert not item["metadata"].get("name") and not item.get("data")
