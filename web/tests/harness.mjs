// A real gateway with the demo agent, and a real Chromium. Every wait is for something that is seen, with a
// limit that nothing comes near.

import { spawn, execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, mkdirSync, readFileSync, rmSync } from "node:fs";
import { connect, createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { chromium } from "playwright-core";

const BINARY = process.env.TURNSTREAM_BIN;
const CHROMIUM = process.env.TURNSTREAM_CHROMIUM ?? "/usr/bin/chromium";
/** A folder with a built page, which is shown instead of the one in the binary. */
const BUNDLE = process.env.TURNSTREAM_BUNDLE;
export const PATIENCE = Number(process.env.TURNSTREAM_PATIENCE ?? 300_000);

/** A gateway in a home of its own. */
export class Gateway {
  constructor() {
    if (BINARY === undefined) throw new Error("TURNSTREAM_BIN must name the turnstream binary");
    this.home = mkdtempSync(join(tmpdir(), "turnstream-page-"));
    this.work = join(this.home, "work");
    mkdirSync(this.work);
    this.listen = "127.0.0.1:0";
  }

  get env() {
    return { HOME: this.home, TURNSTREAM_DATA: join(this.home, "data"), TERM: "dumb" };
  }

  async start() {
    const options = { cwd: this.work, env: this.env, stdio: "ignore" };
    this.child = spawn(BINARY, ["serve", "--listen", this.listen], options);
    const { pid } = this.child;
    // Also when the test fails before it can stop it.
    process.once("exit", () => this.child.kill("SIGKILL"));
    this.address = await until("the gateway starts", () => {
      if (this.child.exitCode !== null) throw new Error(`the gateway ended with ${this.child.exitCode}`);
      const note = JSON.parse(readFileSync(join(this.home, "data/gateway.json"), "utf8"));
      return note.pid === pid ? note.address : undefined;
    });
    // A restart has the same address, as for a person.
    this.listen = this.address;
    return this;
  }

  run(...args) {
    return execFileSync(BINARY, args, { cwd: this.work, env: this.env, encoding: "utf8" }).trim();
  }

  /** Ends it without any warning. */
  async kill() {
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
    rmSync(this.home, { recursive: true, force: true });
  }
}

/** A network between the page and the gateway: it can be slow, and it can go silent as it does in a sleep. */
export class Network {
  constructor(gateway) {
    this.gateway = gateway;
    this.sockets = new Set();
    /** How long each piece takes. */
    this.delay = 0;
    /** New connections are silent too. */
    this.isDown = false;
  }

  async start() {
    this.server = createServer((client) => {
      const link = { silent: this.isDown };
      const server = connect(Number(this.gateway.address.split(":")[1]), "127.0.0.1");
      for (const [from, to] of [
        [client, server],
        [server, client],
      ]) {
        from.on("data", (bytes) => {
          if (link.silent) return;
          if (this.delay === 0) to.write(bytes);
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

export function launch() {
  const args = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"];
  return chromium.launch({ executablePath: CHROMIUM, args, timeout: PATIENCE });
}

/** A signed-in tab. What it asks of other hosts, and what fails in it, is in `outside` and `errors`. */
export async function open(browser, gateway, { network, ...options } = {}) {
  const context = await browser.newContext({
    viewport: { width: 1280, height: 800 },
    colorScheme: "light",
    ...options,
  });
  context.setDefaultTimeout(PATIENCE);
  if (BUNDLE !== undefined) {
    await context.route(/\/page\.(js|css)$/, (route) => {
      const path = join(BUNDLE, new URL(route.request().url()).pathname);
      return existsSync(path) ? route.fulfill({ path }) : route.continue();
    });
  }
  const page = await context.newPage();
  page.outside = [];
  page.errors = [];
  page.on("request", (request) => {
    const { host, protocol } = new URL(request.url());
    const own = [gateway.address, network?.address];
    if (!own.includes(host) && protocol !== "data:") page.outside.push(request.url());
  });
  page.on("pageerror", (error) => page.errors.push(String(error)));
  page.on("console", (message) => {
    if (/Content Security Policy|Trusted Type/i.test(message.text())) page.errors.push(message.text());
  });
  const login = gateway.run("login");
  await page.goto(network === undefined ? login : login.replace(gateway.address, network.address));
  await page.locator(".connection.live").waitFor();
  return page;
}
