"""Just enough of the protobuf wire format to write an object as a typed Go client does and to read what comes back.

A message is written as a dictionary from field numbers to values: a string or bytes, an int or bool (varint), a
dictionary (message), or a list (repeated field).
"""
import struct

MAGIC = b"k8s\x00"


def varint(number):
    number &= (1 << 64) - 1
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def encode(message):
    out = b""
    for number, value in message.items():
        for one in value if isinstance(value, list) else [value]:
            if isinstance(one, bool) or isinstance(one, int):
                out += varint(number << 3) + varint(int(one))
                continue
            if isinstance(one, dict):
                one = encode(one)
            elif isinstance(one, str):
                one = one.encode()
            out += varint(number << 3 | 2) + varint(len(one)) + one
    return out


def entries(mapping):
    """A map field's value."""
    return [{1: key, 2: value} for key, value in mapping.items()]


def envelope(api_version, kind, message):
    """Gives a request's body: the magic, and an Unknown around the object."""
    return MAGIC + encode({1: {1: api_version, 2: kind}, 2: encode(message)})


def read_varint(data, at):
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            return number, at


def decode(data):
    """{number: [values]}; an embedded message stays bytes."""
    fields = {}
    at = 0
    while at < len(data):
        tag, at = read_varint(data, at)
        number, wire = tag >> 3, tag & 7
        if wire == 0:
            value, at = read_varint(data, at)
        elif wire == 2:
            size, at = read_varint(data, at)
            value, at = data[at:at + size], at + size
            assert len(value) == size, "cut off"
        elif wire == 1:
            value, at = struct.unpack_from("<q", data, at)[0], at + 8
        elif wire == 5:
            value, at = struct.unpack_from("<i", data, at)[0], at + 4
        else:
            raise AssertionError(f"wire type {wire}")
        fields.setdefault(number, []).append(value)
    return fields


def at(data, *path):
    """Gives the only value at a path of field numbers, as bytes or int, or None if it is absent."""
    for number in path:
        values = decode(data).get(number)
        if values is None:
            return None
        assert len(values) == 1, f"field {number} is there {len(values)} times"
        (data,) = values
    return data


def unwrap(body):
    """(apiVersion, kind, raw) of an envelope."""
    assert body[:4] == MAGIC, body[:20]
    unknown = body[4:]
    return (at(unknown, 1, 1) or b"").decode(), (at(unknown, 1, 2) or b"").decode(), at(unknown, 2) or b""
