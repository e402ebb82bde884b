// A change of a file: two columns of numbers, a sign, and the code in colours. Changed words have a stronger
// tint.

import { memo } from "preact/compat";
import { useMemo } from "preact/hooks";
import { type Change, compare, type Line } from "./compare";
import { count } from "./format";
import { useKept } from "./kept";
import type { Token } from "./syntax";
import { useWork } from "./work";

/** Larger texts are compared in the worker. */
const MOST_HERE = 50_000;
/** Larger texts have no colours. */
const MOST_COLOURED = 300_000;
const FIRST_LINES = 60;
const STEP_LINES = 1_000;

/** The change, once it is known: `"reading"` while the worker compares, undefined if it is too large. */
export function useChange(oldText: string, newText: string): Change | "reading" | undefined {
  const isShort = oldText.length + newText.length <= MOST_HERE;
  const here = useMemo(() => (isShort ? compare(oldText, newText) : undefined), [oldText, newText]);
  const there = useWork(isShort ? undefined : { do: "compare", oldText, newText });
  if (isShort) return here;
  return there === undefined ? "reading" : there.result;
}

/** The lines of a text in colours, once the worker has read it. */
function useColours(path: string, text: string): Token[][] | undefined {
  const isWanted = path !== "" && text !== "" && text.length <= MOST_COLOURED;
  return useWork(isWanted ? { do: "highlight", language: path, text } : undefined)?.result;
}

/** The text of a line, with its colours and its marks. */
const Code = memo(function Code({ line, tokens }: { line: Line; tokens: Token[] | undefined }) {
  // A carriage return at the end is not in the tokens, or is in both.
  const parts =
    tokens !== undefined && tokens.map(([text]) => text).join("") === line.text ? tokens : undefined;
  const out: preact.ComponentChildren[] = [];
  let at = 0;
  for (const [text, colour] of parts ?? [[line.text, ""] as Token]) {
    for (const [piece, isMarked] of cut(text, at, line.marks ?? [])) {
      const shown = colour === "" ? piece : <span class={colour}>{piece}</span>;
      out.push(isMarked ? <mark>{shown}</mark> : shown);
    }
    at += text.length;
  }
  return <>{out}</>;
});

/** A text that begins at this place, cut where marks begin and end. */
function cut(text: string, from: number, marks: [number, number][]): [string, boolean][] {
  const pieces: [string, boolean][] = [];
  let at = 0;
  for (const [begin, end] of marks) {
    const [first, last] = [Math.max(at, begin - from), Math.min(text.length, end - from)];
    if (last <= first) continue;
    if (first > at) pieces.push([text.slice(at, first), false]);
    pieces.push([text.slice(first, last), true]);
    at = last;
  }
  if (at < text.length) pieces.push([text.slice(at), false]);
  return pieces;
}

const KINDS = { "+": "added", "−": "removed", " ": "same", "@": "hunk" } as const;

interface DiffProps {
  id: string;
  path: string;
  oldText: string;
  newText: string;
}

export const Diff = memo(function Diff({ id, path, oldText, newText }: DiffProps) {
  const made = useChange(oldText, newText);
  const [most, setMost] = useKept(`${id} diff`, FIRST_LINES);
  const before = useColours(path, oldText);
  const after = useColours(path, newText);
  if (made === "reading") return <p class="more">Comparing the two versions.</p>;
  if (made === undefined)
    return <p class="more">The two versions are too large or too different to be compared here.</p>;
  const shown = made.lines.slice(0, most);
  const left = made.lines.length - shown.length;
  const tokensOf = (line: Line) =>
    line.new !== undefined
      ? after?.[line.new - 1]
      : line.old !== undefined
        ? before?.[line.old - 1]
        : undefined;
  return (
    <div class="output">
      <div class="diff" tabIndex={0} role="region" aria-label={`Change of ${path}`}>
        <table>
          <tbody>
            {shown.map((line, place) => (
              <tr key={place} class={KINDS[line.sign]}>
                <td class="number">{line.old}</td>
                <td class="number">{line.new}</td>
                <td class="sign">{line.sign === "@" ? "" : line.sign}</td>
                <td class="code">
                  <Code line={line} tokens={tokensOf(line)} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {left > 0 && (
        <p class="more">
          <span>
            First {count(shown.length)} of {count(made.lines.length)} lines
          </span>
          <button type="button" class="link" onClick={() => setMost(most + STEP_LINES)}>
            Show {count(Math.min(left, STEP_LINES))} more
          </button>
        </p>
      )}
    </div>
  );
});
