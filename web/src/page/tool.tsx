// A tool call as one card: its start and its end are one row, and what it read, ran or changed is below.

import { memo } from "preact/compat";
import type { Item, Tool } from "../client/values";
import { change, Diff } from "./diff";
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
  return typeof output === "string" ? output : JSON.stringify(output, null, 2);
}

function inputShown(item: Item): string {
  if (item.input !== undefined) return item.input;
  const input = item.tool?.input;
  if (input === undefined || input === null) return "";
  const command = inputText(item.tool ?? {}, ["command", "cmd"]);
  if (command !== undefined && Object.keys(input as object).length === 1) return command;
  const text = typeof input === "string" ? input : JSON.stringify(input, null, 2);
  return text === "{}" ? "" : text;
}

export function diffsOf(tool: Tool): { path: string; oldText: string; newText: string }[] {
  return (tool.content ?? [])
    .filter((part) => part.type === "diff")
    .map((part) => ({ path: part.path ?? "", oldText: part.oldText ?? "", newText: part.newText ?? "" }));
}

function Counts({ tool }: { tool: Tool }) {
  const diffs = diffsOf(tool);
  if (diffs.length === 0) return null;
  const made = diffs.map((diff) => change(diff.oldText, diff.newText));
  if (made.some((one) => one === undefined)) return null;
  const [added, removed] = made.reduce(
    (all, one) => [all[0]! + (one?.added ?? 0), all[1]! + (one?.removed ?? 0)],
    [0, 0],
  );
  return (
    <span class="counts">
      <b class="c-work">+{added}</b> <b class="c-lost">−{removed}</b>
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

export const ToolCard = memo(function ToolCard({
  item,
  children,
}: {
  item: Item;
  children?: preact.ComponentChildren;
}) {
  const tool = item.tool ?? {};
  const diffs = diffsOf(tool);
  const failed = item.state === "failed" || item.state === "unknown";
  const [chosen, setChosen] = useKept<boolean | undefined>(item.item, undefined);
  const isOpen = chosen ?? (failed || diffs.length > 0);
  const output = isOpen ? outputText(item) : "";
  const name = verb(tool);
  const what = target(tool);
  const whole = isOpen ? inputShown(item) : "";
  // A command of one line is in the head already.
  const input = whole === what ? "" : whole;
  return (
    <section class="card tool" data-item={item.item} data-state={item.state} aria-label={`${name} ${what}`}>
      <button type="button" class="tool-head" aria-expanded={isOpen} onClick={() => setChosen(!isOpen)}>
        <ToolStatus item={item} />
        <b>{name}</b>
        <span class="mono ellipsis grow">{what}</span>
        <span class="meta">
          <Counts tool={tool} />
          {item.state !== "completed" && (
            <span class={failed ? "c-lost" : ""}>
              {item.state === "streaming" && tool.status === "pending"
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
            <Output id={`${item.item} input`} text={input} label={`${name}: input`} />
          )}
          {diffs.map((diff, place) => (
            <div key={place}>
              {diffs.length > 1 && <p class="more mono">{diff.path}</p>}
              <Diff
                id={`${item.item} ${place}`}
                oldText={diff.oldText}
                newText={diff.newText}
                label={`Change of ${diff.path}`}
              />
            </div>
          ))}
          {output !== "" && <Output id={item.item} text={output} label={`${name}: output`} />}
          {item.reason !== undefined && <p class="more c-lost">{item.reason}</p>}
          {input === "" && output === "" && diffs.length === 0 && item.reason === undefined && (
            <p class="more">{item.state === "streaming" ? "Nothing came yet." : "It has no output."}</p>
          )}
        </div>
      )}
      {children}
    </section>
  );
});
