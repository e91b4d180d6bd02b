"""What serves CSI in a test and keeps the requests: a proxy before a driver's socket, which can change the answers, among them."""
import collections
from concurrent import futures

import grpc
from google.protobuf import json_format

from lib import protobuf
from lib.proto_messages import csi

SECONDS = 60  # for a call of the driver without a deadline


class CsiServer(grpc.GenericRpcHandler):
    """Serves CSI at a socket until closed, and keeps the requests. A subclass says how a call is answered."""

    def __init__(self, path):
        self.path = path
        self._requests = collections.defaultdict(list)
        self._server = grpc.server(futures.ThreadPoolExecutor(8), handlers=[self])
        self._server.add_insecure_port(f"unix:{path}")
        self._server.start()

    def close(self):
        self._server.stop(None).wait(SECONDS)

    def requests(self, method):
        """Gives the fields of each request, {number: [values]}, in their order."""
        return [protobuf.decode(message) for message in list(self._requests[method])]

    def messages(self, method):
        """Gives each request with the names of its fields, as JSON has them."""
        return [json_format.MessageToDict(getattr(csi, f"{method}Request").FromString(message), preserving_proto_field_name=True)
                for message in list(self._requests[method])]

    def service(self, handler_call_details):
        path = handler_call_details.method
        return grpc.unary_unary_rpc_method_handler(lambda request, context: self._serve(path, request, context))

    def _serve(self, path, request, context):
        method = path.rpartition("/")[2]
        self._requests[method].append(request)
        return self.answer(path, method, request, context)

    def answer(self, path, method, request, context):
        """Gives the answer to a call, or aborts it. Request and answer are bytes."""
        raise NotImplementedError


class CsiProxy(CsiServer):
    """`alter` has functions by method, which change the fields of an answer. `codes` has codes of the driver's failures, and those
    that take their place. `failures` has (code, words) by method, which are the answer in place of the driver's."""

    def __init__(self, path, driver_socket):
        self.alter = {}
        self.codes = {}
        self.failures = {}
        self._driver = grpc.insecure_channel(f"unix:{driver_socket}")
        super().__init__(path)

    def close(self):
        super().close()
        self._driver.close()

    def answer(self, path, method, request, context):
        if failure := self.failures.get(method):
            context.abort(*failure)
        try:
            answer = self._driver.unary_unary(path)(request, timeout=min(context.time_remaining() or SECONDS, SECONDS))
        except grpc.RpcError as error:
            context.abort(self.codes.get(error.code(), error.code()), error.details())
        if method not in self.alter:
            return answer
        fields = protobuf.decode(answer)
        self.alter[method](fields)
        return protobuf.encode(fields)


class Proxied:
    """A driver behind a CsiProxy, for World(double=...)."""

    def __init__(self, driver, socket):
        self.double = driver
        self.socket = socket
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


def other_capabilities(message, drop=(), add=()):
    """Gives a function for CsiProxy.alter by which a driver says that it lacks or has RPCs. `message`: the capability's class."""
    def alter(fields):
        names = {message.RPC.Type.Name(message.FromString(each).rpc.type) for each in fields.get(1, ())}
        fields[1] = [message(rpc={"type": name}).SerializeToString() for name in sorted(names - set(drop) | set(add))]
    return alter


def texts(entries):
    """Gives the map that a field with these values is."""
    return {(protobuf.at(entry, 1) or b"").decode(): (protobuf.at(entry, 2) or b"").decode() for entry in entries}
