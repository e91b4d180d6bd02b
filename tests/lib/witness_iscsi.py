"""A LUN of a real iSCSI target, for the race of witness.py."""
import json
import subprocess

from lib.iscsi import PROGRAM, call, request
from lib.standalone import Failure
from lib.tcp_gate import TcpGate


class WitnessLun:
    program = PROGRAM
    fence_seconds = 0.02  # of the life of a fence in which it is killed

    def __init__(self, tgt, patience=0):
        """`patience`: for how many seconds what takes the target too long is tried again."""
        self.tgt = tgt
        self.patience = patience
        self.identity = call("info", tgt.portal, lun=1)["identity"]

    def open_way(self):
        return TcpGate(self.tgt.portal)

    def settings(self, node, right, way):
        """`right` is a ticket."""
        portal = self.tgt.portal if way is None else way.portal
        return request(portal, node=node, lun=1, identity=self.identity, ticket=right)

    def inside(self, _):
        return []

    def right_of(self, node):
        return call("holders", self.tgt.portal, lun=1, node=node)["ticket"]

    def _members(self, node, target):
        return {"lun": 1, "node": node, "target": target, "identity": self.identity}

    def list_clients(self, node, target):
        return call("fenceTargets", self.tgt.portal, **self._members(node, target))["keys"]

    def begin_fence(self, node, target, clients):
        text = json.dumps({"call": "fence"} | request(self.tgt.portal, keys=clients, **self._members(node, target)))
        process = subprocess.Popen([PROGRAM, "call"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL)
        process.stdin.write(text.encode())
        process.stdin.close()
        process.stdin = None
        return process

    def fence(self, node, target, clients):
        """None: another fence came in between."""
        fenced = call("fence", self.tgt.portal, keys=clients, **self._members(node, target))
        if "error" not in fenced:
            return fenced["ticket"]
        if fenced["error"]["code"] != "ABORTED":
            raise Failure(f"fence {target}: {fenced}")
        return None

    def lift_fence(self, node):
        """A fence leaves nothing behind."""

    def read(self):
        return self.tgt.data(1)
