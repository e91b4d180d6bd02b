"""The calls of `berth-iscsi` against a real target, and what an administrator gets wrong."""
import json
import signal
import subprocess

import pytest

from lib.iscsi import PROGRAM, call
from lib.tgt import MIB, TARGET, free_port

pytestmark = [pytest.mark.storage]
SECRET = "a-secret-of-some-length"


@pytest.fixture()
def tgt(tgt):
    return tgt.add(1).add(2, size=32 * MIB, block=4096)


def test_luns_are_listed_with_identity_size_and_whether_they_are_blank(tgt):
    with open(tgt.file(2), "r+b") as data:
        data.seek(32 * MIB - 600)
        data.write(b"the end of somebody's data")
    one, two = call("list", tgt.portal)["luns"]
    assert (one["lun"], one["size"], one["blockSize"], one["blank"]) == (1, 16 * MIB, 512, True)
    assert (two["lun"], two["size"], two["blockSize"], two["blank"]) == (2, 32 * MIB, 4096, False)
    assert one["reserved"] == two["reserved"] == "" and one["problem"] == two["problem"] == ""
    assert one["identity"] != two["identity"] and "berth1" in one["identity"]
    assert call("info", tgt.portal, lun=1) == one


def test_only_the_luns_that_are_asked_for_are_read(tgt):
    identity = call("info", tgt.portal, lun=2)["identity"]
    assert [lun["blank"] for lun in call("list", tgt.portal, identities=[identity])["luns"]] == [None, True]


@pytest.mark.parametrize("keys", ["0x1", ["1"], ["0x1g"], [1], ["0x10000000000000000"]])
def test_keys_of_another_form_are_refused(tgt, keys):
    code, message = error_of("fence", tgt.portal, lun=1, target="node-b", keys=keys)
    assert code == "INVALID_ARGUMENT" and "keys" in message
    assert call("info", tgt.portal, lun=1)["reserved"] == ""


def test_a_file_system_in_the_midst_of_zeroes_is_not_blank(tgt):
    subprocess.run(["mkfs.ext4", "-q", "-F", tgt.file(1)], check=True)
    assert call("info", tgt.portal, lun=1)["blank"] is False


def test_check_tells_that_the_portals_answer(tgt):
    assert call("check", tgt.portal) == {}


def error_of(name, portals, **members):
    error = call(name, portals, **members)["error"]
    return error["code"], error["message"]


@pytest.mark.parametrize("name", ["check", "list", "info", "holders", "fence"])
def test_a_portal_that_is_away_is_told_in_words(name, tmp_path):
    portal = f"127.0.0.1:{free_port()}"
    code, message = error_of(name, portal, lun=1, target="node-b")
    assert code == "UNAVAILABLE" and portal in message and "does not answer" in message


def test_a_target_that_hangs_is_told_within_the_bound(tgt):
    tgt.process.send_signal(signal.SIGSTOP)
    code, message = error_of("list", tgt.portal)
    assert code == "DEADLINE_EXCEEDED" and tgt.portal in message


def test_the_second_portal_is_used_if_the_first_is_away(tgt):
    away = f"127.0.0.1:{free_port()}"
    assert len(call("list", [away, tgt.portal])["luns"]) == 2
    code, message = error_of("check", [away, tgt.portal])
    assert code == "UNAVAILABLE" and away in message, "check names the portal that is away"


def test_a_target_that_is_missing_is_told_in_words(tgt):
    code, message = error_of("check", tgt.portal, cluster={"target": "iqn.2003-01.org.example:other"})
    assert code == "NOT_FOUND" and "iqn.2003-01.org.example:other" in message


@pytest.mark.parametrize("name", ["info", "holders", "fence"])
def test_a_lun_that_is_missing_is_told_in_words(tgt, name):
    code, message = error_of(name, tgt.portal, lun=7, target="node-b")
    assert code == "NOT_FOUND" and "LUN 7" in message and TARGET in message


def test_the_targets_controller_is_no_disk(tgt):
    code, message = error_of("info", tgt.portal, lun=0)
    assert code == "FAILED_PRECONDITION" and "no disk" in message


def test_chap_admits_the_right_secret_only(tgt):
    tgt.require_chap("berth", SECRET)
    chap = {"chapUser": "berth", "chapPassword": SECRET}
    assert call("check", tgt.portal, cluster=chap) == {}
    assert error_of("check", tgt.portal, cluster=chap | {"chapPassword": "a-wrong-secret-here"})[0] == "UNAUTHENTICATED"
    code, message = error_of("check", tgt.portal)
    assert code == "UNAUTHENTICATED" and "none was given" in message


@pytest.mark.parametrize("wrong, words", [
    ({"cluster": {"portals": []}}, "portals"), ({"cluster": {"portals": ["10.0.0.1:70000"]}}, "HOST:PORT"),
    ({"cluster": {"portals": ["h"] * 17}}, "portals"), ({"cluster": {"portals": ["x" * 300]}}, "portals"),
    ({"cluster": {"target": ""}}, "target"), ({"cluster": {"target": "iqn." + "x" * 300}}, "target"),
    ({"cluster": {"initiator": "a b"}}, "initiator"), ({"cluster": {"chapUser": "u"}}, "belong together"),
    ({"node": ""}, "node"), ({"lun": -1}, "lun"), ({"lun": 16384}, "lun"), ({"lun": "1"}, "lun")])
def test_members_that_are_wrong_are_named(wrong, words):
    code, message = error_of("info", "127.0.0.1:1", **({"lun": 1} | wrong))
    assert code == "INVALID_ARGUMENT" and words in message


@pytest.mark.parametrize("text", ["", "[]", f'{{"cluster": {{"chapPassword": "{SECRET}"', "x" * 1_100_000], ids=["empty", "list", "cut", "long"])
def test_a_request_that_is_no_object_is_refused_without_its_content(text):
    result = subprocess.run([PROGRAM, "call"], input=text, capture_output=True, text=True, timeout=30)
    assert result.returncode == 1 and json.loads(result.stdout)["error"]["code"] == "INVALID_ARGUMENT"
    assert SECRET not in result.stdout + result.stderr


def test_holders_name_the_node_that_serves(tgt, writers):
    assert call("holders", tgt.portal, lun=1)["holders"] == []
    writer = writers(tgt.portal, node="node-b")
    holders = call("holders", tgt.portal, lun=1, nodes=["node-b", "node-c"])
    assert [(holder["node"], holder["reserved"]) for holder in holders["holders"]] == [("node-b", True)]
    assert holders["reservation"]["type"] == "WriteExclusive" and not holders["reservation"]["guard"]
    assert call("info", tgt.portal, lun=1)["reserved"] == "used"
    assert writer.quit() == 0
    holders = call("holders", tgt.portal, lun=1, nodes=["node-b"])
    assert holders["holders"] == [] and holders["reservation"]["guard"]
    assert call("info", tgt.portal, lun=1)["reserved"] == "guard"


def test_a_fence_comes_again_without_harm(tgt, writers):
    writers(tgt.portal, node="node-b")
    assert len(call("fence", tgt.portal, lun=1, target="node-b")["keys"]) == 1
    newcomer = writers(tgt.portal, node="node-c")
    for _ in range(3):
        assert call("fence", tgt.portal, lun=1, target="node-b")["keys"] == []
    assert newcomer.ask("write 0 4096 7") == "ok"
    assert [holder["node"] for holder in call("holders", tgt.portal, lun=1, nodes=["node-c"])["holders"]] == ["node-c"]


def test_a_fence_of_another_lun_than_the_recorded_one_is_refused(tgt, writers):
    writer = writers(tgt.portal, node="node-b")
    other = call("info", tgt.portal, lun=2)["identity"]
    assert error_of("fence", tgt.portal, lun=1, target="node-b", identity=other)[0] == "DATA_LOSS"
    assert writer.ask("write 0 4096 7") == "ok"


def test_a_blank_lun_is_claimed_once_and_then_only_served_by_its_cluster(tgt, writers):
    identity = call("info", tgt.portal, lun=1)["identity"]
    members = {"lun": 1, "identity": identity, "size": 16 * MIB}
    assert call("claim", tgt.portal, **members)["reserved"] == "guard"
    assert error_of("claim", tgt.portal, **members)[0] == "ALREADY_EXISTS"
    assert call("claim", tgt.portal, recorded=True, **members)["reserved"] == "guard"
    other = {"owner": "owner-2"}
    assert error_of("claim", tgt.portal, recorded=True, cluster=other, **members)[0] == "FAILED_PRECONDITION"
    assert call("info", tgt.portal, lun=1, cluster=other)["reserved"] == "used"
    assert writers(tgt.portal, cluster=other).began.startswith("failed FAILED_PRECONDITION")
    assert writers(tgt.portal).ask("write 0 4096 1") == "ok"


@pytest.mark.parametrize("member, value, code", [
    ("identity", "naa.somebody-elses", "DATA_LOSS"), ("size", 16 * MIB + 1, "OUT_OF_RANGE"), ("data", b"x", "FAILED_PRECONDITION")])
def test_a_lun_that_does_not_fit_is_not_even_reserved(tgt, member, value, code):
    members = {"lun": 1, "identity": call("info", tgt.portal, lun=1)["identity"], "size": 16 * MIB}
    if member == "data":
        tgt.file(1).write_bytes(bytes(16 * MIB - 1) + value)
    else:
        members[member] = value
    assert error_of("claim", tgt.portal, **members)[0] == code
    assert call("info", tgt.portal, lun=1)["reserved"] == ""
