"""What is wrong with a cluster is told in time, and the key is told nowhere."""
import pathlib
import socket

import pytest
from lib.export import Export
from lib.rbd import PROGRAM, CallError, begin, finish

pytestmark = pytest.mark.storage


def failure_of(ceph, **other):
    """The failure of a check with other settings."""
    with pytest.raises(CallError) as raised:
        ceph.call("check", cluster=ceph.settings(**other))
    assert ceph.users["berth"] not in raised.value.message
    return raised.value


def test_a_good_cluster_passes(ceph):
    assert ceph.call("check") == {}


def test_a_monitor_that_is_not_there(ceph):
    # This address is for documentation, so that nobody answers.
    assert failure_of(ceph, monitors=["192.0.2.1:6789"]).code == "UNAVAILABLE"


def test_a_monitor_that_accepts_and_says_nothing(ceph):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        assert failure_of(ceph, monitors=[f"127.0.0.1:{silent.getsockname()[1]}"]).code == "UNAVAILABLE"


def test_one_monitor_of_two_is_enough(ceph):
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    assert ceph.call("check", cluster=ceph.settings(monitors=[f"127.0.0.1:{port}", ceph.monitor])) == {}


def test_a_wrong_key(ceph):
    failure = failure_of(ceph, key=ceph.users["plain"])
    assert failure.code == "PERMISSION_DENIED"
    assert "client.berth" in failure.message
    assert ceph.users["plain"] not in failure.message


def test_a_key_that_is_none(ceph):
    assert failure_of(ceph, key="c2VjcmV0").code in ("INVALID_ARGUMENT", "PERMISSION_DENIED")


def test_a_user_that_is_not_there(ceph):
    with pytest.raises(CallError) as raised:
        ceph.call("check", cluster=ceph.settings() | {"user": "nobody"})
    assert raised.value.code == "PERMISSION_DENIED"


def test_a_pool_and_a_namespace_that_are_not_there(ceph):
    failure = failure_of(ceph, pool="absent")
    assert (failure.code, "'absent'" in failure.message) == ("NOT_FOUND", True)
    assert failure_of(ceph, namespace="absent").code == "NOT_FOUND"


def test_a_pool_that_the_user_may_not_use(ceph):
    ceph.ask('{"prefix": "osd pool create", "pool": "others", "pg_num": 1}')
    assert failure_of(ceph, pool="others").code == "PERMISSION_DENIED"


def test_the_key_is_in_neither_arguments_nor_environment(ceph):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        process = begin(ceph.request("check", cluster=ceph.settings(monitors=[f"127.0.0.1:{port}"])))
        silent.settimeout(30)
        silent.accept()  # so it has read its request
        folder = pathlib.Path(f"/proc/{process.pid}")
        for name in ("cmdline", "environ"):
            assert ceph.users["berth"].encode() not in (folder / name).read_bytes()
        with pytest.raises(CallError):
            finish(process)


def failed_serve(ceph, folder, **cluster):
    """The failure of a process that is to serve an image."""
    return Export(folder / "export", PROGRAM, {"cluster": ceph.settings(**cluster), "node": "n1", "image": "none"}).failure()


@pytest.fixture
def frozen_osd(ceph):
    """Gives a function that freezes the cluster's one OSD until the test ends."""
    yield lambda: ceph.inside("pkill", "-STOP", "-x", "ceph-osd")
    ceph.inside("pkill", "-CONT", "-x", "ceph-osd")


def test_a_process_that_serves_does_not_wait_for_an_osd_that_hangs(ceph, tmp_path, frozen_osd):
    """A namespace is looked for in the OSDs while the connection is made."""
    frozen_osd()
    assert failed_serve(ceph, tmp_path, namespace="tenant")["code"] == "DEADLINE_EXCEEDED"
