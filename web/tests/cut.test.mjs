// The gateway is killed and comes back: the page says so, and loses nothing.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Gateway, launch, Network, open, until } from "./harness.mjs";

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
  const page = await open(browser, gateway);
  // On a busy machine the reply may be whole before the gateway is killed. Then another one is written slower.
  for (let pace_ms = 80, isCut = false; !isCut; pace_ms *= 2) {
    const { id } = await gateway.session({ title: "Killed while it writes" });
    await page.goto(`http://${gateway.address}/#/session/${id}`);
    await page.getByText("Nothing was said yet").waitFor();
    await gateway.prompt(id, [{ do: "text", text: words.join(" "), chunks: 200, pace_ms }]);
    await page.locator(".reply", { hasText: "w20 " }).waitFor();
    await gateway.kill();
    await page.locator(".banner.cut").waitFor();
    isCut = (await page.locator(".reply").getAttribute("data-state")) === "streaming";
    if (isCut)
      await page.getByText("The text up to here is what came before the page was disconnected.").waitFor();
    await gateway.start();
    await page.locator('.turn[data-outcome="completed"]').waitFor();
    assert.equal((await page.locator(".reply .markdown").textContent()).trim(), words.join(" "));
  }
  assert.deepEqual([page.errors, page.outside], [[], []]);
  await page.context().close();
});

test("after a sleep the page notices that its connection is dead, and says what it missed", async () => {
  const network = await new Network(gateway).start();
  const { id } = await gateway.session({ title: "Asleep" });
  await gateway.prompt(id, [{ do: "text", text: "Before the sleep." }]);
  const page = await open(browser, gateway, { network });
  await page.goto(`http://${network.address}/#/session/${id}`);
  await page.locator('.turn[data-outcome="completed"]').waitFor();
  const devtools = await page.context().newCDPSession(page);
  await devtools.send("Page.setWebLifecycleState", { state: "frozen" });
  network.sleep();
  await gateway.prompt(id, [{ do: "text", text: "During the sleep." }]);
  await devtools.send("Page.setWebLifecycleState", { state: "active" });
  await page.evaluate(() => dispatchEvent(new Event("focus")));
  await page.locator(".banner.back", { hasText: /Caught up: [1-9]\d* events?/ }).waitFor();
  await page.locator(".reply", { hasText: "During the sleep." }).waitFor();
  await page.locator(".connection.live", { hasText: "caught up" }).waitFor();
  assert.equal(await page.locator(".turn").count(), 2);
  assert.deepEqual([page.errors, page.outside], [[], []]);
  await page.context().close();
  network.stop();
});

test("a view that was being read when the network went silent is read again", async () => {
  const network = await new Network(gateway).start();
  const { id } = await gateway.session({ title: "Silent" });
  await gateway.prompt(id, [{ do: "text", text: "Read at last." }]);
  const page = await open(browser, gateway, { network });
  // Every connection is silent: the one of the states, and those of requests.
  network.isDown = true;
  network.silence();
  await page.goto(`http://${network.address}/#/session/${id}`);
  await page.getByText("Reading the newest part of the session.").waitFor();
  network.isDown = false;
  await page.evaluate(() => dispatchEvent(new Event("focus")));
  await page.locator(".reply", { hasText: "Read at last." }).waitFor();
  assert.deepEqual([page.errors, page.outside], [[], []]);
  await page.context().close();
  network.stop();
});

test("older turns that were being read when the network went silent are read again", async () => {
  const network = await new Network(gateway).start();
  const { id } = await gateway.session({ title: "Silent while it is read" });
  const steps = Array.from({ length: 150 }, (_, place) => ({ do: "text", text: `Reply number ${place}.` }));
  await gateway.prompt(id, steps);
  const page = await open(browser, gateway, { network });
  await page.goto(`http://${network.address}/#/session/${id}`);
  await page.locator('.turn[data-outcome="completed"]').waitFor();
  await page.route(
    /\/items\?.*before=/,
    (route) => {
      network.isDown = true;
      network.silence();
      return route.continue();
    },
    { times: 1 },
  );
  await page.waitForFunction(() => {
    scrollTo({ top: 0 });
    return document.querySelector("button.earlier")?.textContent.includes("Reading earlier turns");
  });
  await until("the network is silent", () => network.isDown);
  network.isDown = false;
  await page.evaluate(() => dispatchEvent(new Event("focus")));
  await page.waitForFunction(() => {
    scrollTo({ top: 0 });
    return document.querySelector(".turn-line b")?.textContent === "Turn 1";
  });
  await page.locator(".reply", { hasText: "Reply number 0." }).waitFor();
  assert.equal(await page.locator(".problem").count(), 0);
  assert.deepEqual([page.errors, page.outside], [[], []]);
  await page.context().close();
  network.stop();
});

test("a slow network shows everything, each word once", async () => {
  const network = await new Network(gateway).start();
  const words = Array.from({ length: 200 }, (_, place) => `w${place}`);
  const { id } = await gateway.session({ title: "Slow" });
  const page = await open(browser, gateway, { network });
  network.delay = 60;
  await page.goto(`http://${network.address}/#/session/${id}`);
  await page.getByText("Nothing was said yet").waitFor();
  await gateway.prompt(id, [{ do: "text", text: words.join(" "), chunks: 200, pace_ms: 5 }]);
  await page.locator('.turn[data-outcome="completed"]').waitFor();
  assert.equal((await page.locator(".reply .markdown").textContent()).trim(), words.join(" "));
  await page.locator(".connection.live", { hasText: "caught up" }).waitFor();
  assert.deepEqual([page.errors, page.outside], [[], []]);
  await page.context().close();
  network.stop();
});
