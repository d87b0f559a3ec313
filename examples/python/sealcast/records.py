"""Key schedule and records (section 4)."""

from __future__ import annotations

import hashlib
import hmac
from typing import Any, Protocol

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

from . import ProtocolError

KIND_RECORD, KIND_GROUP_RECORD, KIND_KEY_UPDATE, KIND_GOODBYE = 0x10, 0x11, 0x12, 0x13
PREFIX = "sealcast.v1."

# What a sender may seal under one key, and a receiver open (4.4).
MAX_RECORDS, MAX_BYTES, MAX_SECONDS = 1 << 20, 64 << 30, 600
MAX_RECEIVED = 1 << 23


class Cipher(Protocol):
    """An AEAD, as package cryptography has them."""

    def encrypt(self, nonce: bytes, data: bytes, associated_data: bytes) -> bytes: ...

    def decrypt(self, nonce: bytes, data: bytes, associated_data: bytes) -> bytes: ...


class Plain:
    """No protection, for baseline measurements."""

    def __init__(self, key: bytes) -> None: ...

    def encrypt(self, nonce: bytes, data: bytes, associated_data: bytes) -> bytes:
        return data

    decrypt = encrypt


# By name: the cipher and the length of its key (1.2).
SUITES = {
    "aes-128-gcm": (AESGCM, 16),
    "aes-256-gcm": (AESGCM, 32),
    "chacha20-poly1305": (ChaCha20Poly1305, 32),
    "plain": (Plain, 0),
}


def first_secret(h: bytes, split_key: bytes, shared: bytes = b"") -> bytes:
    """The first secret S of a direction; shared is the ML-KEM secret or empty (4.1)."""
    return hmac.digest(h, split_key + shared, "sha256")  # HKDF-Extract, RFC 5869 section 2.2


def expand(secret: bytes, label: str, size: int) -> bytes:
    return HKDFExpand(SHA256(), size, label.encode()).derive(secret)


class Direction:
    """One direction of a session: its secret, key, iv and counter."""

    def __init__(self, suite: str, secret: bytes) -> None:
        self.suite = suite
        self._start(secret)

    def _start(self, secret: bytes) -> None:
        cipher, size = SUITES[self.suite]
        self.secret = secret
        self.key = expand(secret, "sealcast v1 key " + self.suite, size) if size else b""
        self.iv = expand(secret, "sealcast v1 iv " + self.suite, 12)
        self.counter = 0
        self._cipher: Cipher = cipher(self.key)

    def _rekey(self) -> None:
        self._start(expand(self.secret, "sealcast v1 next", 32))

    def _nonce(self) -> bytes:
        number = self.counter.to_bytes(12, "big")  # four zero bytes, then the counter as u64
        self.counter += 1  # before the cipher is called: no error can make it come twice
        return bytes(a ^ b for a, b in zip(self.iv, number))


class Sealer(Direction):
    """The sending direction."""

    def __init__(self, suite: str, secret: bytes, max_records: int = MAX_RECORDS) -> None:
        """max_records may be less than the protocol's maximum, for tests."""
        self._max_records = max_records
        super().__init__(suite, secret)

    def _start(self, secret: bytes) -> None:
        super()._start(secret)
        self._bytes, self._since = 0, 0.0

    def seal(self, kind: int, plaintext: bytes, now: float) -> list[bytes]:
        """Seal one record: the messages to send, a KeyUpdate before it if one is due.

        now is in seconds, of the same clock at every call.
        """
        messages = []
        if self._due(now):
            messages.append(self._seal(KIND_KEY_UPDATE, b""))
            self._rekey()
        if self.counter == 0:
            self._since = now
        self._bytes += len(plaintext)
        messages.append(self._seal(kind, plaintext))
        return messages

    def _due(self, now: float) -> bool:
        return self.counter > 0 and (
            self.counter >= self._max_records or self._bytes >= MAX_BYTES or now - self._since >= MAX_SECONDS
        )

    def _seal(self, kind: int, plaintext: bytes) -> bytes:
        header = bytes([kind])
        return header + self._cipher.encrypt(self._nonce(), plaintext, header)


class Opener(Direction):
    """The receiving direction. After its first error nothing opens any more (4.3)."""

    failed = False

    def open(self, message: bytes) -> tuple[int, bytes]:
        """Open one message: its kind and plaintext. A KeyUpdate has already taken effect."""
        try:
            if self.failed:
                raise ProtocolError("a record failed before")
            return self._open(message)
        except ProtocolError:
            self.failed = True
            raise

    def _open(self, message: bytes) -> tuple[int, bytes]:
        kind, fresh = message[0] if message else -1, self.counter == 0
        if kind not in (KIND_RECORD, KIND_KEY_UPDATE, KIND_GOODBYE):
            raise ProtocolError(f"message of kind {kind:#x} instead of a record")
        if self.counter >= MAX_RECEIVED:
            raise ProtocolError("too many records under one key")
        try:
            plaintext = self._cipher.decrypt(self._nonce(), message[1:], message[:1])
        except (InvalidTag, ValueError) as error:  # ValueError: shorter than a tag
            raise ProtocolError("a record does not open") from error
        if kind == KIND_KEY_UPDATE:
            if fresh or plaintext:
                raise ProtocolError("KeyUpdate under an unused key, or with content")
            self._rekey()
        if kind == KIND_GOODBYE:
            self.failed = True  # nothing may follow
        return kind, plaintext


class Group:
    """The group that a client is in, and its end of the group's key (4.5)."""

    HEADER = 13

    def __init__(self, suite: str, group_key: dict[str, Any]) -> None:
        """group_key is the message GroupKey; suite that of the session."""
        secret, self.chain, self.next = group_key["secret"], group_key["chain"], group_key["next_counter"]
        if len(secret) != 32 or len(self.chain) != 32 or group_key["suite"] != suite or self.next >= MAX_RECEIVED:
            raise ProtocolError("a GroupKey that cannot be")
        cipher, size = SUITES[suite]
        self.suite, self.id, self.settled = suite, group_key["id"], True
        self.key = expand(secret, "sealcast v1 group key " + suite, size) if size else b""
        self.iv = expand(secret, "sealcast v1 group iv " + suite, 12)
        self._cipher: Cipher = cipher(self.key)

    def open(self, message: bytes) -> bytes:
        """Open exactly the next record of the group: its plaintext."""
        header, counter = message[: self.HEADER], self.next.to_bytes(8, "big")
        if header != bytes([KIND_GROUP_RECORD]) + self.id.to_bytes(4, "big") + counter or self.next >= MAX_RECEIVED:
            raise ProtocolError("a record of another group, or out of order")
        nonce = bytes(a ^ b for a, b in zip(self.iv, bytes(4) + counter))
        try:
            plaintext = self._cipher.decrypt(nonce, message[self.HEADER :], header)
        except (InvalidTag, ValueError) as error:
            raise ProtocolError("a group record does not open") from error
        self.next, self.settled = self.next + 1, False
        self.chain = hashlib.sha256(self.chain + message).digest()
        return plaintext

    def check(self, group_mark: dict[str, Any]) -> None:
        """Compare a GroupMark with what was opened."""
        if (group_mark["id"], group_mark["counter"], group_mark["chain"]) != (self.id, self.next, self.chain):
            raise ProtocolError("records of the group were lost, delayed, or made by another member")
        self.settled = True
