"""A proxy before a CSI driver's socket that keeps the requests as the driver gets them, and can change the answers."""
import collections
from concurrent import futures

import grpc

from lib import protobuf
from lib.csi_double import CsiDouble

SECONDS = 60  # for a call of the driver without a deadline


class CsiProxy(grpc.GenericRpcHandler):
    """Serves until closed. `alter` has functions by method, which change the fields of an answer. `codes` has codes of the driver's
    failures, and those that take their place."""

    def __init__(self, path, driver_socket):
        self.path = path
        self.alter = {}
        self.codes = {}
        self._requests = collections.defaultdict(list)
        self._driver = grpc.insecure_channel(f"unix:{driver_socket}")
        self._server = grpc.server(futures.ThreadPoolExecutor(8), handlers=[self])
        self._server.add_insecure_port(f"unix:{path}")
        self._server.start()

    def close(self):
        self._server.stop(None).wait(SECONDS)
        self._driver.close()

    def requests(self, method):
        """Gives the fields of each request, {number: [values]}, in their order."""
        return [protobuf.decode(message) for message in list(self._requests[method])]

    def service(self, handler_call_details):
        path = handler_call_details.method
        return grpc.unary_unary_rpc_method_handler(lambda request, context: self._pass_on(path, request, context))

    def _pass_on(self, path, request, context):
        """Gives the driver's answer to a call. Both are bytes."""
        method = path.rpartition("/")[2]
        self._requests[method].append(request)
        try:
            answer = self._driver.unary_unary(path)(request, timeout=min(context.time_remaining() or SECONDS, SECONDS))
        except grpc.RpcError as error:
            context.abort(self.codes.get(error.code(), error.code()), error.details())
        if method not in self.alter:
            return answer
        fields = protobuf.decode(answer)
        self.alter[method](fields)
        return protobuf.encode(fields)


class ProxiedDouble:
    """The driver double behind a CsiProxy, for World(double=...)."""

    def __init__(self, folder, name):
        self.double = CsiDouble(folder / "d", name=name)
        self.socket = folder / "proxy.sock"
        self.proxy = None

    def __getattr__(self, name):
        return getattr(self.double, name)

    def start(self):
        self.double.start()
        self.proxy = CsiProxy(self.socket, self.double.socket)
        return self

    def stop(self):
        if self.proxy is not None:
            self.proxy.close()
        self.double.stop()


def texts(entries):
    """Gives the map that a field with these values is."""
    return {(protobuf.at(entry, 1) or b"").decode(): (protobuf.at(entry, 2) or b"").decode() for entry in entries}
