// A tool call as one card: its start and its end are one row, and what it read, ran or changed is below.

import { memo } from "preact/compat";
import type { Item, Tool } from "turnstream";
import { type Hunk, sideOf } from "./compare";
import { Diff, type FileChange, useChange } from "./diff";
import { duration } from "./format";
import { Icon, StateIcon } from "./icons";
import { useKept } from "./kept";
import { Output } from "./output";
import { inputText, target, verb } from "./words";

/** Everything that a tool printed or returned, as one text. */
function outputText(item: Item): string {
  const streamed = item.output ?? "";
  const texts = (item.tool?.content ?? [])
    .map((part) => part.content?.text ?? "")
    .filter((text) => text !== "");
  // Some agents repeat at the end what they streamed, and some add to it.
  const added = texts.filter((text) => !streamed.includes(text));
  if (streamed !== "" || added.length > 0) {
    return [streamed.replace(/\n$/, ""), ...added].filter((text) => text !== "").join("\n");
  }
  const output = item.tool?.output;
  if (output === undefined || output === null) return "";
  if (typeof output === "string") return output;
  // Claude Code has the text for the model beside facts for programs, which the page shows in its own way.
  const { output: text } = output as { output?: unknown };
  return typeof text === "string" ? text : JSON.stringify(output, null, 2);
}

function inputShown(item: Item): string {
  if (item.input !== undefined) return item.input;
  const input = item.tool?.input;
  if (input === undefined || input === null) return "";
  const command = inputText(item.tool ?? {}, ["command", "cmd"]);
  const about = inputText(item.tool ?? {}, ["description"]);
  if (command !== undefined) return about === undefined ? command : `# ${about}\n${command}`;
  const text = typeof input === "string" ? input : JSON.stringify(input, null, 2);
  return text === "{}" ? "" : text;
}

export function diffsOf(tool: Tool): FileChange[] {
  const diffs = (tool.content ?? [])
    .filter((part) => part.type === "diff")
    .map(({ path = "", oldText, newText = "" }) => {
      const isPart = oldText !== undefined && oldText === inputText(tool, ["old_string"]);
      return { path, oldText: oldText ?? "", newText, isPart };
    });
  const hunks = hunksOf(tool.output);
  const [only] = diffs;
  if (hunks === undefined || only === undefined || diffs.length > 1) return diffs;
  return [{ path: only.path, oldText: sideOf(hunks, "-"), newText: sideOf(hunks, "+"), hunks }];
}

/** Characters of a patch that the page reads itself. Of a larger one, the worker compares the texts. */
const MOST_PATCHED = 50_000;

/** Claude Code tells a finished change with its place in the file and the lines around it. */
function hunksOf(output: unknown): Hunk[] | undefined {
  const { metadata } = (output ?? {}) as { metadata?: { structuredPatch?: unknown } };
  const hunks = metadata?.structuredPatch;
  const isHunk = (hunk: Partial<Hunk> | null) =>
    Number.isInteger(hunk?.oldStart) &&
    Number.isInteger(hunk?.newStart) &&
    Array.isArray(hunk?.lines) &&
    hunk.lines.every((line) => typeof line === "string");
  if (!Array.isArray(hunks) || hunks.length === 0 || !hunks.every(isHunk)) return undefined;
  const lines = (hunks as Hunk[]).flatMap((hunk) => hunk.lines);
  const isShort = lines.reduce((all, line) => all + line.length + 1, 0) <= MOST_PATCHED;
  return isShort ? (hunks as Hunk[]) : undefined;
}

/** How many lines a change added and removed. */
function Counts({ diff }: { diff: FileChange }) {
  const made = useChange(diff);
  if (made === undefined || made === "reading") return null;
  return (
    <span class="counts">
      <b class="c-work">+{made.added}</b> <b class="c-lost">−{made.removed}</b>
    </span>
  );
}

export function ToolStatus({ item }: { item: Item }) {
  if (item.state === "streaming") return <StateIcon state="busy" />;
  if (item.state === "completed") return <Icon name="check" />;
  return (
    <span class="c-lost">
      <Icon name="cross" />
    </span>
  );
}

const STATE_WORDS = {
  streaming: "running",
  completed: "done",
  failed: "failed",
  abandoned: "cut off",
  unknown: "not known whether it ran",
} as const;

export const ToolCard = memo(function ToolCard({ item, isAsked }: { item: Item; isAsked: boolean }) {
  const tool = item.tool ?? {};
  const diffs = diffsOf(tool);
  const failed = item.state === "failed" || item.state === "unknown";
  const [chosen, setChosen] = useKept<boolean | undefined>(item.item, undefined);
  const isOpen = chosen ?? (failed || (diffs.length > 0 && !isAsked));
  // A change that was made says nothing more than the change.
  const isSaid = diffs.length > 0 && item.state === "completed";
  const output = isOpen && !isSaid ? outputText(item) : "";
  const name = verb(tool);
  const what = target(tool);
  const whole = isOpen ? inputShown(item) : "";
  // A command of one line is in the head already.
  const input = whole === what ? "" : whole;
  return (
    <section class="card tool" data-item={item.item} data-state={item.state} aria-label={`${name} ${what}`}>
      <button type="button" class="tool-head" aria-expanded={isOpen} onClick={() => setChosen(!isOpen)}>
        {isAsked ? <StateIcon state="waiting" /> : <ToolStatus item={item} />}
        <b>{name}</b>
        <span class="mono ellipsis grow">{what}</span>
        <span class="meta">
          {diffs.length === 1 && diffs[0] !== undefined && <Counts diff={diffs[0]} />}
          {diffs.length > 1 && <span>{diffs.length} files</span>}
          {item.state !== "completed" && (
            <span class={failed ? "c-lost" : ""}>
              {isAsked
                ? "waits for you"
                : item.state === "streaming" && tool.status === "pending"
                  ? "not started"
                  : STATE_WORDS[item.state]}
            </span>
          )}
          {item.incomplete && <span class="c-lost">some bytes may be missing</span>}
          {item.ended !== undefined && <span>{duration(item.ended - item.time)}</span>}
        </span>
        <span class={isOpen ? "chevron open" : "chevron"}>
          <Icon name="right" />
        </span>
      </button>
      {isOpen && (
        <div class="tool-body">
          {input !== "" && diffs.length === 0 && (
            <Output id={`${item.item} input`} text={input} label={`${name}: input`} wraps />
          )}
          {diffs.map((diff, place) => (
            <div key={place}>
              {diffs.length > 1 && <p class="more mono">{diff.path}</p>}
              <Diff id={`${item.item} ${place}`} {...diff} />
            </div>
          ))}
          {output !== "" && <Output id={item.item} text={output} label={`${name}: output`} />}
          {item.reason !== undefined && <p class="more c-lost">{item.reason}</p>}
          {input === "" && output === "" && diffs.length === 0 && item.reason === undefined && (
            <p class="more">{item.state === "streaming" ? "Nothing came yet." : "It has no output."}</p>
          )}
        </div>
      )}
    </section>
  );
});
