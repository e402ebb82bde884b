// The gateway is killed and comes back: the page says so, and loses nothing.

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

test("an approval waits through a killed gateway, and the page through the cut", async () => {
  const { id } = await gateway.session({ title: "Cut" });
  await gateway.prompt(id, [
    { do: "text", text: "Before the cut." },
    { do: "tool", title: "Go on", ask: true },
    { do: "text", text: "After the cut." },
  ]);
  const page = await open(browser, gateway);
  await page.goto(`http://${gateway.address}/#/session/${id}`);
  await page.locator(".card.wait").waitFor();
  await gateway.kill();
  await page
    .locator(".connection.cut")
    .filter({ hasText: /^\s*disconnected · since \d\d:\d\d$/ })
    .waitFor();
  await page
    .locator(".banner.cut", { hasText: /Disconnected since \d\d:\d\d · reconnecting (in \d+ s|now)/ })
    .waitFor();
  await page.locator(".badge", { hasText: "Waiting for you when last seen" }).waitFor();
  assert.ok(await page.getByRole("button", { name: /^Allow once/ }).isDisabled());
  // Typing goes on.
  await page.getByLabel("Prompt", { exact: true }).fill("written while it was away");
  assert.ok(await page.getByRole("button", { name: /^(Send|Queue)/ }).isDisabled());
  await gateway.start();
  await page
    .locator(".banner.back", {
      hasText: /Caught up: [\d,]+ events? · disconnected from \d\d:\d\d:\d\d to \d\d:\d\d:\d\d/,
    })
    .waitFor();
  await page.locator(".connection.live", { hasText: "caught up" }).waitFor();
  assert.equal(await page.getByLabel("Prompt", { exact: true }).inputValue(), "written while it was away");
  await page.locator(".badge.s-waiting").waitFor();
  await page.getByRole("button", { name: /^Allow once/ }).click();
  await page.locator(".reply", { hasText: "After the cut." }).waitFor();
  await page.locator('.turn[data-outcome="completed"]').waitFor();
  assert.equal(await page.locator(".reply", { hasText: "Before the cut." }).count(), 1);
  assert.equal(await page.locator(".turn").count(), 1);
  assert.deepEqual([page.errors, page.outside], [[], []]);
  await page.context().close();
});

test("a reply that was being written when the gateway was killed is whole, each word once", async () => {
  const words = Array.from({ length: 200 }, (_, place) => `w${place}`);
  const { id } = await gateway.session({ title: "Killed while it writes" });
  const page = await open(browser, gateway);
  await page.goto(`http://${gateway.address}/#/session/${id}`);
  await page.getByText("Nothing was said yet").waitFor();
  await gateway.prompt(id, [{ do: "text", text: words.join(" "), chunks: 200, pace_ms: 50 }]);
  await page.locator(".reply", { hasText: "w20 " }).waitFor();
  await gateway.kill();
  await page.locator(".banner.cut").waitFor();
  await page.getByText("The text up to here is what came before the page was disconnected.").waitFor();
  await gateway.start();
  await page.locator('.turn[data-outcome="completed"]').waitFor();
  assert.equal((await page.locator(".reply .markdown").textContent()).trim(), words.join(" "));
  assert.deepEqual([page.errors, page.outside], [[], []]);
  await page.context().close();
});
