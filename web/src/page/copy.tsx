// Texts that a person takes elsewhere: a button that copies one, and a command for a terminal.

import { useState } from "preact/hooks";

/** Copies a text, and says that it did. */
export function CopyButton({ name, text }: { name: string; text: string }) {
  const [isDone, setDone] = useState(false);
  // Browsers allow it only over HTTPS and on this machine.
  if (navigator.clipboard === undefined) return null;
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    setDone(true);
    setTimeout(() => setDone(false), 2_000);
  };
  return (
    <button type="button" class="link" onClick={() => void copy().catch(() => undefined)}>
      {isDone ? "Copied" : name}
    </button>
  );
}

/** A command for a terminal. */
export function Command({ text }: { text: string }) {
  return (
    <div class="judge command">
      <code>{text}</code>
      <CopyButton name="Copy" text={text} />
    </div>
  );
}
