// A real gateway with the demo agent, and the network between it and a client.

import { spawn, execFileSync } from "node:child_process";
import { mkdtempSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

const BINARY = process.env.TURNSTREAM_BIN;
export const PATIENCE = 300_000;

/** A gateway in a home of its own. */
export class Gateway {
  constructor(configuration = "") {
    if (BINARY === undefined) throw new Error("TURNSTREAM_BIN must name the turnstream binary");
    this.home = mkdtempSync(join(tmpdir(), "turnstream-ai-"));
    this.work = join(this.home, "work");
    mkdirSync(this.work);
    this.config = join(this.home, "turnstream.toml");
    writeFileSync(this.config, configuration, { mode: 0o600 });
    this.listen = "127.0.0.1:0";
  }

  get env() {
    const data = join(this.home, "data");
    return { HOME: this.home, TURNSTREAM_DATA: data, TURNSTREAM_CONFIG: this.config, TERM: "dumb" };
  }

  async start() {
    const options = { cwd: this.work, env: this.env, stdio: "ignore" };
    this.child = spawn(BINARY, ["serve", "--listen", this.listen], options);
    const { child } = this;
    // Also when the test fails before it can stop it.
    process.once("exit", () => child.kill("SIGKILL"));
    this.address = await until("the gateway starts", () => {
      if (child.exitCode !== null) throw new Error(`the gateway ended with ${child.exitCode}`);
      const note = JSON.parse(readFileSync(join(this.home, "data/gateway.json"), "utf8"));
      return note.pid === child.pid ? note.address : undefined;
    });
    // A restart has the same address, as for a person.
    this.listen = this.address;
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
    rmSync(this.home, { recursive: true, force: true, maxRetries: 20 });
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
        client.write(bytes);
        seen += bytes.toString("latin1");
        if (this.cutAfter !== undefined && seen.includes(this.cutAfter)) {
          this.cutAfter = undefined;
          server.destroy();
          client.resetAndDestroy();
        }
      });
      for (const [one, other] of [
        [client, server],
        [server, client],
      ]) {
        one.on("error", () => undefined);
        one.on("close", () => other.destroy());
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

/** Asks until there is an answer. */
export async function until(what, ask) {
  const end = Date.now() + PATIENCE;
  for (;;) {
    try {
      const answer = await ask();
      if (answer !== undefined && answer !== false) return answer;
    } catch (error) {
      if (Date.now() > end) throw error;
    }
    if (Date.now() > end) throw new Error(`waited in vain: ${what}`);
    await new Promise((wake) => setTimeout(wake, 20));
  }
}
