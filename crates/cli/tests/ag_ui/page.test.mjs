// The page of examples/copilotkit-page in a real Chromium.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Site, answer, ready, say } from "../ai_sdk/site.mjs";
import { ASKS } from "./scripts.mjs";

const site = new Site();
before(() => site.start("copilotkit-page"));
after(() => site.stop());
const open = () => site.open("agent=scripted&thread=example");

test("a person talks to an agent, allows a call, reloads, and stops a run", async () => {
  const page = await open();
  await say(page, ASKS);
  await page.getByRole("button", { name: "allow_once" }).waitFor();
  // A reload shows the same request, and its answer goes on.
  await page.reload();
  await page.getByRole("button", { name: "allow_once" }).click();
  await page.getByText("It is noted.", { exact: true }).waitFor();
  await ready(page);
  assert.equal(await page.getByText("note: noted").count(), 1);

  await say(page, [{ do: "text", text: "Working on it." }, { do: "stall" }]);
  await page.getByText("Working on it.", { exact: true }).waitFor();
  const second = await open();
  await second.getByText("Working on it.", { exact: true }).waitFor();
  await page.reload();
  await page.getByText("Working on it.", { exact: true }).waitFor();
  await page.getByRole("button", { name: "Stop" }).click();
  await ready(page);
  await ready(second);
  for (const one of [page, second]) {
    // Two prompts; the question, the call and the answer of the first turn; the answer of the second one.
    assert.equal(await one.locator("article").count(), 6);
    assert.equal(await answer(one), "Working on it.");
    assert.equal(await one.getByText("note: noted").count(), 1);
  }
  assert.deepEqual([page.wrong, second.wrong], [[], []]);
});
