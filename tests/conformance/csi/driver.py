"""A client of any CSI driver by its socket. It checks the rules for all answers with every call: the answer comes,
its code is one of gRPC's, an error has a message and no details, and strings, maps and numbers are within their
bounds."""
import socket
import time

import grpc
from google.protobuf import json_format, message
from google.protobuf.descriptor import FieldDescriptor

from case import Violation
from lib.csi_messages import csi

PATHS = ("staging_target_path", "target_path", "volume_path")


class Refused(Exception):
    """The driver answered with an error."""

    def __init__(self, method, code, text):
        super().__init__(f"{method}: {code}: {text}")
        self.method = method
        self.code = code
        self.text = text


class Driver:
    def __init__(self, endpoint, seconds=60):
        self.endpoint = str(endpoint)
        self.seconds = seconds
        self.channel = grpc.insecure_channel(f"unix:{self.endpoint}")
        self.services = {method.name: service for service in csi.DESCRIPTOR.services_by_name.values()
                         for method in service.methods}

    def close(self):
        self.channel.close()

    def call(self, method, **fields):
        """Gives the answer, or raises Refused for an error. After ABORTED the call is repeated a few times, as CSI
        asks of a caller."""
        request = json_format.ParseDict(fields, getattr(csi, f"{method}Request")())
        for attempt in range(5):
            try:
                return self._once(method, request)
            except Refused as refused:
                if refused.code != "ABORTED" or attempt == 4 or method.startswith("List"):
                    if refused.code == "ABORTED" and attempt == 4:
                        raise Violation("aborted-forever", f"{method}: ABORTED, although no other call is pending") \
                            from refused
                    raise
            time.sleep(0.05 * 2 ** attempt)
        raise AssertionError("not reached")

    def _once(self, method, request):
        path = f"/{self.services[method].full_name}/{method}"
        call = self.channel.unary_unary(path, request_serializer=lambda m: m.SerializeToString(),
                                        response_deserializer=None)
        try:
            data = call(request, timeout=self.seconds, wait_for_ready=False)
        except grpc.RpcError as error:
            raise self._refusal(method, error) from error
        answer = getattr(csi, f"{method}Response")()
        try:
            answer.ParseFromString(data)
        except (message.DecodeError, UnicodeDecodeError) as error:
            raise Violation("invalid-utf8", f"{method}: the answer cannot be read: {error}") from error
        check_limits(method, answer)
        return answer

    def _goes_away(self):
        """Tells whether the driver has ended or is ending, because its connections close before its socket does."""
        deadline = time.monotonic() + 1
        while self.listens():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        return True

    def _refusal(self, method, error):
        code = error.code().name
        if code == "DEADLINE_EXCEEDED":
            return Violation("hangs", f"{method}: no answer within {self.seconds} s")
        if code == "UNAVAILABLE":
            if self._goes_away():
                return Violation("dies", f"{method}: the driver is gone")
            return Violation("loses-answers", f"{method}: UNAVAILABLE, although the driver is there: {error.details()}")
        if code == "UNKNOWN":
            return Violation("unknown-code", f"{method}: the code says nothing: {error.details()}")
        if not error.details():
            return Violation("error-without-message", f"{method}: {code} without a message")
        if any(key == "grpc-status-details-bin" for key, _ in error.trailing_metadata() or ()):
            return Violation("error-with-details", f"{method}: {code} with details")
        return Refused(method, code, error.details())

    def listens(self):
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(self.endpoint)
            except OSError:
                return False
        return True


def check_limits(method, answer):
    """Checks CSI, section "Size Limits", and that no number is negative."""
    for field, value in answer.ListFields():
        where = f"{method}: {field.name}"
        is_map = field.message_type is not None and field.message_type.GetOptions().map_entry
        if is_map:
            size = sum(len(key.encode()) + len(item.encode()) for key, item in value.items())
            if size > 4096:
                rule = "oversized-publish-context" if field.name == "publish_context" else "oversized-context"
                raise Violation(rule, f"{where} has {size} bytes, and may have 4096")
            continue
        for item in value if field.label == FieldDescriptor.LABEL_REPEATED else [value]:
            if field.message_type is not None:
                check_limits(f"{method}: {field.name}", item)
            elif isinstance(item, str):
                limit = 4096 if field.name in PATHS else 256 if field.name == "node_id" else 128
                if len(item.encode()) > limit:
                    rule = "node-id-too-long" if field.name == "node_id" else "oversized-volume-id"
                    raise Violation(rule, f"{where} has {len(item.encode())} bytes, and may have {limit}")
            elif isinstance(item, int) and not isinstance(item, bool) and item < 0:
                raise Violation(NEGATIVE.get(field.name, "capacity-negative"), f"{where} is {item}")


NEGATIVE = {"available_capacity": "free-negative", "max_volumes_per_node": "max-volumes-negative",
            "total": "stats-negative"}
