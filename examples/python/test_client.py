"""The client against a gateway of this file's own, which breaks rules on demand."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import io
import json
import unittest
import unittest.mock
from typing import Any, AsyncIterator, Awaitable, Callable

import tail
import websockets
from dissononce.cipher.chachapoly import ChaChaPolyCipher
from dissononce.dh.x25519.x25519 import X25519DH
from dissononce.hash.sha256 import SHA256Hash
from dissononce.processing.handshakepatterns.interactive.NX import NXHandshakePattern
from dissononce.processing.impl.cipherstate import CipherState
from dissononce.processing.impl.handshakestate import HandshakeState
from dissononce.processing.impl.symmetricstate import SymmetricState

from sealcast import ProtocolError, handshake, messages, records
from sealcast.client import Ended, Refused, Session
from sealcast.topics import View, match, split

KEY = X25519DH().generate_keypair()
PIN = bytes(KEY.public.data)
OFFER = ["sealcast.v1.aes-128-gcm", "sealcast.v1.chacha20-poly1305", "sealcast.v1.aes-256-gcm"]
CONNECTED = {"session": "1", "heartbeat_interval_ms": 25_000, "heartbeat_timeout_ms": 75_000}


class Gateway:
    """One connection of the other side: no checks that this file does not need."""

    def __init__(self, ws: Any) -> None:
        self.ws = ws
        self.updates = 0  # KeyUpdates of the client

    async def handshake(self, realm: str = "default") -> None:
        offered = [t.strip() for t in self.ws.request_headers["Sec-WebSocket-Protocol"].split(",")]
        noise = HandshakeState(SymmetricState(CipherState(ChaChaPolyCipher()), SHA256Hash()), X25519DH())
        noise.initialize(
            NXHandshakePattern(), False, handshake.prologue("push", realm, offered, self.ws.subprotocol), s=KEY
        )
        noise.read_message((await self.ws.recv())[1:], bytearray())
        reply = bytearray(handshake.KIND_REPLY)
        to_gateway, to_client = noise.write_message(b"\0", reply)
        h, suite = noise.symmetricstate.get_handshake_hash(), self.ws.subprotocol.removeprefix(records.PREFIX)
        self.open = records.Opener(suite, records.first_secret(h, to_gateway._key))
        self.seal = records.Sealer(suite, records.first_secret(h, to_client._key), max_records=2)
        await self.ws.send(bytes(reply))

    async def send(self, name: str, message: dict) -> None:
        await self.send_record(records.KIND_RECORD, messages.encode_frame("ServerFrame", name, message))

    async def send_record(self, kind: int, plaintext: bytes) -> None:
        for sealed in self.seal.seal(kind, plaintext, 0):
            await self.ws.send(sealed)

    async def receive(self) -> tuple[str, dict]:
        while True:
            kind, plaintext = self.open.open(await self.ws.recv())
            if kind == records.KIND_KEY_UPDATE:
                self.updates += 1
                continue
            self.plaintext = plaintext
            return messages.decode_frame("ClientFrame", plaintext)

    async def introduce(self) -> dict:
        _, connect = await self.receive()
        await self.send("connected", CONNECTED)
        return connect


Script = Callable[[Gateway], Awaitable[None]]


@contextlib.asynccontextmanager
async def serving(script: Script, subprotocols: list[str] | None = None) -> AsyncIterator[tuple[str, list[BaseException]]]:
    """A server that runs the script for each connection; its errors are in the list."""
    errors: list[BaseException] = []

    async def handler(ws: Any) -> None:
        try:
            await script(Gateway(ws))
            await ws.wait_closed()
        except BaseException as error:
            errors.append(error)
            raise

    async with websockets.serve(handler, "127.0.0.1", 0, subprotocols=subprotocols or OFFER[:1], compression=None) as server:
        yield "ws://127.0.0.1:%d/ws" % server.sockets[0].getsockname()[1], errors


def tick(topic: int, seq: int, payload: bytes = b"", skipped: int = 0) -> dict:
    return {"topic": topic, "seq": seq, "payload": payload, "skipped": skipped}


def batch(*ticks: dict) -> dict:
    """A Batch with all of its columns: the payloads stand by topic."""
    topics = list(dict.fromkeys(t["topic"] for t in ticks))
    order = [topics.index(t["topic"]) for t in ticks]
    firsts, steps, upcoming = [], [], {}
    for t in ticks:
        first = t["seq"] - t["skipped"]
        if t["topic"] not in upcoming:
            firsts.append(first)
        steps.append(first - upcoming.get(t["topic"], first))
        upcoming[t["topic"]] = t["seq"] + 1
    payloads = b"".join(t["payload"] for topic in topics for t in ticks if t["topic"] == topic)
    return {
        "base_us": 1, "topics": topics, "firsts": firsts, "order": order, "sizes": [len(t["payload"]) for t in ticks[:-1]],
        "skipped": [t["skipped"] for t in ticks], "steps": steps, "payloads": payloads,
    }


class TestSession(unittest.IsolatedAsyncioTestCase):
    async def test_ticks_of_every_suite_across_key_updates(self) -> None:
        async def script(g: Gateway) -> None:
            await g.handshake()
            await g.introduce()
            self.assertEqual(len(g.plaintext), 1024)
            _, subscribe = await g.receive()
            self.assertEqual((subscribe["id"], [x["filter"] for x in subscribe["subscriptions"]]), (1, ["md:**"]))
            state = {"number": 7, "name": "md:a", "epoch": 5, "next_seq": 1}
            await g.send("subscribed", {"id": 1, "filters": ["md:**"], "topics": [state]})
            for seq in range(1, 20):
                await g.send("batch", batch(tick(7, seq, b"\xff" * seq)))
            await g.receive()
            await g.send("pong", {"id": 9})
            self.assertEqual(g.updates, 2)  # one record a key: before Subscribe and before Ping
            await g.send_record(records.KIND_GOODBYE, messages.encode("Goodbye", {"code": 1012, "text": "restart"}))
            await g.ws.close(1012)

        for token in OFFER:
            async with serving(script, [token]) as (url, errors):
                session = await Session.dial(url, [PIN], records_per_key=1)
                self.assertEqual(records.PREFIX + session.suite, token)
                await session.subscribe("md:**")
                await session.ping(9)
                events = []
                with self.assertRaises(Ended) as ended:
                    async for event in session.events():
                        events.append(event)
                self.assertEqual((ended.exception.code, ended.exception.final), (1012, True))
                ticks = [e for e in events if "event" not in e]
                self.assertEqual([t["seq"] for t in ticks], list(range(1, 20)))
                self.assertTrue(all(t["payload"] == b"\xff" * t["seq"] and t["topic"] == "md:a" for t in ticks))
                self.assertEqual([e["event"] for e in events if "event" in e], ["subscribed", "topic", "pong"])
            self.assertEqual(errors, [])

    async def test_gaps_heads_and_notices(self) -> None:
        async def script(g: Gateway) -> None:
            await g.handshake()
            await g.introduce()
            await g.receive()
            state = {"number": 7, "name": "a", "epoch": 5, "next_seq": 1}
            await g.send("subscribed", {"id": 1, "filters": ["a"], "topics": [state]})
            await g.send("batch", batch(tick(7, 1), tick(7, 4, skipped=3), tick(7, 7, skipped=1)) | {"cursor": b"c1"})
            await g.send("gap", {"topic": 7, "epoch": 5, "from": 6, "to": 9, "cause": 5})
            await g.send("gap", {"topic": 7, "epoch": 4, "from": 1, "to": 99})  # of an epoch that is over
            await g.send("gap", {"topic": 7, "epoch": 5, "from": 8, "to": 9})  # known already
            await g.send("batch", batch(tick(7, 9), tick(7, 10)))
            await g.send("heartbeat", {"time_us": 1, "heads": [{"topic": 7, "seq": 12}], "cursor": b"c2"})
            await g.send("notice", {"kind": 3, "topics": [7]})
            await g.send("notice", {"kind": 99})
            await g.ws.close(1012)

        async with serving(script) as (url, errors):
            session = await Session.dial(url, [PIN])
            await session.subscribe("a")
            events = []
            with self.assertRaises(Ended):
                async for event in session.events():
                    events.append(event)
        self.assertEqual(errors, [])
        self.assertEqual([(e["seq"], e["merged"]) for e in events if "event" not in e], [(1, 0), (4, 2), (7, 1), (10, 0)])
        gaps = [(e["from"], e["to"], e.get("cause")) for e in events if e.get("event") == "gap"]
        self.assertEqual(gaps, [(5, 5, None), (8, 9, "too_slow"), (11, 12, None)])
        self.assertEqual([(e["kind"], e["topics"]) for e in events if e.get("event") == "notice"], [("source_lost", ["a"])])
        self.assertEqual(session.view.positions(), [{"topic": "a", "epoch": 5, "seq": 12}])
        self.assertEqual(session.cursor, b"c2")

    async def test_a_bad_batch_moves_no_cursor(self) -> None:
        async def script(g: Gateway) -> None:
            await g.handshake()
            await g.introduce()
            await g.send("batch", {"cursor": b"good"})
            await g.send("batch", batch(tick(9, 1)) | {"cursor": b"bad"})

        async with serving(script) as (url, errors):
            session = await Session.dial(url, [PIN])
            with self.assertRaises(ProtocolError):
                async for _ in session.events():
                    pass
        self.assertEqual((session.cursor, errors), (b"good", []))

    async def test_recovery(self) -> None:
        since = [{"topic": name, "epoch": 5, "seq": 3} for name in "abcd"]
        states = [
            {"number": 1, "name": "a", "epoch": 5, "next_seq": 4, "recovered": True},
            {"number": 2, "name": "b", "epoch": 5, "next_seq": 9},  # some are lost
            {"number": 3, "name": "c", "epoch": 6, "next_seq": 1},  # nobody knows how many
            {"number": 4, "name": "d", "epoch": 6, "next_seq": 1, "recovered": True},  # by cursor, at another gateway
            {"number": 5, "name": "e", "epoch": 5, "next_seq": 9},  # is new
        ]

        async def script(g: Gateway) -> None:
            await g.handshake()
            await g.introduce()
            _, subscribe = await g.receive()
            self.assertEqual((subscribe["since"], subscribe["cursor"]), (since, b"c"))
            self.assertEqual(subscribe["subscriptions"], [{"filter": "*", "max_rate": 0.5, "max_age_ms": 100}])
            await g.send("subscribed", {"id": 1, "filters": ["*"], "topics": states})
            await g.send("batch", batch(tick(1, 4), tick(2, 9)))
            await g.ws.close(1012)

        async with serving(script) as (url, errors):
            session = await Session.dial(url, [PIN])
            await session.subscribe("*", since=since, cursor=b"c", max_rate=0.5, max_age_ms=100)
            told = []
            with self.assertRaises(Ended):
                async for e in session.events():
                    told.append((e.get("event", "tick"), e.get("topic"), e.get("from"), e.get("to")))
        self.assertEqual(errors, [])
        self.assertEqual([t for t in told if t[0] not in ("subscribed", "topic")], [
            ("gap", "b", 4, 8), ("reset", "c", None, None), ("tick", "a", None, None), ("tick", "b", None, None)])

    async def test_tail_comes_back_to_where_it_was(self) -> None:
        sinces = []

        async def script(g: Gateway) -> None:
            await g.handshake()
            await g.introduce()
            _, subscribe = await g.receive()
            sinces.append([(p["topic"], p["seq"]) for p in subscribe["since"]])
            seq = len(sinces)
            state = {"number": 1, "name": "a", "epoch": 5, "next_seq": seq, "recovered": True}
            await g.send("subscribed", {"id": 1, "filters": ["a"], "topics": [state]})
            await g.send("batch", batch(tick(1, seq, b"%d" % seq)))
            await g.ws.close(1011)

        out = io.StringIO()
        async with serving(script) as (url, errors):
            args = argparse.Namespace(url=url, insecure=False, realm="default", suite=None, token="", topics="a", count=3)
            with contextlib.redirect_stdout(out), unittest.mock.patch("asyncio.sleep"):
                self.assertEqual(await tail.tail(args, [PIN]), tail.DONE)
        self.assertEqual(sinces, [[], [("a", 1)], [("a", 2)]])
        told = [json.loads(text) for text in out.getvalue().splitlines()]
        self.assertEqual([t.get("payload", t.get("event")) for t in told], ["1", "disconnected", "2", "disconnected", "3"])

    async def closed_with(self, script: Script, **options: Any) -> tuple[BaseException, int]:
        """Dial a gateway that runs script; the client's error and the code that it closes with."""
        codes: list[int] = []

        async def watched(g: Gateway) -> None:
            await script(g)
            await g.ws.wait_closed()
            codes.append(g.ws.close_code)

        async with serving(watched) as (url, _):
            try:
                session = await Session.dial(url, **({"pins": [PIN]} | options))
                async for _ in session.events():
                    pass
            except (Refused, Ended, ProtocolError) as error:
                caught: BaseException = error
        return caught, codes[0]

    async def test_wrong_pin(self) -> None:
        async def script(g: Gateway) -> None:
            await g.handshake()
            with self.assertRaises(websockets.ConnectionClosed):
                await g.ws.recv()  # nothing may follow HandshakeInit

        for pins in ([bytes(32)], []):
            error, code = await self.closed_with(script, pins=pins)
            self.assertIn("matches no pin", str(error))
            self.assertEqual((type(error), code), (Refused, 4403))

    async def test_without_pin_if_asked(self) -> None:
        async def script(g: Gateway) -> None:
            await g.handshake()
            await g.introduce()
            await g.ws.close(1011)

        error, code = await self.closed_with(script, pins=[], insecure=True)
        self.assertEqual((type(error), error.final, code), (Ended, False, 1011))
        error, code = await self.closed_with(
            lambda g: g.handshake(), pins=[bytes(32)], insecure=True)  # a pin beats insecure
        self.assertEqual((type(error), code), (Refused, 4403))

    async def test_wrong_realm(self) -> None:
        error, code = await self.closed_with(lambda g: g.handshake("other"))
        self.assertEqual((type(error), code), (Refused, 4400))

    async def test_bad_messages_end_the_session(self) -> None:
        goodbye = messages.encode("Goodbye", {"code": 1005})
        state = {"number": 1, "name": "a", "epoch": 1, "next_seq": 1}

        async def text(g: Gateway) -> None:
            await g.ws.send("text")

        cases: dict[str, Script] = {
            "not sealed": lambda g: g.ws.send(b"\x10" + bytes(30)),
            "unknown kind": lambda g: g.ws.send(b"\x11" + bytes(30)),
            "empty": lambda g: g.ws.send(b""),
            "handshake again": lambda g: g.ws.send(b"\x02" + bytes(97)),
            "connected again": lambda g: g.send("connected", CONNECTED),
            "message of a client": lambda g: g.send_record(
                records.KIND_RECORD, messages.encode_frame("ClientFrame", "ping", {"id": 1})),
            "goodbye with a code that cannot be": lambda g: g.send_record(records.KIND_GOODBYE, goodbye),
            "tick that was never announced": lambda g: g.send("batch", batch(tick(1, 1))),
            "batch of wrong size": lambda g: g.send("batch", {"payloads": b"x"}),
            "topic with two names": lambda g: g.send("topics", {"topics": [state, state | {"name": "b"}]}),
            "text": text,
        }
        for name, case in cases.items():
            async def script(g: Gateway) -> None:
                await g.handshake()
                await g.introduce()
                await case(g)

            with self.subTest(name):
                error, code = await self.closed_with(script)
                self.assertEqual((type(error), code), (ProtocolError, 1003 if name == "text" else 4400))

    async def test_silence_is_a_cut_whatever_pings_say(self) -> None:
        async def script(g: Gateway) -> None:
            await g.handshake()
            await g.receive()
            await g.send("connected", CONNECTED | {"heartbeat_timeout_ms": 100})
            with contextlib.suppress(websockets.ConnectionClosed):
                while True:
                    await (await g.ws.ping())  # until its pong
                    await asyncio.sleep(0.01)

        error, code = await self.closed_with(script)
        self.assertEqual((type(error), error.final, code), (Ended, False, 4410))

    async def test_no_choice(self) -> None:
        async def script(g: Gateway) -> None: ...

        async with serving(script, ["other"]) as (url, _):
            with self.assertRaisesRegex(Refused, "no subprotocol"):
                await Session.dial(url, [PIN])

    async def test_close_says_goodbye(self) -> None:
        async def script(g: Gateway) -> None:
            await g.handshake()
            await g.introduce()
            self.assertEqual(g.open.open(await g.ws.recv()), (records.KIND_GOODBYE, messages.encode("Goodbye", {"code": 1000})))

        async with serving(script) as (url, errors):
            session = await Session.dial(url, [PIN])
            await session.close()
        self.assertEqual(errors, [])


def decoded(message: dict) -> dict:
    """The Batch as it arrives, with all its fields."""
    return messages.decode("Batch", messages.encode("Batch", message))


class TestView(unittest.TestCase):
    def setUp(self) -> None:
        self.view = View()
        list(self.view.subscribed({"filters": ["a"], "topics": [{"number": 1, "name": "a", "epoch": 7, "next_seq": 5}]}))

    def told(self, *ticks: dict) -> list[tuple]:
        """What comes of a batch, in short: (seq, merged) of a tick, ("gap", from, to), ("reset", epoch)."""
        out = []
        for e in self.view.batch(decoded(batch(*ticks))):
            kind = e.get("event")
            out.append((e["seq"], e["merged"]) if not kind else (kind, e["from"], e["to"]) if kind == "gap" else (kind, e["epoch"]))
        return out

    def test_sequence_rule(self) -> None:
        self.assertEqual(self.told(tick(1, 4), tick(1, 5), tick(1, 5), tick(1, 6)), [(5, 0), (6, 0)])
        self.assertEqual(self.told(tick(1, 9)), [("gap", 7, 8), (9, 0)])
        self.assertEqual(self.told(tick(1, 12, skipped=2)), [(12, 2)])  # covers 10 to 12
        self.assertEqual(self.told(tick(1, 14, skipped=9)), [(14, 1)])  # covers more than is missing
        self.assertEqual(self.told(tick(1, 20, skipped=2)), [("gap", 15, 17), (20, 2)])

    def test_reset(self) -> None:
        reset = {"topic": 1, "epoch": 8, "next_seq": 1, "cause": 1, "at": 0}
        message = decoded(batch(tick(1, 1)) | {"resets": [reset]})
        events = list(self.view.batch(message))
        self.assertEqual([e.get("event") for e in events], ["reset", None])
        self.assertEqual(events[1]["epoch"], 8)
        self.assertEqual(list(self.view.batch(message)), [])  # nothing new

    def test_what_a_batch_may_not_be(self) -> None:
        one = {"topics": [1], "firsts": [5]}
        for message in (
            {"payloads": b"x"}, {"sizes": [0]}, {"order": [0]}, {"deltas": [1]}, {"topics": [1]}, {"firsts": [1]},
            {"topics": [1, 1], "firsts": [5, 6]}, one | {"sizes": [2], "payloads": b"x"}, one | {"order": [1]}, one | {"order": [0, 0]},
            one | {"deltas": [1]}, one | {"skipped": [1, 1]}, one | {"steps": [1, 1]}, one | {"skipped": [9], "steps": [-9]},
            one | {"resets": [{"topic": 1, "epoch": 8, "at": 2}]}, one | {"resets": [{"topic": 1, "epoch": 8, "at": 1}, {"topic": 1, "epoch": 9}]},
        ):
            with self.subTest(message), self.assertRaises(ProtocolError):
                list(self.view.batch(decoded(message)))

    def test_of_a_bad_batch_nothing_is_used(self) -> None:
        def reset(topic: int, epoch: int, next_seq: int) -> dict:
            return {"resets": [{"topic": topic, "epoch": epoch, "next_seq": next_seq, "at": 1}]}

        good, beyond = tick(1, 5), 2**53
        list(self.view.announced([{"number": 2, "name": "b", "epoch": 7, "next_seq": 5}]))
        self.view.topics[2].held = False
        for message in (
            batch(good, tick(9, 1)), batch(good) | reset(9, 8, 1), batch(good, tick(1, 6)) | {"topics": [1, 9], "firsts": [5, 1]},
            batch(good, tick(1, beyond)), batch(good, tick(1, 2**64 - 1)), batch(good, tick(2, beyond)), batch(good) | reset(1, 8, beyond),
            batch(good) | reset(1, beyond, 1), batch(good) | reset(2, 8, beyond),
        ):
            with self.subTest(message):
                told = []
                with self.assertRaises(ProtocolError):
                    told.extend(self.view.batch(decoded(message)))
                self.assertEqual((told, self.view.topics[1].last), ([], 4))

    def test_the_greatest_numbers(self) -> None:
        most = 2**53 - 1
        state = {"number": 1, "name": "a", "epoch": most, "next_seq": most}
        value = {"topic": 1, "epoch": most, "seq": most, "time_us": 1, "payload": b"x", "stale": False}
        gap = {"topic": 1, "epoch": most, "from": most, "to": most, "cause": 0}
        self.view.filters.add("a")
        self.assertEqual(len(list(self.view.announced([state]))), 1)
        self.assertEqual(len(list(self.view.snapshot([value]))), 1)
        self.assertEqual(self.told(tick(1, most, skipped=most)), [(most, 0)])
        self.assertEqual([*self.view.gap(gap), *self.view.heads([{"topic": 1, "seq": most}])], [])
        for events in (
            self.view.announced([state | {"next_seq": most + 1}]), self.view.announced([state | {"epoch": most + 1}]),
            self.view.snapshot([value | {"seq": most + 1}]), self.view.snapshot([value | {"epoch": most + 1}]),
            self.view.gap(gap | {"to": most + 1}), self.view.gap(gap | {"epoch": most + 1}),
            self.view.heads([{"topic": 1, "seq": most + 1}]),
        ):
            with self.assertRaisesRegex(ProtocolError, "too large"):
                list(events)

    def test_a_batch_of_very_many_topics_and_resets(self) -> None:
        """What takes a pass over the ticks for each topic, or moves all resets for each of them, does not come to an end here."""
        n = 200_000
        topics = list(range(1, n + 1))
        message = {
            "topics": topics, "firsts": [1] * n, "order": [*range(n), *range(n)], "sizes": [1] * (2 * n - 1),
            "payloads": b"ab" * n, "resets": [{"topic": 1, "epoch": 8, "next_seq": 1, "cause": 0, "at": 0}] * n,
        }
        entries = split(decoded({}) | message)
        self.assertTrue(all("epoch" in e for e in entries[:n]))
        self.assertEqual([e["topic"] for e in entries[n:]], topics * 2)
        self.assertEqual({e["payload"] for e in entries[n : 2 * n]}, {b"a"})
        self.assertEqual({(e["payload"], e["seq"]) for e in entries[2 * n :]}, {(b"b", 2)})

    def test_announcements(self) -> None:
        def announce(epoch: int, next_seq: int) -> list[str]:
            state = {"number": 1, "name": "a", "epoch": epoch, "next_seq": next_seq}
            return [e["event"] for e in self.view.announced([state])]

        self.assertEqual(announce(7, 50), [])  # delivered already: ticks on their way still count
        self.assertEqual(self.told(tick(1, 5)), [(5, 0)])
        self.assertEqual(announce(9, 1), ["reset"])
        self.view.unsubscribed({"filters": ["a"]})
        self.assertEqual(self.told(tick(1, 1)), [])
        self.view.filters.add("a")
        self.assertEqual(announce(9, 10), ["topic"])
        self.assertEqual(self.told(tick(1, 10)), [(10, 0)])  # no gap: nothing was asked for meanwhile

    def test_snapshot(self) -> None:
        self.view.filters.add("a")
        list(self.view.announced([{"number": 1, "name": "a", "epoch": 7, "next_seq": 5}]))
        value = {"topic": 1, "epoch": 6, "seq": 9, "time_us": 1, "payload": b"x", "stale": True}
        self.assertEqual(list(self.view.snapshot([value])), [{"event": "snapshot", **value, "topic": "a"}])
        self.assertEqual((self.view.topics[1].epoch, self.view.topics[1].last), (7, 4))
        with self.assertRaises(ProtocolError):
            list(self.view.snapshot([{**value, "topic": 2}]))
        self.view.unsubscribed({"filters": ["a"]})
        self.assertEqual(list(self.view.snapshot([value])), [])

    def test_match(self) -> None:
        for pattern, yes, no in (
            ("a:b", ("a:b",), ("a", "a:b:c", "a:B", "a:b:", "b")),
            ("*", ("a", "a b"), ("a:b", ":", "a:")),
            ("**", ("a", "a:b:c", ":"), ()),
            ("a:**", ("a:b", "a:b:c", "a:"), ("a", "b:c", "ab:c")),
            ("a:*:c", ("a:b:c", "a::c"), ("a:c", "a:b:b:c", "a:b:c:d")),
            ("*:**", ("a:b", "a:b:c", ":"), ("a",)),
            ("[ab]:?", ("[ab]:?",), ("a:x",)),
        ):
            for name in yes:
                self.assertTrue(match(pattern, name), (pattern, name))
            for name in no:
                self.assertFalse(match(pattern, name), (pattern, name))


if __name__ == "__main__":
    unittest.main()
