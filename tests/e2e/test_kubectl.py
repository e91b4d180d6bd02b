"""A person needs only an unmodified kubectl: Debian's 1.20, or any other installed version."""
import json
import re

import pytest
import yaml
from lib import objects
from lib.kubectl import config_map, finished, running, wait_succeeded, watching
from lib.standalone import wait_for

pytestmark = [pytest.mark.api, pytest.mark.e2e]

# -- apply and what it shows

def test_apply_creates_configures_and_leaves_alone(kubectl):
    assert kubectl.apply(config_map("a", x="1")) == "configmap/a created\n"
    assert kubectl.apply(config_map("a", x="1")) == "configmap/a unchanged\n"
    assert kubectl.apply(config_map("a", y="2")) == "configmap/a configured\n"
    # A field that was applied before and is now left out is removed; a field of another writer stays.
    kubectl("patch", "cm", "a", "--type=merge", "-p", '{"data":{"z":"3"}}')
    kubectl.apply(config_map("a", w="4"))
    assert kubectl.json("get", "cm", "a")["data"] == {"w": "4", "z": "3"}


def test_apply_merges_lists_by_name(kubectl):
    pod = {"metadata": {"labels": {"app": "x"}},
           "spec": {"nodeSelector": {"no": "where"}, "containers": [{"name": "a", "image": "x"}]}}
    daemon_set = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "d"},
                  "spec": {"selector": {"matchLabels": {"app": "x"}}, "template": pod}}
    kubectl.apply(daemon_set)
    kubectl("patch", "ds", "d", "-p", json.dumps(
        {"spec": {"template": {"spec": {"containers": [{"name": "b", "image": "y"}]}}}}))
    pod["spec"]["containers"][0]["image"] = "x:2"
    kubectl.apply(daemon_set)
    images = kubectl("get", "ds", "d", "-o", "jsonpath={.spec.template.spec.containers[*].image}").split()
    assert sorted(images) == ["x:2", "y"]


def test_apply_takes_files_folders_and_many_documents(kubectl, tmp_path):
    for name in ("one", "two"):
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(config_map(name, a="b")))
    out = kubectl("apply", "-f", tmp_path)
    assert out == "configmap/one created\nconfigmap/two created\n"
    kubectl("delete", "-f", tmp_path)
    assert "NotFound" in kubectl.fails("get", "cm", "one", "two")
    assert kubectl.apply(config_map("three"), config_map("four")) == (
        "configmap/three created\nconfigmap/four created\n")


def test_dry_runs_and_diff_change_nothing(kubectl):
    for flag, word in (("client", "dry run"), ("server", "server dry run")):
        assert kubectl.apply(config_map("a", x="1"), flags=[f"--dry-run={flag}"]) == f"configmap/a created ({word})\n"
    assert "NotFound" in kubectl.fails("get", "cm", "a")
    kubectl.apply(config_map("a", x="1"))
    result = kubectl.run("diff", "-f", "-", stdin=json.dumps(config_map("a", x="2")), check=False)
    assert result.returncode == 1 and '+  x: "2"' in result.stdout and '-  x: "1"' in result.stdout, result
    assert kubectl.json("get", "cm", "a")["data"] == {"x": "1"}


def test_a_wrong_manifest_is_refused_with_the_field(kubectl):
    bad = objects.pod("a", "true")
    bad["spec"]["containrs"] = []
    error = kubectl.fails("apply", "-f", "-", stdin=json.dumps(bad))
    assert "unknown field" in error and "containrs" in error
    # The client lets this pass, and the server refuses it.
    bad = objects.pod("a", "true")
    bad["spec"]["restartPolicy"] = "Perhaps"
    error = kubectl.fails("apply", "-f", "-", stdin=json.dumps(bad))
    assert "restartPolicy" in error and "Perhaps" in error
    assert "NotFound" in kubectl.fails("get", "pod", "a")


def test_apply_on_the_server(kubectl):
    applied = ["--server-side", "--field-manager=one"]
    assert kubectl.apply(config_map("a", x="1"), flags=applied) == "configmap/a serverside-applied\n"
    error = kubectl.fails("apply", "--server-side", "--field-manager=two", "-f", "-",
                          stdin=json.dumps(config_map("a", x="2")))
    assert 'conflict with "one"' in error and ".data.x" in error
    kubectl.apply(config_map("a", x="2"), flags=["--server-side", "--field-manager=two", "--force-conflicts"])
    assert kubectl.json("get", "cm", "a")["data"] == {"x": "2"}
    flags = ["--show-managed-fields"] if kubectl.minor >= 21 else []  # older versions always show them
    managers = {f["manager"] for f in kubectl.json("get", "cm", "a", *flags)["metadata"]["managedFields"]}
    assert "two" in managers
    # A field that is no longer applied is removed.
    kubectl.apply(config_map("a", y="1"), flags=["--server-side", "--field-manager=two"])
    assert kubectl.json("get", "cm", "a")["data"] == {"y": "1"}


def test_create_and_replace(kubectl):
    kubectl("create", "configmap", "made", "--from-literal=a=b")
    kubectl("create", "secret", "generic", "hush", "--from-literal=key=value")
    kubectl("create", "serviceaccount", "robot")
    assert kubectl.json("get", "cm", "made")["data"] == {"a": "b"}
    assert kubectl.json("get", "secret", "hush")["data"] == {"key": "dmFsdWU="}
    assert re.search("already ?exists", kubectl.fails("create", "configmap", "made"), re.IGNORECASE)
    kubectl("replace", "-f", "-", stdin=json.dumps(config_map("made", c="d")))
    assert kubectl.json("get", "cm", "made")["data"] == {"c": "d"}
    kubectl("replace", "--force", "-f", "-", stdin=json.dumps(config_map("made", e="f")))
    assert kubectl.json("get", "cm", "made")["data"] == {"e": "f"}
    assert "NotFound" in kubectl.fails("replace", "-f", "-", stdin=json.dumps(config_map("none", e="f")))


# -- get

def test_tables(kubectl):
    running(kubectl, "web")
    (row,) = kubectl.table("pods")
    assert row["NAME"] == "web" and row["READY"] == "1/1" and row["STATUS"] == "Running" and row["RESTARTS"] == "0"
    assert re.fullmatch(r"\d+s", row["AGE"])
    (row,) = kubectl.table("pods", "-o", "wide")
    assert row["NODE"] == "node-a" and re.fullmatch(r"[\d.]+", row["IP"]) and row["NOMINATED NODE"] == "<none>"
    (row,) = kubectl.table("nodes", "-o", "wide")
    assert row["NAME"] == "node-a" and row["STATUS"] == "Ready" and row["CONTAINER-RUNTIME"].startswith("containerd")
    kubectl.apply(objects.claim("data"))
    (row,) = kubectl.table("pvc")
    assert row["NAME"] == "data" and row["STATUS"] == "Pending" and row["STORAGECLASS"] == "local"
    assert {"NAME", "PROVISIONER", "RECLAIMPOLICY", "VOLUMEBINDINGMODE", "ALLOWVOLUMEEXPANSION", "AGE"} == set(
        kubectl.table("sc")[0])
    assert kubectl.table("sc")[0]["NAME"].endswith("(default)")
    for kind in ("ns", "secrets", "cm", "sa", "events", "csinodes", "csidrivers", "leases", "ds", "crd"):
        kubectl("get", kind)


def test_many_kinds_at_once(kubectl):
    kubectl.apply(config_map("a"), objects.claim("data"))
    out = kubectl("get", "cm,pvc")
    assert "configmap/a" in out and "persistentvolumeclaim/data" in out
    assert "configmap/a" in kubectl("get", "cm/a", "pvc/data")
    running(kubectl, "web")
    assert "pod/web" in kubectl("get", "all")


def test_output_formats(kubectl):
    kubectl.apply(config_map("a", x="1"), config_map("b", x="2"))
    document = yaml.safe_load(kubectl("get", "cm", "a", "-o", "yaml"))
    assert document["kind"] == "ConfigMap" and document["data"] == {"x": "1"}
    assert kubectl("get", "cm", "a", "-o", "name") == "configmap/a\n"
    assert kubectl("get", "cm", "a", "b", "-o", "jsonpath={.items[*].data.x}") == "1 2"
    assert kubectl("get", "cm", "a", "-o", "go-template={{.data.x}}") == "1"
    out = kubectl("get", "cm", "a", "b", "-o", "custom-columns=N:.metadata.name,X:.data.x", "--sort-by=.data.x")
    assert out.split() == ["N", "X", "a", "1", "b", "2"]
    # kubectl can apply the YAML that it printed.
    kubectl("apply", "-f", "-", stdin=kubectl("get", "cm", "a", "-o", "yaml"))
    assert kubectl("get", "cm", "--sort-by=.metadata.name", "-o", "name").split()[:2] == ["configmap/a", "configmap/b"]


def test_selectors(kubectl):
    for name in ("a", "b"):
        item = config_map(name)
        item["metadata"]["labels"] = {"which": name}
        kubectl.apply(item)
    assert kubectl("get", "cm", "-l", "which=a", "-o", "name") == "configmap/a\n"
    assert kubectl("get", "cm", "-l", "which in (b)", "-o", "name") == "configmap/b\n"
    assert kubectl("get", "cm", "--field-selector=metadata.name=b", "-o", "name") == "configmap/b\n"
    assert "which=a" in kubectl("get", "cm", "a", "--show-labels")
    assert [row["WHICH"] for row in kubectl.table("cm", "-L", "which", "-l", "which")] == ["a", "b"]
    assert kubectl.run("get", "cm", "-l", "which=c").stderr.startswith("No resources found in ")


def test_lists_come_in_pages(kubectl):
    kubectl.apply(*[config_map(f"c{number}") for number in range(7)])
    names = kubectl("get", "cm", "--chunk-size=3", "-o", "name").split()
    assert [f"configmap/c{number}" for number in range(7)] == [n for n in names if n.startswith("configmap/c")]


def test_what_is_missing_is_said(kubectl):
    assert kubectl.fails("get", "cm", "none") == 'Error from server (NotFound): configmaps "none" not found\n'
    assert "the server doesn't have a resource type" in kubectl.fails("get", "teapots")


# -- describe

def test_describe(kubectl):
    kubectl.apply(objects.claim("data"), config_map("settings", colour="blue"))
    finished(kubectl, "user", "echo kept > /data/note; sync /data/note", claims=["data"])
    out = kubectl("describe", "pod", "user")
    # The columns' widths differ between versions.
    for words in (r"ClaimName: +data", r"Status: +Succeeded", "Events:", "Scheduled", r"Exit Code: +0"):
        assert re.search(words, out), (words, out)
    out = kubectl("describe", "pvc", "data")
    assert re.search(r"Status: +Bound", out) and re.search(r"(Used|Mounted) By: +user", out), out
    volume = kubectl.json("get", "pvc", "data")["spec"]["volumeName"]
    assert "VolumeHandle:" in kubectl("describe", "pv", volume)
    assert "colour:\n----\nblue\n" in kubectl("describe", "cm", "settings")
    node = kubectl("describe", "node", "node-a")
    assert "Non-terminated Pods:" in node and "Ready" in node and "Lease:" in node
    for what in (["sc", "local"], ["ns", kubectl.ns], ["sa", "default"], ["csinode", "node-a"],
                 ["csidriver", "local.csi.berth.dev"]):
        assert what[1] in kubectl("describe", *what)


def test_events_are_told(kubectl):
    kubectl.apply(objects.claim("stuck", storage_class="no-such-class"))
    wait_for("an event", lambda: "ProvisioningFailed" in kubectl("get", "events"))
    (row,) = [row for row in kubectl.table("events") if row["REASON"] == "ProvisioningFailed"]
    assert row["TYPE"] == "Warning" and row["OBJECT"] == "persistentvolumeclaim/stuck"
    assert "no-such-class" in row["MESSAGE"]
    assert "no-such-class" in kubectl("describe", "pvc", "stuck")


# -- change

@pytest.fixture
def editor(tmp_path):
    """Makes an EDITOR that replaces words."""
    def make(before, after):
        script = tmp_path / "editor"
        script.write_text(f"#!/bin/sh\nsed -i 's/{before}/{after}/' \"$1\"\n")
        script.chmod(0o755)
        return {"KUBE_EDITOR": str(script)}
    return make


def test_edit(kubectl, editor):
    kubectl.apply(config_map("a", colour="blue"))
    assert kubectl("edit", "cm", "a", env=editor("blue", "green")).strip() == "configmap/a edited"
    assert kubectl.json("get", "cm", "a")["data"] == {"colour": "green"}
    result = kubectl.run("edit", "cm", "a", env=editor("nothing", "else"))
    assert "no changes made" in result.stdout + result.stderr
    # After a refused change the editor opens again with the reason; kubectl gives up when nothing changes then.
    result = kubectl.run("edit", "cm", "a", env=editor("colour:", "bad key:"), check=False)
    assert result.returncode != 0 and "is invalid" in result.stdout + result.stderr, result
    assert kubectl.json("get", "cm", "a")["data"] == {"colour": "green"}


def test_patch_of_each_type(kubectl):
    kubectl.apply(config_map("a", x="1", y="2"))
    kubectl("patch", "cm", "a", "--type=merge", "-p", '{"data":{"x":null,"z":"3"}}')
    kubectl("patch", "cm", "a", "--type=json", "-p", '[{"op":"replace","path":"/data/y","value":"two"}]')
    kubectl("patch", "cm", "a", "--type=strategic", "-p", '{"data":{"w":"0"}}')
    assert kubectl.json("get", "cm", "a")["data"] == {"w": "0", "y": "two", "z": "3"}
    assert "no change" in kubectl("patch", "cm", "a", "-p", '{"data":{"w":"0"}}')
    error = kubectl.fails("patch", "cm", "a", "--type=json", "-p", '[{"op":"test","path":"/data/y","value":"no"}]')
    assert error


def test_labels_and_annotations(kubectl):
    kubectl.apply(config_map("a"))
    kubectl("label", "cm", "a", "tier=front")
    kubectl("annotate", "cm", "a", "note=hello")
    assert "already has a value" in kubectl.fails("label", "cm", "a", "tier=back")
    kubectl("label", "cm", "a", "tier=back", "--overwrite")
    assert kubectl("get", "cm", "a", "-o", "jsonpath={.metadata.labels.tier} {.metadata.annotations.note}") == (
        "back hello")
    kubectl("label", "cm", "a", "tier-")
    assert "tier" not in kubectl.json("get", "cm", "a")["metadata"].get("labels", {})


def test_a_node_is_cordoned_and_tainted(kubectl):
    try:
        assert "cordoned" in kubectl("cordon", "node-a")
        assert "SchedulingDisabled" in kubectl("get", "nodes")
        kubectl("taint", "node", "node-a", "example.com/key=value:NoSchedule")
        assert "example.com/key=value:NoSchedule" in kubectl("describe", "node", "node-a")
    finally:
        kubectl("uncordon", "node-a")
        kubectl("taint", "node", "node-a", "example.com/key-")
    assert "SchedulingDisabled" not in kubectl("get", "nodes")


def test_a_claim_grows(kubectl):
    kubectl.apply(objects.claim("data", "64Mi"))
    finished(kubectl, "first", "echo kept > /data/note; sync /data/note", claims=["data"])
    kubectl("delete", "pod", "first")
    kubectl("patch", "pvc", "data", "-p", '{"spec":{"resources":{"requests":{"storage":"128Mi"}}}}')
    assert "kept" in finished(kubectl, "second", "cat /data/note", claims=["data"])
    wait_for("the claim to have grown", lambda: kubectl(
        "get", "pvc", "data", "-o", "jsonpath={.status.capacity.storage}") == "128Mi")


# -- wait, watch, delete

def test_watch(kubectl):
    with watching(kubectl, "get", "cm", "-w", "--output-watch-events") as line_with:
        kubectl.apply(config_map("a", x="1"))
        line_with("ADDED", " a ")
        kubectl.apply(config_map("a", x="1", y="2"))
        line_with("MODIFIED", " a ", " 2 ")
        kubectl("delete", "cm", "a")
        line_with("DELETED", " a ")


def test_wait(kubectl):
    kubectl.apply(objects.pod("web", "sleep 2; sleep 1000"))
    assert "condition met" in kubectl("wait", "--for=condition=Ready", "pod/web", "--timeout=60s", timeout=90)
    error = kubectl.fails("wait", "--for=condition=Ready=false", "pod/web", "--timeout=1s")
    assert "timed out" in error
    process = kubectl.start("wait", "--for=delete", "pod/web", "--timeout=60s")
    kubectl("delete", "pod", "web", "--wait=false")
    out, _ = process.communicate(timeout=90)
    assert process.returncode == 0, out


def test_delete(kubectl):
    for name in ("a", "b", "c", "d", "e"):
        item = config_map(name)
        item["metadata"]["labels"] = {"old": str(name in "cd").lower()}
        kubectl.apply(item)
    assert kubectl("delete", "cm", "a", "b").split()[:2] == ["configmap", '"a"']
    kubectl("delete", "cm", "-l", "old=true")
    left = kubectl("get", "cm", "-o", "name").split()
    assert "configmap/e" in left and not {"configmap/a", "configmap/b", "configmap/c", "configmap/d"} & set(left)
    kubectl("delete", "cm", "--all")
    assert "configmap/e" not in kubectl("get", "cm", "-o", "name")
    assert "NotFound" in kubectl.fails("delete", "cm", "a")
    assert kubectl("delete", "cm", "a", "--ignore-not-found") == ""


def test_delete_waits_for_finalizers(kubectl):
    item = config_map("held")
    item["metadata"]["finalizers"] = ["example.com/hold"]
    kubectl.apply(item)
    assert "timed out" in kubectl.fails("delete", "cm", "held", "--timeout=1s")
    process = kubectl.start("delete", "cm", "held", "--timeout=60s")
    # kubectl prints this before it waits.
    assert process.stdout.readline() == 'configmap "held" deleted\n'
    kubectl("patch", "cm", "held", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    out, _ = process.communicate(timeout=90)
    assert process.returncode == 0, out


def test_delete_of_owners(kubectl):
    def daemon_set(name):
        spec = objects.pod("x", "sleep 1000", restart="Always")["spec"]
        template = {"metadata": {"labels": {"app": name}}, "spec": spec}
        return {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": name},
                "spec": {"selector": {"matchLabels": {"app": name}}, "template": template}}
    for name in ("follow", "stay"):
        kubectl.apply(daemon_set(name))
        kubectl("rollout", "status", f"ds/{name}", "--timeout=60s", timeout=90)
    assert kubectl.table("ds")[0]["READY"] == "1"
    kubectl("delete", "ds", "follow")
    wait_for("the pods to follow", lambda: not kubectl("get", "pods", "-l", "app=follow", "-o", "name"))
    kubectl("delete", "ds", "stay", "--cascade=orphan")
    (pod,) = kubectl.json("get", "pods", "-l", "app=stay")["items"]
    assert not pod["metadata"].get("ownerReferences") and not pod["metadata"].get("deletionTimestamp")


def test_a_rollout_and_its_undoing(kubectl):
    def template(word):
        return {"metadata": {"labels": {"app": "r"}},
                "spec": objects.pod("x", f"echo {word}; sleep 1000", restart="Always")["spec"]}
    item = {"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "r"},
            "spec": {"selector": {"matchLabels": {"app": "r"}}, "template": template("one")}}
    kubectl.apply(item)
    kubectl("rollout", "status", "ds/r", "--timeout=60s", timeout=90)
    item["spec"]["template"] = template("two")
    kubectl.apply(item)
    kubectl("rollout", "status", "ds/r", "--timeout=60s", timeout=90)
    # A pod that runs may not have written yet.
    wait_for("the second template", lambda: kubectl("logs", "ds/r") == "two\n")
    history = kubectl("rollout", "history", "ds/r")
    assert re.search(r"^1\b", history, re.M) and re.search(r"^2\b", history, re.M), history
    kubectl("rollout", "undo", "ds/r")
    kubectl("rollout", "status", "ds/r", "--timeout=60s", timeout=90)
    wait_for("the first template", lambda: kubectl("logs", "ds/r") == "one\n")
    kubectl("rollout", "restart", "ds/r")
    kubectl("rollout", "status", "ds/r", "--timeout=60s", timeout=90)


# -- what the API tells of itself

def test_explain(kubectl):
    out = kubectl("explain", "pod.spec.containers")
    assert "image" in out and "volumeMounts" in out and "FIELD" in out.upper()
    assert re.search(r"accessModes\s+<\[\]string>", kubectl("explain", "pvc.spec"))
    assert "volumeHandle" in kubectl("explain", "pv.spec.csi", "--recursive")
    assert "provisioner" in kubectl("explain", "storageclasses")
    assert "does not exist" in kubectl.fails("explain", "pod.spec.nothing")


def test_auth_can_i(kubectl):
    assert kubectl("auth", "can-i", "create", "pods").strip() == "yes"
    assert kubectl("auth", "can-i", "get", "/healthz").strip() == "yes"
    assert kubectl("auth", "can-i", "*", "*", "-A").strip() == "yes"
    assert "*.*" in kubectl("auth", "can-i", "--list")


def test_api_resources(kubectl):
    out = kubectl("api-resources", "-o", "wide")
    for words in (r"persistentvolumeclaims\s+pvc\s", r"pods\s+po\s", r"storageclasses\s+sc\s", r"daemonsets\s+ds\s",
                  r"customresourcedefinitions\s+crd", r"selfsubjectaccessreviews\s"):
        assert re.search(words, out), out
    assert "pods" in kubectl("api-resources", "--namespaced=true", "-o", "name").split()
    assert {"v1", "apps/v1", "storage.k8s.io/v1", "coordination.k8s.io/v1"} <= set(kubectl("api-versions").split())
    assert kubectl.json("version")["serverVersion"]["major"] == "1"
    assert kubectl("get", "--raw", "/healthz") == "ok"


GADGETS = {
    "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
    "metadata": {"name": "gadgets.example.com"},
    "spec": {"group": "example.com", "scope": "Namespaced",
             "names": {"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "shortNames": ["gd"]},
             "versions": [{
                 "name": "v1", "served": True, "storage": True, "subresources": {"status": {}},
                 "additionalPrinterColumns": [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}],
                 "schema": {"openAPIV3Schema": {"type": "object", "description": "A gadget is for testing.",
                                                "properties": {"spec": {"type": "object", "required": ["size"],
                                                                        "properties": {
                                                    "size": {"type": "integer", "minimum": 1,
                                                             "description": "How large it is."},
                                                    "colour": {"type": "string", "default": "blue"}}}}}}}]}}


def test_custom_resources(kubectl, module_berth):
    kubectl.apply(GADGETS)
    try:
        kubectl("wait", "--for=condition=Established", "crd/gadgets.example.com", "--timeout=30s")
        gadget = {"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "g"}, "spec": {"size": 3}}
        wait_for("the client to know it", lambda: kubectl.run(
            "apply", "-f", "-", stdin=json.dumps(gadget), check=False).returncode == 0)
        assert kubectl.table("gd")[0] == {"NAME": "g", "SIZE": "3"}
        assert kubectl.json("get", "gadget", "g")["spec"] == {"size": 3, "colour": "blue"}
        assert kubectl.apply({**gadget, "spec": {"size": 4}}) == "gadget.example.com/g configured\n"
        kubectl("patch", "gd", "g", "--type=merge", "-p", '{"spec":{"colour":"green"}}')
        assert "spec.size" in kubectl.fails("patch", "gd", "g", "--type=merge", "-p", '{"spec":{"size":0}}')
        assert "How large it is." in kubectl("explain", "gadget.spec.size")
        assert "Size:" in kubectl("describe", "gd", "g")
        assert "gadgets" in kubectl("api-resources", "--api-group=example.com")
        assert "4" in module_berth.run("get", "gd", "g", "-n", kubectl.ns).stdout  # berth knows them, too
        kubectl("delete", "gd", "g")
    finally:
        kubectl("delete", "crd", "gadgets.example.com", "--timeout=60s", timeout=90)
    # Older clients use their cache, and ask the server.
    error = kubectl.fails("get", "gadgets")
    assert "doesn't have a resource type" in error or "could not find the requested resource" in error


# -- the main job, by kubectl alone

def test_a_second_pod_finds_the_data_of_the_first(kubectl):
    kubectl.apply(objects.claim("data"))
    finished(kubectl, "first", "echo kept > /data/note; sync /data/note", claims=["data"])
    assert kubectl.table("pvc")[0]["STATUS"] == "Bound"
    volume = kubectl.json("get", "pvc", "data")["spec"]["volumeName"]
    (row,) = kubectl.table("pv", volume)
    assert row["CLAIM"] == f"{kubectl.ns}/data" and row["ACCESS MODES"] == "RWO" and row["RECLAIM POLICY"] == "Delete"
    kubectl("delete", "pod", "first")
    assert "kept" in finished(kubectl, "second", "cat /data/note", claims=["data"])
    kubectl("delete", "pod", "second")
    kubectl("delete", "pvc", "data", "--timeout=60s", timeout=90)
    wait_for("the volume to be gone", lambda: kubectl.run("get", "pv", volume, check=False).returncode != 0)


def test_a_pod_by_run(kubectl):
    out = kubectl("run", "once", "--image=berth.local/busybox:1", "--restart=Never", "--", "echo", "from run")
    assert out == "pod/once created\n"
    wait_succeeded(kubectl, "once")
    assert kubectl("logs", "once") == "from run\n"


def test_what_is_not_there_is_refused_clearly(kubectl):
    assert "rror" in kubectl.fails("top", "pods")
