// A turn of a real agent in `ai` 7, with a call that a person allows. A test in Rust starts the gateway.

import assert from "node:assert/strict";
import { test } from "node:test";
import { isAnswered } from "../../../../examples/ai-sdk-page/src/turnstream.js";
import { history, load, open, parts, shown } from "./chat.mjs";
import { running, until } from "./gateway.mjs";

const gateway = running(process.env.GATEWAY, process.env.TOKEN);

test("the parts of a live turn are those of a page that is loaded later", async () => {
  const chat = open(await load("7.0.169"), gateway, "real", { sendAutomaticallyWhen: isAnswered });
  await chat.sendMessage({ text: "Make it." }, { body: { agent: "claude" } });
  assert.equal(chat.status, "ready", String(chat.error));
  const asked = parts(chat).find(({ state }) => state === "approval-requested");
  assert.equal(asked?.toolName, "Bash", JSON.stringify(parts(chat)));
  assert.equal(asked.input.command, "touch made");
  await chat.addToolApprovalResponse({ id: asked.approval.id, approved: true });
  const isFinal = () => chat.status === "ready" && parts(chat).at(-1)?.text === "It is made.";
  await until("It is made.", isFinal);
  const kept = shown(await history(gateway, chat));
  assert.deepEqual(shown(chat.messages), kept);
  assert.deepEqual(
    kept[1].parts.map(({ type, state }) => `${type} ${state}`),
    ["text done", "dynamic-tool output-available", "text done"],
  );
});
