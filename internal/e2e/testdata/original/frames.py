"""The frames of the original's bridge: a header of 22 bytes, and a protobuf message encoded here by hand."""

import random
import re
import struct

import numpy as np

# Message types of the header.
STATUS = 1
OPEN_SESSION = 2
OPENED_SESSION = 3
CLOSE_SESSION = 4
CLOSED_SESSION = 5
SYNC = 6
SYNCED = 7
GET_LOSS = 8
LOSS = 9
KILL_SESSION = 10

# Codes of a Status.
OK = 0
ERROR_IN_SL = 1
ERROR_IN_USER = 2

HEADER_SIZE = 22

# Fields of each message: number, name, kind. A kind in capitals is a message. What a release lacks is not sent by it.
STATUS_FIELDS = [(1, "code", "int32"), (2, "msg", "string")]
SESSION_REQUEST = [
    (1, "syncInterval", "int32"),
    (2, "minPeers", "int32"),
    (3, "maxPeers", "int32"),
    (4, "useAdaptiveSync", "bool"),
    (5, "checkinModelOnTrainEnd", "string"),
    (6, "nodeWeightage", "int32"),
    (7, "trainingContract", "string"),
    (8, "mergeMethod", "string"),
]
SESSION_RESPONSE = [(1, "status", "STATUS"), (2, "sessionID", "string")]
SYNC_REQUEST = [
    (1, "sessionID", "string"),
    (2, "syncSeqNum", "int32"),
    (3, "nodeWeightage", "int32"),
    (4, "numberOfNodes", "int32"),
    (5, "fileName", "string"),
]
LOSS_REQUEST = [
    (1, "sessionID", "string"),
    (2, "syncSeqNum", "int32"),
    (3, "lossSeqNum", "int32"),
    (4, "fileName", "string"),
]
LOSS_RESPONSE = [
    (1, "sessionID", "string"),
    (2, "syncSeqNum", "int32"),
    (3, "lossSeqNum", "int32"),
    (4, "status", "STATUS"),
    (5, "loss", "float"),
    (6, "metrics", "float"),
    (7, "epochsdone", "int32"),
    (8, "totalepochs", "int32"),
]
SYNC_RESPONSE = [
    (1, "sessionID", "string"),
    (2, "syncSeqNum", "int32"),
    (3, "status", "STATUS"),
    (4, "nextSyncInterval", "int32"),
    (5, "trainingOver", "bool"),
]
KILL_REQUEST = [(1, "sessionID", "string"), (2, "reason", "STATUS")]
NDARRAY = [(1, "dtype", "string"), (2, "shape", "uint32s"), (3, "data", "bytes")]


def in_band(fields):
    """The message as releases before 2.3 have it: its file name is a message with the weights."""
    return [(n, "weights", "WEIGHTS") if name == "fileName" else (n, name, kind) for n, name, kind in fields]


def header(version, kind, size):
    """The 22 bytes before a message. The version stands there twice, as the one sent and as the least one taken."""
    return struct.pack("<BBBIBIBIBI", 0x0A, 10, 0x0D, version, 0x15, version, 0x15, kind, 0x1D, size)


def parse_header(data):
    """The version, the type and the size of the message."""
    values = {1: b"", 2: 0, 3: 0}
    values.update({number: value for number, _, value in _fields(data)})
    version = {number: value for number, _, value in _fields(values[1])}
    return version.get(1, 0), values[2], values[3]


def encode(fields, values):
    """The message of these values. As proto3 has it, what is zero or empty is left out."""
    out = bytearray()
    for number, name, kind in fields:
        value = values.get(name)
        if kind == "WEIGHTS" and value is not None:
            out += _bytes(number, encode_weights(value))
        elif kind == "STATUS" and value is not None:
            out += _bytes(number, encode(STATUS_FIELDS, value))
        elif not value:
            continue
        elif kind in ("int32", "bool"):
            out += _varint(number << 3) + _varint(int(value) & 0xFFFFFFFFFFFFFFFF)
        elif kind == "float":
            out += _varint(number << 3 | 5) + struct.pack("<f", value)
        elif kind == "string":
            out += _bytes(number, value.encode())
        elif kind == "bytes":
            out += _bytes(number, value)
        else:
            out += _bytes(number, b"".join(_varint(v) for v in value))
    return bytes(out)


def decode(fields, data):
    """The values of a message, with zero, empty or None for what is absent. Unknown fields are passed over."""
    zero = {"string": "", "bytes": b"", "float": 0.0, "bool": False, "STATUS": None, "WEIGHTS": None}
    values = {name: [] if kind == "uint32s" else zero.get(kind, 0) for _, name, kind in fields}
    known = {number: (name, kind) for number, name, kind in fields}
    for number, wire, value in _fields(data):
        name, kind = known.get(number, ("", ""))
        if kind in ("int32", "bool") and wire == 0:
            values[name] = bool(value) if kind == "bool" else _int32(value)
        elif kind == "float" and wire == 5:
            values[name] = struct.unpack("<f", struct.pack("<I", value))[0]
        elif kind == "string" and wire == 2:
            values[name] = value.decode()
        elif kind == "bytes" and wire == 2:
            values[name] = value
        elif kind == "STATUS" and wire == 2:
            values[name] = decode(STATUS_FIELDS, value)
        elif kind == "WEIGHTS" and wire == 2:
            values[name] = decode_weights(value)
        elif kind == "uint32s":
            values[name] += [value] if wire == 0 else _varints(value)
        elif kind:
            raise ValueError(f"field {number} ({name}) has wire type {wire}")
    return values


def encode_weights(weights):
    """A dict of arrays as the map of releases before 2.3: entries of a name and an NDArray with bytes in C order.

    Protobuf promises no order of a map's entries, and its C++ code has another one in each process.
    """
    out = bytearray()
    for name, array in random.sample(list(weights.items()), len(weights)):
        value = {"dtype": repr(array.dtype), "shape": array.shape, "data": array.tobytes()}
        out += _bytes(1, _bytes(1, name.encode()) + _bytes(2, encode(NDARRAY, value)))
    return bytes(out)


def decode_weights(data):
    """The dict of arrays of such a map."""
    weights = {}
    for number, _, entry in _fields(data):
        if number != 1:
            continue
        pair = {n: value for n, _, value in _fields(entry)}
        array = decode(NDARRAY, pair.get(2, b""))
        form = re.fullmatch(r"dtype\('([<>=|]?\w+)'\)", array["dtype"])
        if not form:
            raise ValueError(f"a tensor has the type {array['dtype']!r}, which is no repr of a dtype")
        flat = np.frombuffer(bytearray(array["data"]), form.group(1))
        weights[pair.get(1, b"").decode()] = flat.reshape(array["shape"])
    return weights


def _bytes(number, value):
    return _varint(number << 3 | 2) + _varint(len(value)) + value


def _varint(value):
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _read_varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def _int32(value):
    value &= 0xFFFFFFFF
    return value - (value >> 31 << 32)


def _varints(data):
    values, at = [], 0
    while at < len(data):
        value, at = _read_varint(data, at)
        values.append(value)
    return values


def _fields(data):
    """Number, wire type and value of each field, one after another."""
    at = 0
    while at < len(data):
        tag, at = _read_varint(data, at)
        wire = tag & 7
        if wire == 0:
            value, at = _read_varint(data, at)
        elif wire == 1:
            value, at = struct.unpack_from("<Q", data, at)[0], at + 8
        elif wire == 2:
            size, at = _read_varint(data, at)
            value, at = data[at : at + size], at + size
            if len(value) != size:
                raise ValueError("a field is longer than its message")
        elif wire == 5:
            value, at = struct.unpack_from("<I", data, at)[0], at + 4
        else:
            raise ValueError(f"wire type {wire}")
        yield tag >> 3, wire, value
