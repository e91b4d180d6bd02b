"""A client of any CSI driver by its socket. It checks the rules for all answers with every call: besides those of
RulesClient, an error has no details, and strings, maps and numbers are within their bounds."""
from google.protobuf.descriptor import FieldDescriptor

from lib.proto_messages import csi
from lib.rules import Violation
from lib.rules_client import RulesClient

PATHS = ("staging_target_path", "target_path", "volume_path")


class Driver(RulesClient):
    def __init__(self, endpoint, seconds=60):
        super().__init__(csi, endpoint, seconds)

    def check_answer(self, method, answer):
        check_limits(method, answer)

    def refusal(self, method, error):
        found = super().refusal(method, error)
        if not isinstance(found, Violation) and any(key == "grpc-status-details-bin"
                                                    for key, _ in error.trailing_metadata() or ()):
            return Violation("error-with-details", f"{method}: {error.code().name} with details")
        return found


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
