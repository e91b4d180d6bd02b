"""A client of any CRUST handler by its socket. It checks the rules for all answers with every call: besides those of RulesClient,
no number is negative, and no text is too long."""
from google.protobuf.descriptor import FieldDescriptor

from lib.proto_messages import crust
from lib.rules import Violation
from lib.rules_client import RulesClient

MOST_TEXT = 4096


class CrustClient(RulesClient):
    answers_unavailable = True  # the device has to grow first, or too many calls wait

    def __init__(self, endpoint, seconds=60):
        super().__init__(crust, endpoint, seconds)

    def check_answer(self, method, answer):
        check_limits(method, answer)


def check_limits(where, answer):
    for field, value in answer.ListFields():
        for item in value if field.label == FieldDescriptor.LABEL_REPEATED else [value]:
            if field.message_type is not None:
                check_limits(f"{where}: {field.name}", item)
            elif isinstance(item, str) and len(item.encode()) > MOST_TEXT:
                raise Violation("oversized-text", f"{where}: {field.name} has {len(item.encode())} bytes")
            elif isinstance(item, int) and item < 0:
                raise Violation("negative-number", f"{where}: {field.name} is {item}")
