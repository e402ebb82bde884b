// The chat of one version of the SDK, without a framework.

import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";
import { visible } from "../../../../examples/ai-sdk-page/src/turnstream.js";
import { until } from "./gateway.mjs";

/** One version of the SDK. */
export async function load(version) {
  const folder = `${process.env.TURNSTREAM_AGENTS}/ai-sdk/${version}/package.json`;
  const sdk = await import(pathToFileURL(createRequire(folder).resolve("ai")).href);
  return { sdk, version, major: Number(version.split(".")[0]) };
}

/** What the SDK's own frameworks implement. */
class State {
  status = "ready";
  error = undefined;
  #messages;

  constructor(messages) {
    this.#messages = messages;
  }

  get messages() {
    return this.#messages;
  }

  set messages(messages) {
    this.#messages = [...messages];
  }

  pushMessage = (message) => {
    this.#messages = [...this.#messages, message];
  };

  popMessage = () => {
    this.#messages = this.#messages.slice(0, -1);
  };

  replaceMessage = (index, message) => {
    this.#messages = this.#messages.map((old, at) => (at === index ? structuredClone(message) : old));
  };

  snapshot = (value) => structuredClone(value);
}

/** A tab with a chat. */
export function open({ sdk, major }, gateway, id, { address, messages = [], path = `/ai/v${major}`, ...options } = {}) {
  const api = `http://${address ?? gateway.address}${path}`;
  const transport = new sdk.DefaultChatTransport({ api, headers: gateway.headers });
  class Chat extends sdk.AbstractChat {}
  const chat = new Chat({ id, transport, state: new State(messages), ...options });
  chat.base = `${path}/${encodeURIComponent(id)}`;
  return chat;
}

/** The messages that a page begins with. */
export function history(gateway, chat) {
  return gateway.get(`${chat.base}/messages`);
}

/** A prompt that plays a script. */
export function play(steps) {
  return { text: JSON.stringify({ script: steps, pace_ms: 0 }) };
}

export function settled(chat) {
  return until("the chat is at rest", () => ["ready", "error"].includes(chat.status) && chat.status);
}

/** The parts of the last message, if it is an answer. */
export function parts(chat) {
  const last = chat.messages.at(-1);
  return last?.role === "assistant" ? last.parts : [];
}

/** Waits until an answer shows a text. */
export function sees(chat, text) {
  return until(text, () => parts(chat).some((part) => part.text?.includes(text)));
}

/** The items that a message has twice, also where a page would not show them. */
export function doubled({ parts }) {
  const named = ({ toolCallId, providerMetadata }) => toolCallId ?? providerMetadata?.turnstream?.item;
  const items = parts.map(named).filter((item) => item !== undefined);
  return items.filter((item, at) => items.indexOf(item) !== at);
}

/** Messages in the form in which two clients are compared: what a person sees. */
export function shown(messages) {
  const kept = ["type", "text", "state", "toolCallId", "toolName", "input", "output", "errorText", "data"];
  const part = (part) => {
    return Object.fromEntries(kept.filter((name) => name in part).map((name) => [name, part[name]]));
  };
  const one = ({ id, role, parts }) => {
    const seen = visible(parts).filter(({ type }) => type !== "step-start");
    // A user's own text has no state where it was typed.
    const plain = (part) => (role === "user" ? { type: part.type, text: part.text } : part);
    return { id, role, parts: seen.map(part).map(plain) };
  };
  return JSON.parse(JSON.stringify(messages.map(one)));
}
