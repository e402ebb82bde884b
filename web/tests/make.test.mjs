// New sessions: the directory, the budget, attachments, and going on with another agent.

import assert from "node:assert/strict";
import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { Gateway, launch, open, until } from "./harness.mjs";

let gateway, browser;
before(async () => {
  gateway = await new Gateway().start();
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await gateway?.stop();
});

const CALL = [
  { do: "attempt", model: "m" },
  { do: "text", text: "One call." },
  { do: "attempt_end", finish: "stop", usage: { input: 900, output: 100 } },
];

async function close(page) {
  assert.deepEqual([page.errors, page.outside], [[], []]);
  await page.context().close();
}

test("a session with a budget, in a directory that was browsed for, and its cap", async () => {
  mkdirSync(join(gateway.work, "projects/ledger"), { recursive: true });
  const page = await open(browser, gateway);
  await page.goto(`http://${gateway.address}/#/new`);
  await page.getByLabel("scripted").check();
  await page.getByLabel("Directory").fill(gateway.work);
  await page.getByRole("button", { name: "Browse" }).click();
  await page.getByRole("button", { name: "projects" }).click();
  await page.getByRole("button", { name: "ledger" }).click();
  assert.equal(await page.getByLabel("Directory").inputValue(), join(gateway.work, "projects/ledger"));
  await page.getByText("Budget (optional)").click();
  const all = page.getByRole("group", { name: "All turns together" });
  await all.getByLabel("tokens").fill("1500");
  await page.getByRole("group", { name: "Each turn" }).getByLabel("model calls").fill("3");
  await page.getByRole("button", { name: "Create session" }).click();
  await page.getByText("Nothing was said yet").waitFor();
  const id = new URL(page.url()).hash.split("/")[2];
  await page.locator('.cap[data-cap="tokens"]', { hasText: "of 2 k" }).waitFor();
  await gateway.prompt(id, CALL);
  await page.locator('.cap[data-cap="tokens"]', { hasText: "1 k of 2 k" }).waitFor();
  await page.locator(".rail dd", { hasText: "1 of 3" }).waitFor();
  await gateway.prompt(id, CALL);
  await page.getByText("Stopped at its budget of 2 k.").waitFor();
  // Also after a reload, which reads it from the session.
  await page.reload();
  await page.getByText("Stopped at its budget of 2 k.").waitFor();
  await page.locator(".budget").getByRole("button", { name: "Change" }).click();
  const form = page.locator(".budget-form");
  await form.getByRole("group", { name: "All turns together" }).getByLabel("tokens").fill("9000");
  await form.getByRole("button", { name: "Save budget" }).click();
  await page.locator('.cap[data-cap="tokens"]', { hasText: "2 k of 9 k" }).waitFor();
  await page.waitForFunction(() => !document.body.textContent.includes("Stopped at its budget"));
  await close(page);
});

test("another agent goes on, and both sessions lead to each other", async () => {
  const { id } = await gateway.session({ title: "The first half" });
  await gateway.prompt(id, [{ do: "text", text: "Said by the first." }]);
  const page = await open(browser, gateway);
  await page.goto(`http://${gateway.address}/#/session/${id}`);
  await page.locator('.turn[data-outcome="completed"]').waitFor();
  await page.getByRole("link", { name: "Go on with another agent" }).click();
  await page.getByRole("heading", { name: "Go on with another agent" }).waitFor();
  await page.getByLabel("scripted").check();
  assert.equal(await page.getByLabel("Directory").inputValue(), gateway.work);
  await page.getByRole("button", { name: "Create session" }).click();
  await page.locator(".handovers", { hasText: "Handed over from scripted" }).waitFor();
  await page.locator(".notice", { hasText: "Handed over from scripted, with" }).waitFor();
  await page.locator(".handovers").getByRole("link", { name: "scripted" }).click();
  await page.locator(".notice", { hasText: "Handed over to scripted." }).waitFor();
  await page.locator(".handovers", { hasText: "Handed over to ses_" }).waitFor();
  await close(page);
});

test("files go with a prompt", async () => {
  const { id } = await gateway.session({ title: "With files" });
  const page = await open(browser, gateway);
  await page.goto(`http://${gateway.address}/#/session/${id}`);
  await page.getByText("Nothing was said yet").waitFor();
  const files = [
    { name: "notes.txt", mimeType: "text/plain", buffer: Buffer.from("a note\n") },
    { name: "dot.png", mimeType: "image/png", buffer: Buffer.from([137, 80, 78, 71]) },
  ];
  await page.locator('input[type="file"]').setInputFiles(files);
  await page.locator(".attached li").nth(1).waitFor();
  await page.getByRole("button", { name: "Remove dot.png" }).click();
  await page.locator('input[type="file"]').setInputFiles(files[1]);
  await page.locator(".attached li").nth(1).waitFor();
  await page.getByLabel("Prompt", { exact: true }).fill('{"script":[{"do":"text","text":"Got it."}]}');
  await page.getByRole("button", { name: /^Send/ }).click();
  await page.locator(".reply", { hasText: "Got it." }).waitFor();
  const { prompts } = await until("the prompt is in the history", async () => {
    const found = await gateway.request("GET", `/v1/sessions/${id}/items`);
    return found.prompts.length > 0 && found;
  });
  assert.deepEqual(
    prompts[0].content.map((block) => block.type),
    ["text", "resource", "image"],
  );
  assert.equal(prompts[0].content[1].resource.text, "a note\n");
  assert.equal(prompts[0].content[2].data, "iVBORw==");
  await close(page);
});
