// The views of the page with something in them, one after the other.

import { until } from "./harness.mjs";

const OLD = "fn on_webhook() {\n    if seen(delivery_id) {\n        return;\n    }\n    pay_out();\n}\n";

const WORK = [
  { do: "attempt", model: "demo-1" },
  { do: "text", text: "This beginning is void", unfinished: true },
  { do: "retry", attempt: 2, reason: "overloaded", wait_ms: 1 },
  {
    do: "reasoning",
    text: "The handler remembers the delivery, and a replay is a new delivery of the same event.",
  },
  {
    do: "text",
    text: "## What I found\n\nThe test shows it. The handler remembers the **delivery**, and a replay is a new delivery of the same *event*:\n\n- `seen(delivery_id)` is false for every replay, so `pay_out` runs again.\n- The ledger has no rule against a second entry.\n\n```rust\nif db.seen(&d.delivery_id).await? {\n    return Ok(Reply::ok());\n}\n```\n\n| case | paid |\n|---|---|\n| first | 1 |\n| replay | 2 |\n",
  },
  {
    do: "tool",
    name: "bash",
    title: "cargo test",
    input: { command: "cargo test -p refunds replay" },
    output: [
      "\u001b[1m\u001b[32m   Compiling\u001b[0m refunds v0.9.2\n",
      "running 2 tests\n",
      "test first ... \u001b[32mok\u001b[0m\n",
      "test second ... \u001b[31mFAILED\u001b[0m\n",
    ],
    fail: "exit 101",
  },
  { do: "gap", text: "The second half of this was missed and then mended." },
  { do: "tool", name: "write", title: "Note it down", effect: { append: { path: "notes.txt", text: OLD } } },
  {
    do: "usage",
    usage: { input: 120_400, output: 4_210 },
    cost: { amount: 0.84, currency: "USD" },
    context: { used: 164_000, size: 200_000 },
  },
];

/** Goes from view to view, and gives the name of each when it is there. */
export async function* scenes(page, gateway) {
  await page.goto(`http://${gateway.address}/#/`);
  await page.locator("main").waitFor();
  const { sessions } = await gateway.request("GET", "/v1/sessions");
  if (sessions.length === 0) {
    await page.getByRole("heading", { name: "No sessions yet" }).waitFor();
    yield { name: "empty" };
    const work = await gateway.session({
      title: "Stop double refunds when a webhook is replayed",
      budget: { turn: { steps: 20 }, session: { cost: 5, time: 3_600_000 } },
    });
    await gateway.prompt(work.id, WORK);
    const idle = await gateway.session({ title: "Find flaky tests in the ledger crate" });
    await gateway.prompt(idle.id, [{ do: "text", text: "There are none." }]);
    const failed = await gateway.session({ title: "Write a load test for refunds" });
    await gateway.prompt(failed.id, [{ do: "fail", class: "rate_limited", message: "slow down" }]);
    const busy = await gateway.session({ title: "Explain why payout latency rose on Friday" });
    await gateway.prompt(busy.id, [
      { do: "text", text: "I look at the figures of Friday." },
      { do: "stall" },
    ]);
    await gateway.prompt(busy.id, "Then write a short note for support.");
    const asks = await gateway.session({ title: "Move the checkout form to the new address field" });
    await gateway.prompt(asks.id, [
      { do: "text", text: "The form needs two more fields." },
      {
        do: "at_once",
        steps: [
          {
            do: "tool",
            name: "bash",
            title: "Run a command",
            input: {
              command:
                'psql "$STAGING_URL" -c "CREATE UNIQUE INDEX CONCURRENTLY refunds_event ON refunds (event_id)"',
              description: "Add the rule to staging.",
            },
            ask: true,
          },
          {
            do: "question",
            questions: [
              {
                id: "0",
                text: "What should happen to a replay that arrives while the first refund is still open?",
                options: [
                  { label: "Answer 200 and do nothing", description: "The provider stops sending it again." },
                  { label: "Answer 409 and let it try later" },
                ],
                multiple: false,
                custom: true,
              },
            ],
          },
        ],
      },
    ]);
  }
  const open = async (title) => {
    await page.goto(`http://${gateway.address}/#/`);
    await page.locator("a.row:not(.hit)", { hasText: title }).click();
    await page.locator(".turn").first().waitFor();
  };
  await page.locator(".row.waits").waitFor();
  await page.locator('.row[data-status="busy"]').waitFor();
  await page.waitForFunction(() => document.querySelectorAll('.row[data-status="idle"]').length >= 3);
  yield { name: "sessions" };
  await page.keyboard.press("?");
  await page.getByRole("heading", { name: "Keys" }).waitFor();
  yield { name: "keys" };
  await page.keyboard.press("Escape");
  // The index is a moment behind the log.
  await until("the index has the reply", async () => {
    const { hits } = await gateway.request("GET", "/v1/search?q=replay");
    return hits.length > 0;
  });
  await page.getByLabel("Search titles and everything said").fill("replay");
  await page.locator(".row.hit mark").first().waitFor();
  yield { name: "search" };
  await open("Stop double refunds");
  await page.locator('.turn[data-outcome="completed"]').waitFor();
  // The worker has read the code.
  await page.locator(".reply pre .hl-keyword").first().waitFor();
  yield { name: "session" };
  await page.evaluate(() => scrollTo(0, 0));
  yield { name: "session-top" };
  await page.getByLabel("More about this session").click();
  await page.getByRole("button", { name: "Delete" }).waitFor();
  yield { name: "menu" };
  await page.getByRole("button", { name: "Title, model, mode, permissions" }).click();
  await page.getByLabel("Title", { exact: true }).waitFor();
  yield { name: "settings" };
  await page.keyboard.press("Escape");
  await open("Move the checkout form");
  await page.locator(".card.wait").nth(1).waitFor();
  yield { name: "waiting" };
  await open("Explain why payout");
  await page.locator(".queue li").waitFor();
  yield { name: "busy" };
  await open("Write a load test");
  await page.locator(".notice.lost").waitFor();
  yield { name: "failed" };
  await open("Stop double refunds");
  await page.getByRole("link", { name: "Timeline" }).click();
  await page
    .getByRole("row", { name: /turn\.started/ })
    .first()
    .waitFor();
  yield { name: "timeline" };
  await page.getByLabel("Go to seq").fill("9");
  await page.keyboard.press("Enter");
  await page.locator(".drawer .json").waitFor();
  yield { name: "timeline-event" };
  await page.getByRole("link", { name: "Replay this turn" }).click();
  await page.locator('.turn[data-outcome="completed"]').waitFor();
  yield { name: "replay" };
  await page.goto(`http://${gateway.address}/#/new`);
  await page.locator("[data-agent=scripted]").waitFor();
  yield { name: "new" };
  await page.getByText("Budget (optional)").click();
  await page.getByRole("button", { name: "Browse" }).click();
  await page.locator(".directories").waitFor();
  yield { name: "new-open" };
  await page.goto(`http://${gateway.address}/#/gateway`);
  await page.getByRole("heading", { name: "The gateway is sound" }).waitFor();
  await page.locator("[data-agent=scripted]").waitFor();
  yield { name: "gateway" };
  await page.evaluate(() => sessionStorage.clear());
  await page.reload();
  await page.getByRole("heading", { name: "Sign in" }).waitFor();
  yield { name: "login" };
}
