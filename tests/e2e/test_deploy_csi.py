"""deploy/csi renders to the right objects, with exactly the rights that the roles need."""
import subprocess

import pytest

from lib.kubectl import render
from lib.standalone import BINARY, ROOT

pytestmark = [pytest.mark.e2e, pytest.mark.csi]

# Of the rights that the Go programs' own roles grant, those that Berth or the Go program uses. Berth asks for no others, but for
# the events of the attacher. The provisioner of Go reads the VolumeAttributesClass of a claim, too, without a rule for it in its
# role.
RIGHTS = {
    "csi-provisioner": {
        "persistentvolumes": "get list watch create patch delete", "persistentvolumeclaims": "get list watch update",
        "storageclasses": "get list watch", "events": "list create patch",
        "volumesnapshots": "get list watch update", "volumesnapshotcontents": "get",
        "csinodes": "get list watch", "nodes": "get list watch", "volumeattachments": "get list watch",
        "volumeattributesclasses": "get"},
    "csi-attacher": {
        "persistentvolumes": "get list watch patch", "csinodes": "get list watch",
        "volumeattachments": "get list watch patch", "volumeattachments/status": "patch",
        "events": "create patch"},
    "csi-resizer": {
        "persistentvolumes": "get list watch patch", "persistentvolumeclaims": "get list watch",
        "pods": "get list watch", "persistentvolumeclaims/status": "patch",
        "events": "create patch", "volumeattributesclasses": "get list watch"},
    "csi-snapshotter": {
        "events": "create patch", "volumesnapshotclasses": "get list watch",
        "volumesnapshotcontents": "get list watch patch", "volumesnapshotcontents/status": "update patch",
        "volumegroupsnapshotclasses": "get list watch",
        "volumegroupsnapshotcontents": "get list watch patch", "volumegroupsnapshotcontents/status": "update patch"},
    "csi-snapshot-controller": {
        "persistentvolumes": "get list watch", "persistentvolumeclaims": "get list watch update", "nodes": "get list watch",
        "events": "create patch", "volumesnapshotclasses": "get list watch",
        "volumesnapshotcontents": "create get list watch delete patch", "volumesnapshotcontents/status": "patch",
        "volumesnapshots": "create get list watch update patch delete", "volumesnapshots/status": "update patch",
        "volumegroupsnapshotclasses": "get list watch",
        "volumegroupsnapshotcontents": "create get list watch delete patch",
        "volumegroupsnapshotcontents/status": "patch",
        "volumegroupsnapshots": "get list watch update patch", "volumegroupsnapshots/status": "update patch"},
    "csi-capacity": {
        "csistoragecapacities": "get list watch create update patch delete", "pods": "get", "replicasets": "get"},
}


@pytest.fixture(scope="module", params=["base", "overlays/example"])
def objects(request):
    return render(ROOT / "deploy" / "csi" / request.param)


def berth_of(workload):
    containers = {c["name"]: c for c in workload["spec"]["template"]["spec"]["containers"]}
    return containers["berth"], containers["driver"]


def roles_of(container):
    return next(a for a in container["args"] if a.startswith("--roles=")).partition("=")[2].split(",")


def rules_of(role):
    return {resource: set(rule["verbs"]) for rule in role["rules"] for resource in rule["resources"]}


def rights(name):
    return {resource: set(verbs.split()) for resource, verbs in RIGHTS[name].items()}


def check_flags(container):
    command, *flags = container["args"]
    roles = [flag for flag in flags if flag.startswith("--roles=")]  # --help lists the flags of these roles
    known = subprocess.run([BINARY, command, *roles, "--help"], capture_output=True, text=True, check=True).stdout
    for flag in flags:
        assert f"  {flag.partition('=')[0]} " in known, flag


def test_rbac_is_that_of_the_roles_in_use(objects):
    controller = objects["Deployment", "csi-controller"]
    roles = roles_of(berth_of(controller)[0])
    granted = {name for kind, name in objects if kind == "ClusterRole"}
    assert granted == {f"csi-{role}" for role in roles}
    for name in granted:
        assert rules_of(objects["ClusterRole", name]) == rights(name)
        binding = objects["ClusterRoleBinding", name]
        assert binding["roleRef"]["name"] == name
        assert [(s["name"], s["namespace"]) for s in binding["subjects"]] == [
            (controller["spec"]["template"]["spec"]["serviceAccountName"], controller["metadata"]["namespace"])]
    leases = objects["Role", "csi-leases"]
    assert leases["metadata"]["namespace"] == controller["metadata"]["namespace"]
    assert "patch" not in leases["rules"][0]["verbs"]


def test_the_program_takes_the_flags(objects):
    for workload in (objects["Deployment", "csi-controller"], objects["DaemonSet", "csi-node"]):
        check_flags(berth_of(workload)[0])


def test_two_controllers_of_which_one_leads(objects):
    controller = objects["Deployment", "csi-controller"]
    assert controller["spec"]["replicas"] == 2
    assert "--leader-election" in berth_of(controller)[0]["args"]


def test_mounts_reach_the_kubelet_and_back(objects):
    node = objects["DaemonSet", "csi-node"]
    container, driver = berth_of(node)
    paths = {v["name"]: v["hostPath"]["path"] for v in node["spec"]["template"]["spec"]["volumes"]}
    mounts = {m["mountPath"]: m for m in driver["volumeMounts"]}
    for path in ("/var/lib/kubelet/pods", "/var/lib/kubelet/plugins/kubernetes.io/csi"):
        assert mounts[path]["mountPropagation"] == "Bidirectional"
        assert paths[mounts[path]["name"]] == path, "the same path inside and outside"
    assert driver["securityContext"]["privileged"]
    ours = {m["mountPath"]: paths[m["name"]] for m in container["volumeMounts"]}
    assert ours["/registration"] == "/var/lib/kubelet/plugins_registry"
    announced = next(a for a in container["args"] if a.startswith("--kubelet-registration-path=")).partition("=")[2]
    assert announced == f"{ours['/csi']}/csi.sock", "where the kubelet finds the driver's socket"
    assert "privileged" not in container["securityContext"]


def test_the_snapshot_controller_comes_with_its_kinds_and_rights():
    objects = render(ROOT / "deploy" / "csi" / "snapshot-controller")
    assert {name for kind, name in objects if kind == "CustomResourceDefinition"} == {
        f"volumesnapshot{kind}.snapshot.storage.k8s.io" for kind in ("s", "contents", "classes")}
    assert rules_of(objects["ClusterRole", "csi-snapshot-controller"]) == rights("csi-snapshot-controller")
    controller = objects["Deployment", "snapshot-controller"]
    check_flags(controller["spec"]["template"]["spec"]["containers"][0])
    for (kind, _), item in objects.items():
        if kind.endswith("Binding"):
            assert item["subjects"] == [{"kind": "ServiceAccount", "name": "snapshot-controller", "namespace": "kube-system"}]


def test_the_shipped_driver_has_a_provisioner_on_each_node():
    objects = render(ROOT / "deploy" / "csi" / "local")
    pod = objects["DaemonSet", "csi-local"]["spec"]["template"]["spec"]
    containers = {c["name"]: c for c in pod["containers"]}
    for container in containers.values():
        check_flags(container)
    roles = containers["roles"]
    assert roles_of(roles) == ["provisioner", "snapshotter"]
    assert "--leader-election" not in roles["args"], "each serves its own node"
    assert {e["name"] for e in roles["env"]} == {"NODE_NAME", "NAMESPACE", "POD_NAME"}
    for kind, name in (("ClusterRole", "provisioner"), ("ClusterRole", "snapshotter"), ("Role", "capacity")):
        rules = rights(f"csi-{name}")
        if name == "provisioner":  # each knows its own node from its driver
            del rules["nodes"], rules["csinodes"]
        assert rules_of(objects[kind, f"csi-local-{name}"]) == rules
        binding = objects[f"{kind}Binding", f"csi-local-{name}"]
        assert binding["roleRef"]["name"] == f"csi-local-{name}"
        assert binding["subjects"] == [{"kind": "ServiceAccount", "name": "csi-local", "namespace": "berth-local"}]
    assert rules_of(objects["Role", "csi-local-leases"]) == {"leases": {"get", "create", "update"}}
    assert objects["RoleBinding", "csi-local-leases"]["subjects"][0]["name"] == "csi-local"
    driver = objects["CSIDriver", "local.csi.berth.dev"]["spec"]
    assert "--provisioner-enable-capacity" in roles["args"] and driver["storageCapacity"]
    assert driver["volumeLifecycleModes"] == ["Persistent", "Ephemeral"] and driver["podInfoOnMount"]
    assert not driver["attachRequired"], "it publishes no volumes to nodes"


def test_the_proxy_stands_before_the_shipped_driver():
    plain, objects = (render(ROOT / "deploy" / folder) for folder in ("csi/local", "crust/proxy"))
    assert {key: item for key, item in objects.items() if key in plain and key[0] != "DaemonSet"} == {
        key: item for key, item in plain.items() if key[0] != "DaemonSet"}
    before, pod = (each["DaemonSet", "csi-local"]["spec"]["template"]["spec"] for each in (plain, objects))
    containers = {c["name"]: c for c in pod["containers"]}
    proxy = containers.pop("crust-proxy")
    check_flags(proxy)
    paths = {v["name"]: v["hostPath"]["path"] for v in pod["volumes"]}
    mounts = {m["mountPath"]: paths[m["name"]] for m in proxy["volumeMounts"]}
    [socket] = [a.removeprefix("--endpoint=/csi/") for a in proxy["args"] if a.startswith("--endpoint=")]
    for old in before["containers"]:
        new = containers.pop(old["name"])
        if old["name"] != "registrar":
            assert new == old
            continue
        changed = {flag for flag in new["args"] if flag not in old["args"]}
        assert changed == {f"--kubelet-registration-path={mounts['/csi']}/{socket}"}
        assert len(new["args"]) == len(old["args"]) and new | {"args": old["args"]} == old
    assert not containers
    assert all(mounts[path] == path for path in ("/var/lib/kubelet", "/dev", "/run/berth")), "the same paths inside and outside"
    assert objects["ClusterRoleBinding", "berth-crust-proxy"]["subjects"] == [
        {"kind": "ServiceAccount", "name": pod["serviceAccountName"], "namespace": "berth-local"}]


def test_the_image_holds_the_program_and_what_it_loads(tmp_path):
    subprocess.run([ROOT / "deploy" / "csi" / "image-root", BINARY, tmp_path / "root"], check=True)
    for program in ("/berth", "/csi-attacher"):
        result = subprocess.run(["chroot", tmp_path / "root", program, "--version"], capture_output=True, text=True)
        assert result.returncode == 0, result.stderr
