"""A client for a conformance suite: it calls a peer by its UNIX socket, and checks the rules for all answers with every call:
the answer comes, its code is one of gRPC's, and an error has a message."""
import socket
import time

import grpc
from google.protobuf import json_format, message

from lib.rules import Refused, Violation
from lib.standalone import wait_for


class RulesClient:
    """`messages` is the module of a .proto file. `answers_unavailable`: UNAVAILABLE may be a peer's answer, and not only a sign
    that the peer is gone."""

    answers_unavailable = False

    def __init__(self, messages, endpoint, seconds):
        self.messages = messages
        self.endpoint = str(endpoint)
        self.seconds = seconds
        self.channel = self._connect()
        self.services = {method.name: service for service in messages.DESCRIPTOR.services_by_name.values()
                         for method in service.methods}

    def close(self):
        self.channel.close()

    def _connect(self):
        # A connection of its own: gRPC would share one, with how long it waits after failures, among all channels to a socket.
        return grpc.insecure_channel(f"unix:{self.endpoint}", options=[("grpc.use_local_subchannel_pool", 1)])

    def reconnect(self):
        """Connects to a peer that was started again, as soon as it listens."""
        wait_for("the peer to listen", self.listens)
        self.close()
        self.channel = self._connect()

    def call(self, method, **fields):
        """Gives the answer, or raises Refused for an error. After ABORTED the call is repeated a few times, as callers do."""
        request = json_format.ParseDict(fields, getattr(self.messages, f"{method}Request")())
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

    def stub(self, method):
        """Gives a function that sends a request and gives the answer's bytes."""
        return self.channel.unary_unary(f"/{self.services[method].full_name}/{method}",
                                        request_serializer=lambda m: m.SerializeToString(), response_deserializer=None)

    def _once(self, method, request):
        try:
            data = self.stub(method)(request, timeout=self.seconds, wait_for_ready=False)
        except grpc.RpcError as error:
            raise self.refusal(method, error) from error
        answer = getattr(self.messages, f"{method}Response")()
        try:
            answer.ParseFromString(data)
        except (message.DecodeError, UnicodeDecodeError) as error:
            raise Violation("invalid-utf8", f"{method}: the answer cannot be read: {error}") from error
        self.check_answer(method, answer)
        return answer

    def check_answer(self, method, answer):
        """Raises a Violation if the answer breaks a rule for all answers."""
        raise NotImplementedError

    def _goes_away(self):
        """Tells whether the peer has ended or is ending, because its connections close before its socket does."""
        deadline = time.monotonic() + 1
        while self.listens():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        return True

    def refusal(self, method, error):
        """Gives what to raise for a call that failed: a Violation, or Refused."""
        code = error.code().name
        if code == "DEADLINE_EXCEEDED":
            return Violation("hangs", f"{method}: no answer within {self.seconds} s")
        if code == "UNAVAILABLE":
            if self._goes_away():
                return Violation("dies", f"{method}: the process that served the socket is gone")
            if not self.answers_unavailable:
                return Violation("loses-answers", f"{method}: UNAVAILABLE, although a process serves the socket: {error.details()}")
        if code == "UNKNOWN":
            return Violation("unknown-code", f"{method}: the code says nothing: {error.details()}")
        if not error.details():
            return Violation("error-without-message", f"{method}: {code} without a message")
        return Refused(method, code, error.details())

    def listens(self):
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(self.endpoint)
            except OSError:
                return False
        return True


def refuses(client, method, *codes, **fields):
    """Checks that the peer answers with one of these codes."""
    try:
        answer = client.call(method, **fields)
    except Refused as refused:
        assert refused.code in codes, f"{method} gave {refused.code} ({refused.text}), not {' or '.join(codes)}"
        return
    raise AssertionError(f"{method} gave OK ({str(answer).strip()!r}), not {' or '.join(codes)}")
