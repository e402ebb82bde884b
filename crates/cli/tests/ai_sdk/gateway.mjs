// A real gateway with the demo agent, and the network between it and a client.

import { execFileSync } from "node:child_process";
import { mkdtempSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { PATIENCE, serve, until } from "../../../../clients/typescript/tests/gateway.mjs";

export { PATIENCE, until };

const BINARY = process.env.TURNSTREAM_BIN;

/** A gateway in a home of its own. */
export class Gateway {
  constructor(configuration = "") {
    if (BINARY === undefined) throw new Error("TURNSTREAM_BIN must name the turnstream binary");
    this.home = mkdtempSync(join(tmpdir(), "turnstream-ai-"));
    this.work = join(this.home, "work");
    mkdirSync(this.work);
    this.config = join(this.home, "turnstream.toml");
    writeFileSync(this.config, configuration, { mode: 0o600 });
  }

  get env() {
    const data = join(this.home, "data");
    return { HOME: this.home, TURNSTREAM_DATA: data, TURNSTREAM_CONFIG: this.config, TERM: "dumb" };
  }

  async start() {
    await serve(this);
    const inHome = { cwd: this.work, env: this.env, encoding: "utf8" };
    this.token ??= execFileSync(BINARY, ["token"], inHome).trim();
    return this;
  }

  get headers() {
    return { authorization: `Bearer ${this.token}` };
  }

  async get(path) {
    const answer = await fetch(`http://${this.address}${path}`, { headers: this.headers });
    if (!answer.ok) throw new Error(`GET ${path}: ${answer.status} ${await answer.text()}`);
    return answer.status === 204 ? undefined : answer.json();
  }

  async post(path, body) {
    const headers = { ...this.headers, "content-type": "application/json" };
    const text = JSON.stringify(body ?? {});
    return fetch(`http://${this.address}${path}`, { method: "POST", headers, body: text });
  }

  /** Ends it without any warning. */
  async kill() {
    if (this.child.exitCode !== null || this.child.signalCode !== null) return;
    const ended = new Promise((resolve) => this.child.once("exit", resolve));
    this.child.kill("SIGKILL");
    await ended;
  }

  async stop() {
    if (this.child.exitCode === null && this.child.signalCode === null) await this.kill();
    rmSync(this.home, { recursive: true, force: true, maxRetries: 50 });
  }
}

/** A gateway that somebody else has started. */
export function running(address, token) {
  return Object.assign(Object.create(Gateway.prototype), { address, token });
}

/** A network that is cut once these words have passed to the client. */
export class Network {
  constructor(gateway) {
    this.gateway = gateway;
    this.cutAfter = undefined;
  }

  async start() {
    this.server = createServer((client) => {
      const server = connect(Number(this.gateway.address.split(":")[1]), "127.0.0.1");
      let seen = "";
      client.on("data", (bytes) => server.write(bytes));
      server.on("data", (bytes) => {
        const before = seen.length;
        seen += bytes.toString("latin1");
        const at = this.cutAfter === undefined ? -1 : seen.indexOf(this.cutAfter);
        if (at < 0) return client.write(bytes);
        // Nothing behind the words passes, also if it arrived with them.
        const passes = bytes.subarray(0, Math.max(0, at + this.cutAfter.length - before));
        this.cutAfter = undefined;
        server.removeAllListeners("data").destroy();
        client.write(passes, () => client.resetAndDestroy());
      });
      for (const [one, other] of [
        [client, server],
        [server, client],
      ]) {
        one.on("error", () => undefined);
        one.on("close", () => other.destroySoon());
      }
    });
    await new Promise((ready) => this.server.listen(0, "127.0.0.1", ready));
    this.address = `127.0.0.1:${this.server.address().port}`;
    return this;
  }

  stop() {
    this.server.close();
  }
}
