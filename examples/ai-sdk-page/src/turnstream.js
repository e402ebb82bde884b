// What a page with the AI SDK needs to know about Turnstream. It has no dependencies: copy it.

/** The parts of a message that count. Versions 5 and 6 cannot take back what a repeated model call voids. */
export function visible(parts) {
  const gone = new Set(parts.flatMap((part) => (part.type === "data-superseded" ? part.data.items : [])));
  const ours = (part) => part.providerMetadata?.turnstream ?? {};
  // Of several texts of one item the last one counts, unless it continues the one before.
  const last = new Map();
  parts.forEach((part, at) => {
    const { item, continues } = ours(part);
    if (item !== undefined && !continues) last.set(item, at);
  });
  return parts.filter((part, at) => {
    const { item, superseded } = ours(part);
    if (part.type === "data-superseded" || superseded || gone.has(part.toolCallId)) return false;
    return item === undefined || (!gone.has(item) && at >= (last.get(item) ?? at));
  });
}

/** For `sendAutomaticallyWhen`: the person has answered everything that the agent asked in the last step. */
export function isAnswered({ messages }) {
  const parts = messages.at(-1)?.parts ?? [];
  const step = parts.slice(parts.findLastIndex((part) => part.type === "step-start") + 1);
  const asked = step.filter((part) => "toolCallId" in part && !part.providerExecuted);
  const answers = ["approval-responded", "output-available", "output-error"];
  return asked.length > 0 && asked.every((part) => answers.includes(part.state));
}
