// Scripts of the demo agent, and what the tests of all clients need.

import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

/** A library that the test run has installed, as a module. */
export async function library(name) {
  const folder = `${process.env.LIBRARIES}/node_modules/${name}`;
  const { exports, module, main } = JSON.parse(readFileSync(`${folder}/package.json`, "utf8"));
  const entry = exports?.["."]?.import ?? module ?? main;
  return import(pathToFileURL(`${folder}/${entry?.default ?? entry}`).href);
}

/** A prompt that plays a script. */
export function play(steps) {
  return JSON.stringify({ script: steps, pace_ms: 0 });
}

export const WORK = [
  { do: "attempt", model: "m" },
  { do: "reasoning", text: "Let me think." },
  { do: "text", text: "First I look." },
  { do: "tool", name: "look", title: "Look", input: { path: "a" }, output: ["line 1\n", "line 2\n"] },
  { do: "attempt_end", finish: "tool_use" },
  { do: "attempt", model: "m" },
  { do: "text", text: "This is what I found." },
  { do: "usage", usage: { input: 10, output: 3 } },
];
export const FOUND = "This is what I found.";
export const STALLED = [...WORK, { do: "stall" }];
export const ASKS = [
  { do: "text", text: "May I?" },
  { do: "tool", name: "note", title: "Note it down", input: { line: 1 }, ask: true, output: ["noted\n"] },
  { do: "text", text: "It is noted.", when: "allowed" },
  { do: "text", text: "Then not.", when: "rejected" },
];
export const RETRIED = [
  { do: "attempt", model: "m" },
  { do: "text", text: "This beginning is void", unfinished: true },
  { do: "retry", attempt: 2, reason: "overloaded", wait_ms: 10 },
  { do: "text", text: "Second try." },
  { do: "attempt_end", finish: "stop" },
];

/** Messages in the form in which two clients are compared: what a person sees. */
export function shown(messages) {
  const one = ({ role, content, toolCalls, toolCallId }) => {
    const calls = toolCalls?.map((call) => `${call.function.name} ${call.function.arguments}`);
    return JSON.parse(JSON.stringify({ role, content, calls, toolCallId }));
  };
  return messages.map(one);
}
