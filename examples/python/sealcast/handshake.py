"""The handshake: Noise NX with the prologue that binds offer and choice (section 3)."""

from __future__ import annotations

import base64
from dataclasses import dataclass

from dissononce.cipher.chachapoly import ChaChaPolyCipher
from dissononce.dh.dh import DH
from dissononce.dh.x25519.x25519 import X25519DH
from dissononce.exceptions.decrypt import DecryptFailedException
from dissononce.hash.sha256 import SHA256Hash
from dissononce.processing.handshakepatterns.interactive.NX import NXHandshakePattern
from dissononce.processing.impl.cipherstate import CipherState
from dissononce.processing.impl.handshakestate import HandshakeState
from dissononce.processing.impl.symmetricstate import SymmetricState

from . import ProtocolError

KIND_INIT, KIND_REPLY = b"\x01", b"\x02"
HYBRID, HARDWARE_AES = 0x01, 0x02  # flags of the hellos (3.3, 3.4)

# Whole messages, kind included. The larger of a pair carries ML-KEM's part.
INIT_SIZES = {False: 34, True: 1218}
REPLY_SIZES = {False: 98, True: 1186}


def parse_pin(text: str) -> bytes:
    """Read a pin: base64url of 32 bytes without padding, 43 characters (3.7)."""
    try:
        key = base64.b64decode(text + "=", altchars=b"-_", validate=True)
    except ValueError:
        key = b""
    if len(key) != 32 or format_pin(key) != text:
        raise ValueError(f"{text!r} is not a pin: want 43 base64url characters")
    return key


def format_pin(key: bytes) -> str:
    return base64.urlsafe_b64encode(key).decode().rstrip("=")


def prologue(role: str, realm: str, offered: list[str], selected: str) -> bytes:
    """What both sides saw before the handshake (3.2)."""
    return "\0".join(["sealcast.v1", role, realm, ",".join(offered), selected]).encode()


@dataclass(frozen=True)
class Agreed:
    """The outcome of a handshake."""

    h: bytes  # handshake hash
    k_c: bytes  # Split's first key: client to gateway
    k_s: bytes  # Split's second key: gateway to client
    static: bytes  # the gateway's public key, to be compared with the pins
    flags: int  # of ServerHello
    kem: bytes  # the ML-KEM ciphertext; empty unless flags has HYBRID


class Handshake:
    """The client's side of one handshake. Each of its methods is called once."""

    def __init__(self, prologue: bytes, hello: bytes = b"\0", dh: DH | None = None) -> None:
        """hello is ClientHello: flags, then the ML-KEM key if the flag says so.

        dh makes the ephemeral key; tests replace it.
        """
        self._hello = hello
        symmetric = SymmetricState(CipherState(ChaChaPolyCipher()), SHA256Hash())
        self._noise = HandshakeState(symmetric, dh or X25519DH())
        self._noise.initialize(NXHandshakePattern(), True, prologue)

    def init(self) -> bytes:
        """Make HandshakeInit (3.3)."""
        message = bytearray(KIND_INIT)
        self._noise.write_message(self._hello, message)
        return bytes(message)

    def finish(self, reply: bytes) -> Agreed:
        """Read HandshakeReply (3.4); its length is looked at before anything else."""
        if reply[:1] != KIND_REPLY:
            raise ProtocolError("not a HandshakeReply")
        hybrid = len(reply) == REPLY_SIZES[True] and bool(self._hello[0] & HYBRID)
        if len(reply) != REPLY_SIZES[hybrid]:
            raise ProtocolError(f"HandshakeReply of {len(reply)} bytes")
        payload = bytearray()
        try:
            to_gateway, to_client = self._noise.read_message(reply[1:], payload)
        except (DecryptFailedException, ValueError) as error:  # ValueError: a point of low order
            raise ProtocolError("handshake failed: wrong realm, or bytes changed on the way") from error
        if bool(payload[0] & HYBRID) != hybrid:
            raise ProtocolError("the flags of ServerHello do not fit its length")
        return Agreed(
            h=self._noise.symmetricstate.get_handshake_hash(),
            k_c=to_gateway._key,  # dissononce offers no other way to the keys of Split
            k_s=to_client._key,
            static=bytes(self._noise.rs.data),
            flags=payload[0],
            kem=bytes(payload[1:]),
        )
