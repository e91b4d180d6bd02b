"""Every orderly end is soon over, whatever streams, calls and mounts are open; it leaves no socket, and a successor starts.

The product's own bound is ten seconds. The tests allow more, because they run beside others, and print the time.
"""
import contextlib
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import grpc
import pytest
from lib import block_agent, csi_bed, fuse_double, mounts, objects
from lib.crust import Handler
from lib.csi_double import NAME, CsiDouble
from lib.kubectl import installed, watching
from lib.mount_pod import MountPod
from lib.proto_messages import csi
from lib.roles import Role, kubeconfig_of
from lib.shims import Shims
from lib.standalone import BINARY, wait_for

pytestmark = [pytest.mark.security, pytest.mark.e2e]

PATIENCE = 60
needs_kubectl = pytest.mark.skipif(not installed(), reason="kubectl is not here: ./dev setup fetches it")


def end(process, what):
    """Ends a process by SIGTERM, and tells how long that took."""
    begin = time.monotonic()
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        pytest.fail(f"{what} did not end within {PATIENCE} s of SIGTERM")
    print(f"{what} ended {time.monotonic() - begin:.2f} s after SIGTERM")


def expect_no_socket(folder):
    """Lock files stay: who waits for the lock of a removed file would hold it beside the owner of the next file."""
    assert not [path for path in folder.rglob("*") if path.is_socket()], "who ended left its socket"


@contextlib.contextmanager
def half_sent(path):
    """Sends a part of a request to a UNIX socket."""
    with socket.socket(socket.AF_UNIX) as connection:
        # The file is there before anybody listens on it.
        wait_for("a listener", lambda: connection.connect_ex(str(path)) == 0)
        connection.sendall(b"POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\n"
                           b"Host: x\r\nContent-Length: 99\r\n\r\n{")
        yield


@contextlib.contextmanager
def command(*words):
    process = subprocess.Popen(list(map(str, words)), stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                               stderr=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.fixture(scope="module")
def pods_to_stream(module_berth):
    """Gives a Berth with a pod that talks, one that listens and one that talks without end. One Berth serves all
    streams, because the successor that each test starts finds the pods running."""
    module_berth.apply(objects.pod("talker", "while :; do echo tick; sleep 0.2; done"))
    module_berth.apply(objects.pod("quiet", "cat; sleep 1000", container={"stdin": True}))
    module_berth.apply(objects.pod("flood", "while :; do head -c 1000000 /dev/zero; echo; sleep 0.01; done"))
    for name in ("talker", "quiet", "flood"):
        module_berth.wait_phase("pod", name, "Running")
    return module_berth


@pytest.fixture
def end_of(pods_to_stream, kubectl_of):
    """Gives the Berth of these pods, and kubectl for it."""
    berth = pods_to_stream
    if berth.process is None:  # an earlier test failed before it had started the successor
        berth.start()
    for name in ("talker", "quiet", "flood"):
        wait_for(f"pod {name} to be reached", lambda: berth.run("exec", name, "--", "true", check=False).returncode == 0)
    return berth, kubectl_of(berth)


@contextlib.contextmanager
def kubectl_holds(kubectl, *words, ready=None):
    with watching(kubectl, *words) as line_with:
        if ready:
            line_with(ready)
        yield


@contextlib.contextmanager
def gone(kubectl, *words, ready=None):
    """As kubectl_holds, but the client is killed before."""
    with kubectl_holds(kubectl, *words, ready=ready):
        pass
    yield


@contextlib.contextmanager
def stopped(kubectl, *words):
    """A client that takes no more of what comes, and holds its connection."""
    with subprocess.Popen(kubectl.command(*words), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          env=kubectl.environment()) as process:
        process.stdout.read(1)
        process.send_signal(signal.SIGSTOP)
        try:
            yield process
        finally:
            process.kill()


@contextlib.contextmanager
def stopped_and_gone(kubectl, *words):
    with stopped(kubectl, *words):
        pass
    yield


@contextlib.contextmanager
def forwarded(kubectl):
    with watching(kubectl, "port-forward", "talker", ":80") as line_with:
        port = int(line_with("Forwarding from 127.0.0.1").split("127.0.0.1:")[1].split()[0])
        with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
            connection.sendall(b"x")
            yield


STREAMS = {
    "exec": lambda k: kubectl_holds(k, "exec", "talker", "--", "sh", "-c", "echo on; sleep 1000", ready="on"),
    "exec-gone": lambda k: gone(k, "exec", "talker", "--", "sh", "-c", "echo on; sleep 1000", ready="on"),
    "attach": lambda k: kubectl_holds(k, "attach", "talker", ready="tick"),
    "attach-gone": lambda k: gone(k, "attach", "talker", ready="tick"),
    "attach-quiet-gone": lambda k: gone(k, "attach", "quiet", ready="If you don't see a command prompt"),
    "attach-stdin": lambda k: kubectl_holds(k, "attach", "-i", "quiet"),
    "attach-stopped": lambda k: stopped(k, "attach", "flood"),
    "attach-stopped-gone": lambda k: stopped_and_gone(k, "attach", "flood"),
    "logs": lambda k: kubectl_holds(k, "logs", "-f", "talker", ready="tick"),
    "logs-gone": lambda k: gone(k, "logs", "-f", "talker", ready="tick"),
    "port-forward": forwarded,
    "watch": lambda k: kubectl_holds(k, "get", "pods", "--watch", ready="talker"),
}


@needs_kubectl
@pytest.mark.parametrize("kind", STREAMS)
def test_a_stream_keeps_no_berth_from_ending(end_of, kind):
    berth, kubectl = end_of
    with STREAMS[kind](kubectl):
        process, berth.process = berth.process, None
        end(process, f"'berth up' with {kind}")
    berth.start()


def test_a_half_sent_request_keeps_no_berth_from_ending(berth):
    with half_sent(berth.data / "api.sock"):
        process, berth.process = berth.process, None
        end(process, "'berth up' with a half-sent request")
    expect_no_socket(berth.data)
    berth.start()


@contextlib.contextmanager
def hung_call(bed, method):
    bed.double.be_wrong(f"hangs:{method}")
    bed.berth.apply(objects.claim("held", "64Mi", csi_bed.CLASS))
    if method != "CreateVolume":
        bed.bound("held")
        bed.ask_mount("held")
    wait_for(f"{method} to hang", lambda: bed.double.calls(method))
    yield


@contextlib.contextmanager
def mount_in_progress(bed):
    """'berth mount' itself waits, for a driver that hangs."""
    bed.double.be_wrong("hangs:NodePublishVolume")
    bed.claim("held")
    bed.bound("held")
    with command(BINARY, "mount", "--data", bed.berth.data, "held", bed.folder / "on-held", "--timeout", "600"):
        wait_for("the call to hang", lambda: bed.double.calls("NodePublishVolume"))
        yield


@contextlib.contextmanager
def hung_mount(bed):
    """The place at which a volume is to be mounted hangs."""
    fuse = fuse_double.FuseDouble(bed.folder / "fuse", bed.folder / "on-fuse").start()
    try:
        fuse.be_wrong("hangs")
        bed.claim("held")
        bed.bound("held")
        bed.berth.run("mount", "held", fuse.mount_point / "inside", "--timeout", "1", check=False)
        wait_for("the host mount", lambda: bed.berth.items("hostmounts"))
        yield
    finally:
        fuse.be_wrong()
        fuse.stop()


CALLS = {
    "CreateVolume": lambda bed: hung_call(bed, "CreateVolume"),
    "NodeStageVolume": lambda bed: hung_call(bed, "NodeStageVolume"),
    "NodePublishVolume": lambda bed: hung_call(bed, "NodePublishVolume"),
    "berth-mount": mount_in_progress,
    "hung-mount": hung_mount,
}


@pytest.mark.parametrize("kind", CALLS)
def test_what_hangs_keeps_no_berth_from_ending(kind):
    with csi_bed.made() as bed:
        with CALLS[kind](bed):
            process, bed.berth.process = bed.berth.process, None
            end(process, f"'berth up' with {kind}")
        bed.double.be_wrong()
        bed.start_berth()


@pytest.fixture
def folder():
    folder = pathlib.Path(tempfile.mkdtemp(prefix="bt-", dir="/var/tmp"))
    yield folder
    mounts.unmount_below(folder)
    shutil.rmtree(folder, ignore_errors=True)


def test_a_hung_driver_keeps_no_controller_from_ending(berth, known_double, start):
    berth.apply([objects.storage_class("double", binding="Immediate", provisioner=NAME),
                 objects.claim("held", "1Mi", "double")])
    known_double.be_wrong("hangs:CreateVolume")
    command_line = ["controller", "--roles", "provisioner,attacher,resizer", "--csi-address", known_double.socket,
                    "--kubeconfig", berth.data / "kubeconfig", "--provisioner-timeout", "120s"]
    role = start(*command_line)
    wait_for("CreateVolume to hang", lambda: known_double.calls("CreateVolume") or role.process.poll() is not None)
    assert role.process.poll() is None, role.log()
    end(role.process, "'berth controller' with a hung CreateVolume")
    known_double.be_wrong()
    start(*command_line)  # a successor finishes the call whose outcome is unknown
    berth.wait_phase("pvc", "held", "Bound")
    berth.remove_everything()


def test_a_hung_driver_keeps_no_registrar_from_ending(folder):
    double = CsiDouble(folder / "double")
    double.folder.mkdir(exist_ok=True)
    double.be_wrong("hangs:GetPluginInfo")
    double.start()
    role = Role(folder / "role.log", "node", "--roles", "registrar,liveness", "--csi-address", double.socket,
                "--kubelet-registration-path", double.socket, "--plugin-registration-path", folder,
                "--http-endpoint", "127.0.0.1:0")
    try:
        wait_for("the call to hang", lambda: double.calls("GetPluginInfo") or role.process.poll() is not None)
        end(role.process, "'berth node --roles registrar,liveness' with a hung driver")
    finally:
        role.stop()
        double.be_wrong()
        double.stop()


def test_a_silent_connection_keeps_no_csi_driver_from_ending(folder):
    role = Role(folder / "role.log", "csi-driver", "--node-id", "n", "--pool", folder / "pool", "--endpoint",
                folder / "csi.sock")
    try:
        wait_for("the driver to listen", (folder / "csi.sock").exists)
        with half_sent(folder / "csi.sock"):
            end(role.process, "'berth csi-driver' with a half-sent request")
        expect_no_socket(folder)
    finally:
        role.stop()


def test_a_silent_connection_keeps_no_crust_handler_from_ending(folder):
    handler = Handler(folder / "h").start()
    try:
        wait_for("the handler to listen", lambda: handler.socket.exists() and (handler.folder / "oci.sock").exists())
        with half_sent(handler.socket), half_sent(handler.folder / "oci.sock"):
            process, handler.process = handler.process, None
            end(process, "'berth crust-handler' with half-sent requests")
        expect_no_socket(folder)
    finally:
        handler.clear()


def test_an_api_that_hangs_keeps_no_crust_proxy_from_ending(folder, silent_api):
    double = CsiDouble(folder / "double").start()
    role = Role(folder / "role.log", "crust-proxy", "--endpoint", folder / "proxy.sock", "--csi-address", double.socket,
                "--node-name", "node-a", "--data", folder / "data", "--kubelet", folder / "kubelet", "--kubeconfig", silent_api[1])
    stage = csi.NodeStageVolumeRequest(volume_id="held", staging_target_path=str(folder / "staging"))
    stage.volume_capability.mount.SetInParent()
    try:
        wait_for("the proxy to listen", lambda: (folder / "proxy.sock").exists() or role.process.poll() is not None)
        assert role.process.poll() is None, role.log()
        with grpc.insecure_channel(f"unix:{folder}/proxy.sock") as channel, half_sent(folder / "proxy.sock"):
            asked = channel.unary_unary("/csi.v1.Node/NodeStageVolume").future(stage.SerializeToString(), timeout=60)
            connection, _ = silent_api[0].accept()  # it asks which pods use the volume
            with connection:
                end(role.process, "'berth crust-proxy' that asks an API that hangs")
            asked.cancel()
        assert not double.calls("NodeStageVolume")
    finally:
        role.stop()
        double.stop()


def test_a_silent_connection_keeps_no_block_agent_from_ending(berth, folder):
    block_agent.define_kinds(berth)
    agent = block_agent.BlockAgent(berth, "node-a", folder / "data", folder)
    try:
        agent.start()
        wait_for("the agent to listen", lambda: agent.socket.exists() or agent.process.poll() is not None)
        with half_sent(agent.socket):
            end(agent.process, "'berth block-agent' with a half-sent request")
        expect_no_socket(folder)
    finally:
        agent.kill()


def test_an_api_that_hangs_keeps_no_block_agent_from_ending(berth, folder, silent_api):
    agent = block_agent.BlockAgent(berth, "node-a", folder / "data", folder, kubeconfig=silent_api[1])
    try:
        agent.start()
        connection, _ = silent_api[0].accept()
        with connection:
            end(agent.process, "'berth block-agent' whose API is silent")
    finally:
        agent.kill()


@pytest.mark.parametrize("role", ["io-proxy", "utilities"])
def test_a_silent_connection_keeps_no_role_of_a_node_from_ending(folder, runtime, role):
    command_line, path = {
        "io-proxy": (["io-proxy", "--folder", folder / "proxy"], folder / "proxy" / "sock"),
        "utilities": (["node", "--roles", "utilities", "--kubelet-dir", folder / "kubelet", "--utility-socket",
                       folder / "utilities.sock", "--container-runtime-endpoint", f"unix://{runtime}"],
                      folder / "utilities.sock"),
    }[role]
    process = Role(folder / "role.log", *command_line)
    try:
        wait_for("the role to listen", lambda: path.exists() or process.process.poll() is not None)
        assert path.exists(), process.log()
        with half_sent(path):
            end(process.process, f"'berth {role}' with a half-sent request")
        expect_no_socket(folder)
    finally:
        process.stop()


def test_an_agent_that_is_silent_keeps_no_shim_from_ending(folder):
    """A mount utility on the host is a shim, which waits for the agent as long as the utility runs."""
    shims = Shims(folder).install("--plugin", "example.com/test", "mount.silent")
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(shims.socket))
        silent.listen()
        silent.settimeout(PATIENCE)
        shim = subprocess.Popen([shims.sbin / "mount.silent", "server:/v", folder / "target"],
                                stdin=subprocess.DEVNULL, env=os.environ | {"BERTH_SHIMS": str(shims.records)})
        try:
            connection, _ = silent.accept()
            with connection:
                assert connection.recv(1), "the shim has asked"
                end(shim, "'berth-shim' whose agent is silent")
            assert shim.returncode != 0, "the utility has not done its work"
        finally:
            shim.kill()
            shim.wait()


def test_a_mount_pod_without_mounts_ends(folder):
    pod = MountPod(folder)
    try:
        pod.start()
        pod.wait_for_log("registered for")
        begin = time.monotonic()
        pod.signal(signal.SIGTERM)
        assert pod.wait() == 0
        print(f"'berth-init' ended {time.monotonic() - begin:.2f} s after SIGTERM")
    finally:
        pod.stop()


@pytest.fixture
def silent_api(folder):
    """Gives an API that takes connections and is silent, as (its socket, a kubeconfig for it)."""
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(folder / "api.sock"))
        silent.listen(64)
        silent.settimeout(PATIENCE)
        yield silent, kubeconfig_of(folder / "kubeconfig", folder / "api.sock")


def test_an_api_that_hangs_keeps_no_node_from_ending(folder, runtime, silent_api):
    role = Role(folder / "role.log", "node", "--data", folder / "data", "--node-name", "node-b", "--kubeconfig",
                silent_api[1], "--container-runtime-endpoint", f"unix://{runtime}")
    try:
        wait_for("the node to run", lambda: "node 'node-b' runs" in role.log() or role.process.poll() is not None)
        assert role.process.poll() is None, role.log()
        end(role.process, "'berth node' whose API is silent")
    finally:
        role.stop()


def test_a_command_that_cannot_end_does_not_say_that_it_succeeded(folder, silent_api):
    """It has not done what it was called for, which a script learns from its exit code alone."""
    silent, kubeconfig = silent_api
    asking = Role(folder / "role.log", "get", "pods", "--kubeconfig", kubeconfig)
    try:
        connection, _ = silent.accept()
        with connection:
            end(asking.process, "'berth get' whose API is silent")
        assert asking.process.returncode == 128 + signal.SIGTERM, asking.log()
    finally:
        asking.stop()
