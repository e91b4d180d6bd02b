"""The API of a Standalone at its UNIX socket: a request takes a millisecond, where a command takes a process."""
import http.client
import json
import socket

from lib.failure import Failure

PATHS = {
    "pods": "/api/v1/namespaces/default/pods",
    "persistentvolumeclaims": "/api/v1/namespaces/default/persistentvolumeclaims",
    "persistentvolumes": "/api/v1/persistentvolumes",
    "events": "/api/v1/namespaces/default/events",
    "nodes": "/api/v1/nodes",
    "namespaces": "/api/v1/namespaces",
    "endpoints": "/api/v1/namespaces/default/endpoints",
    "runtimeclasses": "/apis/node.k8s.io/v1/runtimeclasses",
    "storageclasses": "/apis/storage.k8s.io/v1/storageclasses",
    "csistoragecapacities": "/apis/storage.k8s.io/v1/csistoragecapacities",
    "csinodes": "/apis/storage.k8s.io/v1/csinodes",
    "volumeattachments": "/apis/storage.k8s.io/v1/volumeattachments",
    "volumeattributesclasses": "/apis/storage.k8s.io/v1/volumeattributesclasses",
    "hostmounts": "/apis/storage.berth.dev/v1alpha1/namespaces/default/hostmounts",
    "storageclusters": "/apis/storage.berth.dev/v1alpha1/storageclusters",
    "volumefences": "/apis/storage.berth.dev/v1alpha1/volumefences",
    "nodecleanups": "/apis/storage.berth.dev/v1alpha1/nodecleanups",
    "blocksnapshots": "/apis/storage.berth.dev/v1alpha1/namespaces/default/blocksnapshots",
    "volumesnapshots": "/apis/snapshot.storage.k8s.io/v1/namespaces/default/volumesnapshots",
    "volumesnapshotcontents": "/apis/snapshot.storage.k8s.io/v1/volumesnapshotcontents",
    "volumesnapshotclasses": "/apis/snapshot.storage.k8s.io/v1/volumesnapshotclasses",
    "volumegroupsnapshots": "/apis/groupsnapshot.storage.k8s.io/v1/namespaces/default/volumegroupsnapshots",
    "volumegroupsnapshotcontents": "/apis/groupsnapshot.storage.k8s.io/v1/volumegroupsnapshotcontents",
    "volumegroupsnapshotclasses": "/apis/groupsnapshot.storage.k8s.io/v1/volumegroupsnapshotclasses",
}
SHORT = {"pvc": "persistentvolumeclaims", "pv": "persistentvolumes", "pod": "pods", "node": "nodes",
         "namespace": "namespaces"}
PLURALS = {"Pod": "pods", "PersistentVolumeClaim": "persistentvolumeclaims", "PersistentVolume": "persistentvolumes",
           "Node": "nodes", "Namespace": "namespaces", "Endpoints": "endpoints", "RuntimeClass": "runtimeclasses",
           "StorageClass": "storageclasses", "CSINode": "csinodes",
           "HostMount": "hostmounts", "StorageCluster": "storageclusters", "VolumeFence": "volumefences",
           "NodeCleanup": "nodecleanups", "BlockSnapshot": "blocksnapshots",
           "VolumeAttributesClass": "volumeattributesclasses", "VolumeSnapshot": "volumesnapshots",
           "VolumeSnapshotClass": "volumesnapshotclasses", "VolumeSnapshotContent": "volumesnapshotcontents",
           "VolumeGroupSnapshot": "volumegroupsnapshots", "VolumeGroupSnapshotClass": "volumegroupsnapshotclasses"}


def path_of(kind, ns):
    """Gives the path of a kind's list, in a namespace if the kind has namespaces. It is None where PATHS has none."""
    path = PATHS.get(SHORT.get(kind, kind))
    if path is None or ns == "default":
        return path
    return path.replace("/namespaces/default/", f"/namespaces/{ns}/") if "/namespaces/default/" in path else None


class _Connection(http.client.HTTPConnection):
    def __init__(self, path, timeout):
        super().__init__("localhost", timeout=timeout)
        self._path = str(path)

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


class LocalApi:
    """A client that raises a Failure when it gets no answer of the API, because nobody listens or the connection
    broke."""

    def __init__(self, socket_path, timeout=15):
        self.socket_path = socket_path
        self.timeout = timeout

    def call(self, method, path, body=None, content_type="application/json"):
        """Sends a request, and gives (code, object)."""
        connection = _Connection(self.socket_path, self.timeout)
        try:
            connection.request(method, path, body=None if body is None else json.dumps(body),
                               headers={"Content-Type": content_type} if body is not None else {})
            response = connection.getresponse()
            return response.status, json.loads(response.read())
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise Failure(f"{method} {path}: {error!r}") from None
        finally:
            connection.close()

    def get(self, kind, name, ns="default"):
        """Gives the object, or None."""
        code, answer = self.call("GET", f"{path_of(kind, ns)}/{name}")
        return None if code == 404 else self._ok(code, answer)

    def items(self, kind, ns="default"):
        return self._ok(*self.call("GET", path_of(kind, ns)))["items"]

    def create(self, item):
        """Creates the object unless it exists."""
        code, answer = self.call("POST", PATHS[PLURALS[item["kind"]]], item)
        return None if code == 409 else self._ok(code, answer)

    def patch(self, plural, name, change, subresource=""):
        path = f"{PATHS[plural]}/{name}{subresource and '/' + subresource}"
        return self._ok(*self.call("PATCH", path, change, "application/merge-patch+json"))

    def delete(self, plural, name):
        """Asks for the deletion, and gives true once the object is gone."""
        code, answer = self.call("DELETE", f"{PATHS[plural]}/{name}")
        if code != 404:
            self._ok(code, answer)
        return code == 404 or self.get(plural, name) is None

    @staticmethod
    def _ok(code, answer):
        if code >= 400:
            raise Failure(f"{code}: {answer.get('message', answer)}")
        return answer
