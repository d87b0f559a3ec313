// Group records against the vectors of every suite that this client has.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { test } from "node:test";
import { concat, type Bytes } from "../src/bytes.js";
import { Groups } from "../src/group.js";
import { serverFrame } from "../src/plaintext.js";
import { RecordKey } from "../src/records.js";
import type { SuiteName } from "../src/suites.js";
import { hex, toHex, vector } from "./tools.js";

interface GroupVector {
  suite: SuiteName;
  id: number;
  secret: string;
  messages: Record<string, string>;
  messages_0_to_299_sha256: string;
  group_keys: Record<"0" | "255", string>;
  group_marks: Record<"1" | "300", string>;
  group_leave: string;
}

const refused = { name: "SealcastError", closeCode: 4400 };

/** All 300 records, sealed here and compared with the vector. */
async function recordsOf(v: GroupVector): Promise<Bytes[]> {
  const key = await RecordKey.derive(hex(v.secret), v.suite, "sealcast v1 group ");
  const all: Bytes[] = [];
  for (let n = 0; n < 300; n++) all.push(await sealed(v, key, n, n));
  const sum = createHash("sha256");
  all.forEach((message) => sum.update(message));
  assert.equal(sum.digest("hex"), v.messages_0_to_299_sha256);
  for (const [n, message] of Object.entries(v.messages)) assert.equal(toHex(all[Number(n)]), message);
  return all;
}

async function sealed(v: GroupVector, key: RecordKey, counter: number, size: number): Promise<Bytes> {
  const header = new Uint8Array(13);
  header[0] = 0x11;
  const view = new DataView(header.buffer);
  view.setUint32(1, v.id);
  view.setBigUint64(5, BigInt(counter));
  const plaintext = Uint8Array.from({ length: size }, (_, i) => (size + i) % 256);
  return concat(header, await key.aead.seal(key.nonce(counter), header, plaintext));
}

async function member(v: GroupVector, from: "0" | "255"): Promise<Groups> {
  const groups = new Groups(v.suite);
  assert.equal(await groups.take(serverFrame(hex(v.group_keys[from])).frame), true);
  return groups;
}

for (const suite of ["aes-128-gcm", "aes-256-gcm", "chacha20-poly1305", "plain"]) {
  const v = vector<GroupVector>(`group-${suite}.json`);

  test(`group-${suite}.json: members from the start and from record 255`, async () => {
    const records = await recordsOf(v);
    for (const from of ["0", "255"] as const) {
      const groups = await member(v, from);
      for (let n = Number(from); n < 300; n++) {
        const plaintext = await groups.open(records[n]);
        assert.deepEqual([plaintext.length, plaintext[0]], [n, n > 0 ? n % 256 : undefined]);
        if (n === 0) {
          await groups.take(serverFrame(hex(v.group_marks["1"])).frame);
          assert.equal(await groups.take({ heartbeat: { timeUs: 0n, heads: [], cursor: new Uint8Array(0) } }), false);
        }
      }
      await groups.take(serverFrame(hex(v.group_marks["300"])).frame);
      await groups.take(serverFrame(hex(v.group_leave)).frame);
      assert.equal(groups.joined, false);
      await assert.rejects(groups.open(records[299]), refused);
    }
  });

  test(`group-${suite}.json: altered, left out, swapped, older`, async () => {
    const records = await recordsOf(v);
    for (let i = 1; i < (suite === "plain" ? 13 : records[2].length); i++) {
      const groups = await member(v, "0");
      await groups.open(records[0]);
      await groups.open(records[1]);
      const altered = records[2].slice();
      altered[i] ^= 1;
      await assert.rejects(groups.open(altered), refused, `byte ${i}`);
    }
    for (const wrong of [[2], [0, 0], [0, 2], [0, 1, 0]]) {
      const groups = await member(v, "0");
      for (const n of wrong.slice(0, -1)) await groups.open(records[n]);
      await assert.rejects(groups.open(records[wrong.at(-1)!]), refused, wrong.join());
    }
  });

  test(`group-${suite}.json: a forged record opens, and the mark does not fit`, async () => {
    const records = await recordsOf(v);
    const groups = await member(v, "255");
    for (let n = 255; n < 299; n++) await groups.open(records[n]);
    const key = await RecordKey.derive(hex(v.secret), v.suite, "sealcast v1 group ");
    await groups.open(await sealed(v, key, 299, 5));
    await assert.rejects(groups.take(serverFrame(hex(v.group_marks["300"])).frame), refused);
  });
}

test("what comes without a mark, for no group, or with a wrong key", async () => {
  const v = vector<GroupVector>("group-aes-128-gcm.json");
  const records = await recordsOf(v);
  const pong = { pong: { id: 1n } };
  const groups = await member(v, "0");
  await groups.open(records[0]);
  await assert.rejects(groups.take(pong), refused, "no mark");
  await assert.rejects(groups.take(), refused, "a goodbye without a mark");
  await assert.rejects(groups.take(serverFrame(hex(v.group_marks["300"])).frame), refused, "another counter");
  await groups.take(serverFrame(hex(v.group_marks["1"])).frame);
  assert.equal(await groups.take(), false);

  const outside = new Groups(v.suite);
  await assert.rejects(outside.take(serverFrame(hex(v.group_marks["1"])).frame), refused);
  await assert.rejects(outside.take(serverFrame(hex(v.group_leave)).frame), refused);
  await assert.rejects(new Groups("aes-256-gcm").take(serverFrame(hex(v.group_keys["0"])).frame), refused, "another suite");
  const good = () => serverFrame(hex(v.group_keys["0"])).frame.groupKey!;
  for (const wrong of [{ secret: new Uint8Array(31) }, { chain: new Uint8Array(0) }, { nextCounter: 2n ** 23n }]) {
    await assert.rejects(outside.take({ groupKey: { ...good(), ...wrong } }), refused);
  }
});
