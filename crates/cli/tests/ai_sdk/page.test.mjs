// The page of examples/ai-sdk-page in a real Chromium.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Site, answer, ready, say } from "./site.mjs";

const site = new Site();
before(() => site.start("ai-sdk-page"));
after(() => site.stop());
const open = () => site.open("chat=example");

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
