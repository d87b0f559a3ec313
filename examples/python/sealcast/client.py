"""One connection to a gateway for ticks."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from typing import Any, AsyncIterator, Iterator, Sequence

import websockets
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatusCode

from . import ProtocolError, handshake, messages, records
from .messages import Message
from .topics import Event, View

DEFAULT_SUITES = ("aes-128-gcm", "chacha20-poly1305", "aes-256-gcm")
MAX_MESSAGE = 1_052_701  # section 8
CONNECT_SIZE = 1024  # 5.2: hides the length of a token


class Refused(Exception):
    """No session came about."""


class Ended(Exception):
    """The session is over. final: the gateway said so itself, in a sealed Goodbye (7.2)."""

    def __init__(self, code: int, text: str, final: bool) -> None:
        how = "the gateway ended the session" if final else "the connection was cut"
        super().__init__(f"{how}: {code} {text}".rstrip())
        self.code, self.text, self.final = code, text, final


class Session:
    """An established session of the role push. One task uses it at a time."""

    def __init__(self, ws: Any, suite: str, agreed: handshake.Agreed, records_per_key: int) -> None:
        self.suite, self.gateway_key = suite, agreed.static
        self.connected: Message = {}
        self.view = View()
        self.cursor = b""  # where the session stands in the gateway's streams, if it has any
        self._ws = ws
        self._seal = records.Sealer(suite, records.first_secret(agreed.h, agreed.k_c), records_per_key)
        self._open = records.Opener(suite, records.first_secret(agreed.h, agreed.k_s))
        self._group: records.Group | None = None
        self._silence: float | None = None  # seconds after which the connection counts as cut
        self._last_id = 0
        self._told: deque[Event] = deque()  # of the message that was read last

    @classmethod
    async def dial(
        cls, url: str, pins: Sequence[bytes] = (), *, insecure: bool = False, realm: str = "default",
        suites: Sequence[str] = DEFAULT_SUITES, token: str = "", records_per_key: int = records.MAX_RECORDS,
    ) -> Session:
        """Connect, check the gateway's key, introduce ourselves. insecure takes any key if there is no pin."""
        offered = [records.PREFIX + s for s in suites]
        try:
            ws = await websockets.connect(
                url, subprotocols=offered, compression=None, max_size=MAX_MESSAGE,
                ping_interval=None,  # the protocol has its own heartbeat
            )
        except InvalidStatusCode as error:
            raise Refused(f"the gateway answers HTTP {error.status_code}") from error
        except (OSError, InvalidHandshake) as error:
            raise Refused(f"no connection: {error}") from error
        # Once a choice is there, the library has checked that it was offered.
        if ws.subprotocol is None:
            await ws.close(1002)
            raise Refused("the server selected no subprotocol: not a Sealcast gateway")
        hello = handshake.Handshake(handshake.prologue("push", realm, offered, ws.subprotocol))
        try:
            await ws.send(hello.init())
            agreed = hello.finish(await cls._receive(ws, 10))
            if agreed.static not in pins and (pins or not insecure):
                raise ProtocolError(f"the gateway's key matches no pin: {handshake.format_pin(agreed.static)}", 4403)
            session = cls(ws, ws.subprotocol.removeprefix(records.PREFIX), agreed, records_per_key)
            await session._introduce(token)
        except ProtocolError as error:
            await ws.close(error.code)
            raise Refused(str(error)) from error
        except Ended as error:
            raise Refused(str(error)) from error
        return session

    async def _introduce(self, token: str) -> None:
        connect = {"token": token, "client_name": "sealcast-python-example", "client_version": "1", "groups": True}
        await self._send("connect", connect, CONNECT_SIZE)
        name, self.connected = await self._next()
        if name != "connected" or self.connected["codec"] != 0:
            raise ProtocolError("the first message is not a Connected that we can use")
        self._silence = self.connected["heartbeat_timeout_ms"] / 1000 or None
        self.view.clock_us = self.connected["clock_us"]

    async def subscribe(
        self, *filters: str, since: Sequence[Message] = (), cursor: bytes = b"", max_rate: float = 0, max_age_ms: int = 0
    ) -> None:
        """Ask for topics. The answers are among the events.

        since and cursor are view.positions() and cursor of an earlier session: what the gateway has kept comes
        again, what is lost is told by a gap or a reset.
        """
        self._last_id += 1
        self.view.since.update({position["topic"]: position for position in since})
        subscriptions = [{"filter": f, "max_rate": max_rate, "max_age_ms": max_age_ms} for f in filters]
        request = {"id": self._last_id, "subscriptions": subscriptions, "since": list(since), "cursor": cursor}
        await self._send("subscribe", request)

    async def unsubscribe(self, *filters: str) -> None:
        """Give filters back. The answers are among the events."""
        self._last_id += 1
        await self._send("unsubscribe", {"id": self._last_id, "filters": list(filters)})

    async def ping(self, number: int) -> None:
        """Ask for a pong, which comes among the events."""
        await self._send("ping", {"id": number})

    async def events(self) -> AsyncIterator[Event]:
        """Everything that comes, in order. A tick has no "event". It ends with Ended or ProtocolError.

        Who stops listening and begins again goes on where it was.
        """
        while True:
            while self._told:
                yield self._told.popleft()
            try:
                self._told.extend(self._interpret(*await self._next()))
            except ProtocolError as error:
                await self._ws.close(error.code)
                raise

    def _interpret(self, name: str, message: Message) -> Iterator[Event]:
        if name == "batch":
            yield from self.view.batch(message)
        elif name == "gap":
            yield from self.view.gap(message)
        elif name == "notice":
            yield from self.view.notice(message)
        elif name == "heartbeat":
            yield from self.view.heads(message["heads"])
            yield {"event": name, "time_us": message["time_us"]}
        elif name == "topics":
            yield from self.view.announced(message["topics"])
        elif name == "snapshot":
            yield from self.view.snapshot(message["values"])
        elif name == "subscribed":
            yield {"event": name, "id": message["id"], "filters": message["filters"]}
            yield from self.view.subscribed(message)
        elif name == "connected":
            raise ProtocolError("a second Connected")
        else:
            if name == "unsubscribed":
                self.view.unsubscribed(message)
            yield {"event": name, **message}
        self.cursor = message.get("cursor") or self.cursor

    async def close(self) -> None:
        """Leave in order: Goodbye, then the close frame (7.2)."""
        goodbye = messages.encode("Goodbye", {"code": 1000})
        try:
            for message in self._seal.seal(records.KIND_GOODBYE, goodbye, time.monotonic()):
                await self._ws.send(message)
        except ConnectionClosed:
            return
        await self._ws.close(1000)

    async def _send(self, name: str, message: Message, pad_to: int = 0) -> None:
        plaintext = messages.encode_frame("ClientFrame", name, message, pad_to)
        for sealed in self._seal.seal(records.KIND_RECORD, plaintext, time.monotonic()):
            await self._ws.send(sealed)

    async def _next(self) -> tuple[str, Message]:
        """The next message of the gateway, with all the records on the way to it."""
        while True:
            message = await self._receive(self._ws, self._silence)
            if message[:1] == bytes([records.KIND_GROUP_RECORD]):
                return self._group_batch(message)
            kind, plaintext = self._open.open(message)
            if kind == records.KIND_RECORD:
                name, content = messages.decode_frame("ServerFrame", plaintext)
                if not self._about_group(name, content):
                    return name, content
            if kind == records.KIND_GOODBYE:
                self._settled()
                goodbye = messages.decode("Goodbye", plaintext)
                if not may_close_with(goodbye["code"]):
                    raise ProtocolError(f"Goodbye with code {goodbye['code']}")
                await self._ws.close(goodbye["code"])
                raise Ended(goodbye["code"], goodbye["text"], final=True)

    def _group_batch(self, message: bytes) -> tuple[str, Message]:
        """What came in a record of the group (4.5)."""
        if self._group is None:
            raise ProtocolError("a group record, but no group")
        name, content = messages.decode_frame("ServerFrame", self._group.open(message))
        if name != "batch":
            raise ProtocolError(f"{name} in a group record")
        return name, content

    def _about_group(self, name: str, message: Message) -> bool:
        """Follow the group that the session is in; false if the message is about something else."""
        if name == "group_mark":
            if self._group is None:
                raise ProtocolError("a GroupMark, but no group")
            self._group.check(message)
            return True
        self._settled()
        if name == "group_key":
            self._group = records.Group(self.suite, message)
        elif name == "group_leave":
            if self._group is None or self._group.id != message["id"]:
                raise ProtocolError("leaving a group that we are not in")
            self._group = None
        return name in ("group_key", "group_leave")

    def _settled(self) -> None:
        """Before everything but a GroupMark, the records of the group are marked."""
        if self._group is not None and not self._group.settled:
            raise ProtocolError("group records without a GroupMark")

    @staticmethod
    async def _receive(ws: Any, silence: float | None) -> bytes:
        """One binary message. Only records count as a sign of life, never pings (7.1)."""
        try:
            message = await asyncio.wait_for(ws.recv(), silence)
        except asyncio.TimeoutError:
            await ws.close(4410)
            raise Ended(4410, "nothing heard for too long", final=False) from None
        except ConnectionClosed as error:
            code, reason = (error.rcvd.code, error.rcvd.reason) if error.rcvd else (1006, "")
            raise Ended(code, reason, final=False) from error
        if isinstance(message, str):
            raise ProtocolError("a text message", 1003)
        return message


def may_close_with(code: int) -> bool:
    """The codes that may stand in a close frame (7.2)."""
    return 1000 <= code <= 1003 or 1007 <= code <= 1014 or 3000 <= code <= 4999
