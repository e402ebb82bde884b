// The real Claude Code, driven from the page. crates/cli/tests/page/claude.rs has its provider's script.
// With SHOTS=FOLDER it also takes pictures of every view, at every width.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { Gateway, launch, Network, open, until } from "./harness.mjs";

const { CONFIG, PROVIDER, WORK, SHOTS } = process.env;

let provider, gateway, browser;
before(async () => {
  provider = await new Network({ address: PROVIDER }).start();
  gateway = await new Gateway({ config: CONFIG.replaceAll(PROVIDER, provider.address) }).start();
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await gateway?.stop();
  provider?.stop();
});

/** Pictures of what is on the screen, if somebody wants to look at it. */
async function shot(page, name) {
  if (SHOTS === undefined) return;
  for (const colorScheme of ["light", "dark"]) {
    await page.emulateMedia({ colorScheme });
    for (const width of [390, 768, 1920, 1280]) {
      await page.setViewportSize({ width, height: width < 700 ? 844 : 900 });
      // The list measures what it shows, and shows it then.
      await page.waitForTimeout(200);
      await page.screenshot({ path: join(SHOTS, `${name}-${width}-${colorScheme}.png`) });
    }
  }
}

test("a session of Claude Code from its first prompt to its end", async () => {
  const page = await open(browser, gateway);
  await page.getByRole("heading", { name: "No sessions yet" }).waitFor();
  await shot(page, "empty");
  await page.keyboard.press("g");
  await page.keyboard.press("g");
  await page.getByRole("heading", { name: "The gateway is sound" }).waitFor();
  await shot(page, "empty-gateway");
  await page.keyboard.press("n");
  await page.locator("[data-agent=claude] input").check();
  await page.getByLabel("Directory").fill(WORK);
  await shot(page, "empty-new");
  await page.getByRole("button", { name: "Create session" }).click();
  await page.getByText("Nothing was said yet").waitFor();
  await shot(page, "session-new");

  // The provider stops in the middle of a sentence: the page has what came so far, and says that more comes.
  provider.holdAt = "Somebody else";
  await page.getByLabel("Prompt", { exact: true }).fill("A replayed webhook pays a refund twice. Mend it.");
  await page.keyboard.press("Control+Enter");
  const begun = page.locator('.reply.open[data-state="streaming"]', { hasText: "I read how refunds" });
  await begun.waitFor();
  await until("the provider stops", () => provider.release !== undefined);
  assert.equal(await page.getByText("looks for other callers").count(), 0);
  await page.locator(".badge.s-busy", { hasText: "Generating" }).waitFor();
  await shot(page, "streaming");
  provider.release();
  await page.locator(".reply", { hasText: "Somebody else looks for other callers." }).waitFor();
  assert.equal(await page.locator(".reply", { hasText: "I read how refunds" }).count(), 1);

  // Its change waits, with the change itself.
  const edit = page.locator(".card.wait", { hasText: "refunds.rs" });
  await edit.locator(".diff tr.removed", { hasText: "delivery.id" }).waitFor();
  await edit.locator(".diff tr.added", { hasText: "delivery.event" }).waitFor();
  // Claude Code has not told yet where in the file it is.
  assert.equal(await edit.locator(".diff .number", { hasText: /\d/ }).count(), 0);
  await page.waitForFunction(() => document.title.startsWith("(1) "));
  await page.locator(".subagent .step", { hasText: "refunds.rs" }).waitFor();
  await shot(page, "waiting-edit");
  assert.ok(readFileSync(join(WORK, "refunds.rs"), "utf8").includes("delivery.id"), "it waits");
  await edit.getByRole("button", { name: /^Allow once/ }).click();
  const changed = page.locator('.tool[data-state="completed"]', { hasText: "refunds.rs" });
  // Now with its place in the file, and the lines around it.
  await changed.locator(".diff tr.added", { hasText: "3+    if db.seen(&delivery.event) {" }).waitFor();
  await changed.locator(".diff tr.same", { hasText: "pub fn on_webhook" }).waitFor();
  assert.ok(readFileSync(join(WORK, "refunds.rs"), "utf8").includes("delivery.event"), "it is made");

  // So does its command, with everything that more than one answer would cover.
  const run = page.locator(".card.wait", { hasText: "Allow this command?" });
  await run.locator(".judge", { hasText: "touch tests.log" }).waitFor();
  await shot(page, "waiting-run");
  assert.ok((await run.getByRole("radio").count()) > 1, "each of the agent's wider answers");
  assert.ok(await run.getByRole("radio").first().isChecked());
  await run.getByRole("button", { name: /^Allow once/ }).click();

  await page.locator(".reply strong", { hasText: "nothing" }).waitFor();
  await page.locator(".reply pre .hl-keyword", { hasText: "return" }).waitFor();
  await page.locator('.turn[data-outcome="completed"]').waitFor();
  await page.locator(".turn-end", { hasText: /Finished · .* · \$0\.\d\d · 1 k tokens written/ }).waitFor();
  await page
    .locator(".rail dd", { hasText: /^\$0\.\d\d$/ })
    .first()
    .waitFor();
  await page.waitForFunction(() => !document.title.startsWith("("));
  const ran = page.locator('.tool[data-state="completed"]', { hasText: "touch tests.log" });
  await ran.locator(".tool-head").click();
  await ran.locator(".terminal .c-work", { hasText: "ok" }).first().waitFor();
  await shot(page, "session");
  await page.reload();
  await page.locator(".reply strong", { hasText: "nothing" }).waitFor();
  await page.waitForFunction(() => document.querySelectorAll(".subagent .step").length === 2);
  if (SHOTS !== undefined) await tour(page);
  assert.deepEqual([page.errors, page.outside], [[], []]);
  await page.context().close();
});

/** The other views of this session. */
async function tour(page) {
  await page.evaluate(() => scrollTo(0, 0));
  await shot(page, "session-top");
  await page.keyboard.press("t");
  await page
    .getByRole("row", { name: /turn\.started/ })
    .first()
    .waitFor();
  await shot(page, "timeline");
  await page.getByLabel("Go to seq").fill("12");
  await page.keyboard.press("Enter");
  await page.locator(".drawer .json").waitFor();
  await shot(page, "timeline-event");
  await page.getByRole("link", { name: "Replay this turn" }).click();
  await page.locator('.turn[data-outcome="completed"]').waitFor();
  await shot(page, "replay");
  await page.goto(`http://${gateway.address}/#/`);
  await page.locator("a.row").waitFor();
  await shot(page, "sessions");
  await page.getByLabel("Search titles and everything said").fill("replay");
  await page.locator(".row.hit mark").first().waitFor();
  await shot(page, "search");
  await page.goto(`http://${gateway.address}/#/new`);
  await page.locator("[data-agent=claude]").waitFor();
  await shot(page, "new");
  await page.goto(`http://${gateway.address}/#/gateway`);
  await page.locator("[data-agent=claude]").waitFor();
  await shot(page, "gateway");
  await page.evaluate(() => sessionStorage.clear());
  await page.reload();
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  await shot(page, "login");
}
