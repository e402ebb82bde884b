// A turn in the page: live, after a reload, with an approval, a question, a queue and a cancel.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Gateway, launch, open, PATIENCE, until } from "./harness.mjs";

let gateway, browser;
before(async () => {
  gateway = await new Gateway().start();
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await gateway?.stop();
});

/** A new session with this script, in a tab that shows it. */
async function watch(script, more, rules) {
  const { id } = await gateway.session({ title: "Watched", ...rules });
  const page = await open(browser, gateway);
  await page.goto(`http://${gateway.address}/#/session/${id}`);
  await page.getByText("Nothing was said yet").waitFor();
  if (script !== undefined) await gateway.prompt(id, script, more);
  return { id, page };
}

/** What the agent said. The prompt has the same words, as a script. */
function reply(page, text) {
  return page.locator(".reply", { hasText: text });
}

async function close(page) {
  assert.deepEqual([page.errors, page.outside], [[], []]);
  await page.context().close();
}

test("a turn from the first word to its end, with an approval", async () => {
  const { page } = await watch();
  const script = [
    { do: "reasoning", text: "A note would answer this." },
    { do: "text", text: "I would like to **note** that down." },
    {
      do: "tool",
      name: "write",
      title: "Note it down",
      ask: true,
      effect: { append: { path: "notes.txt", text: "noted\n" } },
    },
    { do: "text", text: "It is in notes.txt now.", when: "allowed" },
    { do: "usage", usage: { input: 120, output: 40 }, cost: { amount: 0.25, currency: "USD" } },
  ];
  await page.getByLabel("Prompt", { exact: true }).fill(JSON.stringify({ script, pace_ms: 0 }));
  await page.getByRole("button", { name: /^Send/ }).click();
  await page.locator(".reply strong", { hasText: "note" }).waitFor();
  await page.locator(".badge.s-waiting", { hasText: "Waiting for you" }).waitFor();
  await page.waitForFunction(() => document.title === "(1) Watched · Turnstream");
  assert.equal(await page.locator(".prompt .who b").textContent(), "You");
  await page.getByRole("button", { name: /^Allow once/ }).click();
  await reply(page, "It is in notes.txt now.").waitFor();
  await page.locator('.turn[data-outcome="completed"]').waitFor();
  await page.locator(".answered", { hasText: "Allowed once" }).getByText("by you").waitFor();
  await page.locator(".badge.s-idle", { hasText: "Idle" }).waitFor();
  await page.waitForFunction(() => document.title === "Watched · Turnstream");
  await page.locator(".turn-end", { hasText: "$0.25" }).waitFor();
  // The thoughts are folded until somebody asks for them.
  assert.equal(await page.locator(".reasoning").count(), 0);
  await page.getByRole("button", { name: /^Thought/ }).click();
  await page.locator(".reasoning", { hasText: "A note would answer this." }).waitFor();
  await close(page);
});

test("a reload in the middle of a turn shows the reply so far, and what comes after it", async () => {
  const { page } = await watch([
    { do: "text", text: "The first half is here.", unfinished: true },
    { do: "tool", title: "Go on", ask: true },
    { do: "text", text: "And this is the second." },
  ]);
  await reply(page, "The first half is here.").waitFor();
  await page.locator(".card.wait").waitFor();
  await page.reload();
  await reply(page, "The first half is here.").waitFor();
  assert.equal(await page.locator('.turn[data-outcome="open"]').count(), 1);
  await page.getByRole("button", { name: /^Allow once/ }).click();
  await reply(page, "And this is the second.").waitFor();
  await page.locator('.turn[data-outcome="completed"]').waitFor();
  assert.equal(await reply(page, "The first half is here.").count(), 1);
  await close(page);
});

test("a cancelled turn, a queued prompt that runs after it, and one that is withdrawn", async () => {
  const { id, page } = await watch([{ do: "text", text: "This never ends." }, { do: "stall" }]);
  await reply(page, "This never ends.").waitFor();
  await page
    .getByLabel("Prompt", { exact: true })
    .fill(JSON.stringify({ script: [{ do: "text", text: "The queue ran." }] }));
  await page.getByRole("button", { name: /^Queue/ }).click();
  await page.locator(".queue li").waitFor();
  await gateway.prompt(id, "to be withdrawn");
  await page
    .locator(".queue li", { hasText: "to be withdrawn" })
    .getByRole("button", { name: "Withdraw" })
    .click();
  await page.waitForFunction(() => document.querySelectorAll(".queue li").length === 1);
  await page.getByRole("button", { name: "Cancel turn" }).click();
  await page.getByText("Turn cancelled.").waitFor();
  await reply(page, "The queue ran.").waitFor();
  await page.locator('.turn[data-outcome="completed"]').waitFor();
  assert.equal(await page.locator(".queue li").count(), 0);
  assert.equal(await page.locator(".turn").count(), 2);
  await close(page);
});

test("a rejected approval with a message, and a question, in two tabs at once", async () => {
  const { id, page } = await watch([
    { do: "tool", name: "bash", title: "Delete it", input: { command: "rm -rf build" }, ask: true },
    {
      do: "question",
      questions: [
        {
          id: "0",
          text: "Which database?",
          options: [{ label: "PG" }, { label: "MySQL" }],
          multiple: false,
          custom: false,
        },
      ],
    },
    { do: "text", text: "Both are settled." },
  ]);
  const second = await open(browser, gateway);
  await second.goto(`http://${gateway.address}/#/session/${id}`);
  for (const tab of [page, second]) await tab.locator(".judge", { hasText: "rm -rf build" }).waitFor();
  await page.getByRole("button", { name: /^Reject…/ }).click();
  await page.getByLabel("What should the agent know?").fill("Keep it");
  await page.getByRole("button", { name: "Reject", exact: true }).click();
  for (const tab of [page, second])
    await tab.locator(".answered", { hasText: "Rejected" }).getByText("“Keep it”").waitFor();
  await second.getByLabel("PG").check();
  await second.getByRole("button", { name: "Answer", exact: true }).click();
  for (const tab of [page, second]) {
    await reply(tab, "Both are settled.").waitFor();
    await tab.locator('.turn[data-outcome="completed"]').waitFor();
  }
  await close(second);
  await close(page);
});

test("a long reply streams word by word, each word once", async () => {
  const words = Array.from({ length: 300 }, (_, place) => `w${place}`);
  const { id, page } = await watch();
  await gateway.prompt(id, [{ do: "text", text: words.join(" "), chunks: 300, pace_ms: 15 }]);
  await page.locator('.turn[data-outcome="completed"]').waitFor();
  assert.equal((await page.locator(".reply .markdown").textContent()).trim(), words.join(" "));
  await close(page);
});

test("superseded attempts, gaps, failed tools and long output say what happened", async () => {
  const lines = Array.from({ length: 5_000 }, (_, place) => `line ${place}\n`).join("");
  const { page } = await watch([
    { do: "attempt", model: "m" },
    { do: "text", text: "This beginning is void", unfinished: true },
    { do: "retry", attempt: 2, reason: "overloaded", wait_ms: 1 },
    { do: "gap", text: "The second half of this is missed and then mended." },
    { do: "tool", name: "build", output: [lines], fail: "exit 101" },
  ]);
  await page.locator('.turn[data-outcome="completed"]').waitFor();
  for (const reloaded of [false, true]) {
    if (reloaded) await page.reload();
    await page.locator(".superseded del", { hasText: "This beginning is void" }).waitFor();
    await page.locator(".notice.gate").first().waitFor();
    await page.locator('.tool[data-state="failed"]').waitFor();
    await page.getByText("First 12 of 5,001 lines").waitFor();
    await page.getByRole("button", { name: "Show 2,000 more" }).click();
    await page.locator(".terminal", { hasText: "line 2011" }).waitFor();
  }
  await close(page);
});

test("a session that waits for a limit says so, and goes on or gives up when told", async () => {
  const continue_with = JSON.stringify({ script: [{ do: "text", text: "Gone on." }] });
  const { id, page } = await watch(undefined, undefined, { on_limit: "wait", continue_with });
  const fail = [{ do: "fail", class: "rate_limited", message: "slow down", retry_in_ms: 3_600_000 }];
  const parked = page.locator(".parked", {
    hasText: /^Waits for a limit to end: rate limited\. It goes on by itself at .*\d\d:\d\d\./,
  });
  await gateway.prompt(id, fail);
  await page
    .locator(".badge.s-retrying", { hasText: /^ *Retrying \(attempt 1, until .*\d\d:\d\d\)$/ })
    .waitFor();
  await parked.getByRole("button", { name: "Go on now" }).click();
  await page.locator(".prompt .who", { hasText: "The gateway, to continue the turn before" }).waitFor();
  await reply(page, "Gone on.").waitFor();
  await page.locator('.turn[data-outcome="completed"]').waitFor();
  await gateway.prompt(id, fail);
  await parked.waitFor();
  // Also after a reload, which reads it from the session.
  await page.reload();
  // The list of turns pushes nothing out of the column beside it.
  await page.locator(".turns li").nth(2).waitFor();
  const cost = await page.locator(".rail dd").first().boundingBox();
  assert.ok(cost.x + cost.width < 1280, JSON.stringify(cost));
  await parked.getByRole("button", { name: "Give up" }).click();
  await page.locator(".badge.s-idle", { hasText: "Idle" }).waitFor();
  await parked.waitFor({ state: "detached" });
  await page.locator(".prompt .who", { hasText: "The gateway, to continue the turn before" }).waitFor();
  await close(page);
});

/** A tab of a person who has never been here. */
async function stranger() {
  const context = await browser.newContext();
  context.setDefaultTimeout(PATIENCE);
  return context.newPage();
}

test("a login code works once, and the page says what to do without one", async () => {
  const address = gateway.run("login");
  const page = await stranger();
  await page.goto(address);
  await page.locator(".connection.live").waitFor();
  assert.ok(!page.url().includes("tsl_"), "the code is not in the address any more");
  const second = await stranger();
  await second.goto(address);
  await second.getByRole("heading", { name: "Sign in" }).waitFor();
  await second.getByRole("alert").waitFor();
  await second.getByLabel("Or a token").fill(gateway.run("token"));
  await second.getByRole("button", { name: "Sign in" }).click();
  await second.locator(".connection.live").waitFor();
  assert.deepEqual(await page.context().cookies(), []);
});

test("a refusal that comes before the first frame is seen", async () => {
  const page = await stranger();
  await page.addInitScript(() => {
    globalThis.fetch = async () => new Response("{}", { status: 401 });
  });
  for (let load = 0; load < 5; load += 1) {
    await page.goto("about:blank");
    await page.goto(`http://${gateway.address}/#/gateway`);
    await page.getByRole("heading", { name: "Sign in" }).waitFor();
  }
});

test("a session is created in the page, with its first prompt", async () => {
  const page = await open(browser, gateway);
  await page.keyboard.press("n");
  await page.getByLabel("scripted").waitFor();
  await page.getByLabel("Directory").fill("/nowhere/at/all");
  await page
    .getByLabel("First prompt")
    .fill(JSON.stringify({ script: [{ do: "text", text: "Created here." }] }));
  await page.getByRole("button", { name: "Create session" }).click();
  await page.getByRole("alert").filter({ hasText: "/nowhere/at/all" }).waitFor();
  await page.getByLabel("Directory").fill(gateway.work);
  await page.getByRole("button", { name: "Create session" }).click();
  await reply(page, "Created here.").waitFor();
  await page.getByRole("link", { name: "Timeline" }).click();
  await page.getByRole("row", { name: /session\.created/ }).waitFor();
  await page
    .getByRole("row", { name: /prompt\.accepted/ })
    .getByRole("link")
    .click();
  await page.locator(".drawer .json", { hasText: "prompt.accepted" }).waitFor();
  // The address of an event is a link to it.
  await page.reload();
  await page.locator(".drawer .json", { hasText: "prompt.accepted" }).waitFor();
  const found = await until("the prompt is found", async () => {
    const { hits } = await gateway.request("GET", "/v1/search?q=created");
    return hits.length > 0;
  });
  assert.ok(found);
  await page.goto(`http://${gateway.address}/#/`);
  await page.getByLabel("Search titles and everything said").fill("created here");
  // A hit leads to its place.
  await page.locator(".row.hit mark").first().click();
  await page.locator(".unit.found").waitFor();
  await close(page);
});
