// The live page: reads ticks from the gateway that served it, as any client
// does, and shows how. It asks no other place for anything.
import { Client, isFilter, type ClientOptions, type Status, type SuiteName } from "@sealcast/client";
import { ask, type Info } from "./admin.js";
import { offerBench } from "./bench.js";
import { ConnectionPanel } from "./connection.js";
import { element, tell } from "./dom.js";
import { Figures } from "./figures.js";
import { WatchList } from "./watch.js";

/** What the listener tells about itself, before any token. */
interface PageSettings {
  websocket: string;
}

const ownPin = new URLSearchParams(location.hash.slice(1)).get("pin");
const value = (id: string) => element<HTMLInputElement | HTMLSelectElement>(id).value;

let client: Client | undefined;
let settings: PageSettings | undefined;
let info: Info | undefined;
let redisReady = true;
let trouble = "";
/** Settings were changed, or the gateway may have another key: the loop connects anew. */
let again: () => void = () => undefined;

function showTrouble(): void {
  tell("trouble", trouble || (redisReady ? "" : "The gateway has lost its connection to Redis: prices may be out of date. They go on by themselves."));
}

function showState(text: string, state: string): void {
  tell("state", text);
  element("state").dataset.state = state;
}

function onStatus(status: Status): void {
  if (status.state === "connecting") return;
  if (status.state === "connected") {
    trouble = "";
    showState(`Connected by ${status.connection.suite}`, "connected");
    panel.connected(status.connection, ownPin !== null);
  } else {
    watch.expire();
    const { reason } = status;
    if (reason?.code === "pin") trouble = `No data is shown: ${reason.message}.`;
    else if (reason) trouble = `The gateway is away: ${reason.message}. The page goes on by itself when it is back.`;
    showState(status.state === "waiting" ? "Waiting for the gateway" : "Ended", status.state);
    // A key that the gateway made at its start is another one after a restart; one that the user gave is not asked for again.
    // A client that was closed here has no reason, and its successor is on its way.
    if (reason && (status.state === "closed" || (reason.code === "pin" && ownPin === null))) setTimeout(again, 2000);
  }
  showTrouble();
}

const watch = new WatchList();
const panel = new ConnectionPanel(() => client);

async function begin(): Promise<void> {
  settings ??= (await (await ask("page.json")).json()) as PageSettings;
  info = (await (await ask("v1/info")).json()) as Info;
  const suite = value("suite");
  const suites = suite ? [suite as SuiteName] : undefined;
  const options: ClientOptions = {
    pins: [ownPin ?? info.public_key],
    realm: info.realm,
    token: value("token"),
    groups: value("seal") === "group",
    name: "live page",
    onStatus,
    onNotice: ({ kind }) => {
      if (kind === "source-lost" || kind === "source-back") redisReady = kind === "source-back";
      showTrouble();
    },
    onRecord: (record) => panel.inspect(record),
    ...(suites && { suites }),
  };
  client = new Client(settings.websocket, options);
  const rate = Number(value("rate"));
  const filters = value("pattern").split(/[\s,]+/).filter((filter) => filter !== "");
  tell("refused", "");
  watch.clear();
  client.subscribe(filters, {
    ...(rate > 0 && { maxRate: rate }),
    onEvent(event) {
      if (event.type === "refused") tell("refused", `${event.filter} was refused: ${event.text}`);
      watch.take(event);
      panel.take(event);
    },
  });
}

async function run(): Promise<void> {
  for (;;) {
    const changed = new Promise<void>((resolve) => (again = resolve));
    try {
      await begin();
      await changed;
    } catch {
      trouble = "The gateway does not answer. The page goes on by itself when it is back.";
      showState("Waiting for the gateway", "waiting");
      showTrouble();
      await new Promise((resolve) => setTimeout(resolve, 2000));
    }
    await client?.close();
    client = undefined;
  }
}

function offerSettings(): void {
  element("settings").addEventListener("submit", (event) => {
    event.preventDefault();
    again();
  });
  element("subscribe").addEventListener("submit", (event) => {
    event.preventDefault();
    const wrong = value("pattern").split(/[\s,]+/).find((filter) => filter !== "" && !isFilter(filter));
    if (wrong !== undefined || value("pattern").trim() === "") return tell("refused", `${wrong ?? "That"} is no name and no pattern`);
    again();
  });
  offerBench(() =>
    settings && info && { url: settings.websocket.replace(/\/ws$/, "/echo"), pins: [ownPin ?? info.public_key], realm: info.realm, suites: info.suites.filter((s): s is SuiteName => s !== "plain" && s !== "sm4-gcm") },
  );
}

if (!isSecureContext || !globalThis.crypto?.subtle) {
  showState("Not possible here", "closed");
  trouble = "No data is shown: browsers give pages WebCrypto only over https, or from this machine (localhost). Open this page that way.";
  showTrouble();
} else {
  offerSettings();
  new Figures((ready) => {
    redisReady = ready;
    showTrouble();
  });
  void run();
}
