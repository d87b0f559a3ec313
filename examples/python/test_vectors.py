"""testdata/vectors against this implementation: run with `python3 -m unittest discover -s examples/python`."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import unittest
from pathlib import Path

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand
from dissononce.cipher.chachapoly import ChaChaPolyCipher
from dissononce.dh.x25519.private import PrivateKey
from dissononce.dh.x25519.x25519 import X25519DH
from dissononce.extras.dh.dangerous.dh_nogen import NoGenDH
from dissononce.hash.sha256 import SHA256Hash
from dissononce.processing.handshakepatterns.interactive.NN import NNHandshakePattern
from dissononce.processing.impl.cipherstate import CipherState
from dissononce.processing.impl.handshakestate import HandshakeState
from dissononce.processing.impl.symmetricstate import SymmetricState
from dissononce.processing.modifiers.psk import PSKPatternModifier

from sealcast import ProtocolError, handshake, messages, records, topics

VECTORS = Path(__file__).resolve().parents[2] / "testdata" / "vectors"
RECORDS = 300  # under the first key


class SM4GCM:
    """SM4-GCM from SM4-CTR and a GHASH of its own (NIST SP 800-38D): this package's library lacks the mode."""

    def __init__(self, key: bytes) -> None:
        self._cipher = algorithms.SM4(key)
        block = Cipher(self._cipher, modes.ECB()).encryptor()
        self._h = int.from_bytes(block.update(bytes(16)), "big")

    def _ghash(self, associated_data: bytes, ciphertext: bytes) -> bytes:
        sizes = (len(associated_data) * 8).to_bytes(8, "big") + (len(ciphertext) * 8).to_bytes(8, "big")
        data = associated_data + bytes(-len(associated_data) % 16) + ciphertext + bytes(-len(ciphertext) % 16) + sizes
        y = 0
        for at in range(0, len(data), 16):
            x, v, z = y ^ int.from_bytes(data[at : at + 16], "big"), self._h, 0
            for bit in range(127, -1, -1):  # multiplication in GF(2^128), bits reflected
                if x >> bit & 1:
                    z ^= v
                v = v >> 1 ^ (0xE1 << 120 if v & 1 else 0)
            y = z
        return y.to_bytes(16, "big")

    def _crypt(self, nonce: bytes, counter: int, data: bytes) -> bytes:
        return Cipher(self._cipher, modes.CTR(nonce + counter.to_bytes(4, "big"))).encryptor().update(data)

    def encrypt(self, nonce: bytes, data: bytes, associated_data: bytes) -> bytes:
        ciphertext = self._crypt(nonce, 2, data)
        return ciphertext + self._crypt(nonce, 1, self._ghash(associated_data, ciphertext))

    def decrypt(self, nonce: bytes, data: bytes, associated_data: bytes) -> bytes:
        plaintext = self._crypt(nonce, 2, data[:-16])
        if not hmac.compare_digest(self.encrypt(nonce, plaintext, associated_data), data):
            raise InvalidTag
        return plaintext


records.SUITES.setdefault("sm4-gcm", (SM4GCM, 16))


def load(path: Path) -> dict:
    return json.loads(path.read_text(encoding="utf-8"))


def sessions(kind: str = "session") -> list[tuple[str, dict]]:
    """Name and content of the vectors: of full handshakes, or of any kind of session with "*"."""
    paths = [path for mode in ("classical", "hybrid") for path in VECTORS.glob(f"{kind}-*-{mode}.json")]
    return [(path.stem, load(path)) for path in sorted(paths)]


def client(vector: dict) -> handshake.Handshake:
    """The client of a vector. ClientHello is taken from the vector: no ML-KEM here to make its key."""
    dh = NoGenDH(X25519DH(), PrivateKey(bytes.fromhex(vector["client_ephemeral_private"])))
    hello = bytes.fromhex(vector["handshake"]["init"])[33:]
    prologue = handshake.prologue(vector["role"], vector["realm"], vector["offered"], vector["selected"])
    return handshake.Handshake(prologue, hello, dh)


def plaintext(n: int) -> bytes:
    """Of record n: n bytes, byte i is (n + i) mod 256."""
    return bytes((n + i) % 256 for i in range(n))


class TestSessions(unittest.TestCase):
    def test_every_suite_is_there(self) -> None:
        names = {name for name, _ in sessions("*")}
        kinds, modes = ("session", "resumption"), ("classical", "hybrid")
        self.assertEqual(names, {f"{k}-{s}-{m}" for k in kinds for s in records.SUITES for m in modes})

    def test_handshake(self) -> None:
        for name, v in sessions():
            with self.subTest(name):
                want = v["handshake"]
                self.assertEqual(handshake.prologue(v["role"], v["realm"], v["offered"], v["selected"]).hex(), v["prologue"])
                noise = client(v)
                self.assertEqual(noise.init().hex(), want["init"])
                agreed = noise.finish(bytes.fromhex(want["reply"]))
                self.assertEqual(agreed.h.hex(), want["h"])
                self.assertEqual(agreed.k_c.hex(), want["k_c"])
                self.assertEqual(agreed.k_s.hex(), want["k_s"])
                self.assertEqual(agreed.static.hex(), v["gateway_static_public"])
                self.assertEqual(handshake.format_pin(agreed.static), v["pin"])
                self.assertEqual(handshake.parse_pin(v["pin"]), agreed.static)
                self.assertEqual((agreed.flags, len(agreed.kem)), (1, 1088) if "hybrid" in name else (0, 0))

    def test_records(self) -> None:
        for name, v in sessions("*"):
            shared = bytes.fromhex(v["handshake"]["ml_kem_secret"])
            h = bytes.fromhex(v["handshake"]["h"])
            for direction, split in (("client_to_gateway", "k_c"), ("gateway_to_client", "k_s")):
                with self.subTest(name, direction=direction):
                    secret = records.first_secret(h, bytes.fromhex(v["handshake"][split]), shared)
                    self.check_direction(v["suite"], secret, v[direction])

    def check_direction(self, suite: str, secret: bytes, want: dict) -> None:
        seal, open_ = records.Sealer(suite, secret, max_records=RECORDS), records.Opener(suite, secret)
        self.check_keys(seal, want["keys"][0])
        digest = hashlib.sha256()
        for n in range(RECORDS):
            (message,) = seal.seal(records.KIND_RECORD, plaintext(n), 0)
            digest.update(message)
            self.assertEqual(message.hex(), want["messages"].get(str(n), message.hex()))
            self.assertEqual(open_.open(message), (records.KIND_RECORD, plaintext(n)))
        self.assertEqual(digest.hexdigest(), want["messages_0_to_299_sha256"])

        update, first = seal.seal(records.KIND_RECORD, plaintext(RECORDS), 0)
        self.assertEqual(update.hex(), want["key_update"])
        self.assertEqual(open_.open(update), (records.KIND_KEY_UPDATE, b""))
        self.check_keys(open_, want["keys"][1])
        after = [first] + [seal.seal(records.KIND_RECORD, plaintext(RECORDS + i), 0)[0] for i in (1, 2)]
        self.assertEqual([m.hex() for m in after], want["messages_after_key_update"])
        for i, message in enumerate(after):
            self.assertEqual(open_.open(message), (records.KIND_RECORD, plaintext(RECORDS + i)))
        (message,) = seal.seal(records.KIND_GOODBYE, b"bye", 0)
        self.assertEqual(message.hex(), want["goodbye"])
        self.assertEqual(open_.open(message), (records.KIND_GOODBYE, b"bye"))

    def check_keys(self, direction: records.Direction, want: dict) -> None:
        got = {"secret": direction.secret.hex(), "key": direction.key.hex(), "iv": direction.iv.hex()}
        self.assertEqual(got, want)

    def test_resume_master(self) -> None:
        for name, v in sessions("*"):
            with self.subTest(name):
                secret = bytes.fromhex(v["gateway_to_client"]["keys"][0]["secret"])
                self.assertEqual(records.expand(secret, "sealcast v1 resume", 32).hex(), v["resume_master"])

    def test_handshake_by_hand(self) -> None:
        """Section 3.5 of docs/protocol.md, word by word, without a Noise library."""
        for name, v in sessions():
            with self.subTest(name):
                trace = by_hand(v)
                self.assertEqual(trace["h"].hex(), v["handshake"]["h"])
                self.assertEqual(trace["k_c"].hex(), v["handshake"]["k_c"])
                self.assertEqual(trace["k_s"].hex(), v["handshake"]["k_s"])


class TestResumption(unittest.TestCase):
    """Section 3.9. The client of this folder does not resume; its libraries can."""

    def test_psk(self) -> None:
        for name, v in sessions("resumption"):
            with self.subTest(name):
                first, ticket = load(VECTORS / v["ticket"]["from"]), v["ticket"]
                nonce = bytes.fromhex(ticket["nonce"])
                psk = HKDFExpand(SHA256(), 32, b"sealcast v1 psk" + nonce).derive(bytes.fromhex(first["resume_master"]))
                self.assertEqual(psk.hex(), ticket["psk"])

    def test_handshake(self) -> None:
        for name, v in sessions("resumption"):
            with self.subTest(name):
                want, ticket = v["handshake"], bytes.fromhex(v["ticket"]["ticket"])
                prologue = handshake.prologue(v["role"], v["realm"], v["offered"], v["selected"])
                prologue += b"\0" + hashlib.sha256(ticket).digest()
                self.assertEqual(prologue.hex(), v["prologue"])
                dh = NoGenDH(X25519DH(), PrivateKey(bytes.fromhex(v["client_ephemeral_private"])))
                noise = HandshakeState(SymmetricState(CipherState(ChaChaPolyCipher()), SHA256Hash()), dh)
                pattern = PSKPatternModifier(0).modify(NNHandshakePattern())
                noise.initialize(pattern, True, prologue, psks=[bytes.fromhex(v["ticket"]["psk"])])

                # ClientHello comes from the vector, as there is no ML-KEM here; 3.9's steps open it.
                init = bytearray(b"\x03" + len(ticket).to_bytes(2, "big") + ticket)
                noise.write_message(by_hand_resumption(v)["client hello"], init)
                self.assertEqual(init.hex(), want["init"])
                hello = bytearray()
                to_gateway, to_client = noise.read_message(bytes.fromhex(want["reply"])[1:], hello)
                got = (noise.symmetricstate.get_handshake_hash(), to_gateway._key, to_client._key)
                self.assertEqual([value.hex() for value in got], [want["h"], want["k_c"], want["k_s"]])
                self.assertEqual((hello[0], len(hello)), (1, 1089) if "hybrid" in name else (0, 1))

    def test_handshake_by_hand(self) -> None:
        for name, v in sessions("resumption"):
            with self.subTest(name):
                trace = by_hand_resumption(v)
                for key in ("h", "k_c", "k_s"):
                    self.assertEqual(trace[key].hex(), v["handshake"][key])


def digest(*parts: bytes) -> bytes:
    return hashlib.sha256(b"".join(parts)).digest()


def hkdf(ck: bytes, x: bytes, outputs: int) -> list[bytes]:
    """HKDF2 and HKDF3 of sections 3.5 and 3.9."""
    prk, out = hmac.digest(ck, x, "sha256"), [b""]
    for i in range(1, outputs + 1):
        out.append(hmac.digest(prk, out[-1] + bytes([i]), "sha256"))
    return out[1:]


def hkdf2(ck: bytes, x: bytes) -> list[bytes]:
    return hkdf(ck, x, 2)


def by_hand_resumption(v: dict) -> dict[str, bytes]:
    """The resumption of a vector as section 3.9 writes it down."""
    init, reply = (bytes.fromhex(v["handshake"][m]) for m in ("init", "reply"))
    message = init[3 + int.from_bytes(init[1:3], "big") :]
    private = X25519PrivateKey.from_private_bytes(bytes.fromhex(v["client_ephemeral_private"]))
    trace = {}
    h = ck = digest(b"Noise_NNpsk0_25519_ChaChaPoly_SHA256")
    h = digest(h, bytes.fromhex(v["prologue"]))
    ck, t, k = hkdf(ck, bytes.fromhex(v["ticket"]["psk"]), 3)
    h = digest(h, t)
    h = digest(h, message[:32])
    ck, k = hkdf2(ck, message[:32])
    trace["client hello"] = ChaCha20Poly1305(k).decrypt(bytes(12), message[32:], h)
    h = digest(h, message[32:])
    h = digest(h, reply[1:33])
    ck, k = hkdf2(ck, reply[1:33])
    ck, k = hkdf2(ck, private.exchange(X25519PublicKey.from_public_bytes(reply[1:33])))
    trace["server hello"] = ChaCha20Poly1305(k).decrypt(bytes(12), reply[33:], h)
    trace["h"] = digest(h, reply[33:])
    trace["k_c"], trace["k_s"] = hkdf2(ck, b"")
    return trace


def by_hand(v: dict) -> dict[str, bytes]:
    """The handshake of a vector as section 3.5 writes it down. Also the values of appendix A."""
    init, reply = (bytes.fromhex(v["handshake"][m]) for m in ("init", "reply"))
    private = X25519PrivateKey.from_private_bytes(bytes.fromhex(v["client_ephemeral_private"]))
    trace = {}
    h = ck = b"Noise_NX_25519_ChaChaPoly_SHA256"
    h = trace["h prologue"] = digest(h, bytes.fromhex(v["prologue"]))
    h = trace["h -> e"] = digest(h, init[1:33])
    h = trace["h hello"] = digest(h, init[33:])
    h = trace["h <- e"] = digest(h, reply[1:33])
    trace["ee"] = private.exchange(X25519PublicKey.from_public_bytes(reply[1:33]))
    ck, k = trace["ee ck"], trace["ee k"] = hkdf2(ck, trace["ee"])
    trace["s"] = ChaCha20Poly1305(k).decrypt(bytes(12), reply[33:81], h)
    h = trace["s h"] = digest(h, reply[33:81])
    trace["es"] = private.exchange(X25519PublicKey.from_public_bytes(trace["s"]))
    ck, k = trace["es ck"], trace["es k"] = hkdf2(ck, trace["es"])
    trace["hello"] = ChaCha20Poly1305(k).decrypt(bytes(12), reply[81:], h)
    trace["h"] = digest(h, reply[81:])
    trace["k_c"], trace["k_s"] = hkdf2(ck, b"")
    return trace


class TestTampering(unittest.TestCase):
    def setUp(self) -> None:
        self.vector = load(VECTORS / "session-aes-128-gcm-classical.json")
        self.reply = bytes.fromhex(self.vector["handshake"]["reply"])

    def refused(self, reply: bytes) -> None:
        noise = client(self.vector)
        noise.init()
        with self.assertRaises(ProtocolError):
            noise.finish(reply)

    def test_every_byte_of_the_reply(self) -> None:
        for at in range(len(self.reply)):
            altered = bytearray(self.reply)
            altered[at] ^= 1
            self.refused(bytes(altered))

    def test_lengths(self) -> None:
        for size in (0, 1, 33, 97, 99, 1186):
            self.refused((self.reply + bytes(2000))[:size])

    def test_low_order_point(self) -> None:
        self.refused(self.reply[:1] + bytes(32) + self.reply[33:])

    def test_prologue(self) -> None:
        for change in ({"role": "echo"}, {"realm": "other"}, {"offered": self.vector["offered"][1:]},
                       {"selected": "sealcast.v1.sm4-gcm"}):
            noise = client(self.vector | change)
            noise.init()
            with self.assertRaises(ProtocolError, msg=change):
                noise.finish(self.reply)

    def opener(self) -> records.Opener:
        return records.Opener("aes-128-gcm", bytes.fromhex(self.vector["gateway_to_client"]["keys"][0]["secret"]))

    def test_records(self) -> None:
        stored = self.vector["gateway_to_client"]["messages"]
        zero, one, two = (bytes.fromhex(stored[n]) for n in "012")
        altered = [one[:at] + bytes([one[at] ^ 1]) + one[at + 1 :] for at in range(len(one))]
        for bad in altered + [zero, two, one[:-1], one + b"\0", b"", b"\x10", bytes(200)]:
            open_ = self.opener()
            open_.open(zero)
            with self.assertRaises(ProtocolError, msg=bad.hex()):
                open_.open(bad)
            with self.assertRaises(ProtocolError, msg="after a failure nothing opens"):
                open_.open(one)

    def test_key_update_under_an_unused_key(self) -> None:
        (update,) = records.Sealer("aes-128-gcm", bytes(32)).seal(records.KIND_KEY_UPDATE, b"", 0)
        with self.assertRaises(ProtocolError):
            records.Opener("aes-128-gcm", bytes(32)).open(update)

    def test_nothing_after_goodbye(self) -> None:
        seal, open_ = records.Sealer("aes-128-gcm", bytes(32)), records.Opener("aes-128-gcm", bytes(32))
        open_.open(seal.seal(records.KIND_GOODBYE, b"", 0)[0])
        with self.assertRaises(ProtocolError):
            open_.open(seal.seal(records.KIND_RECORD, b"", 0)[0])

    def test_key_update_by_age(self) -> None:
        seal = records.Sealer("aes-128-gcm", bytes(32))
        counts = [len(seal.seal(records.KIND_RECORD, b"", now)) for now in (1000, 1599, 1600, 1601)]
        self.assertEqual(counts, [1, 1, 2, 1])

    def test_pins(self) -> None:
        pin = self.vector["pin"]
        for bad in ("", pin[:-1], pin + "A", pin + "=", pin[:-1] + "d", "+" + pin[1:], pin + "\n"):
            with self.assertRaises(ValueError, msg=bad):
                handshake.parse_pin(bad)


class TestGroups(unittest.TestCase):
    """Section 4.5."""

    def groups(self) -> list[tuple[str, dict]]:
        found = [(path.stem, load(path)) for path in sorted(VECTORS.glob("group-*.json"))]
        self.assertEqual({name for name, _ in found}, {f"group-{suite}" for suite in records.SUITES})
        return found

    def test_vectors(self) -> None:
        for name, v in self.groups():
            key, mark = self.message("group_key", v["group_keys"]["0"]), self.message("group_mark", v["group_marks"]["300"])
            late = self.message("group_key", v["group_keys"]["255"])
            with self.subTest(name):
                early = records.Group(v["suite"], key)
                self.assertEqual((early.key.hex(), early.iv.hex()), (v["key"], v["iv"]))
                whole = hashlib.sha256()
                for n in range(RECORDS):
                    self.assertEqual(early.chain.hex(), v["chains"].get(str(n), early.chain.hex()))
                    sealed = self.seal(early, plaintext(n))
                    self.assertEqual(sealed.hex(), v["messages"].get(str(n), sealed.hex()))
                    whole.update(sealed)
                    if n == late["next_counter"]:
                        other = records.Group(v["suite"], late)
                    self.assertEqual(early.open(sealed), plaintext(n))
                    if n >= late["next_counter"]:
                        self.assertEqual(other.open(sealed), plaintext(n))
                self.assertEqual(whole.hexdigest(), v["messages_0_to_299_sha256"])
                for member in (early, other):
                    self.assertFalse(member.settled)
                    member.check(mark)
                    self.assertTrue(member.settled)
                self.assertEqual(self.message("group_leave", v["group_leave"]), {"id": early.id})

    def message(self, name: str, text: str) -> messages.Message:
        got, content = messages.decode_frame("ServerFrame", bytes.fromhex(text))
        self.assertEqual(got, name)
        return content

    @staticmethod
    def seal(group: records.Group, text: bytes) -> bytes:
        """The group's next record, as its sealer makes it."""
        header = b"\x11" + group.id.to_bytes(4, "big") + group.next.to_bytes(8, "big")
        nonce = bytes(a ^ b for a, b in zip(group.iv, bytes(4) + header[5:]))
        return header + records.SUITES[group.suite][0](group.key).encrypt(nonce, text, header)

    def test_refused(self) -> None:
        v = load(VECTORS / "group-aes-128-gcm.json")
        zero, one, two, old = (bytes.fromhex(v["messages"][n]) for n in ("0", "1", "2", "17"))
        altered = [one[:at] + bytes([one[at] ^ 1]) + one[at + 1 :] for at in range(len(one))]
        for bad in altered + [zero, two, old, one[:-1], one + b"\0", b"", b"\x11", bytes(200)]:
            member = records.Group("aes-128-gcm", self.message("group_key", v["group_keys"]["0"]))
            member.open(zero)
            with self.assertRaises(ProtocolError, msg=bad.hex()):
                member.open(bad)
        late = records.Group("aes-128-gcm", self.message("group_key", v["group_keys"]["255"]))
        with self.assertRaises(ProtocolError, msg="older than the member"):
            late.open(old)
        with self.assertRaises(ProtocolError, msg="of another suite"):
            records.Group("aes-256-gcm", self.message("group_key", v["group_keys"]["0"]))

    def test_forged_by_another_member(self) -> None:
        v = load(VECTORS / "group-aes-128-gcm.json")
        member, insider = (records.Group("aes-128-gcm", self.message("group_key", v["group_keys"]["0"])) for _ in range(2))
        self.assertEqual(member.open(self.seal(insider, b"forged")), b"forged")
        with self.assertRaises(ProtocolError):
            member.check(self.message("group_mark", v["group_marks"]["1"]))


def from_json(kind: str, value: dict) -> dict:
    """A message in protobuf's JSON form as our dictionaries: camelCase names, 64-bit numbers as strings."""
    message = {name: messages.zero(k) for name, k in messages.MESSAGES[kind].values()}
    for name, field_kind in messages.MESSAGES[kind].values():
        head, *rest = name.split("_")
        key = head + "".join(part.capitalize() for part in rest)
        if key in value:
            message[name] = field_from_json(field_kind, value[key])
    return message


def field_from_json(kind: str, value: object) -> object:
    if isinstance(value, list):
        return [field_from_json(kind.removesuffix("[]"), v) for v in value]
    if isinstance(value, dict):
        return from_json(kind, value)
    if kind == "bytes":
        return base64.b64decode(value)
    return int(value) if kind.startswith(("uint", "sint", "fixed")) else value


class TestMessages(unittest.TestCase):
    def setUp(self) -> None:
        self.wire = load(VECTORS / "wire.json")

    def test_frames(self) -> None:
        for frame, vectors in (("ClientFrame", "client_frames"), ("ServerFrame", "server_frames")):
            for v in self.wire[vectors]:
                with self.subTest(v["name"]):
                    ((name, value),) = v["message"].items()
                    kind = next(k for n, k in messages.MESSAGES[frame].values() if n == name)
                    message = from_json(kind, value)
                    plain = messages.encode_frame(frame, name, message, v.get("pad_to", 0))
                    self.assertEqual(plain.hex(), v["plaintext"])
                    self.assertEqual(messages.decode_frame(frame, plain), (name, message))

    def test_batches(self) -> None:
        for v in self.wire["batches"]:
            with self.subTest(v["name"]):
                name, batch = messages.decode_frame("ServerFrame", bytes.fromhex(v["plaintext"]))
                self.assertEqual(name, "batch")
                self.assertEqual(entries(batch), [entry_from_json(item) for item in v["items"]])
                again = messages.encode_frame("ServerFrame", name, batch)  # with single numbers packed
                self.assertEqual(messages.decode_frame("ServerFrame", again), (name, batch))

    def test_refused_batches(self) -> None:
        for v in self.wire["refused_batches"]:
            with self.subTest(v["name"]):
                _, batch = messages.decode_frame("ServerFrame", bytes.fromhex(v["plaintext"]))
                with self.assertRaises(ProtocolError):
                    topics.split(batch)

    def test_goodbyes(self) -> None:
        for v in self.wire["goodbyes"]:
            with self.subTest(v["name"]):
                message = from_json("Goodbye", v["message"])
                self.assertEqual(messages.encode("Goodbye", message).hex(), v["plaintext"])
                self.assertEqual(messages.decode("Goodbye", bytes.fromhex(v["plaintext"])), message)

    def test_refused(self) -> None:
        for v in self.wire["refused"]:
            for frame in ("ClientFrame", "ServerFrame"):
                with self.subTest(v["name"], frame=frame), self.assertRaises(ProtocolError):
                    messages.decode_frame(frame, bytes.fromhex(v["plaintext"]))

    def test_directions_are_disjoint(self) -> None:
        for v in self.wire["client_frames"]:
            with self.assertRaises(ProtocolError):
                messages.decode_frame("ServerFrame", bytes.fromhex(v["plaintext"]))
        for v in self.wire["server_frames"]:
            with self.assertRaises(ProtocolError):
                messages.decode_frame("ClientFrame", bytes.fromhex(v["plaintext"]))

    def test_unknown_fields_inside_are_ignored(self) -> None:
        ping = messages.encode("Ping", {"id": 7}) + bytes.fromhex("7801" "7a0161" "790000000000000000" "7d00000000")
        self.assertEqual(messages.decode("Ping", ping), {"id": 7})
        group = bytes.fromhex("7b 0801 7a0161 1b0801 1c 7c")  # with a group within
        self.assertEqual(messages.decode("Ping", group + ping + group), {"id": 7})
        self.assertEqual(messages.decode("Ping", bytes.fromhex("0b 0801 0c") + ping), {"id": 7}, "of a known number")
        for bad in ("7b", "7b 0801", "7b 7b 7c", "7b 1c", "7c", "0807 7c", "7b 0a05 7c", "7e"):
            with self.subTest(bad), self.assertRaises(ProtocolError):
                messages.decode("Ping", bytes.fromhex(bad))

    def test_a_group_beside_the_message_is_more_than_one(self) -> None:
        plain = messages.encode_frame("ClientFrame", "ping", {"id": 7})
        group = bytes.fromhex("7b7c")
        for bad in (plain + group, plain[:3] + group + plain[3:]):
            with self.assertRaises(ProtocolError):
                messages.decode_frame("ClientFrame", bad)


def entries(batch: dict) -> list[dict]:
    """The entries of a decoded Batch in the form of wire.json."""
    out = []
    for e in topics.split(batch):
        if "epoch" in e:
            reset = e | {"topic": 0, "at": 0}  # which the vector has elsewhere
            out.append({"topic": e["topic"], "seq": 0, "payload": "", "skipped": 0, "reset": reset})
        else:
            out.append({"topic": e["topic"], "seq": e["seq"], "payload": e["payload"].hex(), "skipped": e["skipped"], "received_us": e["received"]})
    return out


def entry_from_json(item: dict) -> dict:
    entry = {"topic": item["topic"], "seq": int(item["seq"]), "payload": item["payload"], "skipped": int(item["skipped"])}
    if "reset" in item:
        names = {f"CAUSE_{name.upper()}": number for number, name in messages.CAUSES.items()}
        reset = from_json("Reset", item["reset"])
        entry["reset"] = reset | {"cause": names.get(item["reset"].get("cause"), 0)}
    else:
        entry["received_us"] = int(item["received_us"])
    return entry


if __name__ == "__main__":
    unittest.main()
