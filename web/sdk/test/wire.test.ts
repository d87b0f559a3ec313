// Messages, plaintexts and codecs against the vectors and the .proto file.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { concat, type Bytes } from "../src/bytes.js";
import { entriesOf } from "../src/batch.js";
import { codecs, decompressorOf, maxBody, snappy } from "../src/compress.js";
import { table, type Batch, type ClientFrame, type Goodbye } from "../src/messages.js";
import { bodyOf, clientPlaintext, serverFrame } from "../src/plaintext.js";
import { decode, decodeFrame, encode } from "../src/protobuf.js";
import { isFilter, matches } from "../src/topics.js";
import { hex, root, toHex, vector } from "./tools.js";

type Json = Record<string, unknown>;

interface WireVectors {
  client_frames: { name: string; message: Json; plaintext: string; pad_to?: number }[];
  server_frames: { name: string; message: Json; plaintext: string }[];
  batches: { name: string; items: Item[]; plaintext: string }[];
  refused_batches: { name: string; plaintext: string }[];
  goodbyes: { name: string; message: Json; plaintext: string }[];
  refused: { name: string; plaintext: string }[];
}

interface Item {
  topic: number;
  seq: string;
  payload: string;
  received_us: string;
  skipped: string;
  reset?: { epoch?: string; nextSeq?: string; cause?: string };
}

const wire = vector<WireVectors>("wire.json");
const proto = readFileSync(new URL("wire/sealcast.proto", root), "utf8");

/** The messages of the .proto file in the form of the table. */
function tableOfProto(): Record<string, unknown[]> {
  const text = proto.replaceAll(/\/\/.*$/gm, "").replaceAll(/\benum (\w+) \{[^}]*\}/g, "");
  const enums = [...proto.matchAll(/\benum (\w+) \{/g)].map((m) => m[1]);
  const messages: Record<string, unknown[]> = {};
  for (const [, name, body] of text.matchAll(/^message (\w+) \{(.*?)^\}/gms)) {
    messages[name] = [...body.matchAll(/(repeated )?(\w+) (\w+) = (\d+);/g)].map(([, repeated, type, field, number]) => [
      Number(number),
      field.replaceAll(/_(\w)/g, (_, letter: string) => letter.toUpperCase()),
      (enums.includes(type) ? "enum" : type) + (repeated ? "[]" : ""),
    ]);
  }
  return messages;
}

/** Protobuf's JSON form of a decoded message: numbers of 64 bits as strings, no zero values. */
function toJson(message: string, value: Json): Json {
  const out: Json = {};
  for (const [, name, declared] of table[message]) {
    const type = declared.replace("[]", "");
    const one = (v: unknown): unknown =>
      type in table ? toJson(type, v as Json) : typeof v === "bigint" ? String(v) : v instanceof Uint8Array ? toHex(v) : v;
    const v = value[name];
    if (Array.isArray(v)) {
      if (v.length > 0) out[name] = v.map(one);
    } else if (v !== undefined && (type in table || (v && !(v instanceof Uint8Array && v.length === 0)))) out[name] = one(v);
  }
  return out;
}

/** The reverse for what a test encodes. */
function fromJson(message: string, json: Json): Json {
  const out: Json = {};
  for (const [, name, declared] of table[message]) {
    const type = declared.replace("[]", "");
    const one = (v: unknown): unknown =>
      type in table ? fromJson(type, v as Json) : /64$/.test(type) ? BigInt(v as string) : v;
    const v = json[name];
    if (v !== undefined) out[name] = Array.isArray(v) ? v.map(one) : one(v);
  }
  return out;
}

test("the table of messages is that of the .proto file", () => {
  const expected = tableOfProto();
  assert.ok(Object.keys(expected).length > 20);
  assert.deepEqual(table, expected);
});

for (const v of wire.client_frames) {
  test(`wire.json, client frame: ${v.name}`, () => {
    const frame = fromJson("ClientFrame", v.message) as ClientFrame;
    assert.equal(toHex(clientPlaintext(frame, v.pad_to)), v.plaintext);
    assert.deepEqual(toJson("ClientFrame", decodeFrame("ClientFrame", bodyOf(hex(v.plaintext)).body)), v.message);
    assert.throws(() => serverFrame(hex(v.plaintext)), { closeCode: 4400 }, "a reflected frame");
  });
}

for (const v of wire.server_frames) {
  test(`wire.json, server frame: ${v.name}`, () => {
    assert.deepEqual(toJson("ServerFrame", serverFrame(hex(v.plaintext)).frame as Json), v.message);
  });
}

for (const v of wire.batches) {
  test(`wire.json, batch: ${v.name}`, () => {
    const batch = serverFrame(hex(v.plaintext)).frame.batch!;
    assert.deepEqual(itemsOf(batch), v.items);
  });
}

for (const v of wire.refused_batches) {
  test(`wire.json, refused batch: ${v.name}`, () => {
    const batch = serverFrame(hex(v.plaintext)).frame.batch!;
    assert.throws(() => entriesOf(batch), { name: "SealcastError", closeCode: 4400 });
  });
}

/** The batch in the form of the vector. */
function itemsOf(batch: Batch): Item[] {
  const causes = [...proto.matchAll(/^ {2}(CAUSE_\w+) = \d+;/gm)].map((m) => m[1]);
  return entriesOf(batch).map(({ topic, seq, skipped, received, payload, reset }) => {
    const item: Item = { topic, seq: String(seq), payload: toHex(payload), received_us: String(received), skipped: String(skipped) };
    if (reset) {
      const { epoch, nextSeq, cause } = reset;
      const json = toJson("Reset", { epoch, nextSeq, cause, topic: 0, at: 0 });
      item.reset = { ...json, ...(cause ? { cause: causes[cause] } : {}) };
    }
    return item;
  });
}

for (const v of wire.goodbyes) {
  test(`wire.json, goodbye: ${v.name}`, () => {
    const message = decode("Goodbye", hex(v.plaintext)) as unknown as Goodbye;
    assert.deepEqual(toJson("Goodbye", message as unknown as Json), v.message);
    assert.equal(toHex(encode("Goodbye", message)), v.plaintext);
  });
}

for (const v of wire.refused) {
  test(`wire.json, refused: ${v.name}`, () => {
    assert.throws(() => serverFrame(hex(v.plaintext)), { name: "SealcastError", closeCode: 4400 });
    assert.throws(() => decodeFrame("ClientFrame", bodyOf(hex(v.plaintext)).body), { name: "SealcastError", closeCode: 4400 });
  });
}

test("every field of every message survives encoding and decoding", () => {
  const sample = (type: string): unknown => {
    if (type in table) return Object.fromEntries(table[type].map(([, name, t]) => [name, t.endsWith("[]") ? [sample(t.slice(0, -2))] : sample(t)]));
    const samples: Record<string, unknown> = { string: "ж", bytes: Uint8Array.of(1, 2), bool: true, double: 2.5, sint64: -(2n ** 63n), uint64: 2n ** 64n - 1n, fixed64: 2n ** 63n + 5n };
    return samples[type] ?? 4294967295;
  };
  for (const message of Object.keys(table)) assert.deepEqual(decode(message, encode(message, sample(message) as object)), sample(message), message);
});

test("unknown fields, unpacked numbers and wrong wire types are passed over or taken", () => {
  assert.deepEqual(decode("Connect", hex("1001 1002")).codecs, [1, 2], "not packed");
  assert.deepEqual(decode("Pong", hex("0805 9a0601ff f20b02 0102 f50b01020304 f10b0102030405060708 f30b0801f40b")), { id: 5n });
  assert.deepEqual(decode("Pong", hex("0a0105")), { id: 0n }, "another wire type");
  assert.equal(decode("Error", hex("08ffffffffffffffffff01")).id, 4294967295, "only 32 bits of a longer number");
});

test("what is not valid protobuf is a violation", () => {
  const broken = ["08", "0880", "08ffffffffffffffffff02", "08ffffffffffffffffffff01", "1205aa", "f30b", "f30b0801fc0b", "f40b", "f60b", "00", "1a01ff"];
  for (const text of broken) assert.throws(() => decode("Error", hex(text)), { name: "SealcastError", closeCode: 4400 }, text);
});

test("codec.json: each codec undoes to the same plaintext", async () => {
  const v = vector<{ plaintext: string; compressed: { codec: number; plaintext: string }[] }>("codec.json");
  assert.deepEqual(v.compressed.map((c) => c.codec), [codecs.snappy, codecs.zstd]);
  const plain = hex(v.plaintext);
  for (const { codec, plaintext } of v.compressed) {
    const undo = await decompressorOf(codec);
    assert.deepEqual(serverFrame(hex(plaintext), { number: codec, undo }).frame, serverFrame(plain).frame);
    const body = hex(plaintext).subarray(3);
    for (let i = 0; i < body.length; i++) {
      assert.throws(() => undo(body.slice(0, i)), { closeCode: 4400 }, `codec ${codec} cut at ${i}`);
    }
    assert.throws(() => undo(concat(body, Uint8Array.of(0))), { closeCode: 4400 }, "something behind");
    alter(undo, body);
  }
});

/** Altered input may undo to something else, but never to more than it announces, and throws nothing else. */
function alter(undo: (body: Bytes) => Bytes, body: Bytes): void {
  for (let i = 0; i < body.length; i++) {
    for (const bit of [1, 0x10, 0x80]) {
      const altered = body.slice();
      altered[i] ^= bit;
      try {
        assert.ok(undo(altered).length <= maxBody);
      } catch (error) {
        assert.equal((error as { closeCode?: number }).closeCode, 4400, `byte ${i}: ${error}`);
      }
    }
  }
}

test("snappy: literals and copies of every form, and false claims", () => {
  const letters = "6162636465";
  const long = (n: number) => "78".repeat(n);
  const good: [string, string][] = [
    ["00", ""],
    [`05 10 ${letters}`, letters],
    [`3c ec ${long(60)}`, long(60)],
    [`3d f03c ${long(61)}`, long(61)],
    [`ac02 f42b01 ${long(300)}`, long(300)],
    [`ac02 f82b0100 ${long(300)}`, long(300)],
    [`ac02 fc2b010000 ${long(300)}`, long(300)],
    [`09 10 ${letters} 0105`, "616263646561626364"], // copy with 1 byte of offset
    [`08 10 ${letters} 0a0300`, "6162636465636465"], // with 2
    [`08 10 ${letters} 0b03000000`, "6162636465636465"], // with 4
    ["05 0061 0101", "6161616161"], // overlapping
  ];
  for (const [sealed, plain] of good) assert.equal(toHex(snappy(hex(sealed))), plain.replaceAll(" ", ""), sealed);
  const bad = ["", "80", "ffffffffff01", "01", `06 10 ${letters}`, `04 10 ${letters}`, "05 1061", "05 0061 0100", "05 0061 0102",
    "04 0061 0101", "05 f4", "05 0061 0a", "c0843d 0061"];
  for (const sealed of bad) assert.throws(() => snappy(hex(sealed)), { name: "SealcastError", closeCode: 4400 }, sealed);
});

test("zstd: frames without a size, with a dictionary, and too large ones", async () => {
  const undo = await decompressorOf(codecs.zstd);
  const refused = { name: "SealcastError", closeCode: 4400 };
  const empty = hex("28b52ffd 20 00 010000");
  assert.equal(undo(empty).length, 0);
  assert.equal(toHex(undo(hex("28b52ffd 20 04 230000 61"))), "61616161", "a run");
  assert.throws(() => undo(hex("28b52ffd 00 58 010000 00")), refused, "no size");
  assert.throws(() => undo(hex("28b52ffd 21 07 04 230000 61")), refused, "a dictionary");
  assert.throws(() => undo(hex("28b52ffd a0 00000040 230000 61")), refused, "a gigabyte");
  assert.throws(() => undo(hex("28b52ffd a0 00000300 230000 61")), refused, "more than its blocks can be");
  assert.throws(() => undo(hex("28b52ffd 20 05 230000 61")), refused, "less than announced");
  assert.throws(() => undo(hex("28b52ffd 20 03 230000 61")), refused, "more than announced");
});

test("filters match as the tables of the specification say", () => {
  const rows: [string, string[], string[]][] = [
    ["md:*:*:ticker", ["md:coinbase:BTC-USD:ticker", "md:::ticker"], ["md:coinbase:BTC-USD:trade", "md:coinbase:ticker"]],
    ["md:**", ["md:a", "md:a:b:c", "md:"], ["md", "mdx:a"]],
    ["*", ["a", "a b"], ["a:b", "a:", ":"]],
    ["**", ["a", "a:b"], []],
    ["*:**", ["a:b", "a:b:c", ":"], ["a"]],
    ["[ab]:?", ["[ab]:?"], ["a:x"]],
  ];
  for (const [filter, yes, no] of rows) {
    assert.ok(isFilter(filter));
    for (const name of yes) assert.ok(matches(filter, name), `${filter} ${name}`);
    for (const name of no) assert.ok(!matches(filter, name), `${filter} ${name}`);
  }
  for (const bad of ["", "a*", "**:a", "***", "a:b*:c", "a\u0000", "a\u0085", "\ud800", "é".repeat(128)]) assert.ok(!isFilter(bad), bad);
  assert.ok(isFilter("é".repeat(127)));
});
