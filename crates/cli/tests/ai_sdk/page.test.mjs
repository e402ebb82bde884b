// The page of examples/ai-sdk-page, built and used in a real Chromium, from an origin of its own.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { cpSync, mkdtempSync, readFileSync, rmSync, symlinkSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { extname, join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { chromium } from "../../../../web/node_modules/playwright-core/index.mjs";
import { Gateway, PATIENCE } from "./gateway.mjs";

const EXAMPLE = fileURLToPath(new URL("../../../../examples/ai-sdk-page", import.meta.url));
const MODULES = `${process.env.TURNSTREAM_AGENTS}/ai-sdk-page/node_modules`;
const CHROMIUM = process.env.TURNSTREAM_CHROMIUM ?? "/usr/bin/chromium";
const TYPES = { ".html": "text/html", ".js": "text/javascript" };

let built, site, gateway, browser, address;

before(async () => {
  built = mkdtempSync(join(tmpdir(), "turnstream-ai-page-"));
  cpSync(EXAMPLE, built, { recursive: true, filter: (path) => !path.includes("node_modules") });
  symlinkSync(MODULES, join(built, "node_modules"));
  const vite = join(MODULES, "vite/bin/vite.js");
  execFileSync(process.execPath, [vite, "build", "--logLevel", "warn"], { cwd: built });
  site = createServer((request, response) => {
    const path = new URL(request.url, "http://localhost").pathname;
    const file = join(built, "dist", path === "/" ? "index.html" : path);
    try {
      const bytes = readFileSync(file);
      response.setHeader("content-type", TYPES[extname(file)] ?? "application/octet-stream");
      response.end(bytes);
    } catch {
      response.writeHead(404).end();
    }
  });
  await new Promise((ready) => site.listen(0, "127.0.0.1", ready));
  const origin = `http://127.0.0.1:${site.address().port}`;
  gateway = await new Gateway(`origins = ["${origin}"]\n`).start();
  address = `${origin}/?gateway=http://${gateway.address}&chat=example#${gateway.token}`;
  const args = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"];
  browser = await chromium.launch({ executablePath: CHROMIUM, args, timeout: PATIENCE });
});

after(async () => {
  await browser?.close();
  await gateway?.stop();
  site?.close();
  rmSync(built, { recursive: true, force: true });
});

async function open() {
  const context = await browser.newContext();
  context.setDefaultTimeout(PATIENCE);
  const page = await context.newPage();
  page.wrong = [];
  page.on("pageerror", (error) => page.wrong.push(String(error)));
  page.on("console", (message) => message.type() === "error" && page.wrong.push(message.text()));
  await page.goto(address);
  await page.getByLabel("Message").waitFor();
  return page;
}

async function say(page, script) {
  await page.getByLabel("Message").fill(JSON.stringify({ script, pace_ms: 0 }));
  await page.getByRole("button", { name: "Send" }).click();
}

const answer = (page) => page.locator('[data-role="assistant"]').last().innerText();
const ready = (page) => page.locator('main[data-status="ready"]').waitFor();

test("a person talks to an agent, allows a call, reloads, and stops a turn", async () => {
  const page = await open();
  const asks = [
    { do: "text", text: "May I?" },
    { do: "tool", name: "write", title: "Write", ask: true },
    { do: "text", text: "Written.", when: "allowed" },
  ];
  await say(page, asks);
  await page.getByText("approval-requested").waitFor();
  // A reload shows the same request, and its answer goes on.
  await page.reload();
  await page.getByRole("button", { name: "Allow" }).click();
  await page.getByText("Written.", { exact: true }).waitFor();
  await ready(page);
  const said = await answer(page);
  assert.match(said, /May I\?\s+Write: output-available\s+Written\./);

  await say(page, [{ do: "text", text: "Working on it." }, { do: "stall" }]);
  await page.getByText("Working on it.", { exact: true }).waitFor();
  const second = await open();
  await second.getByText("Working on it.", { exact: true }).waitFor();
  await page.reload();
  await page.getByText("Working on it.", { exact: true }).waitFor();
  await page.getByRole("button", { name: "Stop" }).click();
  await ready(page);
  await ready(second);
  assert.equal(await page.locator("article").count(), 4);
  assert.equal(await answer(page), await answer(second));
  assert.equal(await page.getByText("Working on it.", { exact: true }).count(), 1);
  assert.deepEqual([page.wrong, second.wrong], [[], []]);
});
