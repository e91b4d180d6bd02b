"""Stands for another program that takes over the provisioner's work of one driver: it takes and releases the election
lease as client-go does, and makes and deletes volumes and PersistentVolumes as the Go provisioner does."""
import datetime

import grpc
from lib import protobuf
from lib.failure import Failure
from lib.standalone import wait_for

FINALIZER = "external-provisioner.volume.kubernetes.io/finalizer"
PROVISIONED_BY = "pv.kubernetes.io/provisioned-by"
MIB = 1 << 20


def _now():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class OtherProvisioner:
    def __init__(self, api, driver, namespace="default", socket=None):
        """`socket`: the driver's, which work() needs."""
        self.api = api
        self.driver = driver
        self.socket = socket
        self.leases = f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases"
        self.path = f"{self.leases}/{driver.replace('.', '-')}"

    def _write(self, **spec):
        """Changes the spec alone, and gives whether the lease was still as it was read. A lease that nobody had yet is
        made."""
        code, lease = self.api.call("GET", self.path)
        if code == 404:
            lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                     "metadata": {"name": self.path.rpartition("/")[2]}, "spec": spec}
            return self.api.call("POST", self.leases, lease)[0] == 201
        assert code == 200, lease
        lease["spec"].update(spec)
        return self.api.call("PUT", self.path, lease)[0] == 200

    def lead(self):
        """Takes the lease, which the last holder must have left."""
        wait_for("the lease to be written", lambda: self._write(holderIdentity="other", leaseDurationSeconds=3600,
                                                                acquireTime=_now(), renewTime=_now()))

    def go(self):
        """Ends in order."""
        wait_for("the lease to be written", lambda: self._write(holderIdentity="", leaseDurationSeconds=1,
                                                                renewTime=_now()))

    def provision(self, claim, handle, policy="Delete"):
        """Makes the PersistentVolume for what the driver has, and says so in an event."""
        meta = claim["metadata"]
        name = f"pvc-{meta['uid']}"
        reference = {"kind": "PersistentVolumeClaim", "apiVersion": "v1", "namespace": meta["namespace"],
                     "name": meta["name"], "uid": meta["uid"]}
        self.api.create({
            "apiVersion": "v1", "kind": "PersistentVolume",
            "metadata": {"name": name, "annotations": {PROVISIONED_BY: self.driver},
                         "finalizers": [FINALIZER] if policy == "Delete" else []},
            "spec": {"capacity": {"storage": claim["spec"]["resources"]["requests"]["storage"]},
                     "accessModes": claim["spec"]["accessModes"], "persistentVolumeReclaimPolicy": policy,
                     "storageClassName": claim["spec"]["storageClassName"], "claimRef": reference,
                     "csi": {"driver": self.driver, "volumeHandle": handle}}})
        code, answer = self.api.call("POST", "/api/v1/namespaces/default/events", {
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": f"{meta['name']}.{meta['uid']}"},
            "involvedObject": reference, "reason": "ProvisioningSucceeded", "type": "Normal",
            "message": f"Successfully provisioned volume {name}"})
        assert code in (201, 409), answer
        return name

    def work(self):
        """Does once what is to be done now: makes volumes of a filesystem for the claims that wait for the driver, and
        deletes the volumes that nobody wants. Claims have whole MiB."""
        for claim in self.api.items("persistentvolumeclaims"):
            if self._is_asked_for(claim):
                self.provision(claim, self._create_volume(claim))
        for volume in self.api.items("persistentvolumes"):
            if self._is_unwanted(volume):
                self._delete_volume(volume)

    def _is_asked_for(self, claim):
        return not claim["spec"].get("volumeName") and self.driver == claim["metadata"].get("annotations", {}).get(
            "volume.kubernetes.io/storage-provisioner")

    def _is_unwanted(self, volume):
        meta = volume["metadata"]
        return (meta.get("annotations", {}).get(PROVISIONED_BY) == self.driver
                and volume["status"]["phase"] == "Released" and volume["spec"]["persistentVolumeReclaimPolicy"] == "Delete"
                and ("deletionTimestamp" not in meta or FINALIZER in meta.get("finalizers", [])))

    def _create_volume(self, claim):
        """Calls CreateVolume by the name that every provisioner gives the claim's volume, and gives the handle."""
        size = claim["spec"]["resources"]["requests"]["storage"]
        capability = {2: {}, 3: {1: 1}}  # mounted, by a single writer
        answer = self._call("CreateVolume", {1: f"pvc-{claim['metadata']['uid']}",
                                             2: {1: int(size.removesuffix("Mi")) * MIB}, 3: [capability]})
        return protobuf.at(answer, 1, 2).decode()

    def _delete_volume(self, volume):
        name = volume["metadata"]["name"]
        self._call("DeleteVolume", {1: volume["spec"]["csi"]["volumeHandle"]})
        if self.api.delete("persistentvolumes", name):
            return
        kept = (self.api.get("persistentvolumes", name) or {"metadata": {}})["metadata"].get("finalizers", [])
        if FINALIZER in kept:
            left = [each for each in kept if each != FINALIZER]
            self.api.patch("persistentvolumes", name, {"metadata": {"finalizers": left}})

    def _call(self, method, request):
        """Gives the driver's answer as bytes."""
        with grpc.insecure_channel(f"unix:{self.socket}") as channel:
            try:
                return channel.unary_unary(f"/csi.v1.Controller/{method}")(protobuf.encode(request), timeout=20)
            except grpc.RpcError as error:
                raise Failure(f"{method}: {error.code().name}: {error.details()}") from None
