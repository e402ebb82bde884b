// A page of examples/, built and used in a real Chromium, from an origin of its own.

import { execFileSync } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { extname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { chromium } from "../../../../web/node_modules/playwright-core/index.mjs";
import { Gateway, PATIENCE } from "./gateway.mjs";

const EXAMPLES = fileURLToPath(new URL("../../../../examples", import.meta.url));
const CHROMIUM = process.env.TURNSTREAM_CHROMIUM ?? "/usr/bin/chromium";
const TYPES = { ".html": "text/html", ".js": "text/javascript" };

export class Site {
  /** The site of an example, whose libraries are installed in a folder of its name; and a gateway for it. */
  async start(example) {
    this.built = mkdtempSync(join(tmpdir(), `turnstream-${example}-`));
    const modules = `${process.env.TURNSTREAM_AGENTS}/${example}/node_modules`;
    const filter = (path) => !path.includes("node_modules");
    cpSync(join(EXAMPLES, example), this.built, { recursive: true, filter });
    symlinkSync(modules, join(this.built, "node_modules"));
    const vite = join(modules, "vite/bin/vite.js");
    execFileSync(process.execPath, [vite, "build", "--logLevel", "warn"], { cwd: this.built });
    this.server = createServer((request, response) => {
      const path = new URL(request.url, "http://localhost").pathname;
      const file = join(this.built, "dist", path === "/" ? "index.html" : path);
      try {
        const bytes = readFileSync(file);
        response.setHeader("content-type", TYPES[extname(file)] ?? "application/octet-stream");
        response.end(bytes);
      } catch {
        response.writeHead(404).end();
      }
    });
    await new Promise((ready) => this.server.listen(0, "127.0.0.1", ready));
    this.origin = `http://127.0.0.1:${this.server.address().port}`;
    this.gateway = await new Gateway(`origins = ["${this.origin}"]\n`).start();
    const args = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"];
    this.browser = await chromium.launch({ executablePath: CHROMIUM, args, timeout: PATIENCE });
    return this;
  }

  /** A page as a new person opens it. `wrong` has its errors. */
  async open(query) {
    const context = await this.browser.newContext();
    context.setDefaultTimeout(PATIENCE);
    const page = await context.newPage();
    page.wrong = [];
    page.on("pageerror", (error) => page.wrong.push(String(error)));
    page.on("console", (message) => message.type() === "error" && page.wrong.push(message.text()));
    const { address, token } = this.gateway;
    await page.goto(`${this.origin}/?gateway=http://${address}&${query}#${token}`);
    await page.getByLabel("Message").waitFor();
    return page;
  }

  async stop() {
    await this.browser?.close();
    await this.gateway?.stop();
    this.server?.close();
    rmSync(this.built, { recursive: true, force: true });
  }
}

/** Sends a script of the demo agent as a message. */
export async function say(page, script) {
  await page.getByLabel("Message").fill(JSON.stringify({ script, pace_ms: 0 }));
  await page.getByRole("button", { name: "Send" }).click();
}

export const answer = (page) => page.locator('[data-role="assistant"]').last().innerText();
export const ready = (page) => page.locator('main[data-status="ready"]').waitFor();
