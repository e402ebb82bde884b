// A change of a file: two columns of numbers, a sign, and the code in colours. Changed words have a stronger
// tint.

import { memo } from "preact/compat";
import { useMemo } from "preact/hooks";
import { type Change, changeOf, compare, type Hunk, type Line } from "./compare";
import { useColours } from "./coloured";
import { count } from "./format";
import { useKept } from "./kept";
import type { Token } from "./syntax";
import { useWork } from "./work";

/** Larger texts are compared in the worker. */
const MOST_HERE = 50_000;
const FIRST_LINES = 60;
const STEP_LINES = 1_000;

/** A file before and after. */
export interface FileChange {
  path: string;
  oldText: string;
  newText: string;
  /** The parts that changed, if the agent tells them. Then the texts have nothing else. */
  hunks?: Hunk[];
  /** The texts are a part of the file, and nobody has told which one: lines have no numbers. */
  isPart?: boolean;
}

/** The change, once it is known: `"reading"` while the worker compares, undefined if it is too large. */
export function useChange({ oldText, newText, hunks }: FileChange): Change | "reading" | undefined {
  const isShort = hunks !== undefined || oldText.length + newText.length <= MOST_HERE;
  const here = useMemo(() => {
    if (hunks !== undefined) return changeOf(hunks);
    return isShort ? compare(oldText, newText) : undefined;
  }, [oldText, newText, hunks]);
  const there = useWork(isShort ? undefined : { do: "compare", oldText, newText });
  if (isShort) return here;
  return there === undefined ? "reading" : there.result;
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

export const Diff = memo(function Diff({ id, ...change }: FileChange & { id: string }) {
  const { path, oldText, newText, isPart } = change;
  const made = useChange(change);
  const [most, setMost] = useKept(`${id} diff`, FIRST_LINES);
  const before = useColours(path, oldText);
  const after = useColours(path, newText);
  if (made === "reading") return <p class="more">Comparing the two versions.</p>;
  if (made === undefined)
    return <p class="more">The two versions are too large or too different to be compared here.</p>;
  const lines = isPart ? made.lines.filter(({ sign }) => sign !== "@") : made.lines;
  const shown = lines.slice(0, most);
  const left = lines.length - shown.length;
  const tokensOf = (line: Line) =>
    line.sign === "@" ? undefined : (line.sign === "−" ? before : after)?.[line.at];
  return (
    <div class="output">
      <div class="diff" tabIndex={0} role="region" aria-label={`Change of ${path}`}>
        <table>
          <tbody>
            {shown.map((line, place) => (
              <tr key={place} class={KINDS[line.sign]}>
                <td class="number">{isPart ? "" : line.old}</td>
                <td class="number">{isPart ? "" : line.new}</td>
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
            First {count(shown.length)} of {count(lines.length)} lines
          </span>
          <button type="button" class="link" onClick={() => setMost(most + STEP_LINES)}>
            Show {count(Math.min(left, STEP_LINES))} more
          </button>
        </p>
      )}
    </div>
  );
});
