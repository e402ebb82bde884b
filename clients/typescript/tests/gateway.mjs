// A real gateway with the demo agent, in a home of its own. Every wait is for something that is seen, with a
// limit that nothing comes near.

import { spawn, execFileSync } from "node:child_process";
import { randomInt } from "node:crypto";
import { mkdtempSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

const BINARY = process.env.TURNSTREAM_BIN;
export const PATIENCE = Number(process.env.TURNSTREAM_PATIENCE ?? 300_000);

/** A gateway in a home of its own. */
export class Gateway {
  /** `config` is the text of a `turnstream.toml`. */
  constructor({ config } = {}) {
    if (BINARY === undefined) throw new Error("TURNSTREAM_BIN must name the turnstream binary");
    this.home = mkdtempSync(join(tmpdir(), "turnstream-test-"));
    this.work = join(this.home, "work");
    mkdirSync(this.work);
    if (config !== undefined) {
      this.config = join(this.home, "turnstream.toml");
      writeFileSync(this.config, config);
    }
  }

  get env() {
    const config = this.config === undefined ? {} : { TURNSTREAM_CONFIG: this.config };
    return { HOME: this.home, TURNSTREAM_DATA: join(this.home, "data"), TERM: "dumb", ...config };
  }

  async start() {
    await serve(this);
    return this;
  }

  run(...args) {
    return execFileSync(BINARY, args, { cwd: this.work, env: this.env, encoding: "utf8" }).trim();
  }

  /** Ends it without any warning. */
  async kill() {
    if (this.child.exitCode !== null || this.child.signalCode !== null) return;
    const ended = new Promise((resolve) => this.child.once("exit", resolve));
    this.child.kill("SIGKILL");
    await ended;
  }

  async request(method, path, body) {
    this.token ??= this.run("token");
    const headers = { authorization: `Bearer ${this.token}`, "content-type": "application/json" };
    const answer = await fetch(`http://${this.address}${path}`, {
      method,
      headers,
      body: body && JSON.stringify(body),
    });
    const text = await answer.text();
    if (!answer.ok) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
    return text === "" ? null : JSON.parse(text);
  }

  session(more = {}) {
    return this.request("POST", "/v1/sessions", { agent: "scripted", cwd: this.work, ...more });
  }

  /** Plays steps of the demo agent (docs/scripted-agent.md). */
  prompt(session, script, more = {}) {
    const text = typeof script === "string" ? script : JSON.stringify({ script, pace_ms: 0, ...more });
    return this.request("POST", `/v1/sessions/${session}/prompts`, { content: [{ type: "text", text }] });
  }

  async stop() {
    if (this.child.exitCode === null && this.child.signalCode === null) await this.kill();
    // An agent may still write while it ends.
    rmSync(this.home, { recursive: true, force: true, maxRetries: 50 });
  }
}

/**
 * Starts the gateway of a home, again at its address if it had one, as for a person. Meanwhile no other
 * program can get that port from the system: its own choices are above 32,767.
 */
export async function serve(gateway) {
  const { home, work: cwd, env } = gateway;
  const begin = () => {
    const listen = gateway.address ?? `127.0.0.1:${randomInt(20_000, 32_768)}`;
    gateway.child = spawn(BINARY, ["serve", "--listen", listen], { cwd, env, stdio: "ignore" });
  };
  begin();
  // Also when the test fails before it can stop it.
  process.once("exit", () => gateway.child.kill("SIGKILL"));
  gateway.address = await until("the gateway starts", async () => {
    if (gateway.child.exitCode !== null) {
      const { exitCode } = gateway.child;
      // Another gateway of a test may have chosen the same port.
      await new Promise((wake) => setTimeout(wake, 500));
      begin();
      throw new Error(`the gateway ended with ${exitCode}`);
    }
    const note = JSON.parse(readFileSync(join(home, "data/gateway.json"), "utf8"));
    return note.pid === gateway.child.pid ? note.address : undefined;
  });
}

/** A network between a client and a server: it can be slow, and it can go silent as it does in a sleep. */
export class Network {
  /** `gateway` is what it leads to: anything with an address. */
  constructor(gateway) {
    this.gateway = gateway;
    this.sockets = new Set();
    /** How long each piece takes. */
    this.delay = 0;
    /** New connections are silent too. */
    this.isDown = false;
    /** Before these words of the server it waits for `release()`. */
    this.holdAt = undefined;
  }

  async start() {
    this.server = createServer((client) => {
      const link = { client, silent: this.isDown, isSocket: false };
      const server = connect(Number(this.gateway.address.split(":")[1]), "127.0.0.1");
      for (const [from, to] of [
        [client, server],
        [server, client],
      ]) {
        from.on("data", (bytes) => {
          if (link.silent) return;
          link.isSocket ||= from === client && /^upgrade: *websocket/im.test(bytes.toString("latin1"));
          const at = from === server && this.holdAt !== undefined ? bytes.indexOf(this.holdAt) : -1;
          if (at >= 0) {
            this.holdAt = undefined;
            to.write(bytes.subarray(0, at));
            from.pause();
            this.release = () => {
              to.write(bytes.subarray(at));
              from.resume();
            };
          } else if (this.delay === 0) to.write(bytes);
          else {
            from.pause();
            setTimeout(() => {
              if (!link.silent) to.write(bytes);
              from.resume();
            }, this.delay);
          }
        });
        from.on("error", () => undefined);
        from.on("close", () => {
          if (!link.silent) to.destroy();
        });
      }
      this.sockets.add(link);
    });
    await new Promise((ready) => this.server.listen(0, "127.0.0.1", ready));
    this.address = `127.0.0.1:${this.server.address().port}`;
    return this;
  }

  /** Nothing comes through the connections of now any more, and nobody is told. */
  silence() {
    for (const link of this.sockets) link.silent = true;
  }

  /** As in a sleep: browsers close idle connections of requests when they wake up, and no WebSocket. */
  sleep() {
    for (const link of this.sockets) {
      if (link.isSocket) link.silent = true;
      else link.client.destroy();
    }
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
