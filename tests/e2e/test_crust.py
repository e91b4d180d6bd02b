"""Runtime-assisted mounting: a volume's file system is mounted in the pod's sandbox, and not on the host. The tests
named after stories are the six stories of the design. All parts are real: containerd, runc, the shipped driver, loop
devices."""
import contextlib
import json
import os
import time

import pytest
from lib import crust, objects, oci_killer, standalone, who_sees
from lib.crust import events, shell, told
from lib.ended_pods import run_to_end
from lib.standalone import Failure, wait_for

pytestmark = [pytest.mark.crust, pytest.mark.e2e]

MOUNTS = [{"name": "data", "mountPath": "/data"},
          {"name": "data", "mountPath": "/part", "subPath": "some/part"}]


@pytest.fixture(scope="module")
def place():
    with crust.place(berth_flags=["--http-endpoint", "127.0.0.1:0"]) as made:
        yield made


@pytest.fixture
def berth(place):
    return place[0]


@pytest.fixture
def handler(place):
    return place[1]


@pytest.fixture(autouse=True)
def leaves_nothing(berth, handler):
    with crust.leaving_nothing(berth, handler):
        yield


def run(berth, name, claim, **spec):
    """Starts a pod whose script has done its work and keeps running; its log has the script's output."""
    berth.apply(objects.pod(name, spec.pop("script", "true") + "; trap exit TERM; sleep 1000 & wait", [claim],
                            mounts=spec.pop("mounts", [{"name": claim, "mountPath": "/data"}]),
                            **{"runtimeClassName": "sandboxed"} | spec))
    return crust.wait_begun(berth.wait_phase("pods", name, "Running"))


def grow(berth, name, size, storage_class="deferred"):
    made = crust.claim(name, size, storage_class)
    made["spec"]["accessModes"] = berth.get("pvc", name)["spec"]["accessModes"]
    berth.apply(made)


def wait_grown(berth, name, size):
    try:
        wait_for(f"claim {name} to have {size}",
                 lambda: berth.get("pvc", name)["status"]["capacity"]["storage"] == size, seconds=30)
    except Failure as failure:
        raise Failure(f"{failure}\n{berth.describe('pvc', name)}\n{berth.log_tail()}") from None


@contextlib.contextmanager
def other_handler(berth, handler, *flags, last):
    """Restarts the handler with these flags. At the end it restarts it without them, once the pod `last` is gone."""
    handler.stop()
    handler.flags = flags
    handler.start()
    try:
        yield
    finally:
        berth.run("delete", "pods", last, check=False)
        handler.stop()
        handler.flags = []
        handler.start()


def test_story_1_the_sandbox_has_the_file_system(berth, handler):
    berth.apply(crust.claim("data"))
    run(berth, "user", "data", script="echo kept > /data/note; echo beneath > /part/inner; sync /data/note /part/inner", mounts=MOUNTS,
        securityContext={"fsGroup": 4321})
    assert not crust.host_mounts(berth)
    assert "kept" in shell(berth, "user", "cat /data/note")
    assert "beneath" in shell(berth, "user", "cat /data/some/part/inner")
    assert shell(berth, "user", "stat -c '%g %a' /data").split() == ["4321", "2775"]
    assert " xfs " in shell(berth, "user", "grep ' /data ' /proc/mounts")
    [message] = told(berth, "user", "RuntimeAssistedMount")
    assert str(handler.socket) in message
    assert not told(berth, "user", "SandboxMountAccessMode")
    # The node agent's metrics of the volume come from the handler, because the host has no mount to ask.
    stats = wait_for("the volume's metrics", lambda: crust.volume_stats(berth, "data"), seconds=90)
    blocks = [int(field) for field in shell(berth, "user", "df -k /data | tail -1").split()[1:3]]
    assert stats["capacity_bytes"] == blocks[0] * 1024
    assert abs(stats["used_bytes"] - blocks[1] * 1024) < 1 << 20 and stats["inodes_used"] > 0
    # The handler grows the volume under the pod.
    grow(berth, "data", "512Mi")
    wait_grown(berth, "data", "512Mi")
    assert int(shell(berth, "user", "df -m /data | tail -1").split()[1]) > 400
    assert not crust.host_mounts(berth)
    berth.run("delete", "pod", "user")
    wait_for("the device to be free", lambda: not crust.devices(berth))
    # Another sandbox finds the data, and then the host does.
    run(berth, "second", "data")
    assert "kept" in shell(berth, "second", "cat /data/note")
    berth.run("delete", "pod", "second")
    _, said = run_to_end(berth, objects.pod("third", "cat /data/note; grep ' /data ' /proc/mounts", ["data"]))
    assert "kept" in said


def test_story_2_the_handler_lacks_what_the_pod_needs(berth, handler):
    with other_handler(berth, handler, "--capabilities", "VOLUME_STATS,VOLUME_RESIZE", last="modest"):
        berth.apply(crust.claim("data"))
        run(berth, "user", "data", mounts=MOUNTS, securityContext={"fsGroup": 4321})
        assert crust.host_mounts(berth)
        [why] = told(berth, "user", "HostMount")
        assert "fsGroup" in why and "does not apply" in why
        assert shell(berth, "user", "stat -c '%g' /data").strip() == "4321"
        berth.run("delete", "pod", "user")
        run(berth, "parts", "data", mounts=MOUNTS)
        [why] = told(berth, "parts", "HostMount")
        assert "subPath" in why
        berth.run("delete", "pod", "parts")
        # A pod that asks for neither still has its volume in the sandbox.
        run(berth, "modest", "data")
        assert not crust.host_mounts(berth)


def test_story_3_the_runtime_class_names_no_socket(berth):
    berth.apply(crust.claim("data"))
    run(berth, "user", "data", mounts=MOUNTS, runtimeClassName="plain", securityContext={"fsGroup": 4321})
    assert crust.host_mounts(berth)
    [why] = told(berth, "user", "HostMount")
    assert "RuntimeClass 'plain'" in why and "fsMgmtSocket" in why


def test_story_4_the_storage_class_does_not_allow_it(berth):
    berth.apply(crust.claim("data", storage_class="on-host"))
    run(berth, "user", "data", mounts=MOUNTS, securityContext={"fsGroup": 4321})
    assert crust.host_mounts(berth)
    [why] = told(berth, "user", "HostMount")
    assert "StorageClass 'on-host'" in why


def test_story_5_the_handler_does_not_mount_that_file_system(berth, handler):
    with other_handler(berth, handler, "--file-systems", "ext4", last="user"):
        berth.apply(crust.claim("data"))
        run(berth, "user", "data", mounts=MOUNTS, securityContext={"fsGroup": 4321})
        assert crust.host_mounts(berth)
        [why] = told(berth, "user", "HostMount")
        assert "the driver mounted it" in why and "ext4" in why


def test_story_6_the_handler_does_not_grow_file_systems(berth, handler):
    with other_handler(berth, handler, "--capabilities", "FS_GROUP_CHANGE_POLICY_ALWAYS,SUBPATH,VOLUME_STATS", last="user"):
        berth.apply(crust.claim("data"))
        run(berth, "user", "data", script="echo kept > /data/note", mounts=MOUNTS)
        assert not crust.host_mounts(berth)
        grow(berth, "data", "512Mi")
        wait_for("the pod to be told", lambda: told(berth, "user", "VolumeResizeFailed"))
        time.sleep(2)  # several times the first backoff
        [event] = events(berth, "user", "VolumeResizeFailed")
        assert "FAILED_PRECONDITION" in event["message"] and event.get("count", 1) == 1
        assert berth.get("pvc", "data")["status"]["capacity"]["storage"] == "320Mi"
        assert "kept" in shell(berth, "user", "cat /data/note")


def test_the_example_does_what_the_readme_says(berth, handler):
    text = (standalone.ROOT / "examples" / "sandboxed-pod.yaml").read_text()
    # The other tests' classes have the example's names.
    for name in ("sandboxed", "deferred"):
        text = text.replace(f"name: {name}\nhandler", "name: example\nhandler").replace(
            f"name: {name}\nprovisioner", "name: example\nprovisioner").replace(
            f"ClassName: {name}\n", "ClassName: example\n")
    berth.apply(text.replace("/run/berth/crust.sock", str(handler.socket)))
    berth.wait_phase("pods", "sandboxed", "Running")
    assert "only I see it" in shell(berth, "sandboxed", "cat /data/note; ls -d /data/logs/today")
    assert shell(berth, "sandboxed", "stat -c %g /logs").strip() == "2000"
    assert not crust.host_mounts(berth)
    assert "is mounted in the pod's sandbox by the runtime handler" in berth.run("explain", "pod", "sandboxed").stdout


def test_an_ephemeral_container_shares_the_volume(berth, kubectl_of):
    berth.apply(crust.claim("data"))
    run(berth, "user", "data", script="echo kept > /data/note")
    pod = berth.get("pod", "user")
    del pod["metadata"]["resourceVersion"]  # its status may change meanwhile
    pod["spec"]["ephemeralContainers"] = [{
        "name": "look", "image": standalone.IMAGE, "targetContainerName": "main",
        "command": ["/bin/sh", "-c", "cat /see/note; tr '\\0' ' ' </proc/1/cmdline; echo seen > /see/answer"],
        "volumeMounts": [{"name": "data", "mountPath": "/see"}]}]
    kubectl_of(berth)("replace", "--raw", "/api/v1/namespaces/default/pods/user/ephemeralcontainers", "-f", "-",
                      stdin=json.dumps(pod))

    def ended():
        [status] = berth.get("pod", "user")["status"].get("ephemeralContainerStatuses", [{}])
        return status.get("state", {}).get("terminated")
    assert wait_for("the ephemeral container to end", ended)["exitCode"] == 0, berth.describe("pods", "user")
    # The runtime may write the last of what a container said after its end.
    said = wait_for("what it said", lambda: berth.run("logs", "user", "-c", "look").stdout)
    assert "kept" in said and "sleep 1000" in said  # the volume's file, and its target's first process
    assert shell(berth, "user", "cat /data/answer").strip() == "seen"
    assert berth.get("pod", "user")["status"]["phase"] == "Running"
    assert not crust.host_mounts(berth)


def test_a_writer_whose_claim_others_may_have_is_warned(berth):
    berth.apply(crust.claim("data", mode="ReadWriteOnce"))
    run(berth, "user", "data")
    [why] = told(berth, "user", "SandboxMountAccessMode")
    assert "ReadWriteOncePod" in why


def test_a_cluster_says_which_access_modes_claims_of_sandboxed_pods_may_have(berth, handler):
    """The API refuses the pod if the claim is there, and the node's agent if the claim comes later."""
    strict = crust.runtime_class("strict", handler.socket)
    strict["metadata"]["annotations"] = {"storage.berth.dev/sandbox-access-modes": "ReadWriteOncePod"}
    berth.apply([strict, crust.claim("shared", mode="ReadWriteOnce")])

    def pod(name, claim):
        return objects.pod(name, "sleep 1000", [claim], mounts=[{"name": claim, "mountPath": "/data"}],
                           runtimeClassName="strict")
    with pytest.raises(Failure) as refused:
        berth.apply(pod("early", "shared"))
    assert "claim 'shared' has access mode ReadWriteOnce" in str(refused.value)
    assert "may only have ReadWriteOncePod" in str(refused.value)
    berth.apply(pod("late", "later"))
    berth.apply(crust.claim("later", mode="ReadWriteOnce"))
    why = wait_for("the node's agent to refuse the pod", lambda: told(berth, "late", "FailedMount"))[0]
    assert "claim 'later' has access mode ReadWriteOnce" in why
    assert "claim 'later' has access mode ReadWriteOnce" in berth.run("explain", "pod", "late", check=False).stdout
    berth.apply([crust.claim("alone"), pod("allowed", "alone")])
    berth.wait_phase("pods", "allowed", "Running")
    berth.run("delete", "runtimeclass", "strict")


def test_each_volume_of_a_pod_is_decided_for_itself(berth):
    """One volume is mounted in the sandbox, one on the host, and one is a raw block volume."""
    berth.apply([crust.claim("data"), crust.claim("logs", storage_class="on-host"),
                 objects.claim("raw", "64Mi", "deferred", block=True)])
    pod = objects.pod("user", "echo kept > /data/note; echo kept > /logs/note; sleep 1000", ["data", "logs", "raw"],
                      mounts=[{"name": one, "mountPath": f"/{one}"} for one in ("data", "logs")],
                      devices=[{"name": "raw", "devicePath": "/dev/raw-volume"}], runtimeClassName="sandboxed")
    berth.apply(pod)
    berth.wait_phase("pods", "user", "Running")
    assert any("/pods/" in point for point in crust.host_mounts(berth, "logs"))
    assert not crust.host_mounts(berth, "data")
    assert "kept" in wait_for("the data", lambda: shell(berth, "user", "cat /data/note /logs/note; true"))
    assert shell(berth, "user", "dd if=/dev/zero of=/dev/raw-volume bs=4096 count=1 conv=fsync 2>&1; echo $?").endswith("0\n")
    assert "volume 'data': its xfs is mounted in the pod's sandbox" in "".join(told(berth, "user", "RuntimeAssistedMount"))
    why = "\n".join(told(berth, "user", "HostMount"))
    assert "volume 'logs'" in why and "does not allow it" in why
    assert "volume 'raw'" in why and "raw block" in why
    said = berth.run("explain", "pod", "user").stdout
    assert "its xfs is mounted in the pod's sandbox" in said and "'logs' is mounted by the host" in said


def test_two_pods_that_only_read_share_a_volume(berth):
    """Each pod has a sandbox of its own, with mounts of the same file system."""
    berth.apply(crust.claim("data", mode="ReadWriteOnce"))
    run(berth, "maker", "data", script="echo kept > /data/note")
    berth.run("delete", "pod", "maker")
    for name in ("one", "two"):
        berth.apply(objects.pod(name, "cat /data/note; touch /data/x || echo refused; sleep 1000", ["data"],
                                mounts=[{"name": "data", "mountPath": "/data"}], read_only=["data"],
                                runtimeClassName="sandboxed"))
    for name in ("one", "two"):
        berth.wait_phase("pods", name, "Running")
        # The order of a line of standard output and one of standard error is not certain.
        wait_for("what the pod read, and that it cannot write",
                 lambda: {"kept", "refused"} <= set(berth.run("logs", name).stdout.splitlines()))
        assert not told(berth, name, "SandboxMountAccessMode")
    assert not crust.host_mounts(berth)
    berth.run("delete", "pod", "one")
    assert "kept" in shell(berth, "two", "cat /data/note")


@pytest.mark.parametrize("name", ["ext4", "btrfs"])
def test_other_file_systems_are_deferred_too(berth, name):
    berth.apply(crust.claim("data", storage_class=f"of-{name}"))
    run(berth, "user", "data", script="echo kept > /data/note", mounts=MOUNTS)
    assert not crust.host_mounts(berth)
    assert f" {name} " in shell(berth, "user", "grep ' /data ' /proc/mounts")


def test_a_handler_that_is_away_is_waited_for(berth, handler):
    handler.stop()
    berth.apply(crust.claim("data"))
    berth.apply(objects.pod("user", "sleep 1000", ["data"], runtimeClassName="sandboxed"))
    wait_for("the pod to be told", lambda: told(berth, "user", "FailedMount"))
    assert any(str(handler.socket) in message for message in told(berth, "user", "FailedMount"))
    assert not crust.host_mounts(berth)
    handler.start()
    berth.wait_phase("pods", "user", "Running")
    assert not crust.host_mounts(berth)


def test_node_agent_and_handler_start_anew_under_a_pod(berth, handler):
    berth.apply(crust.claim("data"))
    run(berth, "user", "data", script="echo kept > /data/note")
    handler.kill()
    berth.kill()
    berth.start()
    handler.start()
    wait_for("the node's streams", lambda: berth.run("exec", "user", "--", "true", check=False).returncode == 0)
    assert "kept" in shell(berth, "user", "cat /data/note; echo more >> /data/note")
    # Work that needs the handler goes on.
    grow(berth, "data", "512Mi")
    wait_grown(berth, "data", "512Mi")
    berth.run("delete", "pod", "user")
    run(berth, "second", "data")
    assert "more" in shell(berth, "second", "cat /data/note")


def test_a_pod_that_never_restarts_outlives_a_handler_that_dies_at_its_container(berth, handler, tmp_path):
    handler.stop()
    handler.start(env={"BERTH_FAULTS": "crust.graft=crash", "BERTH_FAULT_ONCE": str(tmp_path)})
    berth.apply([crust.claim("data"), objects.pod(
        "user", "echo kept > /data/note; sleep 1000", ["data"], runtimeClassName="sandboxed")])
    handler.process.wait(30)
    handler.start()
    berth.wait_phase("pods", "user", "Running")
    assert not told(berth, "user", "Failed")
    assert not crust.host_mounts(berth)
    wait_for("the data", lambda: "kept" in shell(berth, "user", "cat /data/note; true"))


def of_three(name):
    """Gives a pod whose three containers share a volume."""
    claim = f"data-{name}"
    pod = objects.pod(name, "", [claim], runtimeClassName="sandboxed", restart="Always")
    main = pod["spec"]["containers"][0]
    shared = [{"name": claim, "mountPath": "/data"}, {"name": claim, "mountPath": "/part", "subPath": "some/part"}]
    pod["spec"]["containers"] = [main | {"name": one, "volumeMounts": shared, "command": [
        "/bin/sh", "-c", f"echo {one} > /part/{one}; trap exit TERM; sleep 1000 & wait"]} for one in "abc"]
    return pod


def test_berth_oci_is_killed_while_it_creates(berth, handler):
    """berth-oci is killed at each of its steps, in creates of sandboxes and of containers. The sandboxes and containers
    that are made in their place have the volume, and the volume is nowhere else."""
    names = ["one", "two", "three"]
    with oci_killer.OciKiller(handler) as killer:
        killer.die_at("sandbox", oci_killer.OF_SANDBOX)
        killer.die_at("container", oci_killer.CALLS)
        berth.apply([crust.claim(f"data-{name}") for name in names] + [of_three(name) for name in names])
        for name in names:
            berth.wait_phase("pods", name, "Running")
        wait_for("all containers to run", lambda: all(
            status["ready"] for name in names for status in berth.get("pods", name)["status"]["containerStatuses"]))
        assert not killer.left()
    assert not crust.host_mounts(berth)
    # The handler finds by itself that a sandbox has ended whose berth-oci was killed.
    wait_for("the sandboxes that were given up to go", lambda: len(handler.records()) == len(handler.holders()) == len(names))
    for name in names:
        assert shell(berth, name, "cd /part && cat a b c", ["-c", "c"]) == "a\nb\nc\n"
        assert " xfs " in shell(berth, name, "grep ' /data ' /proc/mounts", ["-c", "a"])


def test_berth_oci_is_killed_while_it_deletes(berth, handler):
    """berth-oci is killed at each of its steps. The handler finds by itself that the sandbox has ended."""
    names = ["one", "two", "three"]
    berth.apply([crust.claim(f"data-{name}") for name in names] + [of_three(name) for name in names])
    for name in names:
        berth.wait_phase("pods", name, "Running")
    with oci_killer.OciKiller(handler) as killer:
        killer.die_at("delete", oci_killer.OF_SANDBOX)
        berth.run("delete", "pods", *names)
        assert not killer.left()
        wait_for("the devices to be free", lambda: not crust.devices(berth))
        wait_for("the handler to know no sandbox", lambda: not handler.records())


def test_containerd_is_killed_under_a_pod(berth, handler, place):
    """The pod goes on, and a pod that was applied meanwhile runs later."""
    berth.apply([crust.claim("data"), crust.claim("other")])
    slow = "echo kept > /data/note; trap 'sleep 1; exit' TERM; sleep 1000 & wait"
    run(berth, "user", "data", script=slow, mounts=MOUNTS)
    since = berth.get("pods", "user")["status"]["containerStatuses"][0]["containerID"]
    runtime = place[2]
    runtime.kill()
    berth.apply(objects.pod("late", "echo late > /other/note; sleep 1000", ["other"], runtimeClassName="sandboxed"))
    grow(berth, "data", "512Mi")
    wait_grown(berth, "data", "512Mi")
    runtime.start()
    berth.wait_phase("pods", "late", "Running")
    assert "kept" in shell(berth, "user", "cat /data/note; ls -d /part; echo more >> /data/note; sync /data/note")
    assert int(shell(berth, "user", "df -m /data | tail -1").split()[1]) > 400
    assert berth.get("pods", "user")["status"]["containerStatuses"][0]["containerID"] == since
    assert not crust.host_mounts(berth)
    # containerd is also killed while it waits for a container to end.
    berth.run("delete", "pod", "user", "--wait=false")
    runtime.kill()
    runtime.start()
    berth.wait_gone("pods", "user")
    run(berth, "second", "data")
    assert "more" in shell(berth, "second", "cat /data/note")
    assert not crust.host_mounts(berth)


def test_a_file_system_that_fails_in_the_sandbox_is_told(berth):
    """The handler reports it, because only the handler can look at the file system. The next pod finds the data from
    before."""
    berth.apply(crust.claim("data"))
    run(berth, "user", "data", script="echo kept > /data/note; sync /data/note")
    crust.shut_down(berth.get("pods", "user"), "/data")
    message, = wait_for("the event", lambda: told(berth, "user", "VolumeConditionAbnormal"), seconds=90)
    assert "Volume data: the file system has failed" in message
    berth.run("delete", "pod", "user")
    run(berth, "second", "data")
    assert "kept" in shell(berth, "second", "cat /data/note; echo more >> /data/note; sync /data/note")


def test_the_host_never_sees_the_volume(berth, handler):
    """Watches all mount namespaces during the pod's life. No other pod sees the volume either, with or without a
    sandbox."""
    host = os.readlink("/proc/self/ns/mnt")
    berth.apply([crust.claim("data"), crust.claim("other")])
    run(berth, "neighbour", "other")
    berth.apply(objects.pod("plain", "sleep 1000"))
    berth.wait_phase("pods", "plain", "Running")
    others, devices = set(crust.cgroups()), set(crust.devices(berth))

    def allowed(sighting):
        if sighting.namespace == host or any(other in sighting.cgroups for other in others):
            return False
        return who_sees.is_of_sandbox(sighting, handler, r"/k8s\.io/[0-9a-f]{64}")

    with who_sees.Watch(lambda: set(crust.devices(berth)) - devices, allowed) as watch:
        run(berth, "user", "data", script="echo kept > /data/note; sync /data/note", mounts=MOUNTS,
            securityContext={"fsGroup": 4321})
        shell(berth, "user", "ls /data")
        wait_for("some looks at a pod that runs", lambda: watch.seen > 3)
        berth.run("delete", "pod", "user")
    assert watch.looks > 3 and watch.seen > 3
    assert not watch.strange, "\n".join(watch.strange.values())


@pytest.mark.parametrize("case", ["symlink", "dots"])
def test_a_sub_path_does_not_lead_out(berth, case):
    berth.apply(crust.claim("data"))
    run(berth, "maker", "data", script="ln -s /etc /data/out; mkdir /data/in")
    berth.run("delete", "pod", "maker")
    path = {"symlink": "out/ssl", "dots": "$(UP)/etc"}[case]
    mount = {"name": "data", "mountPath": "/part"} | (
        {"subPathExpr": path} if case == "dots" else {"subPath": path})
    berth.apply(objects.pod("user", "sleep 1000", ["data"], mounts=[mount], runtimeClassName="sandboxed",
                            container={"env": [{"name": "UP", "value": ".."}]}))
    wait_for("the container to be refused", lambda: told(berth, "user", "Failed"))
    assert not crust.host_mounts(berth)
    assert not told(berth, "user", "Started")
