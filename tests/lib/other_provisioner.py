"""Stands for another program that takes over the provisioner's work of one driver: it takes and releases the election
lease as client-go does, and writes PersistentVolumes as the Go provisioner does."""
import datetime

from lib.standalone import wait_for


def _now():
    return datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")


class OtherProvisioner:
    def __init__(self, api, driver, namespace="default"):
        self.api = api
        self.driver = driver
        self.path = (f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/"
                     f"{driver.replace('.', '-')}")

    def _write(self, **spec):
        """Changes the spec alone, and gives whether the lease was still as it was read."""
        code, lease = self.api.call("GET", self.path)
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
            "metadata": {"name": name, "annotations": {"pv.kubernetes.io/provisioned-by": self.driver}},
            "spec": {"capacity": {"storage": claim["spec"]["resources"]["requests"]["storage"]},
                     "accessModes": claim["spec"]["accessModes"], "persistentVolumeReclaimPolicy": policy,
                     "storageClassName": claim["spec"]["storageClassName"], "claimRef": reference,
                     "csi": {"driver": self.driver, "volumeHandle": handle}}})
        code, answer = self.api.call("POST", "/api/v1/namespaces/default/events", {
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": f"{meta['name']}.other"},
            "involvedObject": reference, "reason": "ProvisioningSucceeded", "type": "Normal",
            "message": f"Successfully provisioned volume {name}"})
        assert code == 201, answer
        return name
