"""A cluster that tests use without knowing whether its API is the real kube-apiserver or Berth's own."""
import json

import yaml

from lib import kube
from lib.standalone import ROOT, wait_for

CORE, STORAGE, RBAC = "/api/v1", "/apis/storage.k8s.io/v1", "/apis/rbac.authorization.k8s.io/v1"
ADMISSION = "/apis/admissionregistration.k8s.io/v1"
SNAPSHOTS, GROUPS = "/apis/snapshot.storage.k8s.io/v1", "/apis/groupsnapshot.storage.k8s.io/v1"
# By kind: the group's path, the plural, and whether objects have a namespace.
KINDS = {
    "Namespace": (CORE, "namespaces", False), "Node": (CORE, "nodes", False), "Event": (CORE, "events", True),
    "Pod": (CORE, "pods", True), "Secret": (CORE, "secrets", True), "ServiceAccount": (CORE, "serviceaccounts", True),
    "PersistentVolume": (CORE, "persistentvolumes", False), "PersistentVolumeClaim": (CORE, "persistentvolumeclaims", True),
    "RuntimeClass": ("/apis/node.k8s.io/v1", "runtimeclasses", False),
    "StorageClass": (STORAGE, "storageclasses", False), "CSINode": (STORAGE, "csinodes", False),
    "CSIDriver": (STORAGE, "csidrivers", False), "VolumeAttachment": (STORAGE, "volumeattachments", False),
    "VolumeAttributesClass": (STORAGE, "volumeattributesclasses", False),
    "CSIStorageCapacity": (STORAGE, "csistoragecapacities", True),
    "ClusterRole": (RBAC, "clusterroles", False), "ClusterRoleBinding": (RBAC, "clusterrolebindings", False),
    "DaemonSet": ("/apis/apps/v1", "daemonsets", True), "Role": (RBAC, "roles", True), "RoleBinding": (RBAC, "rolebindings", True),
    "Lease": ("/apis/coordination.k8s.io/v1", "leases", True),
    "ValidatingAdmissionPolicy": (ADMISSION, "validatingadmissionpolicies", False),
    "ValidatingAdmissionPolicyBinding": (ADMISSION, "validatingadmissionpolicybindings", False),
    "CustomResourceDefinition": ("/apis/apiextensions.k8s.io/v1", "customresourcedefinitions", False),
    "VolumeSnapshot": (SNAPSHOTS, "volumesnapshots", True), "VolumeSnapshotContent": (SNAPSHOTS, "volumesnapshotcontents", False),
    "VolumeSnapshotClass": (SNAPSHOTS, "volumesnapshotclasses", False),
    "BlockSnapshot": ("/apis/storage.berth.dev/v1alpha1", "blocksnapshots", True),
    "VolumeGroupSnapshot": (GROUPS, "volumegroupsnapshots", True),
    "VolumeGroupSnapshotContent": (GROUPS, "volumegroupsnapshotcontents", False),
    "VolumeGroupSnapshotClass": (GROUPS, "volumegroupsnapshotclasses", False),
}


def rules_of(file, role):
    """Gives the rules of a ClusterRole or Role in a file of deploy/csi."""
    return next(item["rules"] for item in yaml.safe_load_all((ROOT / "deploy" / "csi" / file).read_text())
                if item["metadata"]["name"] == role and "rules" in item)


class Cluster:
    """`plane` is the real control plane, or `berth` the Standalone whose API it is."""

    def __init__(self, kubeconfig, plane=None, berth=None):
        self.kubeconfig = kubeconfig
        self.plane = plane
        self.berth = berth
        self.api = kube.Api(kube.Kubeconfig(kubeconfig))

    @property
    def real(self):
        return self.plane is not None

    # -- objects

    @staticmethod
    def path(kind, namespace=None, name=None):
        group, plural, namespaced = KINDS[kind]
        inner = f"/namespaces/{namespace}" if namespaced and namespace else ""
        return f"{group}{inner}/{plural}" + (f"/{name}" if name else "")

    def create(self, item, namespace=None):
        """Creates an object, and gives it as the API answers; one that is there already stays as it is."""
        reply = self.api.post(self.path(item["kind"], namespace), item)
        if reply.code == 409:
            return self.get(item["kind"], item["metadata"]["name"], namespace)
        assert reply.code in (200, 201), reply
        return reply.json

    def get(self, kind, name, namespace=None):
        """Gives the object, or None."""
        reply = self.api.get(self.path(kind, namespace, name))
        assert reply.code in (200, 404), reply
        return reply.json if reply.code == 200 else None

    def items(self, kind, namespace=None):
        reply = self.api.get(self.path(kind, namespace))
        assert reply.code == 200, reply
        return reply.json["items"]

    def patch(self, kind, name, change, namespace=None, subresource=""):
        """Patches by a merge patch; null removes a field."""
        reply = self.api.patch(self.path(kind, namespace, name) + (f"/{subresource}" if subresource else ""), change)
        assert reply.code == 200, reply
        return reply.json

    def delete(self, kind, name, namespace=None):
        reply = self.api.delete(self.path(kind, namespace, name))
        assert reply.code in (200, 202, 404), reply

    def install_snapshots(self):
        """Installs the kinds of snapshots, where they are not built in."""
        self._install("snapshot", ("VolumeSnapshot", "VolumeSnapshotContent", "VolumeSnapshotClass"))

    def install_groups(self):
        """Installs the kinds of group snapshots, where they are not built in."""
        self._install("groupsnapshot", ("VolumeGroupSnapshot", "VolumeGroupSnapshotContent", "VolumeGroupSnapshotClass"))

    def _install(self, group, kinds):
        for file in sorted((ROOT / "deploy" / "crds").glob(f"{group}.*.yaml")):
            self.create(yaml.safe_load(file.read_text()))
        wait_for(f"the kinds of {group} to be served", lambda: all(self.api.get(self.path(kind)).code == 200 for kind in kinds))

    def write_node(self, name, driver, topology, node_id=None):
        """Registers a driver on a node, as a kubelet does. `topology`: the labels of the node that the driver names. `node_id`: the
        driver's name of the node, if it has one of its own."""
        labels = {"kubernetes.io/hostname": name, **topology}
        self.create({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}})
        self.patch("Node", name, {"metadata": {"labels": labels}})
        self.create({"apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": {"name": name}, "spec": {"drivers": []}})
        drivers = [entry for entry in self.get("CSINode", name)["spec"].get("drivers") or [] if entry["name"] != driver]
        drivers.append({"name": driver, "nodeID": node_id or name, "topologyKeys": sorted(topology)})
        self.patch("CSINode", name, {"spec": {"drivers": drivers}})

    # -- users

    def write_account(self, path, namespace, name, rules, own_rules=()):
        """Makes a service account with the given rules of a ClusterRole and of a Role in its namespace, and writes its
        kubeconfig. Berth's own API has no roles: there it is the administrator's."""
        if not self.real:
            return self.kubeconfig
        self.grant(namespace, name, rules, own_rules)
        return self.write_token(path, namespace, name)

    def grant(self, namespace, name, rules, own_rules=()):
        """Gives a service account, which it makes where it is missing, the rules of a ClusterRole and of a Role in its namespace, in
        place of those that it had."""
        full = f"{namespace}-{name}"
        group = "rbac.authorization.k8s.io"
        subject = {"kind": "ServiceAccount", "name": name, "namespace": namespace}
        self.create({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}}, namespace)
        for scope, some, inner in (("Cluster", rules, None), ("", own_rules, namespace)):
            role = self.create({"apiVersion": f"{group}/v1", "kind": f"{scope}Role", "metadata": {"name": full}, "rules": list(some)},
                               inner)
            if role.get("rules", []) != list(some):
                self.patch(f"{scope}Role", full, {"rules": list(some)}, inner)
            self.create({"apiVersion": f"{group}/v1", "kind": f"{scope}RoleBinding", "metadata": {"name": full},
                         "roleRef": {"apiGroup": group, "kind": f"{scope}Role", "name": full}, "subjects": [subject]}, inner)

    def write_token(self, path, namespace, name, pod=None):
        """Writes a kubeconfig with a token of a service account. With `pod`, the token is that pod's, and names its node."""
        spec = {"expirationSeconds": 36000}
        if pod is not None:
            spec["boundObjectRef"] = {"apiVersion": "v1", "kind": "Pod", "name": pod["metadata"]["name"], "uid": pod["metadata"]["uid"]}
        token = self.api.post(self.path("ServiceAccount", namespace, name) + "/token",
                              {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": spec})
        assert token.code == 201, token
        config = yaml.safe_load(self.kubeconfig.read_text())
        for user in config["users"]:
            user["user"] = {"token": token.json["status"]["token"]}
        path.write_text(json.dumps(config))
        return path

    def requests_of(self, namespace, account, since=0):
        """As ControlPlane.requests_of, for a service account."""
        return self.plane.requests_of(f"system:serviceaccount:{namespace}:{account}", since)

    def refused_to(self, namespace, account):
        """Gives the requests of a service account that the API server has refused for want of a right."""
        return [request for request in self.requests_of(namespace, account) if request[-1] == 403]
