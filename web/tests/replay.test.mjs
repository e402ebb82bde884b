// The timeline of a turn, and its replay.

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

test("a finished turn is replayed from any event, at any speed", async () => {
  const { id } = await gateway.session({ title: "Replayed" });
  await gateway.prompt(id, [{ do: "text", text: "An earlier turn." }]);
  await gateway.prompt(id, [
    { do: "text", text: "First part." },
    { do: "tool", name: "build", output: ["done\n"], takes_ms: 400 },
    { do: "tool", name: "write", title: "Note it down", ask: true },
    { do: "text", text: "Last part." },
  ]);
  const page = await open(browser, gateway);
  await page.goto(`http://${gateway.address}/#/session/${id}`);
  await page.getByRole("button", { name: /^Allow once/ }).click();
  await page.locator('.turn[data-turn="t2"][data-outcome="completed"]').waitFor();
  // From the timeline: any event of the turn leads to it.
  await page.getByRole("link", { name: "Timeline" }).click();
  await page
    .getByRole("row", { name: /approval\.requested/ })
    .getByRole("link")
    .click();
  const asked = Number(new URL(page.url()).hash.split("seq=")[1]);
  await page.getByRole("link", { name: "Replay this turn" }).click();
  await page.locator(".reply", { hasText: "Last part." }).waitFor();
  assert.equal(await page.getByText("An earlier turn.").count(), 0);
  const slider = page.getByRole("slider", { name: "Place in the turn" });
  await slider.focus();
  await page.keyboard.press("Home");
  await page.waitForFunction(() => document.querySelectorAll(".reply").length === 0);
  await page.locator(".prompt").waitFor();
  // The moment at which it waited: it is shown, and cannot be answered.
  const last = Number(await slider.getAttribute("max"));
  for (let place = 1; place <= last; place += 1) {
    const text = await slider.getAttribute("aria-valuetext");
    if (text.endsWith(`seq ${asked}`)) break;
    await page.keyboard.press("ArrowRight");
    await page.waitForFunction(
      (before) => document.querySelector("input[type=range]").getAttribute("aria-valuetext") !== before,
      text,
    );
  }
  await page.locator(".card.wait").waitFor();
  assert.ok(await page.getByRole("button", { name: /^Allow once/ }).isDisabled());
  assert.equal(await page.locator(".reply", { hasText: "Last part." }).count(), 0);
  await page.getByRole("button", { name: "32×" }).click();
  await page.getByRole("button", { name: "Play" }).click();
  await page.locator(".reply", { hasText: "Last part." }).waitFor();
  await page.locator('.turn[data-outcome="completed"]').waitFor();
  await page.getByRole("button", { name: "Play" }).waitFor();
  assert.equal(await slider.inputValue(), String(last));
  assert.deepEqual([page.errors, page.outside], [[], []]);
  await page.context().close();
});
