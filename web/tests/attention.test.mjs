// What waits for a person, across many sessions: first in the list, in the title, and as a notification.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Gateway, launch, open } from "./harness.mjs";

let gateway, browser;
before(async () => {
  gateway = await new Gateway().start();
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await gateway?.stop();
});

const ASKS = [{ do: "tool", name: "bash", input: { command: "make release" }, ask: true }];

test("a list of hundreds has what waits first, is filtered, and is searched", async () => {
  const titles = Array.from({ length: 250 }, (_, place) => `Session number ${place}`);
  for (const title of titles) await gateway.session({ title });
  const waits = await gateway.session({ title: "The one that waits" });
  await gateway.prompt(waits.id, ASKS);
  for (const title of ["Newer", "Newest"]) await gateway.session({ title });
  const page = await open(browser, gateway);
  await page.locator(".row.waits", { hasText: "make release" }).waitFor();
  await page.waitForFunction(() => document.title === "(1) Sessions · Turnstream");
  const first = page.locator("a.row").first();
  assert.equal(await first.getAttribute("data-session"), waits.id);
  assert.equal(await page.locator("a.row").count(), 200);
  await page.getByRole("button", { name: /^Show 53 more of 253/ }).click();
  await page.waitForFunction(() => document.querySelectorAll("a.row").length === 253);
  await page.getByLabel("Search titles and everything said").fill("number 17");
  await page.waitForFunction(() => document.querySelectorAll("a.row:not(.hit)").length === 11);
  await page.getByLabel("Search titles and everything said").fill("");
  await page.getByRole("button", { name: /^Waiting/ }).click();
  await page.waitForFunction(() => document.querySelectorAll("a.row").length === 1);
  // With keys alone: to what waits, and the answer.
  await page.locator("main").focus();
  await page.keyboard.press("w");
  await page.locator(".card.wait").waitFor();
  await page.keyboard.press("w");
  await page.keyboard.press("a");
  await page.locator('.turn[data-outcome="completed"]').waitFor();
  await page.waitForFunction(() => document.title === "The one that waits · Turnstream");
  assert.deepEqual([page.errors, page.outside], [[], []]);
  await page.context().close();
});

test("a session that begins to wait is a notification while nobody looks", async () => {
  const page = await open(browser, gateway, { permissions: ["notifications"] });
  await page.evaluate(() => {
    globalThis.told = [];
    globalThis.Notification = class {
      static permission = "granted";
      constructor(title, { body, tag }) {
        globalThis.told.push({ title, body, tag });
      }
    };
    // Another tab is in front.
    Object.defineProperty(document, "visibilityState", { get: () => "hidden" });
  });
  const { id } = await gateway.session({ title: "Asks in the background" });
  await gateway.prompt(id, ASKS);
  await page.waitForFunction(() => globalThis.told.length > 0);
  assert.deepEqual(await page.evaluate(() => globalThis.told), [
    { title: "Waiting for you", body: "Asks in the background", tag: id },
  ]);
  assert.deepEqual([page.errors, page.outside], [[], []]);
  await page.context().close();
});

test("with keys alone: a session is found, prompted, answered, and its timeline is read", async () => {
  const { id } = await gateway.session({ title: "Driven by keys" });
  const page = await open(browser, gateway);
  await page.keyboard.press("/");
  await page.keyboard.type("driven by keys");
  await page.waitForFunction(() => document.querySelectorAll("a.row:not(.hit)").length === 1);
  await page.keyboard.press("Escape");
  await page.keyboard.press("j");
  await page.keyboard.press("Enter");
  await page.getByText("Nothing was said yet").waitFor();
  assert.ok(page.url().endsWith(`#/session/${id}`));
  const prompt = page.getByLabel("Prompt", { exact: true });
  for (let tabs = 0; tabs < 40; tabs += 1) {
    if (await prompt.evaluate((box) => box === document.activeElement)) break;
    await page.keyboard.press("Tab");
  }
  await page.keyboard.insertText(JSON.stringify({ script: [...ASKS, { do: "text", text: "Released." }] }));
  await page.keyboard.press("Control+Enter");
  await page.locator(".card.wait").waitFor();
  await page.keyboard.press("Escape");
  await page.keyboard.press("w");
  await page.keyboard.press("r");
  await page.getByLabel("What should the agent know?").waitFor();
  await page.keyboard.type("not today");
  await page.keyboard.press("Tab");
  await page.keyboard.press("Enter");
  await page.locator(".answered", { hasText: "“not today”" }).waitFor();
  await page.locator(".reply", { hasText: "Released." }).waitFor();
  await page.keyboard.press("t");
  await page.getByRole("row", { name: /turn\.started/ }).waitFor();
  await page.keyboard.press("?");
  await page.getByRole("heading", { name: "Keys", exact: true }).waitFor();
  await page.keyboard.press("Escape");
  await page.keyboard.press("g");
  await page.keyboard.press("s");
  await page.locator("a.row").first().waitFor();
  assert.deepEqual([page.errors, page.outside], [[], []]);
  await page.context().close();
});
