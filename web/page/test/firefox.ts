// Drives the system's Firefox by WebDriver BiDi, the protocol that it speaks of
// itself: https://w3c.github.io/webdriver-bidi/.
import { spawn, type ChildProcess } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import WebSocket from "ws";
import { programOf } from "./stage.js";

interface Answer {
  id?: number;
  type: "success" | "error" | "event";
  result?: unknown;
  message?: string;
  method?: string;
  params?: { level?: string; text?: string; request?: { url: string } };
}

const enter = "\uE007"; // its code among WebDriver's keys

export class Firefox {
  private readonly waiting = new Map<number, { resolve: (result: unknown) => void; reject: (error: Error) => void }>();
  private commands = 0;
  private context = "";
  /** Errors of the console, violations of the policy, and requests to other hosts, since the last open. */
  faults: string[] = [];

  private constructor(
    private readonly process: ChildProcess,
    private readonly profile: string,
    private readonly socket: WebSocket,
  ) {
    socket.on("message", (data) => this.take(JSON.parse(String(data)) as Answer));
  }

  static async start(): Promise<Firefox> {
    const profile = mkdtempSync(join(tmpdir(), "sealcast-firefox-"));
    // It would otherwise look for updates, and tell how it is used.
    const quiet = ["app.update.enabled", "datareporting.policy.dataSubmissionEnabled", "network.captive-portal-service.enabled", "network.connectivity-service.enabled"];
    writeFileSync(join(profile, "user.js"), quiet.map((name) => `user_pref("${name}", false);\n`).join(""));
    const args = ["--headless", "--no-remote", "--profile", profile, "--remote-debugging-port", "0", "about:blank"];
    const child = spawn(programOf("firefox-esr", "firefox-esr", "firefox"), args, { stdio: ["ignore", "ignore", "pipe"], env: { ...process.env, HOME: profile } });
    const socket = new WebSocket(`${await addressOf(child)}/session`);
    await new Promise<void>((resolve, reject) => socket.once("open", resolve).once("error", reject));
    const firefox = new Firefox(child, profile, socket);
    await firefox.command("session.new", { capabilities: {} });
    await firefox.command("session.subscribe", { events: ["log.entryAdded", "network.beforeRequestSent"] });
    const report = `() => document.addEventListener("securitypolicyviolation", (e) => console.error(e.violatedDirective, e.blockedURI))`;
    await firefox.command("script.addPreloadScript", { functionDeclaration: report });
    const { contexts } = (await firefox.command("browsingContext.getTree", {})) as { contexts: { context: string }[] };
    firefox.context = contexts[0].context;
    return firefox;
  }

  async open(url: string): Promise<void> {
    await this.command("browsingContext.navigate", { context: this.context, url: "about:blank", wait: "complete" });
    this.faults = [];
    await this.command("browsingContext.navigate", { context: this.context, url, wait: "complete" });
  }

  /** Calls a function in the page; its arguments and its result are JSON. */
  async call<A extends unknown[], R>(f: (...args: A) => R, ...args: A): Promise<R> {
    const expression = `JSON.stringify((${String(f)})(...${JSON.stringify(args)}) ?? null)`;
    const target = { context: this.context };
    const answer = (await this.command("script.evaluate", { expression, target, awaitPromise: false })) as { type: string; result?: { value: string } };
    if (answer.type !== "success") throw new Error(`in the page: ${JSON.stringify(answer)}`);
    return JSON.parse(answer.result!.value) as R;
  }

  /** Waits until a function in the page returns true. */
  async until<A extends unknown[]>(f: (...args: A) => boolean, ...args: A): Promise<void> {
    const deadline = performance.now() + 30_000;
    while (!(await this.call(f, ...args))) {
      if (performance.now() > deadline) throw new Error(`never in the page: ${String(f)} of ${JSON.stringify(args)}`);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
  }

  /** Replaces what a field holds, key by key, and presses Enter. */
  async enter(selector: string, text: string): Promise<void> {
    await this.call((s) => document.querySelector<HTMLInputElement>(s)!.select(), selector);
    const actions = [...text, enter].flatMap((value) => [{ type: "keyDown", value }, { type: "keyUp", value }]);
    await this.command("input.performActions", { context: this.context, actions: [{ type: "key", id: "keyboard", actions }] });
  }

  /** The page as a PNG. */
  async screenshot(path: string): Promise<void> {
    const { data } = (await this.command("browsingContext.captureScreenshot", { context: this.context, origin: "document" })) as { data: string };
    writeFileSync(path, Buffer.from(data, "base64"));
  }

  async stop(): Promise<void> {
    const exited = new Promise((resolve) => this.process.once("exit", resolve));
    await this.command("browser.close", {});
    await exited;
    rmSync(this.profile, { recursive: true, force: true, maxRetries: 5 });
  }

  private command(method: string, params: object): Promise<unknown> {
    const id = ++this.commands;
    this.socket.send(JSON.stringify({ id, method, params }));
    return new Promise((resolve, reject) => this.waiting.set(id, { resolve, reject }));
  }

  private take({ id, type, result, message, method, params }: Answer): void {
    if (type === "event") return this.note(method!, params!);
    const waiting = this.waiting.get(id!);
    this.waiting.delete(id!);
    if (type === "success") waiting?.resolve(result);
    else waiting?.reject(new Error(message));
  }

  private note(method: string, { level, text, request }: NonNullable<Answer["params"]>): void {
    if (method === "log.entryAdded" && level === "error") this.faults.push(`console: ${text}`);
    if (method === "network.beforeRequestSent" && !/^(http:\/\/127\.0\.0\.1:|ws:\/\/127\.0\.0\.1:|data:|about:)/.test(request!.url)) this.faults.push(`request: ${request!.url}`);
  }
}

/** Where Firefox listens, which it says when it does. */
async function addressOf(child: ChildProcess): Promise<string> {
  const said: string[] = [];
  for await (const line of createInterface(child.stderr!)) {
    const found = /WebDriver BiDi listening on (ws:\S+)/.exec(line);
    if (found) {
      child.stderr!.resume();
      return found[1];
    }
    said.push(line);
  }
  throw new Error(`Firefox did not start:\n${said.join("\n")}`);
}
