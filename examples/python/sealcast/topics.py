"""Filters (6.2), and what a client knows of its topics: the sequence rule (6.4), resets (6.5)."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import accumulate
from typing import Any, Iterator

from . import ProtocolError
from .messages import CAUSES, NOTICES, Message

Event = dict[str, Any]

MAX_NUMBER = 2**53 - 1  # the greatest sequence number and epoch


def match(pattern: str, name: str) -> bool:
    """Whether a valid filter matches a topic's name."""
    filters, segments = pattern.split(":"), name.split(":")
    for i, f in enumerate(filters):
        if f == "**":
            return len(segments) > i
        if i == len(segments) or f not in ("*", segments[i]):
            return False
    return len(filters) == len(segments)


def split(batch: Message) -> list[Message]:
    """The entries of a Batch in their order (6.4): ticks, and resets with what Reset holds. What contradicts itself is refused."""
    topics, sizes, payloads = batch["topics"], batch["sizes"], batch["payloads"]
    n = len(sizes) + 1 if topics else 0
    columns = {"order": n, "deltas": n - 1, "skipped": n, "steps": n}
    if len(batch["firsts"]) != len(topics) or len(topics) > n or sizes and not n:
        raise ProtocolError("a batch contradicts itself")
    if any(batch[name] and len(batch[name]) != length for name, length in columns.items()):
        raise ProtocolError("a batch has columns that do not fit")
    places = batch["order"] or [min(tick, len(topics) - 1) for tick in range(n)]
    if any(place >= len(topics) for place in places) or sum(sizes) > len(payloads) or payloads and not n:
        raise ProtocolError("the sizes of a batch do not add up")
    sizes = sizes + [len(payloads) - sum(sizes)]
    starts = _starts(places, sizes, len(topics))
    upcoming, received, resets, entries = list(batch["firsts"]), batch["base_us"], batch["resets"], []
    taken = 0  # of the resets
    for tick, place in enumerate(places):
        while taken < len(resets) and resets[taken]["at"] == tick:
            entries.append(resets[taken])
            taken += 1
        if tick and batch["deltas"]:
            received += batch["deltas"][tick - 1]
        skipped = batch["skipped"][tick] if batch["skipped"] else 0
        seq = (upcoming[place] + skipped + (batch["steps"][tick] if batch["steps"] else 0)) % 2**64
        if skipped > seq:
            raise ProtocolError("a batch contradicts itself")
        checked(seq)
        upcoming[place] = seq + 1
        payload = payloads[starts[place] : starts[place] + sizes[tick]]
        starts[place] += sizes[tick]
        entries.append({"topic": topics[place], "seq": seq, "skipped": skipped, "received": received, "payload": payload})
    if any(reset["at"] != n for reset in resets[taken:]):
        raise ProtocolError("a reset of a batch does not stand in its place")
    for reset in resets:
        checked(reset["epoch"], reset["next_seq"])
    return entries + resets[taken:]


def _starts(places: list[int], sizes: list[int], topics: int) -> list[int]:
    """Where the payloads of each topic of a batch begin."""
    lengths = [0] * topics
    for place, size in zip(places, sizes):
        lengths[place] += size
    return [0, *accumulate(lengths)][:topics]


def checked(*numbers: int) -> None:
    """Refuses sequence numbers and epochs that no gateway ever comes to (6.4)."""
    if max(numbers) > MAX_NUMBER:
        raise ProtocolError("a sequence number or epoch is too large")


@dataclass
class Position:
    """Where the client stands in one topic."""

    name: str
    epoch: int = 0
    last: int = 0  # the highest sequence number seen
    held: bool = False  # a filter of the session matches


class View:
    """The topics of one session. Each method takes what the gateway sent and tells what is new."""

    def __init__(self) -> None:
        self.filters: set[str] = set()
        self.topics: dict[int, Position] = {}
        self.clock_us = 0  # what times in batches count from, of Connected
        self.since: dict[str, Message] = {}  # positions of an earlier session, by topic, until their delivery begins

    def positions(self) -> list[Message]:
        """Where the session stands in every topic that it follows, for a later one (6.6)."""
        return [{"topic": p.name, "epoch": p.epoch, "seq": p.last} for p in self.topics.values() if p.held]

    def subscribed(self, message: Message) -> Iterator[Event]:
        self.filters.update(message["filters"])
        yield from self.announced(message["topics"])

    def unsubscribed(self, message: Message) -> None:
        self.filters.difference_update(message["filters"])
        for p in self.topics.values():
            p.held = p.held and any(match(f, p.name) for f in self.filters)

    def announced(self, states: list[Message]) -> Iterator[Event]:
        """Topics whose delivery begins, from Subscribed or Topics (6.3)."""
        for s in states:
            checked(s["epoch"], s["next_seq"])
            if s["number"] not in self.topics:
                self.topics[s["number"]] = self._renumbered(s["name"])
            p = self.topics[s["number"]]
            if p.name != s["name"]:
                raise ProtocolError(f"topic {s['number']} has two names")
            if p.held and p.epoch == s["epoch"]:
                continue  # delivered already: the position stays
            kind = "reset" if p.held else "topic"
            p.epoch, p.last, p.held = s["epoch"], s["next_seq"] - 1, True
            yield {"event": kind, "topic": p.name, "epoch": p.epoch, "next_seq": s["next_seq"]}
            if kind == "topic":
                yield from self._missed(p, self.since.pop(p.name, None), s.get("recovered", False))

    def _renumbered(self, name: str) -> Position:
        """The position of a topic that has a number for the first time, or another one: the earlier one is dead (6.3)."""
        for before in self.topics.values():
            if before.name == name and before.held:
                before.held = False
                return Position(name, before.epoch, before.last, True)
        return Position(name)

    def _missed(self, p: Position, since: Message | None, recovered: bool) -> Iterator[Event]:
        """What was lost between an earlier session and the beginning of a topic's delivery (6.5)."""
        if since is None or since["epoch"] != p.epoch and recovered:
            return
        if since["epoch"] != p.epoch:
            yield {"event": "reset", "topic": p.name, "epoch": p.epoch, "next_seq": p.last + 1, "cause": CAUSES[0]}
        elif p.last > since["seq"]:
            yield {"event": "gap", "topic": p.name, "epoch": p.epoch, "from": since["seq"] + 1, "to": p.last}

    def snapshot(self, values: list[Message]) -> Iterator[Event]:
        """Last values from before the delivery began (6.6). They do not move the position."""
        for v in values:
            if v["topic"] not in self.topics:
                raise ProtocolError(f"topic {v['topic']} was never announced")
            checked(v["epoch"], v["seq"])
            p = self.topics[v["topic"]]
            if p.held:
                yield {"event": "snapshot", **v, "topic": p.name}

    def batch(self, message: Message) -> Iterator[Event]:
        """Ticks, gaps and resets of a Batch, which is checked as a whole first (6.4)."""
        entries = split(message)
        for number in message["topics"] + [reset["topic"] for reset in message["resets"]]:
            self._announced(number)
        for e in entries:
            p = self.topics[e["topic"]]
            if not p.held:
                continue
            if "epoch" in e:
                yield from self._reset(p, e)
            else:
                yield from self._tick(p, e)

    def _tick(self, p: Position, e: Message) -> Iterator[Event]:
        """The sequence rule: a tick covers seq - skipped to seq."""
        seq, first = e["seq"], e["seq"] - e["skipped"]
        if seq <= p.last:
            return
        if first > p.last + 1:
            yield {"event": "gap", "topic": p.name, "epoch": p.epoch, "from": p.last + 1, "to": first - 1}
        merged = seq - max(first, p.last + 1)
        p.last = seq
        yield {
            "topic": p.name, "seq": seq, "epoch": p.epoch, "skipped": e["skipped"], "merged": merged,
            "time_us": self.clock_us + e["received"], "payload": e["payload"],
        }

    def gap(self, message: Message) -> Iterator[Event]:
        """Ticks that will not come, as the gateway tells (6.4). What came of them is not lost."""
        if message["from"] > message["to"]:
            raise ProtocolError("a gap runs backwards")
        p = self._announced(message["topic"])
        checked(message["epoch"], message["to"])
        if p.epoch == message["epoch"]:
            yield from self._lost(p, message["to"], CAUSES.get(message["cause"], CAUSES[0]))

    def heads(self, heads: list[Message]) -> Iterator[Event]:
        """How far topics were sent, as a heartbeat tells: a lost tail shows (6.4)."""
        for h in heads:
            checked(h["seq"])
            yield from self._lost(self._announced(h["topic"]), h["seq"], CAUSES[0])

    def notice(self, message: Message) -> Iterator[Event]:
        """What happens to the session; kinds of later versions are ignored."""
        names = [p.name for p in map(self._announced, message["topics"]) if p.held]
        if message["kind"] in NOTICES and message["kind"] and (names or not message["topics"]):
            yield {"event": "notice", **message, "kind": NOTICES[message["kind"]], "topics": names}

    def _announced(self, number: int) -> Position:
        if number not in self.topics:
            raise ProtocolError(f"topic {number} was never announced")
        return self.topics[number]

    def _lost(self, p: Position, to: int, cause: str) -> Iterator[Event]:
        if p.held and to > p.last:
            event = {"event": "gap", "topic": p.name, "epoch": p.epoch, "from": p.last + 1, "to": to}
            p.last = to
            yield event | ({"cause": cause} if cause != CAUSES[0] else {})

    def _reset(self, p: Position, reset: Message) -> Iterator[Event]:
        if p.epoch == reset["epoch"]:
            return
        p.epoch, p.last = reset["epoch"], reset["next_seq"] - 1
        cause = CAUSES.get(reset["cause"], CAUSES[0])
        yield {"event": "reset", "topic": p.name, "epoch": p.epoch, "next_seq": reset["next_seq"], "cause": cause}
