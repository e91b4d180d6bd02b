"""Berth in place of the CSI sidecars: roles against an API, the registrar, probes. Leader election is in
test_leaders.py."""
import os
import socket
import subprocess
import time

import pytest
import yaml

from lib import objects
from lib.csi_double import NAME, CsiDouble
from lib.kubernetes.programs import free_port
from lib.roles import LEASE, kubeconfig_of
from lib.standalone import BINARY, ROOT, wait_for

pytestmark = [pytest.mark.e2e, pytest.mark.csi]

ROLES = ["provisioner", "attacher", "resizer"]
# Further seconds for which the API stays away after the leaders have noticed.
API_AWAY = int(os.environ.get("BERTH_API_AWAY", 0))


@pytest.fixture
def double(short):
    double = CsiDouble(short / "d").start()
    yield double
    double.stop()


def wait_bound(berth, name):
    berth.wait_phase("pvc", name, "Bound")


def test_a_sidecars_name_takes_its_flags_and_does_its_work(berth, known_double, start):
    """A vendor's container runs Berth in place of csi-provisioner, with the flags of csi-provisioner."""
    berth.apply(objects.storage_class("double", binding="Immediate", provisioner=NAME))
    role = start("csi-provisioner", f"--csi-address={known_double.socket}", "--kubeconfig", berth.data / "kubeconfig", "-v=5",
                 "--feature-gates=Topology=true", "--timeout=60s", "--http-endpoint=127.0.0.1:0",
                 "--volume-name-prefix=vol", "--enable-pprof", "--node-deployment=false")
    berth.apply(objects.claim("one", "1Mi", "double"))
    wait_bound(berth, "one")
    assert berth.get("pvc", "one")["spec"]["volumeName"].startswith("vol-")
    code, metrics = role.get("/metrics")
    assert code == 200
    assert (f'csi_sidecar_operations_seconds_count{{driver_name="{NAME}",grpc_status_code="OK",'
            'method_name="/csi.v1.Controller/CreateVolume"} 1') in metrics
    for name in ("cpu_seconds_total", "max_fds", "open_fds", "resident_memory_bytes", "start_time_seconds",
                   "virtual_memory_bytes", "virtual_memory_max_bytes"):
        assert f"\nprocess_{name} " in metrics
    assert role.get("/healthz/leader-election")[0] == 404, "without leader election, as with Go's"
    assert "-enable-pprof has no effect" in role.log()
    berth.remove_everything()  # as long as there is a provisioner
    assert role.stop() == 0


def test_the_provisioner_prefers_the_variable_kubeconfig(berth, tmp_path):
    ended = subprocess.run(["csi-provisioner", f"--csi-address={tmp_path}/none", "--kubeconfig", berth.data / "kubeconfig"],
                           executable=BINARY, env=os.environ | {"KUBECONFIG": f"{tmp_path}/of-variable"},
                           stderr=subprocess.PIPE, text=True, timeout=60)
    assert ended.returncode == 255 and "of-variable" in ended.stderr, ended.stderr


def test_an_absent_api_and_an_absent_driver_end_nothing(berth, known_double, start, tmp_path):
    kubeconfig = kubeconfig_of(tmp_path / "kubeconfig", berth.data / "api.sock")
    berth.apply(objects.storage_class("double", binding="Immediate", provisioner=NAME))
    role = start("controller", f"--roles={','.join(ROLES)}", "--csi-address", known_double.socket, "--kubeconfig",
                 kubeconfig, *LEASE)
    wait_for("it to lead", lambda: role.log().count("is ours: working") == len(ROLES))
    berth.stop()
    wait_for("it to pause", lambda: role.log().count("is lost: pausing") == len(ROLES))
    before = len(role.log())
    time.sleep(API_AWAY)
    assert len(role.log()) - before < 2000 + 300 * API_AWAY, "it says it too often"
    known_double.stop()
    berth.start()
    berth.apply(objects.claim("one", "1Mi", "double"))
    wait_for("it to lead again", lambda: role.log().count("is ours: working") == 2 * len(ROLES), seconds=120)
    assert role.process.poll() is None
    known_double.start()
    wait_bound(berth, "one")
    berth.remove_everything()


def test_snapshots_begin_when_their_kinds_are_installed(berth, known_double, start):
    """The kinds are missing when the process begins. It still makes volumes, and logs what it waits for."""
    berth.apply(objects.storage_class("double", binding="Immediate", provisioner=NAME))
    files = sorted((ROOT / "deploy" / "crds").glob("snapshot.*.yaml"))
    definitions = [yaml.safe_load(file.read_text()) for file in files]
    try:
        for definition in definitions:
            berth.run("delete", "crd", definition["metadata"]["name"])
        role = start("controller", "--roles=provisioner,snapshotter", "--csi-address", known_double.socket, "--kubeconfig",
                     berth.data / "kubeconfig")
        berth.apply(objects.claim("one", "1Mi", "double"))
        wait_bound(berth, "one")
        waits = f"waiting for the API; each role starts when it has its objects: snapshotter of '{NAME}'"
        wait_for("it to say what it waits for", lambda: waits in role.log())
        assert "volumesnapshotcontents.snapshot.storage.k8s.io (NOT_FOUND" in role.log()
    finally:
        berth.apply(definitions)
    wait_for("the snapshotter to begin", lambda: f"snapshotter of '{NAME}': synced" in role.log())
    berth.remove_everything()


def kubelet_asks(path):
    """Waits until connecting to the registration socket works, which a kubelet does first."""
    def connects():
        with socket.socket(socket.AF_UNIX) as kubelet:
            kubelet.settimeout(5)
            return kubelet.connect_ex(str(path)) == 0

    wait_for("the registration socket to be served", connects)


def test_the_registrar_announces_anew(double, start, short):
    """The kubelet's folder is emptied, and the driver is restarted and describes the node differently. Each time the
    kubelet sees a new socket, but not when the driver is only restarted, nor while it is away."""
    registry = short / "r"
    registry.mkdir()
    path = registry / f"{NAME}-reg.sock"
    role = start("node-driver-registrar", f"--csi-address={double.socket}", "--plugin-registration-path", registry,
                 f"--kubelet-registration-path={double.socket}", "--http-endpoint=127.0.0.1:0")
    kubelet_asks(path)
    assert role.get("/healthz") == (200, "ok")
    announced = path.stat()
    asked = len(double.calls("NodeGetInfo"))
    double.stop()
    assert role.get("/healthz") == (200, "ok"), "a driver that is away stays announced"
    double.start()
    wait_for("the driver to be asked", lambda: len(double.calls("NodeGetInfo", "done")) > asked)

    def restart_with_another_answer():
        double.stop()
        double.be_wrong("topology-key-invalid")
        double.start()

    assert path.stat().st_ctime_ns == announced.st_ctime_ns, "a restart alone takes no announcement back"
    for act in (path.unlink, restart_with_another_answer):
        before = path.stat().st_ctime_ns
        act()
        wait_for("a new socket", lambda before=before: path.exists() and path.stat().st_ctime_ns != before)
        kubelet_asks(path)
    double.stop()
    path.unlink()
    wait_for("the missing socket to be seen", lambda: role.get("/healthz")[0] == 404)
    double.start()
    kubelet_asks(path)
    assert role.stop() == 0
    assert not path.exists(), "an orderly end takes the announcement back"


def test_the_registrars_probe_ends_at_once():
    """EBS, vSphere and Trident run the registrar once more as its own exec probe."""
    def probe(*arguments):
        return subprocess.run([BINARY, "csi-node-driver-registrar", "--mode=kubelet-registration-probe", *arguments],
                              capture_output=True, text=True, timeout=20, check=False)

    assert probe("--kubelet-registration-path=/var/lib/kubelet/plugins/d/csi.sock").returncode == 0
    refused = probe()
    assert refused.returncode == 1 and "--kubelet-registration-path is required" in refused.stderr


def test_a_drivers_liveness_does_not_hang_on_the_registrar(double, start, short):
    role = start("node", "--roles=registrar,liveness", f"--csi-address={double.socket}",
                 f"--plugin-registration-path={short / 'absent'}", f"--kubelet-registration-path={double.socket}",
                 "--http-endpoint=127.0.0.1:0")
    assert role.get("/healthz") == (200, "ok")
    assert role.get("/healthz/registrar")[0] == 404
    (short / "absent").mkdir()
    wait_for("the announcement", lambda: role.get("/healthz/registrar") == (200, "ok"))
    double.stop()
    assert role.get("/healthz")[0] == 500


def test_liveness_asks_the_driver(double, start):
    role = start("livenessprobe", f"--csi-address={double.socket}", "--probe-timeout=2s",
                 "--http-endpoint=127.0.0.1:0")
    assert role.get("/healthz") == (200, "ok")
    double.stop()
    code, body = role.get("/healthz")
    assert code == 500 and "UNAVAILABLE" in body
    double.start()
    wait_for("it to be alive again", lambda: role.get("/healthz") == (200, "ok"))
    assert "csi_sidecar_operations_seconds" in role.get("/metrics")[1]


def test_the_port_of_the_liveness_probe_serves_health_alone(double, start):
    health, metrics = free_port(), free_port()
    role = start("livenessprobe", f"--csi-address={double.socket}", f"--health-port={health}",
                 f"--metrics-address=127.0.0.1:{metrics}")
    wait_for("it to serve both", lambda: "serving metrics at" in role.log())
    wait_for("it to be alive", lambda: role.get("/healthz", health) == (200, "ok"))
    assert role.get("/metrics", health)[0] == 404
    assert 'method_name="/csi.v1.Identity/Probe"' in role.get("/metrics", metrics)[1]
    assert role.get("/healthz", metrics)[0] == 404
    role.stop()
    refused = subprocess.run([BINARY, "livenessprobe", f"--csi-address={double.socket}", f"--health-port={health}",
                              "--http-endpoint=127.0.0.1:0"], capture_output=True, text=True, timeout=20, check=False)
    assert refused.returncode != 0 and "only one of --health-port and --http-endpoint" in refused.stderr
