// Output of a tool: with the colours of a terminal, and never more at once than the page can show.

import { memo } from "preact/compat";
import { useMemo } from "preact/hooks";
import { ansi } from "./ansi";
import { count, size } from "./format";
import { useKept } from "./kept";
import { useWork } from "./work";

const FIRST_LINES = 12;
const FIRST_CHARS = 8_192;
const STEP_LINES = 2_000;
/** A line is cut here, and a step never has more than this. */
const STEP_CHARS = 256 * 1024;

/** Longer texts are read in the worker. Until then they have no colours. */
const MOST_HERE = 16_384;
/** What starts a colour, and other sequences of a terminal. */
const SEQUENCES = /\u001b\[[0-9;?]*[ -/]*[@-~]/g;

const Ansi = memo(function Ansi({ text }: { text: string }) {
  const isPlain = !text.includes("\u001b");
  const isShort = text.length <= MOST_HERE;
  const here = useMemo(() => (isShort && !isPlain ? ansi(text) : undefined), [text]);
  const there = useWork(isShort || isPlain ? undefined : { do: "ansi", text })?.result;
  const parts = here ?? there;
  if (parts === undefined) return <>{isPlain ? text : text.replace(SEQUENCES, "")}</>;
  return (
    <>
      {parts.map(([text, colour], place) =>
        colour === "" ? (
          text
        ) : (
          <span key={place} class={colour}>
            {text}
          </span>
        ),
      )}
    </>
  );
});

/** The first lines of a text, at most so many characters. */
function firstLines(text: string, lines: number, chars: number): string {
  let end = -1;
  for (let line = 0; line < lines; line += 1) {
    const next = text.indexOf("\n", end + 1);
    if (next === -1) return text.slice(0, chars);
    end = next;
    if (end > chars) break;
  }
  return text.slice(0, Math.min(end, chars));
}

function breaks(text: string): number {
  let breaks = 0;
  for (let at = text.indexOf("\n"); at !== -1; at = text.indexOf("\n", at + 1)) breaks += 1;
  return breaks;
}

function lineCount(text: string): number {
  let lines = 1;
  for (let at = text.indexOf("\n"); at !== -1 && at < text.length - 1; at = text.indexOf("\n", at + 1))
    lines += 1;
  return lines;
}

/** What is shown after so many steps, as one part for each step: a part is parsed once. */
function partsOf(text: string, steps: number): string[] {
  const parts = [firstLines(text, FIRST_LINES, FIRST_CHARS)];
  let at = parts[0]?.length ?? 0;
  for (let step = 0; step < steps && at < text.length; step += 1) {
    const part = firstLines(text.slice(at, at + STEP_CHARS + 1), STEP_LINES + 1, STEP_CHARS);
    parts.push(part);
    at += part.length;
  }
  return parts;
}

interface OutputProps {
  id: string;
  text: string;
  label: string;
  /** Long lines are broken. Output keeps them, as a terminal that is wide enough. */
  wraps?: boolean;
}

export function Output({ id, text, label, wraps }: OutputProps) {
  const [steps, setSteps] = useKept(`${id} output`, 0);
  const lines = useMemo(() => lineCount(text), [text]);
  const parts = useMemo(() => partsOf(text, steps), [text, steps]);
  const length = parts.reduce((all, part) => all + part.length, 0);
  const isCut = length < text.trimEnd().length;
  const shown = parts.reduce((all, part) => all + breaks(part), 1);
  const left = lines - shown;
  return (
    <div class="output">
      <pre class={wraps ? "terminal wraps" : "terminal"} tabIndex={0} role="region" aria-label={label}>
        {parts.map((part, place) => (
          <Ansi key={place} text={part} />
        ))}
      </pre>
      {isCut && (
        <p class="more">
          <span>
            {left > 0
              ? `First ${count(shown)} of ${count(lines)} lines`
              : `First ${size(length)} of ${size(text.length)}`}
          </span>
          <button type="button" class="link" onClick={() => setSteps(steps + 1)}>
            {left > 0 ? `Show ${count(Math.min(left, STEP_LINES))} more` : "Show more"}
          </button>
        </p>
      )}
    </div>
  );
}
