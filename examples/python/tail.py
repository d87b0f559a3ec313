#!/usr/bin/python3
"""Subscribe to topics of a Sealcast gateway and print ticks and events, one JSON object a line."""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import random
import sys

from sealcast import ProtocolError, records
from sealcast.client import DEFAULT_SUITES, Ended, Refused, Session
from sealcast.handshake import parse_pin

DONE, FAILED, USAGE, REFUSED = 0, 1, 2, 3
STAY_AWAY = (1000, 1003, 1007, 1009, 4401, 4403, 4409)  # Goodbyes after which coming back would end the same way (7.4)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("url", help="ws://HOST:PORT/ws or wss://…")
    parser.add_argument("--topics", default="**", help="names and patterns, separated by commas")
    parser.add_argument("--key", action="append", default=[], metavar="PIN", help="the gateway's public key; may be repeated")
    parser.add_argument("--insecure", action="store_true", help="without --key: take any gateway")
    parser.add_argument("--suite", action="append", choices=sorted(records.SUITES), help="offer this one; may be repeated")
    parser.add_argument("--realm", default="default", help="the gateway's realm")
    parser.add_argument("--token", default="")
    parser.add_argument("--count", type=int, default=0, metavar="N", help="stop after N ticks")
    parser.add_argument("--for", dest="seconds", type=float, metavar="SECONDS", help="stop after this time")
    return parser.parse_args()


def line(event: dict) -> dict | None:
    """An event as `sealctl tail -o json` prints it; None for what is no news to a reader."""
    if event.get("event") == "error":
        return {"event": "refused", "filter": event["filter"], "code": event["code"], "text": event["text"]}
    if "event" in event:
        if event["event"] != "snapshot":
            return event if event["event"] in ("gap", "reset", "notice", "disconnected") else None
    event = dict(event)
    payload = event.pop("payload")
    for name in ("merged", "stale"):
        if not event.get(name):
            event.pop(name, None)
    try:
        event["payload"] = payload.decode()
    except UnicodeDecodeError:  # no text
        event["payload_base64"] = base64.b64encode(payload).decode()
    return event


async def tail(args: argparse.Namespace, pins: list[bytes]) -> int:
    """Print until the count is there. A session that ends is followed by another, which goes on where it was."""
    shown = Shown(args.count)
    while True:
        try:
            session = await Session.dial(
                args.url, pins, insecure=args.insecure, realm=args.realm, suites=args.suite or DEFAULT_SUITES, token=args.token
            )
        except Refused as error:
            if not shown.sessions:
                raise
            shown.event({"event": "disconnected", "text": str(error)})
        else:
            if await follow(session, args.topics.split(","), shown):
                return DONE
        await asyncio.sleep(random.uniform(0.5, 1.5))  # a program for long use lets this grow (7.5)


async def follow(session: Session, topics: list[str], shown: Shown) -> bool:
    """Print what one session brings; whether that was enough."""
    shown.sessions += 1
    await session.subscribe(*topics, since=list(shown.since.values()), cursor=shown.cursor)
    try:
        async for event in session.events():
            if shown.event(event):
                await session.close()
                return True
    except Ended as end:
        if end.final and end.code in STAY_AWAY:
            raise
        shown.event({"event": "disconnected", "code": end.code, "text": str(end)})
    shown.since.update({p["topic"]: p for p in session.view.positions()})
    shown.cursor = session.cursor
    return False


class Shown:
    """What was printed, over all sessions, and where the last one stood."""

    def __init__(self, count: int) -> None:
        self.left = count or -1  # ticks
        self.sessions = 0
        self.since: dict[str, dict] = {}
        self.cursor = b""

    def event(self, event: dict) -> bool:
        """Print an event; whether it was the last one."""
        if shown := line(event):
            print(json.dumps(shown, ensure_ascii=False), flush=True)
        self.left -= "event" not in event
        return self.left == 0


async def limited(args: argparse.Namespace, pins: list[bytes]) -> int:
    try:
        return await asyncio.wait_for(tail(args, pins), args.seconds)
    except asyncio.TimeoutError:
        return FAILED if args.count else DONE


def main() -> int:
    args = arguments()
    try:
        return asyncio.run(limited(args, [parse_pin(pin) for pin in args.key]))
    except ValueError as error:
        print(f"tail: error: {error}", file=sys.stderr)
        return USAGE
    except Refused as error:
        print(f"tail: error: {error}", file=sys.stderr)
        return REFUSED
    except (Ended, ProtocolError) as error:
        print(f"tail: error: {error}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        return DONE


if __name__ == "__main__":
    sys.exit(main())
