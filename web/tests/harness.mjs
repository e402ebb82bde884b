// A real Chromium, and tabs that are signed in to a gateway.

import { existsSync } from "node:fs";
import { join } from "node:path";
import { chromium } from "playwright-core";
import { PATIENCE } from "../../clients/typescript/tests/gateway.mjs";

export { Gateway, Network, PATIENCE, until } from "../../clients/typescript/tests/gateway.mjs";

const CHROMIUM = process.env.TURNSTREAM_CHROMIUM ?? "/usr/bin/chromium";
/** A folder with a built page, which is shown instead of the one in the binary. */
const BUNDLE = process.env.TURNSTREAM_BUNDLE;

export function launch() {
  const args = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"];
  return chromium.launch({ executablePath: CHROMIUM, args, timeout: PATIENCE });
}

/** A signed-in tab. What it asks of other hosts, and what fails in it, is in `outside` and `errors`. */
export async function open(browser, gateway, { network, ...options } = {}) {
  const context = await browser.newContext({
    viewport: { width: 1280, height: 800 },
    colorScheme: "light",
    ...options,
  });
  context.setDefaultTimeout(PATIENCE);
  if (BUNDLE !== undefined) {
    await context.route(/\/(page\.(js|css)|worker\.js)$/, (route) => {
      const path = join(BUNDLE, new URL(route.request().url()).pathname);
      return existsSync(path) ? route.fulfill({ path }) : route.continue();
    });
  }
  const page = await context.newPage();
  page.outside = [];
  page.errors = [];
  page.on("request", (request) => {
    const { host, protocol } = new URL(request.url());
    const own = [gateway.address, network?.address];
    if (!own.includes(host) && protocol !== "data:") page.outside.push(request.url());
  });
  page.on("pageerror", (error) => page.errors.push(String(error)));
  page.on("console", (message) => {
    if (/Content Security Policy|Trusted Type/i.test(message.text())) page.errors.push(message.text());
  });
  const login = gateway.run("login");
  await page.goto(network === undefined ? login : login.replace(gateway.address, network.address));
  await page.locator(".connection.live").waitFor();
  return page;
}
