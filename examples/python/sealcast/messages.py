"""Plaintexts of the push role: padding, and just enough protobuf for the messages of section 6.

Messages are dictionaries with all their fields. Protobuf's encoding is a
sequence of fields, each a tag (number << 3 | wire type, as a varint) and a
value: wire type 0 is a varint, 1 is 8 bytes little-endian, 2 is a length and
that many bytes, 5 is 4 bytes. 3 begins a group of fields up to a 4 of the same
number: no message here has any, and they are passed over.
"""

from __future__ import annotations

import struct
from typing import Any, Iterator

from . import ProtocolError

VARINT, FIXED64, BYTES, GROUP, GROUP_END, FIXED32 = 0, 1, 2, 3, 4, 5

# The tables of section 6.1: field number → name and type. A type in capitals is
# a message; [] means repeated.
MESSAGES: dict[str, dict[int, tuple[str, str]]] = {
    "ClientFrame": {
        1: ("connect", "Connect"), 2: ("subscribe", "Subscribe"), 3: ("unsubscribe", "Unsubscribe"),
        4: ("refresh", "Refresh"), 5: ("ping", "Ping"),
    },
    "ServerFrame": {
        15: ("batch", "Batch"), 16: ("connected", "Connected"), 17: ("subscribed", "Subscribed"), 18: ("unsubscribed", "Unsubscribed"),
        19: ("topics", "Topics"), 20: ("snapshot", "Snapshot"), 22: ("gap", "Gap"),
        23: ("notice", "Notice"), 24: ("heartbeat", "Heartbeat"), 25: ("group_key", "GroupKey"),
        26: ("group_mark", "GroupMark"), 27: ("group_leave", "GroupLeave"), 28: ("error", "Error"), 29: ("pong", "Pong"),
        30: ("refreshed", "Refreshed"),
    },
    "Connect": {
        1: ("token", "string"), 2: ("codecs", "uint32[]"), 3: ("client_name", "string"), 4: ("client_version", "string"),
        5: ("groups", "bool"),
    },
    "Connected": {
        1: ("session", "string"), 2: ("user", "string"), 3: ("codec", "uint32"),
        4: ("heartbeat_interval_ms", "uint32"), 5: ("heartbeat_timeout_ms", "uint32"),
        6: ("limits", "Limits"), 7: ("version", "string"),
        8: ("ticket", "bytes"), 9: ("ticket_nonce", "bytes"), 10: ("ticket_lifetime_s", "uint32"),
        11: ("expires_at_s", "uint64"), 12: ("dictionary", "bytes"), 13: ("groups", "bool"), 14: ("clock_us", "uint64"),
    },
    "Limits": {1: ("message_bytes", "uint32"), 2: ("subscriptions", "uint32"), 3: ("messages_per_second", "uint32")},
    "Subscribe": {
        1: ("id", "uint32"), 2: ("subscriptions", "Subscription[]"), 3: ("since", "Position[]"), 4: ("cursor", "bytes"),
    },
    "Position": {1: ("topic", "string"), 2: ("epoch", "uint64"), 3: ("seq", "uint64")},
    "Subscription": {1: ("filter", "string"), 2: ("max_rate", "double"), 3: ("max_age_ms", "uint32")},
    "Subscribed": {1: ("id", "uint32"), 2: ("filters", "string[]"), 3: ("topics", "TopicState[]")},
    "Unsubscribe": {1: ("id", "uint32"), 2: ("filters", "string[]")},
    "Unsubscribed": {1: ("id", "uint32"), 2: ("filters", "string[]")},
    "Topics": {1: ("topics", "TopicState[]")},
    "TopicState": {
        1: ("number", "uint32"), 2: ("name", "string"), 3: ("epoch", "uint64"), 4: ("next_seq", "uint64"),
        5: ("recovered", "bool"),
    },
    "Snapshot": {1: ("values", "Value[]")},
    "Value": {
        1: ("topic", "uint32"), 2: ("epoch", "uint64"), 3: ("seq", "uint64"),
        4: ("time_us", "fixed64"), 5: ("payload", "bytes"), 6: ("stale", "bool"),
    },
    "Batch": {
        1: ("base_us", "sint64"), 2: ("topics", "uint32[]"), 3: ("firsts", "uint64[]"), 4: ("order", "uint32[]"),
        5: ("sizes", "uint32[]"), 6: ("deltas", "sint64[]"), 7: ("skipped", "uint64[]"), 8: ("steps", "sint64[]"),
        9: ("resets", "Reset[]"), 10: ("payloads", "bytes"), 11: ("cursor", "bytes"),
    },
    "Reset": {
        1: ("epoch", "uint64"), 2: ("next_seq", "uint64"), 3: ("cause", "Cause"), 4: ("topic", "uint32"), 5: ("at", "uint32"),
    },
    "Heartbeat": {1: ("time_us", "uint64"), 2: ("heads", "TopicHead[]"), 3: ("cursor", "bytes")},
    "TopicHead": {1: ("topic", "uint32"), 2: ("seq", "uint64")},
    "Gap": {1: ("topic", "uint32"), 2: ("epoch", "uint64"), 3: ("from", "uint64"), 4: ("to", "uint64"), 5: ("cause", "Cause")},
    "Notice": {
        1: ("kind", "Kind"), 2: ("text", "string"), 3: ("merged", "uint64"), 4: ("dropped", "uint64"),
        5: ("expires_at_s", "uint64"), 6: ("topics", "uint32[]"),
    },
    "GroupKey": {
        1: ("id", "uint32"), 2: ("secret", "bytes"), 3: ("suite", "string"), 4: ("next_counter", "uint64"), 5: ("chain", "bytes"),
    },
    "GroupMark": {1: ("id", "uint32"), 2: ("counter", "uint64"), 3: ("chain", "bytes")},
    "GroupLeave": {1: ("id", "uint32")},
    "Refresh": {1: ("id", "uint32"), 2: ("token", "string")},
    "Refreshed": {1: ("id", "uint32"), 2: ("expires_at_s", "uint64")},
    "Error": {1: ("id", "uint32"), 2: ("code", "uint32"), 3: ("text", "string"), 4: ("filter", "string")},
    "Ping": {1: ("id", "uint64")},
    "Pong": {1: ("id", "uint64")},
    "Goodbye": {1: ("code", "uint32"), 2: ("text", "string"), 3: ("reconnect_after_ms", "uint32")},
}

PACKED = ("uint32[]", "uint64[]", "sint64[]")  # repeated numbers, in one field

CAUSES = {
    0: "unspecified", 1: "source_lost", 2: "source_overflow", 3: "oversized", 4: "resubscribed", 5: "too_slow", 6: "expired",
}
NOTICES = {0: "unspecified", 1: "slow", 2: "caught_up", 3: "source_lost", 4: "source_back", 5: "token_expires"}

Message = dict[str, Any]


def encode_frame(frame: str, name: str, message: Message, pad_to: int = 0) -> bytes:
    """The plaintext of a record: codec 0, padding, and a frame with one message (5.2)."""
    body = encode(frame, {name: message})
    padding = max(pad_to - 3 - len(body), 0)
    return b"\0" + padding.to_bytes(2, "big") + body + bytes(padding)


def decode_frame(frame: str, plaintext: bytes) -> tuple[str, Message]:
    """Name and content of the one message in a plaintext, with all the checks of 5.2."""
    padding = int.from_bytes(plaintext[1:3], "big")
    end = len(plaintext) - padding
    if len(plaintext) < 3 or end < 3 or any(plaintext[end:]):
        raise ProtocolError("malformed padding")
    if plaintext[0] != 0:
        raise ProtocolError(f"codec {plaintext[0]} was not agreed on")
    parts = list(fields(plaintext[3:end]))
    if len(parts) != 1:
        raise ProtocolError(f"{len(parts)} messages in a frame")
    number, wire_type, value = parts[0]
    if number not in MESSAGES[frame] or wire_type != BYTES:
        raise ProtocolError(f"unknown message {number}")
    name, kind = MESSAGES[frame][number]
    return name, decode(kind, value)


def encode(kind: str, message: Message) -> bytes:
    """Encode a message. Fields that are absent or zero are left out, as in proto3."""
    out = bytearray()
    for number, (name, field_kind) in MESSAGES[kind].items():
        value = message.get(name)
        if field_kind in PACKED:
            if value:
                out += field(number, "bytes", b"".join(varint(zigzag(v) if field_kind == "sint64[]" else v) for v in value))
        elif field_kind.endswith("[]"):
            for v in value or []:
                out += field(number, field_kind[:-2], v)
        elif value is not None and (value or field_kind in MESSAGES):
            out += field(number, field_kind, value)
    return bytes(out)


def field(number: int, kind: str, value: Any) -> bytes:
    if kind == "fixed64":
        return varint(number << 3 | FIXED64) + value.to_bytes(8, "little")
    if kind == "sint64":
        return varint(number << 3 | VARINT) + varint(zigzag(value))
    if kind == "double":
        return varint(number << 3 | FIXED64) + struct.pack("<d", value)
    if isinstance(value, int):
        return varint(number << 3 | VARINT) + varint(value)
    if isinstance(value, str):
        value = value.encode()
    elif kind in MESSAGES:
        value = encode(kind, value)
    return varint(number << 3 | BYTES) + varint(len(value)) + value


def zigzag(value: int) -> int:
    """How sint64 stands in a varint: small whatever the sign."""
    return value << 1 if value >= 0 else -value * 2 - 1


def varint(value: int) -> bytes:
    """Seven bits a byte, the lowest first; the highest bit says that more follow."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out) + bytes([value])


def decode(kind: str, data: bytes) -> Message:
    """Decode a message; fields that are not there get their zero value, unknown ones are ignored."""
    message = {name: zero(k) for name, k in MESSAGES[kind].values()}
    for number, wire_type, raw in fields(data):
        name, field_kind = MESSAGES[kind].get(number, ("", ""))
        if field_kind.endswith("[]") and wire_type == BYTES and wire_type_of(field_kind) == VARINT:  # packed
            at = 0
            while at < len(raw):
                value, at = read_varint(raw, at)
                message[name].append(convert(field_kind.removesuffix("[]"), value))
        elif field_kind and wire_type == wire_type_of(field_kind):
            value = convert(field_kind.removesuffix("[]"), raw)
            if field_kind.endswith("[]"):
                message[name].append(value)
            else:
                message[name] = value
    return message


def zero(kind: str) -> Any:
    if kind.endswith("[]"):
        return []
    if kind in MESSAGES:
        return None
    return {"string": "", "bytes": b""}.get(kind, 0)


def wire_type_of(kind: str) -> int:
    kind = kind.removesuffix("[]")
    if kind in ("fixed64", "double"):
        return FIXED64
    return BYTES if kind in ("string", "bytes") or kind in MESSAGES else VARINT


def convert(kind: str, raw: Any) -> Any:
    if kind in MESSAGES:
        return decode(kind, raw)
    if kind == "string":
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            raise ProtocolError("a string is not UTF-8") from error
    if kind == "sint64":
        return raw >> 1 ^ -(raw & 1)
    if kind == "bool":
        return raw != 0
    if kind == "double":
        return struct.unpack("<d", raw.to_bytes(8, "little"))[0]
    if kind in ("uint32", "Cause", "Kind"):
        return raw & 0xFFFFFFFF
    return raw


def fields(data: bytes) -> Iterator[tuple[int, int, Any]]:
    """The fields of an encoded message: number, wire type, and the value as int or bytes, which a group has not."""
    at, groups = 0, []  # numbers of the groups that are open
    while at < len(data):
        tag, at = read_varint(data, at)
        number, wire_type = tag >> 3, tag & 7
        if not 0 < number < 1 << 29:
            raise ProtocolError(f"field number {number}")
        if wire_type == GROUP:
            groups.append(number)
        elif wire_type == GROUP_END:
            if not groups or groups.pop() != number:
                raise ProtocolError(f"group {number} ends and did not begin")
            if not groups:
                yield number, GROUP, None
        else:
            value, at = read_value(data, at, wire_type)
            if not groups:
                yield number, wire_type, value
    if groups:
        raise ProtocolError("a group is cut off")


def read_value(data: bytes, at: int, wire_type: int) -> tuple[Any, int]:
    """The value of a field at a position, as int or bytes, and the position behind it."""
    if wire_type == VARINT:
        return read_varint(data, at)
    if wire_type == BYTES:
        size, at = read_varint(data, at)
    elif wire_type in (FIXED64, FIXED32):
        size = 8 if wire_type == FIXED64 else 4
    else:
        raise ProtocolError(f"wire type {wire_type}")
    if size > len(data) - at:
        raise ProtocolError("a field is cut off")
    value = data[at : at + size]
    return value if wire_type == BYTES else int.from_bytes(value, "little"), at + size


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """The varint at a position, and the position behind it."""
    value = 0
    for i in range(10):
        if at + i >= len(data):
            break
        byte = data[at + i]
        value |= (byte & 0x7F) << 7 * i
        if byte < 0x80:
            if value >= 1 << 64:
                break
            return value, at + i + 1
    raise ProtocolError("malformed number")
