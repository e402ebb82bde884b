// A change of a file: two columns of numbers, a sign, and the code. Changed words have a stronger tint.

import { diffWordsWithSpace, structuredPatch } from "diff";
import { memo } from "preact/compat";
import { useMemo } from "preact/hooks";
import { count } from "./format";
import { useKept } from "./kept";

/** A greater distance takes too long to compute in the page. */
const MOST_EDITS = 4_000;
const MOST_MS = 250;
const MOST_CHARS = 2_000_000;
const FIRST_LINES = 60;

interface Line {
  sign: "+" | "−" | " " | "@";
  old: number | undefined;
  new: number | undefined;
  text: string;
  /** The other side of a changed line. */
  other?: string;
}

export interface Change {
  lines: Line[];
  added: number;
  removed: number;
}

/** The lines of a change; undefined if the texts are too large or too different. */
export function change(oldText: string, newText: string): Change | undefined {
  if (oldText.length + newText.length > MOST_CHARS) return undefined;
  const patch = structuredPatch("", "", oldText, newText, "", "", {
    context: 3,
    maxEditLength: MOST_EDITS,
    timeout: MOST_MS,
  });
  if (patch === undefined) return undefined;
  const lines: Line[] = [];
  let [added, removed] = [0, 0];
  for (const hunk of patch.hunks) {
    lines.push({ sign: "@", old: undefined, new: undefined, text: `line ${hunk.newStart}` });
    let [old, now] = [hunk.oldStart, hunk.newStart];
    let pending: Line[] = [];
    for (const text of hunk.lines) {
      const rest = text.slice(1);
      if (text.startsWith("-")) {
        const line: Line = { sign: "−", old, new: undefined, text: rest };
        pending.push(line);
        lines.push(line);
        old += 1;
        removed += 1;
      } else if (text.startsWith("+")) {
        const line: Line = { sign: "+", old: undefined, new: now, text: rest };
        const partner = pending.shift();
        if (partner !== undefined) [line.other, partner.other] = [partner.text, rest];
        lines.push(line);
        now += 1;
        added += 1;
      } else if (!text.startsWith("\\")) {
        pending = [];
        lines.push({ sign: " ", old, new: now, text: rest });
        old += 1;
        now += 1;
      }
    }
  }
  return { lines, added, removed };
}

const Words = memo(function Words({ line }: { line: Line }) {
  if (line.other === undefined || line.text.length + line.other.length > 2_000) return <>{line.text}</>;
  const [before, after] = line.sign === "−" ? [line.text, line.other] : [line.other, line.text];
  const parts = diffWordsWithSpace(before, after).filter((part) =>
    line.sign === "−" ? !part.added : !part.removed,
  );
  return (
    <>
      {parts.map((part, place) =>
        part.added || part.removed ? <mark key={place}>{part.value}</mark> : part.value,
      )}
    </>
  );
});

const KINDS = { "+": "added", "−": "removed", " ": "same", "@": "hunk" } as const;

interface DiffProps {
  id: string;
  oldText: string;
  newText: string;
  label: string;
}

export const Diff = memo(function Diff({ id, oldText, newText, label }: DiffProps) {
  const made = useMemo(() => change(oldText, newText), [oldText, newText]);
  const [all, setAll] = useKept(`${id} diff`, false);
  if (made === undefined)
    return <p class="more">The two versions are too large or too different to be compared here.</p>;
  const shown = all ? made.lines : made.lines.slice(0, FIRST_LINES);
  const left = made.lines.length - shown.length;
  return (
    <div class="output">
      <div class="diff" tabIndex={0} role="region" aria-label={label}>
        <table>
          <tbody>
            {shown.map((line, place) => (
              <tr key={place} class={KINDS[line.sign]}>
                <td class="number">{line.old}</td>
                <td class="number">{line.new}</td>
                <td class="sign">{line.sign === "@" ? "" : line.sign}</td>
                <td class="code">
                  <Words line={line} />
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
          <button type="button" class="link" onClick={() => setAll(true)}>
            Show {count(left)} more
          </button>
        </p>
      )}
    </div>
  );
});
