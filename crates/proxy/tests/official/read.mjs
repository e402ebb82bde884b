// Reads streams with the providers' own client libraries, once from the original and once through the proxy,
// and compares all objects that they return. One job per line of standard input, one result per line.
//
// argv[2] is the folder in which the libraries are installed.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { isDeepStrictEqual } from "node:util";

const require = createRequire(`${process.argv[2]}/`);
const OpenAI = require("openai").default ?? require("openai");
const Anthropic = require("@anthropic-ai/sdk").default ?? require("@anthropic-ai/sdk");

const settings = (url) => ({ baseURL: url, apiKey: "none", maxRetries: 0, timeout: 120_000 });

function open(format, url, model) {
  const messages = [{ role: "user", content: "go" }];
  if (format === "messages") {
    const client = new Anthropic(settings(url));
    return client.messages.create({ model, max_tokens: 100, messages, stream: true });
  }
  const client = new OpenAI(settings(url));
  return format === "chat"
    ? client.chat.completions.create({ model, messages, stream: true })
    : client.responses.create({ model, input: "go", stream: true });
}

async function read(format, url, model) {
  const events = [];
  try {
    for await (const event of await open(format, url, model)) events.push(event);
    // OpenAI's library hands out the error event of a response like any other.
    const last = events.at(-1);
    return { events, error: last?.type === "error" ? `error event: ${last.message}` : null };
  } catch (error) {
    return { events, error: `${error.constructor.name}: ${error.message}`.slice(0, 300) };
  }
}

async function run({ name, format, direct, proxied, model }) {
  const [original, ours] = [await read(format, direct, model), await read(format, proxied, model)];
  const first = original.events.slice(0, ours.events.length);
  return {
    name,
    equal: isDeepStrictEqual(original.events, ours.events) && original.error === ours.error,
    prefix: isDeepStrictEqual(first, ours.events),
    original: { events: original.events.length, error: original.error },
    ours: { events: ours.events.length, error: ours.error },
  };
}

const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
async function work() {
  for (let line = await lines.next(); !line.done; line = await lines.next()) {
    console.log(JSON.stringify(await run(JSON.parse(line.value))));
  }
}
await Promise.all(Array.from({ length: 4 }, work));
