// HAProxy and nginx with the files of deploy, which end TLS before a gateway, and
// a tap on what they say to it in the clear.
import { execFileSync, spawn, type ChildProcess } from "node:child_process";
import { createHash, X509Certificate } from "node:crypto";
import { closeSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { connect, createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect as connectTLS } from "node:tls";
import { freePort } from "../../sdk/test/gateway.js";
import { root } from "../../sdk/test/tools.js";
import { programOf } from "./stage.js";

/** What a terminator needs to know. */
interface Place {
  at: number; // where it listens
  gateway: number;
  admin: number;
  certificate: Certificate;
}

interface Kind {
  /** Settings of the gateway behind it. */
  settings: Record<string, string>;
  start(place: Place): Promise<Terminator>;
}

/** Where connections to the gateway come from: only they may name clients. */
const inner = "127.0.0.9";

export const kinds: Record<string, Kind> = {
  haproxy: {
    settings: { "proxy.trusted": inner, "proxy.protocol": "true" },
    start({ at, gateway, admin, certificate }) {
      const environment = {
        SEALCAST_TLS_BIND: `127.0.0.1:${at}`, SEALCAST_CERT: certificate.both,
        SEALCAST_GATEWAY1: `127.0.0.1:${gateway}`, SEALCAST_ADMIN_PORT1: String(admin),
        SEALCAST_GATEWAY2: "127.0.0.1:1", SEALCAST_ADMIN_PORT2: "1",
      };
      return Terminator.start("haproxy", ["-f", fileOf("deploy/haproxy/haproxy.cfg")], at, join(certificate.directory, "haproxy.log"), environment);
    },
  },
  nginx: {
    settings: { "proxy.trusted": inner },
    start({ at, gateway, certificate }) {
      const file = join(certificate.directory, "nginx.conf");
      writeFileSync(file, replaced(readFileSync(fileOf("deploy/nginx/nginx.conf"), "utf8"), {
        "listen 443": `listen 127.0.0.1:${at}`,
        "server 127.0.0.1:8080": `server 127.0.0.1:${gateway}`,
        "server 127.0.0.1:8082": "server 127.0.0.1:1",
        "/etc/nginx/certs/gateway.pem": certificate.cert,
        "/etc/nginx/certs/gateway.key": certificate.key,
        "/run/nginx.pid": join(certificate.directory, "nginx.pid"),
        "worker_rlimit_nofile 131072": "worker_rlimit_nofile 4096",
        "worker_connections 65536": "worker_connections 1024",
      }));
      return Terminator.start("nginx", ["-g", "daemon off;", "-c", file], at, join(certificate.directory, "nginx.log"), {});
    },
  },
};

const fileOf = (path: string) => new URL(path, root).pathname;

/** A text with other values, each of which must stand in it. */
function replaced(text: string, values: Record<string, string>): string {
  for (const [was, is] of Object.entries(values)) {
    if (!text.includes(was)) throw new Error(`there is no ${was}`);
    text = text.replaceAll(was, is);
  }
  return text;
}

export class Terminator {
  private readonly exited: Promise<unknown>;

  private constructor(private readonly process: ChildProcess, private readonly file: string) {
    this.exited = new Promise((resolve) => process.once("exit", resolve));
  }

  /** Starts a program of a Debian package of the same name, with its output in a file: nginx opens /dev/stdout, which must be none of Node's sockets. */
  static async start(name: string, args: string[], port: number, file: string, environment: Record<string, string>): Promise<Terminator> {
    const out = openSync(file, "w");
    const child = spawn(programOf(name, name), args, { env: { ...process.env, ...environment }, stdio: ["ignore", out, out] });
    closeSync(out);
    const terminator = new Terminator(child, file);
    const deadline = performance.now() + 20_000;
    while (!(await answers(port))) {
      if (child.exitCode !== null || performance.now() > deadline) {
        await terminator.stop();
        throw new Error(`${name} did not start:\n${terminator.log}`);
      }
      await new Promise((resolve) => setTimeout(resolve, 50));
    }
    return terminator;
  }

  get log(): string {
    return readFileSync(this.file, "utf8");
  }

  async stop(): Promise<void> {
    if (this.process.exitCode === null) this.process.kill("SIGTERM");
    await this.exited;
  }
}

/** Whether the gateway answers through it: 426, as to everybody who wants no WebSocket. */
function answers(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    let answer = "";
    const socket = connectTLS({ port, host: "127.0.0.1", rejectUnauthorized: false }, () => socket.write("GET /ws HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"));
    socket.on("data", (data) => (answer += String(data)));
    socket.on("error", () => resolve(false)).on("close", () => resolve(answer.startsWith("HTTP/1.1 426")));
  });
}

/** A certificate for this machine that signs itself. */
export class Certificate {
  readonly directory = mkdtempSync(join(tmpdir(), "sealcast-certificate-"));
  readonly key = join(this.directory, "key.pem");
  readonly cert = join(this.directory, "cert.pem");
  readonly both = join(this.directory, "both.pem");
  /** Of its public key, as Chromium is told which one to trust. */
  readonly fingerprint: string;

  constructor() {
    execFileSync("openssl", ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=localhost",
      "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", this.key, "-out", this.cert], { stdio: "ignore" });
    const certificate = readFileSync(this.cert, "utf8");
    writeFileSync(this.both, certificate + readFileSync(this.key, "utf8"));
    this.fingerprint = createHash("sha256").update(new X509Certificate(certificate).publicKey.export({ type: "spki", format: "der" })).digest("base64");
  }

  remove(): void {
    rmSync(this.directory, { recursive: true });
  }
}

/** Passes connections on to a port, from the inner address, and keeps all that goes through. */
export class Tap {
  private readonly chunks: Buffer[] = [];
  private readonly open = new Set<Socket>();

  private constructor(private readonly server: Server, readonly port: number) {}

  static async to(port: number): Promise<Tap> {
    const server = createServer();
    const tap = new Tap(server, await freePort());
    server.on("connection", (near) => {
      const far = connect({ port, host: "127.0.0.1", localAddress: inner });
      for (const [one, other] of [[near, far], [far, near]]) {
        tap.open.add(one);
        one.on("data", (data: Buffer) => tap.chunks.push(data)).on("error", () => other.destroy()).on("close", () => {
          tap.open.delete(one);
          other.destroy();
        });
        one.pipe(other);
      }
    });
    await new Promise<void>((resolve) => server.listen(tap.port, "127.0.0.1", resolve));
    return tap;
  }

  get seen(): string {
    return Buffer.concat(this.chunks).toString("latin1");
  }

  close(): void {
    for (const socket of this.open) socket.destroy();
    this.server.close();
  }
}
