// Long sessions and large outputs: the first screen comes soon, the page stays small, and it never freezes.

import assert from "node:assert/strict";
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

/** A session with so many events, most of them pieces of text in 200 messages, and a last turn. */
async function long(events) {
  const { id } = await gateway.session({ title: `${events} events` });
  const burst = { do: "burst", count: events, bytes: 12, messages: 200 };
  await gateway.prompt(id, [burst, { do: "text", text: "The end of the long turn." }]);
  await gateway.prompt(id, [{ do: "text", text: "The newest turn." }]);
  await until("the turns end", async () => {
    const { head, status } = await gateway.request("GET", `/v1/sessions/${id}`);
    const page =
      head >= events &&
      status === "idle" &&
      (await gateway.request("GET", `/v1/sessions/${id}/items?limit=1`));
    return page && page.turns[0]?.turn === "t2" && page.turns[0].outcome === "completed";
  });
  return id;
}

/** How long the page takes from the request to the newest reply. */
async function firstScreen(page, id) {
  await page.goto("about:blank");
  const began = Date.now();
  await page.goto(`http://${gateway.address}/#/session/${id}`);
  await page.locator(".reply", { hasText: "The newest turn." }).waitFor();
  return Date.now() - began;
}

/** Reads older pages. The reply that is read stays where it is while they are added above it. */
async function readBackwards(page, most) {
  const asked = [];
  await page.route(/\/items\?.*before=/, (route) => asked.push(route));
  // A wheel, as a person has it: the page no longer stays at the end.
  await page.evaluate(() => {
    globalThis.scrolled = new Promise((ended) => addEventListener("scrollend", ended, { once: true }));
  });
  await page.mouse.wheel(0, -2_000);
  await page.evaluate(() => globalThis.scrolled.then(() => undefined));
  const isMore = () => page.evaluate(() => document.querySelector("button.earlier") !== null);
  for (let read = 0; read < most && (await isMore()); read += 1) {
    const older = await until("an older page is asked for", async () => {
      await page.evaluate(() => scrollTo({ top: 0 }));
      return asked.shift();
    });
    const reply = await firstReplyAtTheTop(page);
    await older.continue();
    await page.waitForFunction(({ key, top }) => {
      const now = document.querySelector(`[data-unit="${key}"]`)?.getBoundingClientRect().top;
      return scrollY > 0 && now !== undefined && Math.abs(now - top) < 2;
    }, reply);
  }
  await page.unroute(/\/items\?.*before=/);
}

/** Goes to the top. A reply there has its final place when nothing above it is left out of the page. */
function firstReplyAtTheTop(page) {
  return page.evaluate(async () => {
    for (;;) {
      scrollTo({ top: 0 });
      await new Promise(requestAnimationFrame);
      const parts = [...document.querySelectorAll(".transcript :is([data-unit], .turn > div)")];
      const hasRoom = parts.findIndex((part) => part.dataset.unit === undefined);
      const at = parts.findIndex((part) => {
        const isReply = part.querySelector(".reply") !== null;
        return isReply && part.getBoundingClientRect().top > 120;
      });
      if (scrollY === 0 && at >= 0 && (hasRoom === -1 || at < hasRoom)) {
        return { key: parts[at].dataset.unit, top: parts[at].getBoundingClientRect().top };
      }
    }
  });
}

/** A million takes a while to write. */
const SIZES = process.env.TURNSTREAM_FULL === "1" ? [10_000, 1_000_000] : [10_000];

for (const events of SIZES) {
  test(`a session of ${events} events shows its newest part first, and is read backwards`, async () => {
    const isShort = events <= 10_000;
    const id = await long(events);
    const page = await open(browser, gateway);
    const times = [await firstScreen(page, id), await firstScreen(page, id), await firstScreen(page, id)];
    console.log(`first screen of ${events} events: ${times.join(", ")} ms`);
    const inPage = () => page.locator("[data-unit]").count();
    assert.ok((await inPage()) < 150);
    await readBackwards(page, isShort ? Number.POSITIVE_INFINITY : 20);
    await page.evaluate(() => scrollTo({ top: 0 }));
    // A million events are some thousand screens: their beginning is not reached here.
    if (isShort) await page.locator(".turn-line", { hasText: "Turn 1" }).waitFor();
    assert.ok((await inPage()) < 150);
    await page.keyboard.press("End");
    await page.locator(".reply", { hasText: "The newest turn." }).waitFor();
    if (isShort) {
      // A place in an older part is read, and shown.
      await page.goto(`http://${gateway.address}/#/`);
      await page.goto(`http://${gateway.address}/#/session/${id}?at=i3`);
      await page.waitForFunction(() => {
        const found = document.querySelector(".unit.found")?.getBoundingClientRect();
        return found !== undefined && found.bottom > 0 && found.top < innerHeight;
      });
      assert.ok((await inPage()) < 150);
    }
    await page.goto(`http://${gateway.address}/#/session/${id}/timeline?seq=${events >> 1}`);
    await page.locator(".drawer .json", { hasText: `"seq": ${events >> 1}` }).waitFor();
    assert.ok((await page.locator(".event-rows [role=row]").count()) < 150);
    assert.deepEqual([page.errors, page.outside], [[], []]);
    await page.context().close();
  });
}

test("an output of 10 MB is shown in steps, and the page goes on", async () => {
  const output = `${"0123456789abcdef".repeat(6)}\n`.repeat(100_000);
  const { id } = await gateway.session({ title: "Large" });
  await gateway.prompt(id, [
    { do: "burst", count: 100, bytes: 100_000 },
    { do: "tool", name: "read", title: "Read it all", output: [output] },
    { do: "text", text: "The newest turn." },
  ]);
  const page = await open(browser, gateway);
  await page.evaluate(() => {
    let last = performance.now();
    globalThis.longest = 0;
    const tick = (now) => {
      globalThis.longest = Math.max(globalThis.longest, now - last);
      last = now;
      requestAnimationFrame(tick);
    };
    requestAnimationFrame(tick);
  });
  await page.goto(`http://${gateway.address}/#/session/${id}`);
  await page.locator(".reply", { hasText: "The newest turn." }).waitFor();
  await page.locator(".reply .more", { hasText: /First 195\.3 KB of 9\.5 MB/ }).waitFor();
  await page.locator(".tool-head").click();
  await page.getByText(/First 12 of 100,\d+ lines/).waitFor();
  for (const shown of ["2,012", "4,012"]) {
    await page.getByRole("button", { name: "Show 2,000 more" }).click();
    await page.getByText(`First ${shown} of 100,`).waitFor();
  }
  const longest = await page.evaluate(() => globalThis.longest);
  console.log(`the longest frame: ${Math.round(longest)} ms`);
  assert.deepEqual([page.errors, page.outside], [[], []]);
  await page.context().close();
});
