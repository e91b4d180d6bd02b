"""The driver double behind a proxy that alters what it is asked and what it answers, for answers that the double has no switch for."""
from concurrent import futures

import grpc

from lib import protobuf
from lib.csi_double import CsiDouble

SECONDS = 60  # for a call of the double


class AlteredDouble:
    """Stands in for the CsiDouble in World(double=...). `alter_snapshot` is a function that changes each snapshot of an answer, as
    a dictionary from the numbers of proto/csi.proto to lists of values. `volume_ids` has, by the id that a caller gives, the
    double's id of that volume."""

    def __init__(self, folder, name):
        self.double = CsiDouble(folder / "d", name=name)
        self.socket = folder / "altered.sock"
        self.alter_snapshot = None
        self.volume_ids = {}
        self.asked = []  # (method, volume id as the caller gave it), where volume_ids has it
        self._channel = self._server = None

    def __getattr__(self, name):
        return getattr(self.double, name)

    def start(self):
        self.double.start()
        self._channel = grpc.insecure_channel(f"unix:{self.double.socket}")
        self._server = grpc.server(futures.ThreadPoolExecutor(8), handlers=[_Handler(self)])
        self._server.add_insecure_port(f"unix:{self.socket}")
        self._server.start()
        return self

    def stop(self):
        if self._server is not None:
            self._server.stop(None).wait(SECONDS)
            self._channel.close()
        self.double.stop()

    def pass_on(self, path, request, context):
        """Gives the double's answer to a call. Both are bytes."""
        method = path.rpartition("/")[2]
        try:
            answer = self._channel.unary_unary(path)(self._altered_request(method, request), timeout=SECONDS)
        except grpc.RpcError as error:
            context.abort(error.code(), error.details())
        return self._altered_answer(method, answer)

    def _altered_request(self, method, request):
        if method not in ("ControllerPublishVolume", "ControllerUnpublishVolume"):
            return request
        fields = protobuf.decode(request)
        given = fields[1][0].decode()
        if given not in self.volume_ids:
            return request
        self.asked.append((method, given))
        return protobuf.encode(fields | {1: [self.volume_ids[given]]})

    def _altered_answer(self, method, answer):
        if self.alter_snapshot is None or method not in ("CreateSnapshot", "ListSnapshots"):
            return answer
        fields = protobuf.decode(answer)
        if method == "CreateSnapshot":
            fields[1] = [self._altered_snapshot(one) for one in fields[1]]
        else:  # a list of entries, each around a snapshot
            fields[1] = [protobuf.encode({1: self._altered_snapshot(protobuf.decode(entry)[1][0])}) for entry in fields.get(1, [])]
        return protobuf.encode(fields)

    def _altered_snapshot(self, snapshot):
        fields = protobuf.decode(snapshot)
        self.alter_snapshot(fields)
        return protobuf.encode(fields)


class _Handler(grpc.GenericRpcHandler):
    """Serves each method of each service, whose messages stay bytes."""

    def __init__(self, double):
        self._double = double

    def service(self, handler_call_details):
        method = handler_call_details.method
        return grpc.unary_unary_rpc_method_handler(lambda request, context: self._double.pass_on(method, request, context))
