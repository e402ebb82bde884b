// opencode's own web page over a session of the gateway, in a real Chromium. Every wait is for something that is
// seen.
import { pathToFileURL } from "node:url"
const { MODULES, URL: url, TOKEN, DIRECTORY, SESSION, CHROMIUM } = process.env
const { chromium } = await import(pathToFileURL(`${MODULES}/playwright-core/index.mjs`).href)
const PATIENCE = 300_000
const args = ["--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"]
const browser = await chromium.launch({ executablePath: CHROMIUM, args, timeout: PATIENCE })
// The password is sent when the gateway asks for it, as by a person.
const httpCredentials = { username: "opencode", password: TOKEN }
const context = await browser.newContext({ httpCredentials, viewport: { width: 1280, height: 800 } })
context.setDefaultTimeout(PATIENCE)
const page = await context.newPage()
const wrong = []
page.on("request", (request) => {
  const { host, protocol } = new URL(request.url())
  if (host !== new URL(url).host && protocol !== "data:" && protocol !== "blob:") wrong.push(request.url())
})
page.on("pageerror", (error) => wrong.push(String(error)))
const sees = (text) => page.getByText(text).first().waitFor()
await page.goto(`${url}/${Buffer.from(DIRECTORY).toString("base64url")}/session/${SESSION}`)
await sees("Written before the page.")
await page.locator('[contenteditable="true"]').first().click()
await page.keyboard.type("Hello from a browser")
await page.keyboard.press("Enter")
await sees("You said: “Hello from a browser”")
await sees("Permission required")
await page.getByText("Allow once").first().click()
await sees("I have read it back")
await page.getByText("Permission required").first().waitFor({ state: "detached" })
await browser.close()
if (wrong.length > 0) throw new Error(wrong.join("\n"))
