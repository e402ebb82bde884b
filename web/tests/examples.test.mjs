// The examples outside of the page: plain HTML in a browser, and Python.

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { extname, join } from "node:path";
import { after, before, test } from "node:test";
import { fileURLToPath } from "node:url";
import { Gateway, launch, PATIENCE, until } from "./harness.mjs";

const ROOT = fileURLToPath(new URL("../..", import.meta.url));
const TYPES = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css" };
const WORDS = Array.from({ length: 200 }, (_, place) => `w${place}`);
const SLOW = [{ do: "text", text: WORDS.join(" "), chunks: 200, pace_ms: 40 }];

let gateway, browser, files, origin;
before(async () => {
  files = createServer((request, answer) => {
    const path = request.url === "/" ? "/index.html" : request.url;
    try {
      const bytes = readFileSync(join(ROOT, "examples/plain-html", path));
      answer.writeHead(200, { "content-type": TYPES[extname(path)] }).end(bytes);
    } catch {
      answer.writeHead(404).end();
    }
  });
  await new Promise((ready) => files.listen(0, "127.0.0.1", ready));
  origin = `http://127.0.0.1:${files.address().port}`;
  gateway = await new Gateway({ config: `origins = ["${origin}"]\n` }).start();
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await gateway?.stop();
  files?.close();
  files?.closeAllConnections();
});

test("a page in plain HTML follows and drives a session, through a killed gateway", async () => {
  const { id } = await gateway.session();
  const context = await browser.newContext();
  context.setDefaultTimeout(PATIENCE);
  const page = await context.newPage();
  const errors = [];
  page.on("pageerror", (error) => errors.push(String(error)));
  await page.goto(origin);
  await page.getByLabel("Gateway").fill(`http://${gateway.address}`);
  await page.getByLabel("Token").fill(gateway.run("token"));
  await page.getByLabel("Session").fill(id);
  await page.getByRole("button", { name: "Follow" }).click();
  await page.getByText("Connected.").waitFor();
  const script = [...SLOW, { do: "tool", title: "Go on", ask: true }, { do: "text", text: "<b>Done.</b>" }];
  await page.getByLabel("Prompt").fill(JSON.stringify({ script, pace_ms: 0 }));
  await page.getByRole("button", { name: "Send" }).click();
  await page.locator("li", { hasText: /^w0 w1 / }).waitFor();
  await gateway.kill();
  await page.locator("#link", { hasText: "Disconnected" }).waitFor();
  await gateway.start();
  await page.getByRole("button", { name: "Allow once" }).click();
  await page.getByText("The turn ended: completed.").waitFor();
  const rows = await page.locator("li").allTextContents();
  assert.deepEqual(rows.slice(1), [
    WORDS.join(" "),
    "Tool: Go on",
    "<b>Done.</b>",
    "The turn ended: completed.",
  ]);
  assert.deepEqual(errors, []);
  await context.close();
});

/** Runs the example, and gives its lines to `seen` as they come. */
async function python(args, seen = () => undefined) {
  const env = {
    ...process.env,
    TURNSTREAM_ADDRESS: `http://${gateway.address}`,
    TURNSTREAM_TOKEN: gateway.run("token"),
  };
  const file = join(ROOT, "clients/python/follow.py");
  const child = spawn("python3", [file, ...args], { env, stdio: ["ignore", "pipe", "inherit"] });
  const lines = [];
  let rest = "";
  child.stdout.on("data", (bytes) => {
    const parts = (rest + bytes).split("\n");
    rest = parts.pop();
    lines.push(...parts);
    seen(lines);
  });
  const code = await new Promise((ended) => child.once("exit", ended));
  await until("the output is read", () => child.stdout.readableEnded);
  assert.equal(code, 0, lines.join("\n"));
  return lines;
}

test("the Python example follows a session through a killed gateway, each event once", async () => {
  const { id } = await gateway.session();
  const prompt = JSON.stringify({
    script: [...SLOW, { do: "tool", title: "Go on", ask: true }, { do: "text", text: "Done." }],
    pace_ms: 0,
  });
  let restarted;
  const lines = await python([id, "--prompt", prompt, "--allow", "--json"], (seen) => {
    if (seen.length < 30 || restarted !== undefined) return;
    restarted = gateway.kill().then(() => gateway.start());
  });
  await restarted;
  const events = lines.map((line) => JSON.parse(line));
  const first = events[0].seq;
  assert.equal(events[0].type, "prompt.accepted");
  assert.deepEqual(
    events.map((event) => event.seq),
    events.map((_, place) => first + place),
  );
  const { events: logged } = await gateway.request("GET", `/v1/sessions/${id}/log?from=${first}&limit=500`);
  assert.deepEqual(events, logged.slice(0, events.length));
  assert.deepEqual([events.at(-1).type, events.at(-1).outcome], ["turn.ended", "completed"]);
});
