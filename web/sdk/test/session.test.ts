// Handshakes, key schedule and records against the vectors of every suite that
// this client has: X25519 both by WebCrypto and by @noble/curves.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import { concat, fromBase64Url, toBase64Url, utf8, type Bytes } from "../src/bytes.js";
import { kinds, NxHandshake, prologueOf, ResumeHandshake, type Handshaken, type HandshakeKeys, type Negotiated, type Ticket } from "../src/noise.js";
import { newKemKey, nobleDhKey } from "../src/primitives.js";
import { firstSecrets, Opener, Sealer, ticketKey, type Secrets } from "../src/records.js";
import { suiteOf, type SuiteName } from "../src/suites.js";
import { hex, nativeKeyFrom, toHex, vector } from "./tools.js";

interface DirectionVector {
  keys: { secret: string; key: string; iv: string }[];
  messages: Record<string, string>;
  messages_0_to_299_sha256: string;
  key_update: string;
  messages_after_key_update: string[];
  goodbye: string;
}

interface SessionVector {
  suite: string;
  role: "push" | "echo";
  realm: string;
  offered: string[];
  selected: string;
  prologue: string;
  gateway_static_public: string;
  pin: string;
  client_ephemeral_private: string;
  ml_kem_seed_d_z: string;
  handshake: { init: string; reply: string; h: string; k_c: string; k_s: string; ml_kem_secret: string };
  client_to_gateway: DirectionVector;
  gateway_to_client: DirectionVector;
  resume_master: string;
  ticket?: { nonce: string; psk: string; ticket: string };
}

const suites: SuiteName[] = ["aes-128-gcm", "aes-256-gcm", "chacha20-poly1305", "plain"];
const agreements = ["classical", "hybrid"] as const;
const libraries = ["WebCrypto", "noble"] as const;

async function keysOf(v: SessionVector, library: (typeof libraries)[number]): Promise<HandshakeKeys> {
  const secret = hex(v.client_ephemeral_private);
  const noble = await nobleDhKey(secret);
  const dh = library === "noble" ? noble : await nativeKeyFrom(secret, noble.publicKey);
  return v.ml_kem_seed_d_z ? { dh, kem: await newKemKey(hex(v.ml_kem_seed_d_z)) } : { dh };
}

function negotiatedOf(v: SessionVector): Negotiated {
  return { role: v.role, realm: v.realm, offered: v.offered, selected: v.selected };
}

function ticketOf(v: SessionVector, hybrid: boolean): Ticket {
  return {
    ticket: hex(v.ticket!.ticket),
    psk: hex(v.ticket!.psk),
    staticKey: hex(v.gateway_static_public),
    hybrid,
    realm: v.realm,
    expires: 0,
  };
}

async function begin(v: SessionVector, library: (typeof libraries)[number] = "WebCrypto") {
  const keys = await keysOf(v, library);
  if (!v.ticket) return NxHandshake.begin(negotiatedOf(v), keys);
  return ResumeHandshake.begin(negotiatedOf(v), ticketOf(v, v.ml_kem_seed_d_z !== ""), keys);
}

async function secretsOf(v: SessionVector): Promise<Secrets> {
  const handshake = await begin(v);
  return firstSecrets(await handshake.finish(hex(v.handshake.reply)));
}

function plaintextOf(n: number): Bytes {
  return Uint8Array.from({ length: n }, (_, i) => (n + i) % 256);
}

/** All messages of a direction as its vector has them. */
async function sealAll(sealer: Sealer): Promise<{ first: Bytes[]; update: Bytes; after: Bytes[]; goodbye: Bytes }> {
  const first = [];
  for (let n = 0; n < 300; n++) first.push(await sealer.seal(kinds.record, plaintextOf(n)));
  const update = await sealer.update();
  const after = [];
  for (const n of [300, 301, 302]) after.push(await sealer.seal(kinds.record, plaintextOf(n)));
  return { first, update, after, goodbye: await sealer.seal(kinds.goodbye, utf8("bye")) };
}

function compare(made: Awaited<ReturnType<typeof sealAll>>, v: DirectionVector): void {
  const sum = createHash("sha256");
  made.first.forEach((message) => sum.update(message));
  assert.equal(sum.digest("hex"), v.messages_0_to_299_sha256);
  for (const [n, message] of Object.entries(v.messages)) assert.equal(toHex(made.first[Number(n)]), message);
  assert.equal(toHex(made.update), v.key_update);
  assert.deepEqual(made.after.map(toHex), v.messages_after_key_update);
  assert.equal(toHex(made.goodbye), v.goodbye);
}

for (const kind of ["session", "resumption"]) {
  for (const suite of suites) {
    for (const agreement of agreements) {
      const name = `${kind}-${suite}-${agreement}.json`;
      const v = vector<SessionVector>(name);

      for (const library of libraries) {
        test(`${name}: the handshake by ${library}`, async () => {
          assert.equal(suiteOf(v.selected), suite);
          assert.equal(toHex(prologueOf(negotiatedOf(v))), v.prologue.slice(0, 2 * prologueOf(negotiatedOf(v)).length));
          const handshake = await begin(v, library);
          assert.equal(toHex(handshake.init), v.handshake.init);
          const done: Handshaken = await handshake.finish(hex(v.handshake.reply));
          assert.equal(toHex(done.h), v.handshake.h);
          assert.equal(toHex(done.kClient), v.handshake.k_c);
          assert.equal(toHex(done.kServer), v.handshake.k_s);
          assert.equal(toHex(done.kemSecret), v.handshake.ml_kem_secret);
          assert.equal(toHex(done.staticKey), v.gateway_static_public);
          assert.equal(toBase64Url(done.staticKey), v.pin);
          assert.deepEqual(fromBase64Url(v.pin), done.staticKey);
        });
      }

      test(`${name}: what is sealed`, async () => {
        const secrets = await secretsOf(v);
        assert.equal(toHex(secrets.resumeMaster), v.resume_master);
        assert.equal(toHex(secrets.clientToServer), v.client_to_gateway.keys[0].secret);
        assert.equal(toHex(secrets.serverToClient), v.gateway_to_client.keys[0].secret);
        if (kind === "resumption") return compare(await sealAll(new Sealer(secrets.clientToServer, suite, () => 0)), v.client_to_gateway);
        compare(await sealAll(new Sealer(secrets.clientToServer, suite, () => 0)), v.client_to_gateway);
        compare(await sealAll(new Sealer(secrets.serverToClient, suite, () => 0)), v.gateway_to_client);
      });

      test(`${name}: what is opened, all at once and in order`, async () => {
        const secrets = await secretsOf(v);
        const peer = await sealAll(new Sealer(secrets.serverToClient.slice(), suite, () => 0));
        const opener = new Opener(secrets.serverToClient, suite);
        const messages = [...peer.first, peer.update, ...peer.after, peer.goodbye];
        const plaintexts = await Promise.all(messages.map((message) => opener.open(message)));
        for (let n = 0; n < 300; n++) assert.deepEqual(plaintexts[n], plaintextOf(n));
        assert.equal(plaintexts[300].length, 0);
        for (const n of [300, 301, 302]) assert.deepEqual(plaintexts[n + 1], plaintextOf(n));
        assert.deepEqual(plaintexts[304], utf8("bye"));
        assert.equal(opener.updates, 1);
      });
    }
  }
}

for (const name of ["resumption-aes-128-gcm-hybrid.json", "resumption-plain-classical.json"]) {
  test(`${name}: the key of the ticket`, async () => {
    const v = vector<SessionVector>(name);
    const from = vector<SessionVector>(name.replace("resumption", "session"));
    const secrets = await secretsOf(from);
    assert.equal(toHex(await ticketKey(secrets.resumeMaster, hex(v.ticket!.nonce))), v.ticket!.psk);
  });
}

for (const name of ["session-aes-128-gcm-classical.json", "resumption-aes-128-gcm-classical.json"]) {
  test(`${name}: an answer with any byte altered, cut or lengthened is refused`, async () => {
    const v = vector<SessionVector>(name);
    const reply = hex(v.handshake.reply);
    const refused = { name: "SealcastError", closeCode: 4400 };
    for (let i = 0; i < reply.length; i++) {
      const altered = reply.slice();
      altered[i] ^= 0x04;
      await assert.rejects((await begin(v)).finish(altered), refused, `byte ${i}`);
    }
    await assert.rejects((await begin(v)).finish(reply.slice(0, -1)), refused);
    await assert.rejects((await begin(v)).finish(concat(reply, Uint8Array.of(0))), refused);
    await assert.rejects((await begin(v)).finish(concat(reply, new Uint8Array(1088))), refused);
  });
}

test("points of low order are refused by both libraries", async () => {
  const v = vector<SessionVector>("session-plain-classical.json");
  for (const library of libraries) {
    const { dh } = await keysOf(v, library);
    for (const first of [0, 1]) {
      const point = new Uint8Array(32);
      point[0] = first;
      await assert.rejects(dh.agree(point), { name: "SealcastError", closeCode: 4400 });
    }
  }
});

test("a resumption of a hybrid session must be hybrid", async () => {
  const v = vector<SessionVector>("resumption-aes-128-gcm-classical.json");
  const handshake = await ResumeHandshake.begin(negotiatedOf(v), ticketOf(v, true), await keysOf(v, "noble"));
  await assert.rejects(handshake.finish(hex(v.handshake.reply)), { closeCode: 4400 });
});

for (const suite of suites.slice(0, 3)) {
  test(`${suite}: a record that is altered, left out or swapped opens nothing more`, async () => {
    const v = vector<SessionVector>(`session-${suite}-classical.json`);
    const { serverToClient } = await secretsOf(v);
    const sealer = new Sealer(serverToClient.slice(), suite, () => 0);
    const sealed: Bytes[] = [];
    for (let n = 0; n < 4; n++) sealed.push(await sealer.seal(kinds.record, plaintextOf(n)));
    const altered = sealed[1].slice();
    altered[altered.length - 1] ^= 1;
    const otherKind = sealed[1].slice();
    otherKind[0] = kinds.goodbye;
    const cases = [[sealed[0], altered, sealed[2]], [sealed[0], sealed[2], sealed[3]], [sealed[0], sealed[0], sealed[1]],
      [sealed[0], otherKind, sealed[2]], [sealed[0], sealed[1].slice(0, 10), sealed[2]]];
    for (const messages of cases) {
      const opener = new Opener(serverToClient.slice(), suite);
      await opener.open(messages[0]);
      for (const message of messages.slice(1)) await assert.rejects(opener.open(message), { closeCode: 4400, message: "a record does not open" });
    }
  });
}

test("a key update must not be the first record under a key", async () => {
  const v = vector<SessionVector>("session-aes-128-gcm-classical.json");
  const { serverToClient } = await secretsOf(v);
  const opener = new Opener(serverToClient.slice(), "aes-128-gcm");
  const sealer = new Sealer(serverToClient, "aes-128-gcm", () => 0);
  await assert.rejects(opener.open(await sealer.seal(kinds.keyUpdate, new Uint8Array(0))), { closeCode: 4400 });
});

test("a key update that is not empty is refused", async () => {
  const v = vector<SessionVector>("session-aes-128-gcm-classical.json");
  const { serverToClient } = await secretsOf(v);
  const opener = new Opener(serverToClient.slice(), "aes-128-gcm");
  const sealer = new Sealer(serverToClient, "aes-128-gcm", () => 0);
  await opener.open(await sealer.seal(kinds.record, new Uint8Array(0)));
  await assert.rejects(opener.open(await sealer.seal(kinds.keyUpdate, Uint8Array.of(0))), { closeCode: 4400 });
});

test("a sender changes its key by records, bytes and time, and never twice in a row", async () => {
  const v = vector<SessionVector>("session-aes-128-gcm-classical.json");
  const limits = { records: 3, bytes: 100, milliseconds: 1000 };
  let now = 0;
  const sealer = new Sealer((await secretsOf(v)).clientToServer, "aes-128-gcm", () => now, limits);
  const record = (n: number) => sealer.seal(kinds.record, new Uint8Array(n));
  const renewed = async () => {
    assert.equal(sealer.due, true);
    await sealer.update();
    assert.equal(sealer.due, false);
    now += 10_000; // a key that nothing was sealed with does not age
    assert.equal(sealer.due, false);
  };
  for (let i = 0; i < 3; i++) {
    assert.equal(sealer.due, false);
    await record(1);
  }
  await renewed();
  await record(100);
  await renewed();
  await record(1);
  now += 999;
  assert.equal(sealer.due, false);
  now += 1;
  await renewed();
  assert.equal(sealer.updates, 3);
});
