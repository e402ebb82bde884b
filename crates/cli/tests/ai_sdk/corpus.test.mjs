// Every turn of the captured logs, read by the real client: no chunk is refused, and it makes the message
// that the gateway says it makes.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import { load } from "./chat.mjs";

const { sdk, major, version } = await load(process.env.AI_SDK);

/** Reads chunks as a response of a server. */
async function read(chunks) {
  const body = chunks.map((chunk) => `data: ${JSON.stringify(chunk)}\n\n`).join("");
  const fetch = async () => new Response(body);
  const transport = new sdk.DefaultChatTransport({ api: "http://127.0.0.1:1", fetch });
  const stream = await transport.sendMessages({ chatId: "c", messages: [], trigger: "submit-message" });
  let last;
  const failures = [];
  const options = { stream, terminateOnError: false, onError: (error) => failures.push(String(error)) };
  for await (const message of sdk.readUIMessageStream(options)) last = message;
  return { last, failures };
}

/** Without what versions add by themselves. */
function plain(message) {
  const parts = message.parts.map(({ id, rawInput, ...part }) => {
    // An input that is still being written is read in part only by the client.
    if (part.state === "input-streaming") delete part.input;
    // Version 5 keeps the first value.
    if (major === 5) delete part.providerExecuted;
    return part.type.startsWith("data-") ? { id, ...part } : part;
  });
  return JSON.parse(JSON.stringify({ ...message, parts }));
}

test(`${version} reads the corpus`, async () => {
  const lines = readFileSync(process.env.CORPUS, "utf8").trim().split("\n");
  assert.ok(lines.length > 150, `only ${lines.length} turns`);
  for (const line of lines) {
    const { name, chunks, message } = JSON.parse(line);
    const { last, failures } = await read(chunks);
    const said = chunks.filter(({ type }) => type === "error").map(({ errorText }) => `Error: ${errorText}`);
    assert.deepEqual(failures, said, name);
    assert.deepEqual(plain(last), plain(message), name);
  }
});
