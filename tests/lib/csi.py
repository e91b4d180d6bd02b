"""A CSI driver at its socket, as a CO calls it: the few calls that tests make themselves (proto/csi.proto)."""
import grpc

from lib import protobuf
from lib.standalone import Failure

_EXT4_ON_ONE_NODE = {2: {1: "ext4"}, 3: {1: 1}}


class Driver:
    def __init__(self, socket_path, timeout=15):
        self.socket_path = socket_path
        self.timeout = timeout

    def _call(self, service, method, request):
        with grpc.insecure_channel(f"unix:{self.socket_path}") as channel:
            rpc = channel.unary_unary(f"/csi.v1.{service}/{method}")
            try:
                return rpc(protobuf.encode(request), timeout=self.timeout)
            except grpc.RpcError as error:
                raise Failure(f"{method}: {error.code().name}: {error.details()}") from None

    def create_snapshot(self, volume, name):
        """The snapshot's id."""
        return protobuf.at(self._call("Controller", "CreateSnapshot", {1: volume, 2: name}), 1, 2).decode()

    def create_volume_from(self, snapshot, name):
        """The volume's id."""
        answer = self._call("Controller", "CreateVolume",
                            {1: name, 3: _EXT4_ON_ONE_NODE, 6: {1: {1: snapshot}}})
        return protobuf.at(answer, 1, 2).decode()

    def stage(self, volume, staging):
        self._call("Node", "NodeStageVolume", {1: volume, 3: str(staging), 4: _EXT4_ON_ONE_NODE})

    def publish(self, volume, staging, target):
        self._call("Node", "NodePublishVolume",
                   {1: volume, 3: str(staging), 4: str(target), 5: _EXT4_ON_ONE_NODE})

    def unpublish(self, volume, target):
        self._call("Node", "NodeUnpublishVolume", {1: volume, 2: str(target)})

    def unstage(self, volume, staging):
        self._call("Node", "NodeUnstageVolume", {1: volume, 2: str(staging)})

    def delete_volume(self, volume):
        self._call("Controller", "DeleteVolume", {1: volume})

    def delete_snapshot(self, snapshot):
        self._call("Controller", "DeleteSnapshot", {1: snapshot})
