"""The client against the real gateway, which this file builds and starts (Go is needed)."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path
from typing import Any, Awaitable

import websockets

from sealcast import handshake, records
from sealcast.client import Ended, Refused, Session
from sealcast.handshake import parse_pin
from sealcast.topics import Event

ROOT = Path(__file__).resolve().parents[2]
SUITES = ("aes-128-gcm", "aes-256-gcm", "chacha20-poly1305", "plain")
HEARTBEAT = 0.3  # seconds; the gateway gives up after three of them
SETTINGS = {
    "listen": "127.0.0.1:0", "admin.listen": "127.0.0.1:0", "realm": "example", "cipher.allow_plain": "true",
    "limits.subscriptions": "3", "heartbeat.interval": "300ms", "heartbeat.timeout": "900ms",
}
REALM = SETTINGS["realm"]


class Gateway:
    """A running gateway with its built-in Redis and demo feed."""

    def __init__(self, folder: str) -> None:
        binary, key = Path(folder, "sealcast"), Path(folder, "key")
        if not binary.exists():
            subprocess.run(["go", "build", "-buildvcs=false", "-o", binary, "./cmd/sealcast"], cwd=ROOT, check=True)
            subprocess.run([binary, "keygen", "-o", key], check=True, capture_output=True)
        settings = [part for k, v in (SETTINGS | {"key_file": str(key)}).items() for part in ("--set", f"{k}={v}")]
        self.process = subprocess.Popen(
            [binary, "serve", *settings], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        lines = []
        for line in self.process.stderr:  # one JSON object each, up to the one that says "ready"
            lines.append(json.loads(line))
            if lines[-1]["msg"] == "ready":
                break
        told = {k: v for line in lines for k, v in line.items()}
        if "listen" not in told:
            raise RuntimeError(f"the gateway did not start: {lines}")
        self.address, self.redis, self.pin = told["listen"], told["redis"], parse_pin(told["public_key"])
        self.url = f"ws://{self.address}/ws"

    def publish(self, topic: str, payload: bytes) -> None:
        parts = [b"PUBLISH", topic.encode(), payload]
        request = b"*3\r\n" + b"".join(b"$%d\r\n%s\r\n" % (len(p), p) for p in parts)
        host, port = self.redis.rsplit(":", 1)
        with socket.create_connection((host, int(port)), 5) as redis:
            redis.sendall(request)
            if not redis.recv(100).startswith(b":"):
                raise RuntimeError("Redis does not take a tick")

    def ask(self, request: str) -> tuple[int, str]:
        """Send an HTTP request; status and text of the answer."""
        host, port = self.address.rsplit(":", 1)
        with socket.create_connection((host, int(port)), 5) as connection:
            connection.sendall(request.replace("\n", "\r\n").encode())
            answer = b""
            while data := connection.recv(4096):
                answer += data
        head, _, text = answer.decode().partition("\r\n\r\n")
        return int(head.split()[1]), text

    def stop(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        self.process.communicate(timeout=20)
        return self.process.returncode


async def until(session: Session, done: Any) -> list[Event]:
    """The events up to the first that done takes, with it."""
    seen = []
    async for event in session.events():
        seen.append(event)
        if done(event):
            break
    return seen


def named(name: str) -> Any:
    return lambda event: event.get("event") == name


class TestGateway(unittest.IsolatedAsyncioTestCase):
    @classmethod
    def setUpClass(cls) -> None:
        cls.folder = tempfile.TemporaryDirectory()
        cls.gateway = Gateway(cls.folder.name)

    @classmethod
    def tearDownClass(cls) -> None:
        cls.gateway.stop()
        cls.folder.cleanup()

    def dial(self, **options: Any) -> Awaitable[Session]:
        return Session.dial(self.gateway.url, **({"pins": [self.gateway.pin], "realm": REALM} | options))

    async def asyncSetUp(self) -> None:
        self.deadline = asyncio.get_running_loop().call_later(30, asyncio.current_task().cancel)

    async def asyncTearDown(self) -> None:
        self.deadline.cancel()

    async def test_ticks_with_every_suite(self) -> None:
        payloads = [b"", b"text", bytes(range(256)), "Größe 報價".encode(), b"x" * 200_000, b"last"]
        for suite in SUITES:
            with self.subTest(suite):
                topic = f"test:{suite}:報價"
                session = await self.dial(suites=[suite], records_per_key=1)
                self.assertEqual(session.suite, suite)
                await session.subscribe("test:*:報價", topic)  # the second is covered by the first
                first = await until(session, named("subscribed"))
                self.assertEqual(first[-1]["filters"], ["test:*:報價", topic])
                for payload in payloads:
                    self.gateway.publish(topic, payload)
                before = time.time()
                events = await until(session, lambda e: e.get("payload") == b"last")
                ticks = [e for e in events if "event" not in e]
                self.assertEqual([t["payload"] for t in ticks], payloads)
                self.assertEqual([t["seq"] for t in ticks], list(range(ticks[0]["seq"], ticks[0]["seq"] + len(payloads))))
                self.assertEqual({t["topic"] for t in ticks}, {topic})
                self.assertTrue(all(abs(t["time_us"] / 1e6 - before) < 30 for t in ticks))
                await session.close()

    async def test_demo_feed_has_no_gaps(self) -> None:
        session = await self.dial()
        await session.subscribe("md:**")
        events, ticks = [], 0
        async for event in session.events():
            events.append(event)
            ticks += "event" not in event
            if ticks == 100:
                break
        self.assertEqual({e["event"] for e in events if "event" in e} - {"subscribed", "topic", "snapshot", "heartbeat"}, set())
        await session.close()

    async def test_recovery(self) -> None:
        """The last tick of a ticker is kept: one that was missed comes again, of two the first is told as lost."""
        topic, since = "md:test:RECOVERY:ticker", []
        for missed in (0, 1, 2):
            for _ in range(missed):
                self.gateway.publish(topic, b"missed")
            session = await self.dial()
            await session.subscribe(topic, since=since)
            await until(session, named("topic"))
            self.gateway.publish(topic, b"live")
            events = await until(session, lambda e: e.get("payload") == b"live" and "event" not in e)
            told = [(e.get("event", "tick"), e.get("payload")) for e in events if e.get("event") != "heartbeat"]
            want = [[], [("tick", b"missed")], [("gap", None), ("snapshot", b"missed")]][missed]
            self.assertEqual(told, want + [("tick", b"live")])
            if missed == 2:
                self.assertEqual(events[0]["to"] - events[0]["from"], 1)
            since = session.view.positions()
            await session.close()

    async def test_requests(self) -> None:
        session = await self.dial()
        self.assertEqual(session.connected["limits"]["subscriptions"], 3)
        await session.subscribe("a", "b*", "c:*", "d", "e")
        events = await until(session, named("subscribed"))
        errors = [(e["id"], e["code"], e["filter"]) for e in events if e.get("event") == "error"]
        self.assertEqual(errors, [(1, 4400, "b*"), (1, 4429, "e")])
        self.assertEqual(events[-1], {"event": "subscribed", "id": 1, "filters": ["a", "c:*", "d"]})
        await session.unsubscribe("a", "never")
        events = await until(session, named("unsubscribed"))
        errors = [(e["id"], e["code"], e["filter"]) for e in events if e.get("event") == "error"]
        self.assertEqual(errors, [(2, 4400, "never")])
        self.assertEqual(events[-1], {"event": "unsubscribed", "id": 2, "filters": ["a"]})
        await session.subscribe("a")  # again, and from its own point on
        events = await until(session, named("topic"))
        self.assertEqual(events[-1]["topic"], "a")
        await session.ping(2**64 - 1)
        self.assertEqual((await until(session, named("pong")))[-1]["id"], 2**64 - 1)
        await session.close()

    async def test_pins_and_realm(self) -> None:
        with self.assertRaisesRegex(Refused, "matches no pin"):
            await self.dial(pins=[bytes(32)])
        await (await self.dial(pins=[bytes(32), self.gateway.pin])).close()
        with self.assertRaisesRegex(Refused, "handshake failed"):
            await self.dial(realm="default")

    async def test_idle_session_gets_heartbeats(self) -> None:
        session = await self.dial()
        await session.subscribe("quiet")
        started = time.monotonic()
        beats = [(await until(session, named("heartbeat")))[-1] for _ in range(5)]
        self.assertGreater(time.monotonic() - started, 3 * HEARTBEAT)
        self.assertTrue(all(abs(b["time_us"] / 1e6 - time.time()) < 30 for b in beats))
        await session.close()

    async def test_client_that_only_listens_stays(self) -> None:
        """Answering pings is sign of life enough, also while ticks leave no time for heartbeats."""
        session = await self.dial()
        await session.subscribe("md:**", "test:busy")
        started = time.monotonic()

        async def feed() -> None:
            while True:
                self.gateway.publish("test:busy", b"x")
                await asyncio.sleep(HEARTBEAT / 10)

        task = asyncio.create_task(feed())
        await until(session, lambda e: time.monotonic() - started > 8 * HEARTBEAT)
        task.cancel()
        await session.close()

    async def test_record_that_does_not_open(self) -> None:
        session = await self.dial()
        await session._ws.send(b"\x10" + bytes(40))
        with self.assertRaises(Ended) as ended:
            await until(session, lambda e: False)
        self.assertEqual((ended.exception.code, ended.exception.text, ended.exception.final), (4400, "", False))

    async def connect(self, path: str, suite: str) -> Any:
        url = f"ws://{self.gateway.address}{path}"
        return await websockets.connect(url, subprotocols=[records.PREFIX + suite], compression=None)

    async def test_resume_init_is_refused(self) -> None:
        ws = await self.connect("/ws", "aes-128-gcm")
        await ws.send(b"\x03\x00\x05guess" + bytes(49))
        self.assertEqual(await ws.recv(), b"\x05")
        token = [records.PREFIX + "aes-128-gcm"]
        hello = handshake.Handshake(handshake.prologue("push", REALM, token, token[0]))
        await ws.send(hello.init())
        self.assertEqual(hello.finish(await ws.recv()).static, self.gateway.pin)
        await ws.close()

    async def test_echo(self) -> None:
        for suite in SUITES:
            ws = await self.connect("/echo", suite)
            token = [records.PREFIX + suite]
            hello = handshake.Handshake(handshake.prologue("echo", REALM, token, token[0]))
            await ws.send(hello.init())
            agreed = hello.finish(await ws.recv())
            seal = records.Sealer(suite, records.first_secret(agreed.h, agreed.k_c), max_records=2)
            open_ = records.Opener(suite, records.first_secret(agreed.h, agreed.k_s))
            for size in (0, 1, 1000, 3):
                for message in seal.seal(records.KIND_RECORD, b"e" * size, 0):
                    await ws.send(message)
                self.assertEqual(open_.open(await ws.recv()), (records.KIND_RECORD, b"e" * size))
            await ws.close()

    def test_answers_to_the_upgrade(self) -> None:
        """The table of section 1.4, as far as a test of seconds can go."""
        upgrade = "Host: x\nConnection: Upgrade\nUpgrade: websocket\nSec-WebSocket-Version: 13\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\n"
        offer = "Sec-WebSocket-Protocol: sealcast.v1.aes-128-gcm\n"
        for request, status in (
            ("GET /ws HTTP/1.1\n" + upgrade + "\n", 400),
            ("GET /ws HTTP/1.1\n" + upgrade + offer + offer + "\n", 400),
            ("GET /ws HTTP/1.1\n" + upgrade + offer + "Sec-WebSocket-Protocol: sealcast.v1.plain\n\n", 400),
            ("GET /elsewhere HTTP/1.1\n" + upgrade + offer + "\n", 404),
            ("POST /ws HTTP/1.1\n" + upgrade + offer + "\n", 405),
            ("GET /ws HTTP/1.1\nHost: x\n\n", 426),
            ("GET /ws HTTP/1.1\n" + upgrade.replace("13", "12") + offer + "\n", 426),
            ("GET /ws HTTP/1.1\n" + upgrade + "A: b\n" * 64 + "\n", 431),
            ("GET /ws HTTP/1.0\n" + upgrade + offer + "\n", 505),
        ):
            with self.subTest(request):
                self.assertEqual(self.gateway.ask(request)[0], status)
        _, text = self.gateway.ask("GET /ws HTTP/1.1\n" + upgrade + "Sec-WebSocket-Protocol: other\n\n")
        for suite in SUITES:
            self.assertIn(records.PREFIX + suite, text)

    def test_tail(self) -> None:
        pin = handshake.format_pin(self.gateway.pin)
        command = [sys.executable, ROOT / "examples/python/tail.py", self.gateway.url, "--key", pin, "--realm", REALM]
        out = subprocess.run([*command, "--topics", "md:**", "--count", "5"], capture_output=True, text=True, timeout=30)
        lines = [json.loads(line) for line in out.stdout.splitlines()]
        ticks = [line for line in lines if "event" not in line]
        self.assertLessEqual({line.get("event") for line in lines}, {None, "snapshot"})
        self.assertEqual((out.returncode, len(ticks)), (0, 5), out.stderr)
        self.assertEqual(set(ticks[0]), {"topic", "seq", "epoch", "skipped", "time_us", "payload"})
        out = subprocess.run([*command[:-4], "--realm", REALM], capture_output=True, text=True, timeout=30)
        self.assertEqual((out.returncode, out.stdout), (3, ""), out.stderr)

    async def test_stopped_gateway_says_goodbye(self) -> None:
        gateway = Gateway(self.folder.name)
        session = await Session.dial(gateway.url, [gateway.pin], realm=REALM)
        stopped = asyncio.get_running_loop().run_in_executor(None, gateway.stop)
        with self.assertRaises(Ended) as ended:
            await until(session, lambda e: False)
        self.assertEqual((ended.exception.code, ended.exception.final), (1012, True))
        self.assertEqual(await stopped, 0)


if __name__ == "__main__":
    unittest.main()
