// Output of a terminal in the page's own colours. Pure: long texts are read in the worker.

import Anser from "anser";
import type { Token } from "./syntax";

/** Colours of a terminal as the page's own, so that they can be read in both themes. */
const COLOURS: Record<string, string> = {
  "ansi-red": "c-lost",
  "ansi-bright-red": "c-lost",
  "ansi-green": "c-work",
  "ansi-bright-green": "c-work",
  "ansi-yellow": "c-you",
  "ansi-bright-yellow": "c-you",
  "ansi-blue": "c-gate",
  "ansi-bright-blue": "c-gate",
  "ansi-cyan": "c-gate",
  "ansi-bright-cyan": "c-gate",
  "ansi-magenta": "c-you",
  "ansi-bright-magenta": "c-you",
  "ansi-bright-black": "c-dim",
};

export function ansi(text: string): Token[] {
  return Anser.ansiToJson(text, { use_classes: true, remove_empty: true }).map((part) => {
    const colour = part.fg === null || part.fg === undefined ? undefined : COLOURS[part.fg];
    const classes = part.decorations.map((decoration) =>
      decoration === "bold" ? "bold" : decoration === "dim" ? "c-dim" : "",
    );
    return [part.content, [colour ?? "", ...classes].filter((name) => name !== "").join(" ")];
  });
}
