// The lines of a change of a file. Pure: it runs in the page for small texts, and in the worker for others.

import { diffWordsWithSpace, structuredPatch } from "diff";

/** A greater distance takes too long to compute. */
const MOST_EDITS = 20_000;
const MOST_MS = 2_000;
const MOST_CHARS = 4_000_000;
/** Words of longer lines are not compared. */
const MOST_WORDS = 2_000;
/** The part of two lines that may differ, if words are marked. */
const MOST_MARKED = 0.6;

export interface Line {
  sign: "+" | "−" | " " | "@";
  old: number | undefined;
  new: number | undefined;
  text: string;
  /** Its place in the text of its side. */
  at: number;
  /** Where words of a changed line differ from its other side: begin and end. */
  marks?: [number, number][];
}

/** A part of a change, as `diff -u` has it: each line begins with its sign. */
export interface Hunk {
  oldStart: number;
  newStart: number;
  lines: string[];
}

export interface Change {
  lines: Line[];
  added: number;
  removed: number;
}

/** The places at which two sides of a line differ. */
function marksOf(before: string, after: string): [[number, number][], [number, number][]] {
  const [removed, added]: [[number, number][], [number, number][]] = [[], []];
  let [old, now] = [0, 0];
  for (const part of diffWordsWithSpace(before, after)) {
    const { length } = part.value;
    if (part.removed) removed.push([old, old + length]);
    if (part.added) added.push([now, now + length]);
    if (!part.added) old += length;
    if (!part.removed) now += length;
  }
  // Lines that have little in common are another line each: marks everywhere would say nothing.
  const marked = (marks: [number, number][]) => marks.reduce((all, [begin, end]) => all + end - begin, 0);
  const isOther = marked(removed) + marked(added) > (before.length + after.length) * MOST_MARKED;
  return isOther ? [[], []] : [removed, added];
}

/** The lines of a change; undefined if the texts are too large or too different. */
export function compare(oldText: string, newText: string): Change | undefined {
  if (oldText.length + newText.length > MOST_CHARS) return undefined;
  const patch = structuredPatch("", "", oldText, newText, "", "", {
    context: 3,
    maxEditLength: MOST_EDITS,
    timeout: MOST_MS,
  });
  if (patch === undefined) return undefined;
  const change = changeOf(patch.hunks);
  // The texts are whole: places in them are numbers of lines.
  for (const line of change.lines) line.at = (line.new ?? line.old ?? 1) - 1;
  return change;
}

/** One side of a change, without the lines between its parts. */
export function sideOf(hunks: Hunk[], sign: "+" | "-"): string {
  const isOf = (line: string) => line.startsWith(" ") || line.startsWith(sign);
  return hunks.flatMap((hunk) => hunk.lines.filter(isOf).map((line) => line.slice(1))).join("\n");
}

/** The lines of a change whose parts are known. */
export function changeOf(hunks: Hunk[]): Change {
  const lines: Line[] = [];
  let [added, removed] = [0, 0];
  let [oldAt, newAt] = [0, 0];
  for (const hunk of hunks) {
    lines.push({ sign: "@", old: undefined, new: undefined, text: `line ${hunk.newStart}`, at: 0 });
    let [old, now] = [hunk.oldStart, hunk.newStart];
    let pending: Line[] = [];
    for (const text of hunk.lines) {
      const rest = text.slice(1);
      if (text.startsWith("-")) {
        const line: Line = { sign: "−", old, new: undefined, text: rest, at: oldAt++ };
        pending.push(line);
        lines.push(line);
        old += 1;
        removed += 1;
      } else if (text.startsWith("+")) {
        const line: Line = { sign: "+", old: undefined, new: now, text: rest, at: newAt++ };
        const partner = pending.shift();
        if (partner !== undefined && partner.text.length + rest.length <= MOST_WORDS)
          [partner.marks, line.marks] = marksOf(partner.text, rest);
        lines.push(line);
        now += 1;
        added += 1;
      } else if (!text.startsWith("\\")) {
        pending = [];
        lines.push({ sign: " ", old, new: now, text: rest, at: newAt++ });
        oldAt += 1;
        old += 1;
        now += 1;
      }
    }
  }
  return { lines, added, removed };
}
