// An MCP server over standard input and output with two tools: `echo`, and `order`, which asks with a form.
import { createInterface } from "node:readline";

const say = (message) => process.stdout.write(JSON.stringify({ jsonrpc: "2.0", ...message }) + "\n");
const text = (text) => ({ content: [{ type: "text", text }] });
const inputSchema = { type: "object" };
const tool = (name, annotations) => ({ name, description: name, inputSchema, annotations });
const drink = { type: "string", title: "Drink", enum: ["Tea", "Coffee"] };
let waiting;

createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method, params, result } = JSON.parse(line);
  const answer = (result) => say({ id, result });
  if (method === "initialize") {
    const serverInfo = { name: "lab", version: "1" };
    answer({ protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo });
  } else if (method === "tools/list") {
    answer({ tools: [tool("echo"), tool("order", { readOnlyHint: true })] });
  } else if (method === "tools/call" && params.name === "echo") {
    answer(text(`${params.arguments.text} ${process.env.LAB_WORD}`));
  } else if (method === "tools/call") {
    waiting = id;
    const requestedSchema = { type: "object", properties: { drink }, required: ["drink"] };
    say({ id: "form", method: "elicitation/create", params: { message: "Which drink?", requestedSchema } });
  } else if (id === "form") {
    say({ id: waiting, result: text(`${result.action} ${result.content?.drink}`) });
  } else if (id !== undefined) {
    say({ id, error: { code: -32601, message: "there is no such method" } });
  }
});
