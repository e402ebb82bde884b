// Every view, on a phone and a desktop, light and dark: axe finds nothing, and nothing is wider than the screen.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { after, before, test } from "node:test";
import { Gateway, launch, open } from "./harness.mjs";
import { scenes } from "./scenes.mjs";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

let gateway, browser;
before(async () => {
  gateway = await new Gateway().start();
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await gateway?.stop();
});

/** Axe runs at the first width. At the others only what is too wide is looked for. */
const RUNS = [
  { widths: [390, 320], colorScheme: "light" },
  { widths: [1280, 768, 1920], colorScheme: "dark" },
];

for (const { widths, colorScheme } of RUNS) {
  const [width] = widths;
  test(`${width} px, ${colorScheme}`, async () => {
    // Axe would measure colours in the middle of a transition.
    const options = { viewport: { width, height: 844 }, colorScheme, reducedMotion: "reduce" };
    const page = await open(browser, gateway, options);
    const wrong = [];
    for await (const { name } of scenes(page, gateway)) {
      // Not as a script element: the page's policy refuses those.
      await page.evaluate(axe);
      const { violations } = await page.evaluate(() =>
        globalThis.axe.run(document, { resultTypes: ["violations"] }),
      );
      for (const { id, nodes } of violations)
        wrong.push(`${name}: ${id}: ${nodes.map((node) => node.html.slice(0, 160)).join(" | ")}`);
      for (const width of [...widths].reverse()) {
        await page.setViewportSize({ width, height: 844 });
        const wide = await page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
        if (wide > 0) wrong.push(`${name}: ${wide} px wider than a screen of ${width} px`);
      }
    }
    assert.deepEqual(wrong, []);
    assert.deepEqual([page.errors, page.outside], [[], []]);
    await page.context().close();
  });
}
