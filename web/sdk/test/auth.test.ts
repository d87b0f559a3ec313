// The client in Node against a gateway that wants tokens.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import WebSocket from "ws";
import type { WebSocketConstructor } from "../src/channel.js";
import { Client, type ClientOptions, type Notice } from "../src/client.js";
import type { SubscriptionEvent } from "../src/events.js";
import { Gateway, Redis, Workshop } from "./gateway.js";
import { textOf } from "./source.js";
import { until } from "./tools.js";

let workshop: Workshop;
let redis: Redis;
let gateway: Gateway;

before(async () => {
  workshop = new Workshop();
  redis = await Redis.start();
  writeFileSync(secretFile("1"), "a secret that the gateway knows, of 32 bytes or more", { mode: 0o600 });
  writeFileSync(secretFile("2"), "a secret that the gateway does not know, as long as it is", { mode: 0o600 });
  gateway = await Gateway.start(workshop, {
    "redis.mode": "standalone", "redis.addrs": redis.address, "auth.mode": "jwt", "auth.leeway": "0s",
    "auth.keys": JSON.stringify([{ kid: "1", alg: "HS256", file: secretFile("1") }]),
    topics: JSON.stringify([{ match: "**", policy: "every", snapshot: true, history: 1000 }]),
  });
});

after(async () => {
  await gateway?.stop();
  redis?.stop();
  workshop?.remove();
});

function secretFile(name: string): string {
  return join(workshop.directory, `secret-${name}`);
}

/** A token as sealctl makes it: of ann, for an hour and md:**, unless others are given. */
function token({ secret = "1", user = "ann", topics = "md:**", life = "1h" } = {}): string {
  const args = ["token", "--secret-file", secretFile(secret), "--kid", "1", "--user", user, "--topics", topics, "--for", life];
  return execFileSync(workshop.program("sealctl"), args, { encoding: "utf8" }).trim();
}

function client(options: Partial<ClientOptions>): Client {
  return new Client(gateway.url, { pins: [workshop.pin], WebSocket: WebSocket as unknown as WebSocketConstructor, random: () => 0, ...options });
}

const inSeconds = () => Math.floor(Date.now() / 1000);
const ticks = (events: SubscriptionEvent[]) => events.filter((e) => e.type === "tick").map((e) => textOf(e.payload));
const refusals = (events: SubscriptionEvent[]) => events.filter((e) => e.type === "refused").map((e) => [e.filter, e.code]);
const connection = (c: Client) => {
  assert.ok(c.status.state === "connected", c.status.state);
  return c.status.connection;
};

test("a login: the token's user and expiry, topics that it covers and topics that it does not", async () => {
  const c = client({ token: token() });
  const events: SubscriptionEvent[] = [];
  const mixed = c.subscribe(["md:login:*", "orders:login", "**"], { onEvent: (event) => events.push(event) });
  await assert.rejects(mixed.ready, { code: "refused", closeCode: 4403 });
  await until(() => refusals(events).length === 2 && events.some((e) => e.type === "subscribed"), "two are refused, one is confirmed");
  assert.deepEqual(refusals(events), [["orders:login", 4403], ["**", 4403]]);
  assert.deepEqual(events.filter((e) => e.type === "subscribed").map((e) => e.filters), [["md:login:*"]]);
  const { user, expires } = connection(c);
  assert.equal(user, "ann");
  assert.ok(Math.abs(expires - inSeconds() - 3600) < 60, `${expires}`);
  redis.publish("orders:login", "not for ann");
  redis.publish("md:login:a", "for ann");
  await until(() => ticks(events).length > 0, "a tick");
  assert.deepEqual(ticks(events), ["for ann"]);
  await c.close();
});

test("no token, a forged one and one that has expired end the client with 4401", async () => {
  const expired = token({ life: "1s" });
  await new Promise((resolve) => setTimeout(resolve, 2000));
  for (const wrong of ["", token({ secret: "2" }), expired]) {
    const c = client({ token: wrong });
    const { ready } = c.subscribe("md:a");
    await assert.rejects(c.closed, { code: "closed", closeCode: 4401 });
    await assert.rejects(ready, { closeCode: 4401 });
    assert.equal(c.stats().connections, 0);
  }
});

test("after a refused token the client comes back with another one", async () => {
  const tokens = [token({ secret: "2" }), token()];
  const refused: (number | undefined)[] = [];
  const c = client({ token: () => tokens.length > 1 ? tokens.shift()! : tokens[0], onStatus: (s) => s.state === "waiting" && refused.push(s.reason.closeCode) });
  await c.subscribe("md:a").ready;
  assert.deepEqual([connection(c).user, refused], ["ann", [4401]]);
  await c.close();
});

test("a new token before the old one expires: the session goes on, and topics that it does not cover are withdrawn", async () => {
  const tokens = [token({ life: "5s" }), token({ topics: "md:kept:*" })];
  const notices: Notice["kind"][] = [];
  const c = client({ token: () => tokens.shift()!, onNotice: ({ kind }) => notices.push(kind) });
  const events: SubscriptionEvent[] = [];
  await c.subscribe(["md:kept:*", "md:gone:*"], { onEvent: (event) => events.push(event) }).ready;
  const { expires } = connection(c);
  await until(() => refusals(events).length > 0, "a topic is withdrawn");
  assert.deepEqual(refusals(events), [["md:gone:*", 4403]]);
  assert.ok(inSeconds() <= expires, "the gateway asked in time");
  await new Promise((resolve) => setTimeout(resolve, expires * 1000 + 1500 - Date.now()));
  redis.publish("md:gone:a", "no more");
  redis.publish("md:kept:a", "after the first token's end");
  await until(() => ticks(events).length > 0, "a tick");
  assert.deepEqual(ticks(events), ["after the first token's end"]);
  assert.deepEqual([notices, c.stats().connections], [["token-expires"], 1]);
  await c.close();
});

test("a new token of another user is not taken, and the session goes on", async () => {
  const tokens = [token({ life: "5s" }), token({ user: "bob" })];
  const notices: [Notice["kind"], string][] = [];
  const c = client({ token: () => tokens.shift() ?? assert.fail("no third token is wanted"), onNotice: ({ kind, text }) => notices.push([kind, text]) });
  await c.subscribe("md:a").ready;
  await c.refresh();
  assert.deepEqual(notices.map(([kind]) => kind), ["token-refused"]);
  assert.equal(connection(c).user, "ann");
  assert.ok((await c.ping()) > 0);
  await c.close();
});

test("a token that cannot be renewed ends the session with it", async () => {
  const c = client({ token: token({ life: "2s" }) });
  await c.subscribe("md:a").ready;
  const { expires } = connection(c);
  await assert.rejects(c.closed, { code: "closed", closeCode: 4401 });
  assert.ok(inSeconds() >= expires, "not before its time");
});
