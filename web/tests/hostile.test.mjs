// Text of a model and of tools is untrusted: no script runs, and no request leaves for another host.

import assert from "node:assert/strict";
import { after, before, test } from "node:test";
import { Gateway, launch, open } from "./harness.mjs";

let gateway, browser;
before(async () => {
  gateway = await new Gateway().start();
  browser = await launch();
});
after(async () => {
  await browser?.close();
  await gateway?.stop();
});

const HOSTILE = [
  "<script>window.ran = 1</script>",
  "<img src=x onerror='window.ran = 2'>",
  "![tracker](https://tracker.example/pixel.png?leak=1)",
  "![data](data:text/html;base64,PHNjcmlwdD4=)",
  "[link](javascript:window.ran=3)",
  "[link two](JaVaScRiPt:window.ran=3)",
  "[data link](data:text/html,<script>window.ran=4</script>)",
  "<a href='javascript:window.ran=5'>raw</a>",
  "<svg onload='window.ran = 6'><script>window.ran = 7</script></svg>",
  "<iframe src='https://frame.example/'></iframe>",
  "<form action='https://form.example/'><input name=a autofocus onfocus='window.ran = 8'></form>",
  "<style>@import 'https://style.example/a.css'; body { display: none }</style>",
  "<link rel=stylesheet href='https://style.example/b.css'>",
  "<meta http-equiv=refresh content='0; url=https://meta.example/'>",
  "<base href='https://base.example/'>",
  "<div style='background: url(https://css.example/x.png)'>styled</div>",
  '<math><mtext><table><mglyph><style><!--</style><img title="--&gt;&lt;img src=x onerror=window.ran=9&gt;">',
  '<noscript><p title="</noscript><img src=x onerror=window.ran=10>">',
  "`<img src=x onerror=window.ran=11>`",
  "```html\n<script>window.ran = 12</script>\n```",
  "| a |\n|---|\n| <img src=x onerror=window.ran=13> |",
  "1. Listed:\n   ```html\n   <script>window.ran = 14</script>\n   ```\n   <img src=x onerror=window.ran=15>",
  "> - Quoted:\n>   ```html\n>   <img src=x onerror=window.ran=16>\n>   ```",
  "<https://safe.example/a?b=1&c=2>",
  "[safe](https://safe.example/)",
  "<div id=page></div><h1 id=main>fake</h1>",
  "\u202Egnp.exe \u0000 \u0007 end",
];

test("hostile markdown, titles, tools and questions stay text", async () => {
  const evil = "<img src=https://title.example/x onerror='window.ran = 20'>";
  const { id } = await gateway.session({ title: evil });
  await gateway.prompt(id, [
    ...HOSTILE.map((text) => ({ do: "text", text })),
    { do: "text", text: HOSTILE.join("\n\n") },
    { do: "reasoning", text: HOSTILE.join("\n\n") },
    { do: "plan", text: HOSTILE.join("\n\n") },
    {
      do: "tool",
      name: evil,
      title: evil,
      input: { command: evil },
      output: [`\u001b]8;;javascript:window.ran=21\u0007${evil}\u001b[31m`],
      fail: evil,
    },
    {
      do: "question",
      questions: [
        { id: "0", text: evil, options: [{ label: evil, description: evil }], multiple: false, custom: true },
      ],
    },
  ]);
  const page = await open(browser, gateway);
  await page.locator(".row", { hasText: "title.example" }).waitFor();
  await page.goto(`http://${gateway.address}/#/session/${id}`);
  await page.locator(".card.wait").waitFor();
  for (const button of await page.getByRole("button", { name: /^Thought/ }).all()) await button.click();
  await page.locator(".reasoning .markdown").waitFor();
  // Code inside of lists and quotes has its colours, and is text too.
  for (const [where, tag] of [
    [".reasoning .markdown > ol", "script"],
    [".reasoning blockquote li", "img"],
  ]) {
    await page
      .locator(`${where} pre .hl-keyword`, { hasText: tag })
      .first()
      .waitFor();
  }
  const found = await page.evaluate(() => ({
    ran: window.ran,
    // Elements that a text could have made. The page has none of them in a transcript.
    elements: document.querySelectorAll(
      ".transcript :is(script, img, iframe, style, link, base, object, embed, video)",
    ).length,
    forms: [...document.querySelectorAll(".markdown :is(form, input, button)")].length,
    attributes: [...document.querySelectorAll(".markdown *")]
      .flatMap((node) => node.getAttributeNames())
      .filter((name) => /^(on|style$|id$|src|srcset|srcdoc|name$)/.test(name)),
    links: [...document.querySelectorAll(".markdown a[href]")]
      .map((node) => node.getAttribute("href"))
      .filter((href) => !/^(https?|mailto):/.test(href)),
    unsafe: [...document.querySelectorAll(".markdown a[href]")].filter(
      (node) => node.rel !== "noopener noreferrer nofollow" || node.target !== "_blank",
    ).length,
    safe: document.querySelectorAll('.markdown a[href="https://safe.example/"]').length,
    blocked: document.querySelectorAll(".blocked").length,
    headings: document.querySelectorAll(".markdown :is(h1, h2)").length,
  }));
  assert.deepEqual(
    { ...found, safe: found.safe > 0, blocked: found.blocked > 0 },
    {
      ran: undefined,
      elements: 0,
      forms: 0,
      attributes: [],
      links: [],
      unsafe: 0,
      safe: true,
      blocked: true,
      headings: 0,
    },
  );
  assert.deepEqual(page.outside, []);
  // Nothing even tried: the sanitiser stands before the policy.
  assert.deepEqual(page.errors, []);
  await page.getByRole("link", { name: "Timeline" }).click();
  await page
    .getByRole("row", { name: /item\.started/ })
    .first()
    .waitFor();
  assert.equal(await page.evaluate(() => window.ran), undefined);
  assert.deepEqual([page.errors, page.outside], [[], []]);
  await page.context().close();
});

test("the page allows nothing but its own files", async () => {
  for (const path of ["/", "/page.js", "/page.css", "/icon.svg"]) {
    const answer = await fetch(`http://${gateway.address}${path}`);
    assert.equal(answer.status, 200, path);
    const policy = answer.headers.get("content-security-policy");
    for (const rule of [
      "default-src 'none'",
      "script-src 'self'",
      "style-src 'self'",
      "connect-src 'self'",
      "require-trusted-types-for 'script'",
    ]) {
      assert.ok(policy.includes(rule), `${path}: ${policy}`);
    }
    assert.ok(!policy.includes("unsafe"), policy);
    assert.equal(answer.headers.get("x-content-type-options"), "nosniff");
    assert.equal(answer.headers.get("set-cookie"), null);
  }
});

test("markdown that no parser survives is shown as text, and the rest of the page works", async () => {
  const { id } = await gateway.session({ title: "Nested" });
  await gateway.prompt(id, [
    { do: "text", text: `${">".repeat(20_000)} deep` },
    { do: "text", text: "After all of it." },
  ]);
  const page = await open(browser, gateway);
  await page.goto(`http://${gateway.address}/#/session/${id}`);
  await page.locator(".reply", { hasText: "After all of it." }).waitFor();
  await page.locator('.turn[data-outcome="completed"]').waitFor();
  assert.deepEqual(page.errors, []);
  await page.context().close();
});
