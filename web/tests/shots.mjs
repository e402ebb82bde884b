// Screenshots of the main views: node tests/shots.mjs FOLDER. With ALL=1 of every view and more widths.

import { mkdirSync } from "node:fs";
import { join } from "node:path";
import { Gateway, launch, open } from "./harness.mjs";
import { scenes } from "./scenes.mjs";

const MAIN = ["sessions", "session", "waiting", "timeline-event", "replay", "new", "gateway"];
const SIZES = [
  [390, "light"],
  [1280, "light"],
  [1280, "dark"],
];
const MORE_SIZES = [
  [390, "dark"],
  [768, "light"],
  [768, "dark"],
  [1920, "light"],
  [1920, "dark"],
];

const all = process.env.ALL === "1";
const folder = process.argv[2];
if (folder === undefined) throw new Error("usage: node tests/shots.mjs FOLDER");
mkdirSync(folder, { recursive: true });
const gateway = await new Gateway().start();
const browser = await launch();
try {
  for (const [width, scheme] of all ? [...SIZES, ...MORE_SIZES] : SIZES) {
    const page = await open(browser, gateway, {
      viewport: { width, height: width < 700 ? 844 : 800 },
      colorScheme: scheme,
    });
    for await (const { name } of scenes(page, gateway)) {
      if (!all && !MAIN.includes(name)) continue;
      await page.screenshot({ path: join(folder, `${name}-${width}-${scheme}.png`) });
    }
    await page.context().close();
  }
} finally {
  await browser.close();
  await gateway.stop();
}
