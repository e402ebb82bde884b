// An editor stand-in: it starts an Agent Client Protocol agent, sends one prompt, and shows the turn.
//
//   node editor.mjs [--session ID] [--permit KIND] [--cancel-at TEXT] [--answer JSON] PROMPT -- COMMAND [ARGS…]
//
// The agent's text goes to standard output, everything else to standard error. The last line on standard
// error is how the turn stopped. It needs the package @agentclientprotocol/sdk 2.4.

import { spawn } from "node:child_process";
import { Readable, Writable } from "node:stream";
import * as acp from "@agentclientprotocol/sdk";

const { flags, prompt, command } = parse(process.argv.slice(2));
const say = (line) => process.stderr.write(`${line}\n`);

const child = spawn(command[0], command.slice(1), { stdio: ["pipe", "pipe", "inherit"] });
child.on("error", (error) => {
  say(`cannot start ${command[0]}: ${error.message}`);
  process.exit(2);
});
const stream = acp.ndJsonStream(Writable.toWeb(child.stdin), Readable.toWeb(child.stdout));

/** Text of the turn so far: what a person sees. */
let shown = "";
let session;

const editor = acp
  .client({ name: "editor-stand-in" })
  .onNotification("session/update", ({ params, agent }) => {
    const { update } = params;
    switch (update.sessionUpdate) {
      case "agent_message_chunk":
        if (update.content.type !== "text") break;
        process.stdout.write(update.content.text);
        shown += update.content.text;
        if (flags["cancel-at"] && shown.includes(flags["cancel-at"])) {
          delete flags["cancel-at"];
          agent.notify("session/cancel", { sessionId: session });
        }
        break;
      case "user_message_chunk":
        say(`> ${update.content.text ?? `(${update.content.type})`}`);
        break;
      case "tool_call":
        say(`[${update.status ?? "pending"}] ${update.title}`);
        break;
      case "tool_call_update":
        if (update.status) say(`[${update.status}] ${update.title ?? update.toolCallId}`);
        break;
      case "notice":
        say(`(${update.severity}) ${update.title}`);
        break;
    }
  })
  .onRequest("session/request_permission", ({ params }) => {
    const kind = flags.permit ?? "reject_once";
    const option = params.options.find((one) => one.kind === kind);
    say(`${params.toolCall.title ?? params.toolCall.toolCallId}: ${option ? option.name : "dismissed"}`);
    return { outcome: option ? { outcome: "selected", optionId: option.optionId } : { outcome: "cancelled" } };
  })
  .onRequest("elicitation/create", ({ params }) => {
    say(`${params.message} ${flags.answer ?? "(declined)"}`);
    return flags.answer ? { action: "accept", content: JSON.parse(flags.answer) } : { action: "decline" };
  });

const stop = await editor.connectWith(stream, async (agent) => {
  const capabilities = { session: { notices: {} }, elicitation: { form: {} } };
  const clientInfo = { name: "editor-stand-in", version: "0" };
  await agent.request("initialize", { protocolVersion: 1, clientCapabilities: capabilities, clientInfo });
  const place = { cwd: process.cwd(), mcpServers: [] };
  if (flags.session) {
    session = flags.session;
    await agent.request("session/load", { sessionId: session, ...place });
  } else {
    session = (await agent.request("session/new", place)).sessionId;
  }
  say(`session ${session}`);
  if (!prompt) return "loaded";
  const answer = await agent.request("session/prompt", {
    sessionId: session,
    prompt: [{ type: "text", text: prompt }],
  });
  return answer.stopReason;
}).catch((error) => {
  say(`error ${error.code ?? ""}: ${error.message}`);
  return "error";
});
process.stdout.write("\n");
say(stop);
child.stdin.end();
process.exitCode = stop === "error" ? 1 : 0;

/** Flags come first, then the prompt, and the command after two dashes. */
function parse(args) {
  const at = args.indexOf("--");
  const [words, command] = [args.slice(0, at), args.slice(at + 1)];
  if (at < 0 || command.length === 0) {
    process.stderr.write("usage: node editor.mjs [FLAGS] PROMPT -- COMMAND [ARGS…]\n");
    process.exit(2);
  }
  const flags = {};
  while (words[0]?.startsWith("--")) flags[words.shift().slice(2)] = words.shift();
  return { flags, prompt: words.join(" "), command };
}
