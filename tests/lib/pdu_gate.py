"""A TcpGate for iSCSI (RFC 7143) that changes what the target answers to chosen commands, or loses the answer."""
import contextlib
import socket
import struct
import threading

from lib.tcp_gate import TcpGate

HEADER = 48
COMMAND, RESPONSE = 0x01, 0x21
CHECK_CONDITION = 0x02
RESERVATION_CONFLICT = 0x18
PERSISTENT_RESERVE_OUT, WRITE, SYNCHRONIZE_CACHE, WRITE_SAME = 0x5F, 0x8A, 0x91, 0x93
PREEMPT = 4


def is_command(code, action=None):
    """Matches the commands with that operation code, and service action if one is given."""
    return lambda cdb: cdb[0] == code and (action is None or cdb[1] & 0x1F == action)


def sense(key, code):
    """Turns a response into CHECK CONDITION with that sense key and code."""
    def change(header, _):
        data = struct.pack(">HBBBIBIHHH", 18, 0x70, 0, key, 0, 10, 0, code, 0, 0)
        assert len(data) == 20
        return bytes([header[0], 0x80, 0, CHECK_CONDITION, 0, 0, 0, len(data)]) + header[8:44] + bytes(4) + data
    return change


def status(code):
    """Gives a response another status."""
    return lambda header, data: header[:3] + bytes([code]) + header[4:] + data


def lose(*_):
    """Cuts the connection in the place of the answer."""


class PduGate(TcpGate):
    def __init__(self, server):
        self._rules = []  # [matches, change, times left]
        self._commands = {}  # (client, task tag): cdb
        self._lock = threading.Lock()
        super().__init__(server)

    def change(self, matches, how, times=1):
        """Applies `how` to the next answers to commands that match. Only answers without data are looked at."""
        with self._lock:
            self._rules.append([matches, how, times])

    def left(self):
        """How many answers are still to be changed."""
        with self._lock:
            return sum(rule[2] for rule in self._rules)

    def _rule_for(self, cdb):
        with self._lock:
            for rule in self._rules:
                if rule[2] > 0 and rule[0](cdb):
                    rule[2] -= 1
                    return rule[1]
        return None

    def _pass(self, source, sink, held):
        client = source if held else sink
        with contextlib.suppress(OSError, EOFError):
            while True:
                header = _read(source, HEADER)
                size = 4 * header[4] + (int.from_bytes(header[5:8], "big") + 3) // 4 * 4
                data = _read(source, size)
                if held and not self._open.is_set():
                    self.held += HEADER + size
                    self._open.wait()
                code, tag = header[0] & 0x3F, (client, header[16:20])
                if held and code == COMMAND:
                    self._commands[tag] = header[32:48]
                pdu = header + data
                if not held and code == RESPONSE:
                    how = self._rule_for(self._commands.get(tag, bytes(16)))
                    if how is not None:
                        pdu = how(header, data)
                    if pdu is None:
                        break
                sink.sendall(pdu)
                self.passed += len(pdu) if held else 0
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


def _read(source, size):
    data = b""
    while len(data) < size:
        part = source.recv(size - len(data))
        if not part:
            raise EOFError
        data += part
    return data
