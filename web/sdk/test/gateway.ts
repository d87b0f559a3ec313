// The real gateway as a process, with its built-in Redis on a port of its own.
// test.mjs has built it.
import { execFileSync, spawn, type ChildProcess } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { connect, createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

export interface Ports {
  listen: number;
  admin: number;
}

/** A port that was free a moment ago. */
export async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as { port: number };
  await new Promise((resolve) => server.close(resolve));
  return port;
}

/** The programs, and a directory with a key, which the test removes. */
export class Workshop {
  readonly directory = mkdtempSync(join(tmpdir(), "sealcast-web-"));
  readonly key = join(this.directory, "gateway.key");
  readonly pin: string;

  constructor() {
    const output = execFileSync(this.program("sealcast"), ["keygen", "-o", this.key], { encoding: "utf8" });
    this.pin = output.match(/[A-Za-z0-9_-]{43}/)![0];
  }

  program(name: "sealcast" | "sealctl"): string {
    return join(process.env.SEALCAST_TEST_PROGRAMS!, name);
  }

  remove(): void {
    rmSync(this.directory, { recursive: true, force: true });
  }
}

export class Gateway {
  private exited: Promise<unknown>;

  private constructor(
    private readonly process: ChildProcess,
    readonly ports: Ports,
    readonly log: string[],
  ) {
    this.exited = new Promise((resolve) => process.once("exit", resolve));
  }

  /** Starts a gateway and waits until it serves. */
  static async start(workshop: Workshop, settings: Record<string, string> = {}, ports?: Ports): Promise<Gateway> {
    const used = ports ?? { listen: await freePort(), admin: await freePort() };
    const all: Record<string, string> = {
      listen: `127.0.0.1:${used.listen}`,
      "admin.listen": `127.0.0.1:${used.admin}`,
      key_file: workshop.key,
      "log.format": "json",
      ...settings,
    };
    const args = ["serve", ...Object.entries(all).flatMap(([key, value]) => ["--set", `${key}=${value}`])];
    const child = spawn(workshop.program("sealcast"), args, { stdio: ["ignore", "pipe", "pipe"] });
    const log: string[] = [];
    for (const stream of [child.stdout!, child.stderr!]) createInterface(stream).on("line", (line) => log.push(line));
    const gateway = new Gateway(child, used, log);
    const deadline = performance.now() + 20_000;
    while (!(await gateway.ready())) {
      if (child.exitCode !== null || performance.now() > deadline) throw new Error(`the gateway did not start:\n${log.join("\n")}`);
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    return gateway;
  }

  get url(): string {
    return `ws://127.0.0.1:${this.ports.listen}/ws`;
  }

  get echo(): string {
    return `ws://127.0.0.1:${this.ports.listen}/echo`;
  }

  get admin(): string {
    return `http://127.0.0.1:${this.ports.admin}`;
  }

  async stop(signal: "SIGTERM" | "SIGKILL" = "SIGKILL"): Promise<void> {
    this.process.kill(signal);
    await this.exited;
  }

  private async ready(): Promise<boolean> {
    return fetch(`${this.admin}/readyz`).then((answer) => answer.ok, () => false);
  }
}

/** A real redis-server without persistence, and a connection that publishes. */
export class Redis {
  private constructor(
    private readonly process: ChildProcess,
    private readonly socket: Socket,
    readonly address: string,
  ) {}

  static async start(): Promise<Redis> {
    const port = await freePort();
    const child = spawn("redis-server", ["--port", String(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no"], { stdio: "ignore" });
    for (let i = 0; i < 200; i++) {
      const socket = connect(port, "127.0.0.1");
      const up = await new Promise<boolean>((resolve) => socket.once("connect", () => resolve(true)).once("error", () => resolve(false)));
      if (up) {
        socket.resume(); // answers are of no interest
        return new Redis(child, socket, `127.0.0.1:${port}`);
      }
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    throw new Error("redis-server did not start");
  }

  /** Publishes; calls keep their order. */
  publish(topic: string, payload: string): void {
    this.command("PUBLISH", topic, payload);
  }

  /** Adds a tick to the stream that gateways read by default. */
  add(topic: string, payload: string): void {
    this.command("XADD", "ticks", "*", "topic", topic, "payload", payload);
  }

  private command(...words: string[]): void {
    const parts = words.map((text) => `$${Buffer.byteLength(text)}\r\n${text}\r\n`);
    this.socket.write(`*${words.length}\r\n${parts.join("")}`);
  }

  stop(): void {
    this.socket.destroy();
    this.process.kill("SIGKILL");
  }
}

/** A way to the gateway that can be cut: every connection through it ends at once. */
export class Line {
  private readonly open = new Set<Socket>();

  private constructor(
    private readonly server: Server,
    readonly url: string,
    /** Where new connections lead. */
    public port: number,
  ) {}

  static async to(port: number): Promise<Line> {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const line = new Line(server, `ws://127.0.0.1:${(server.address() as { port: number }).port}/ws`, port);
    server.on("connection", (near) => {
      const far = connect(line.port, "127.0.0.1");
      for (const [one, other] of [[near, far], [far, near]]) {
        line.open.add(one);
        one.on("error", () => other.destroy()).on("close", () => {
          line.open.delete(one);
          other.destroy();
        });
        one.pipe(other);
      }
    });
    return line;
  }

  cut(): void {
    for (const socket of this.open) socket.resetAndDestroy();
  }

  close(): void {
    this.cut();
    this.server.close();
  }
}
