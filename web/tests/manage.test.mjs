// Sessions as a whole: their settings, export, end, a forgotten one, and what an agent takes.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
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

test("a session is renamed, exported and deleted", async () => {
  const { id } = await gateway.session({ title: "Before" });
  await gateway.prompt(id, [{ do: "text", text: "Something was said." }]);
  const page = await open(browser, gateway);
  await page.goto(`http://${gateway.address}/#/session/${id}`);
  await page.locator('.turn[data-outcome="completed"]').waitFor();
  const menu = page.getByLabel("More about this session");
  await menu.click();
  await page.getByRole("button", { name: "Title, model, mode, permissions" }).click();
  await page.getByLabel("Title", { exact: true }).fill("After");
  await page.getByLabel("Mode", { exact: true }).fill("plan");
  await page.getByLabel("Reject everything").check();
  await page.getByRole("button", { name: "Save" }).click();
  await page.getByRole("heading", { name: "After", level: 1 }).waitFor();
  const { title, mode, permissions } = await gateway.request("GET", `/v1/sessions/${id}`);
  assert.deepEqual([title, mode, permissions], ["After", "plan", "deny"]);
  for (const [name, file, text] of [
    ["Export as Markdown", `${id}.md`, "Something was said."],
    ["Export the log as JSON lines", `${id}.jsonl`, '"type":"turn.ended"'],
  ]) {
    await menu.click();
    const [download] = await Promise.all([
      page.waitForEvent("download"),
      page.getByRole("button", { name }).click(),
    ]);
    assert.equal(download.suggestedFilename(), file);
    assert.ok(readFileSync(await download.path(), "utf8").includes(text));
  }
  await menu.click();
  await page.getByRole("button", { name: "Delete" }).click();
  await page.getByRole("button", { name: "Keep it" }).click();
  await menu.click();
  await page.getByRole("button", { name: "Delete" }).click();
  await page.getByRole("button", { name: "Delete for good" }).click();
  await page.getByRole("heading", { name: /No sessions yet|Sessions/ }).waitFor();
  await assert.rejects(gateway.request("GET", `/v1/sessions/${id}`), /unknown-session/);
  assert.deepEqual([page.errors, page.outside], [[], []]);
  await page.context().close();
});

test("the last turn's bad end and the cost are in the list", async () => {
  const failed = await gateway.session({ title: "Fails" });
  await gateway.prompt(failed.id, [{ do: "fail", class: "rate_limited", message: "slow down" }]);
  const costly = await gateway.session({ title: "Costs" });
  const cost = { amount: 1.25, currency: "USD" };
  await gateway.prompt(costly.id, [
    { do: "text", text: "Done." },
    { do: "usage", usage: { input: 1 }, cost },
  ]);
  const page = await open(browser, gateway);
  await page.locator("a.row", { hasText: "Fails" }).getByText("Last turn failed: rate limited").waitFor();
  await page.locator("a.row", { hasText: "Costs" }).locator(".cost", { hasText: "$1.25" }).waitFor();
  await page.context().close();
});

test("a turn that was lost stands above idle sessions", async () => {
  const { id } = await gateway.session({ title: "Lost" });
  await gateway.prompt(id, [{ do: "text", text: "Half" }, { do: "vanish" }]);
  const page = await open(browser, gateway);
  await page.getByRole("heading", { name: /^Lost 1/ }).waitFor();
  const row = page.locator("a.row", { hasText: "How far its last turn came is not known" });
  await row.locator(".state.s-lost", { hasText: "Lost" }).waitFor();
  await page.context().close();
});

test("a person chooses how a forgotten session goes on", async () => {
  const { id } = await gateway.session({ title: "Forgotten" });
  const page = await open(browser, gateway);
  // The demo agent forgets nothing: the answers of an agent that does are put in its place, once each.
  const asked = [];
  const type = "urn:turnstream:problem:agent-forgot";
  await page.route(
    "**/prompts",
    (route) => route.fulfill({ status: 409, json: { type, title: "The agent has forgotten the session" } }),
    { times: 1 },
  );
  await page.route(
    "**/resume",
    async (route) => {
      asked.push(route.request().postDataJSON());
      await route.fulfill({ status: 200, json: await gateway.request("GET", `/v1/sessions/${id}`) });
    },
    { times: 1 },
  );
  await page.goto(`http://${gateway.address}/#/session/${id}`);
  const script = JSON.stringify({ script: [{ do: "text", text: "Going on." }], pace_ms: 0 });
  await page.getByLabel("Prompt", { exact: true }).fill(script);
  await page.keyboard.press("Control+Enter");
  await page.getByText("scripted has forgotten this session.").waitFor();
  await page.getByRole("button", { name: "Tell it what was said" }).click();
  await page.locator(".reply", { hasText: "Going on." }).waitFor();
  assert.deepEqual(asked, [{ as: "transcript" }]);
  assert.equal(await page.getByText("has forgotten this session").count(), 0);
  await page.context().close();
});

test("an agent is offered only what it takes", async () => {
  const { id } = await gateway.session({ title: "Takes" });
  const page = await open(browser, gateway);
  // The demo agent takes everything.
  await page.route("**/v1/agents", async (route) => {
    const answer = await (await route.fetch()).json();
    for (const agent of answer.agents) agent.takes = ["text", "image"];
    await route.fulfill({ json: answer });
  });
  const read = page.waitForResponse("**/v1/agents");
  await page.goto(`http://${gateway.address}/#/session/${id}`);
  await read;
  const file = (name, mimeType) => ({ name, mimeType, buffer: Buffer.from("bytes") });
  const input = page.locator("input[type=file][accept='image/*']");
  await input.setInputFiles([file("shot.png", "image/png"), file("song.wav", "audio/wav")]);
  await page.locator(".attached li", { hasText: "shot.png" }).waitFor();
  await page.getByText("song.wav: this agent takes no sound.").waitFor();
  assert.equal(await page.locator(".attached li").count(), 1);
  await page.context().close();
});

test("ten tabs are live at once", async () => {
  const { id } = await gateway.session({ title: "Ten tabs" });
  const first = await open(browser, gateway);
  await first.goto(`http://${gateway.address}/#/session/${id}`);
  const token = await first.evaluate(() => sessionStorage.getItem("turnstream.token"));
  const tabs = [first];
  while (tabs.length < 10) {
    const tab = await first.context().newPage();
    await tab.addInitScript((token) => sessionStorage.setItem("turnstream.token", token), token);
    await tab.goto(`http://${gateway.address}/#/session/${id}`);
    tabs.push(tab);
  }
  for (const tab of tabs) await tab.locator(".connection.live").waitFor();
  await gateway.prompt(id, [{ do: "text", text: "Seen by all of them." }]);
  for (const tab of tabs) await tab.locator(".reply", { hasText: "Seen by all of them." }).waitFor();
  await first.context().close();
});

test("older turns have their approvals, notices, superseded attempts and links", async () => {
  const { id } = await gateway.session({ title: "Old turns" });
  await gateway.prompt(id, [
    { do: "attempt", model: "m" },
    { do: "text", text: "This beginning is void", unfinished: true },
    { do: "retry", attempt: 2, reason: "overloaded", wait_ms: 1 },
    { do: "gap", text: "The middle was missed." },
    { do: "tool", title: "Old request", ask: true },
  ]);
  const page = await open(browser, gateway);
  await page.goto(`http://${gateway.address}/#/session/${id}`);
  await page.getByRole("button", { name: /^Allow once/ }).click();
  await page.locator('.turn[data-outcome="completed"]').waitFor();
  // Enough after it that the newest page, and the last 500 events, have none of it.
  for (let turn = 0; turn < 6; turn += 1) {
    const steps = Array.from({ length: 30 }, (_, item) => ({
      do: "text",
      text: `${turn}.${item} ${"word ".repeat(4)}`,
    }));
    await gateway.prompt(id, steps);
  }
  await page.locator(".reply", { hasText: "5.29 " }).waitFor();
  await page.reload();
  await page.locator(".reply", { hasText: "5.29 " }).waitFor();
  await page.waitForFunction(() => {
    scrollTo(0, 0);
    return document.querySelector('.turn[data-turn="t1"] .answered') !== null;
  });
  const turn = page.locator('.turn[data-turn="t1"]');
  await turn.locator(".superseded", { hasText: "This beginning is void" }).waitFor();
  await turn.locator(".notice", { hasText: "The agent’s stream was cut." }).waitFor();
  await turn.locator(".answered", { hasText: "Allowed once" }).waitFor();
  await turn.getByRole("link", { name: "Replay" }).waitFor();
  assert.deepEqual([page.errors, page.outside], [[], []]);
  await page.context().close();
});

test("events are grouped by turn and item, and a run of deltas is one row", async () => {
  const { id } = await gateway.session({ title: "Grouped" });
  await gateway.prompt(id, [
    { do: "burst", count: 20, bytes: 12, messages: 2 },
    { do: "tool", name: "bash", title: "Fails", input: { command: "false" }, fail: "exit 1" },
  ]);
  const page = await open(browser, gateway);
  await page.goto(`http://${gateway.address}/#/session/${id}/timeline`);
  const messages = page.getByRole("row", { name: /Message/ });
  await messages.nth(1).waitFor();
  assert.equal(await page.getByRole("row", { name: /item\.delta/ }).count(), 0);
  await messages.first().getByRole("button").click();
  await page.getByRole("row", { name: /item\.delta × \d+/ }).waitFor();
  // What went wrong is open, and can be shown alone.
  await page.getByRole("row", { name: /item\.ended .*failed/ }).waitFor();
  await page.getByRole("button", { name: /^Anomalies/ }).click();
  await messages.first().waitFor({ state: "detached" });
  await page.getByRole("row", { name: /item\.ended .*failed/ }).waitFor();
  await page.getByRole("button", { name: "Every event" }).click();
  await page.getByRole("row", { name: /session\.created/ }).waitFor();
  assert.deepEqual([page.errors, page.outside], [[], []]);
  await page.context().close();
});

/** A session with this change. The demo agent makes none, so one is added to an exported log. */
async function withChange(diff) {
  const { id } = await gateway.session({ title: "Changes" });
  await gateway.prompt(id, [{ do: "tool", name: "edit", title: "Edit" }]);
  const log = await until("the turn ends", async () => {
    const headers = { authorization: `Bearer ${gateway.run("token")}` };
    const answer = await fetch(`http://${gateway.address}/v1/sessions/${id}/export`, { headers });
    const text = await answer.text();
    return text.includes('"turn.ended"') && text;
  });
  const changed = log.split("\n").map((line) => {
    const event = line === "" ? {} : JSON.parse(line);
    if (event.tool === undefined) return line;
    return JSON.stringify({ ...event, tool: { ...event.tool, kind: "edit", content: [diff] } });
  });
  const answer = await fetch(`http://${gateway.address}/v1/import?new_id=true`, {
    method: "POST",
    headers: { authorization: `Bearer ${gateway.token}`, "content-type": "application/x-ndjson" },
    body: changed.join("\n"),
  });
  assert.equal(answer.status, 201, await answer.clone().text());
  return (await answer.json()).id;
}

test("a long change is compared beside the page, and has the colours of its language", async () => {
  const lines = Array.from(
    { length: 4_000 },
    (_, place) => `    let value_${place} = "${place}"; // ${place}`,
  );
  lines[1] = `    let image = "<img src=x onerror='document.title = 1'>"; </td><script>document.title = 2</script>`;
  const diff = { type: "diff", path: "/src/main.rs", oldText: "fn main() {\n}\n" };
  const id = await withChange({ ...diff, newText: `fn main() {\n${lines.join("\n")}\n}\n` });
  const page = await open(browser, gateway);
  await page.goto(`http://${gateway.address}/#/session/${id}`);
  const card = page.locator(".card.tool");
  await card.locator(".diff .added .hl-keyword", { hasText: "let" }).first().waitFor();
  await card.locator(".diff .hl-string", { hasText: "<img src=x" }).waitFor();
  assert.equal(await card.locator("img, script").count(), 0);
  assert.equal(await page.title(), "Changes · Turnstream");
  await card.getByText("+4000").waitFor();
  assert.ok((await card.locator("tr").count()) <= 60);
  await card.getByRole("button", { name: "Show 1,000 more" }).click();
  assert.deepEqual([page.errors, page.outside], [[], []]);
  await page.context().close();
});

test("the gateway's disk, followers, turns and bad ends of today are shown", async () => {
  const failed = await gateway.session({ title: "Failed today" });
  await gateway.prompt(failed.id, [{ do: "fail", class: "rate_limited", message: "slow down" }]);
  const page = await open(browser, gateway);
  await page.goto(`http://${gateway.address}/#/gateway`);
  await page.getByRole("heading", { name: "The gateway is sound" }).waitFor();
  await page.getByLabel("Disk in use").waitFor();
  await page.getByText("Turns failed").waitFor();
  await page
    .locator(".today li", { hasText: "Turn failed: rate limited. Failed today" })
    .getByRole("link", { name: "Failed today" })
    .click();
  await page.locator(".notice.lost", { hasText: "slow down" }).waitFor();
  const info = await gateway.request("GET", "/v1/gateway");
  assert.deepEqual([info.status, info.recovering, info.streams.board >= 1], ["sound", 0, true]);
  assert.ok(info.disk.used > 0 && info.disk.free > 0 && info.disk.size > info.disk.free);
  await page.context().close();
});

test("wide screens answer requests beside the list, and have the list beside a session", async () => {
  const { id } = await gateway.session({ title: "Asks on a wide screen" });
  await gateway.prompt(id, [{ do: "tool", title: "Go on", ask: true }]);
  const page = await open(browser, gateway, { viewport: { width: 1920, height: 1000 } });
  const column = page.getByRole("complementary", { name: "Waiting for you" });
  await column.getByRole("button", { name: /^Allow once/ }).click();
  await page.waitForFunction((id) => {
    return document.querySelector(`a.row[data-session="${id}"]`)?.dataset.status === "idle";
  }, id);
  await page.goto(`http://${gateway.address}/#/session/${id}`);
  const list = page.getByRole("navigation", { name: "Sessions" });
  await list.locator("a[aria-current=page]", { hasText: "Asks on a wide screen" }).waitFor();
  assert.deepEqual([page.errors, page.outside], [[], []]);
  await page.context().close();
});
