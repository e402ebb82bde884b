// Asks an agent, shows its answer as it is written, and allows each tool call once.
// node ask.mjs AGENT DIRECTORY "the prompt"

import { Client } from "turnstream";

const [agent, cwd, prompt] = process.argv.slice(2);
const client = new Client({ address: process.env.TURNSTREAM_ADDRESS, token: process.env.TURNSTREAM_TOKEN });
const { id } = await client.createSession({ agent, cwd });
for await (const event of client.run(id, prompt)) {
  if (event.type === "item.delta" && event.field === undefined) process.stdout.write(event.text);
  if (event.type === "item.ended") process.stdout.write("\n");
  if (event.type === "approval.requested") await client.answer(id, event.approval, "allow_once");
  if (event.type === "turn.ended") console.log(`The turn ended: ${event.outcome}.`);
}
