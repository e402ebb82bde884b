// One item of a transcript: a reply, reasoning, a tool call with its subagent, a plan.

import { memo } from "preact/compat";
import type { Item, Turn } from "turnstream";
import { duration, plural, size } from "./format";
import { Icon } from "./icons";
import { useKept } from "./kept";
import { Markdown } from "./markdown";
import { ToolCard, ToolStatus } from "./tool";
import { target, verb } from "./words";

interface ItemProps {
  item: Item;
  /** The work of its subagent. */
  steps: Item[];
  turn: Turn | undefined;
  isLive: boolean;
  /** A card below asks for it, and shows what it would do. */
  isAsked: boolean;
}

/** The words of a longer text are estimated. */
const MOST_COUNTED = 20_000;
/** Of a text that does not count, no more than this is shown. */
const MOST_VOID = 20_000;

function words(text: string): number {
  if (text.length > MOST_COUNTED)
    return Math.round((words(text.slice(0, MOST_COUNTED)) * text.length) / MOST_COUNTED);
  return text.split(/\s+/).filter((word) => word !== "").length;
}

/** A longer prompt is folded. */
const SAID_LINES = 12;
const SAID_CHARS = 1_000;
const SAID_ALL = 200_000;

export function Said({ id, text }: { id: string; text: string }) {
  const [all, setAll] = useKept(`${id} said`, false);
  const short = text.slice(0, SAID_CHARS).split("\n").slice(0, SAID_LINES).join("\n");
  const isCut = !all && short.length < text.length;
  return (
    <>
      <p class="reading pre-line">{isCut ? `${short.slice(0, SAID_CHARS / 2)}…` : text.slice(0, SAID_ALL)}</p>
      {isCut && (
        <button type="button" class="link" onClick={() => setAll(true)}>
          {text.length > SAID_ALL ? `Show the first ${size(SAID_ALL)} of` : "Show all,"}{" "}
          {plural(words(text), "word")}
        </button>
      )}
    </>
  );
}

export const ItemView = memo(
  function ItemView({ item, steps, turn, isLive, isAsked }: ItemProps) {
    if (item.voidBy !== undefined) return <Superseded item={item} turn={turn} />;
    switch (item.kind) {
      case "message":
        return item.role === "user" ? (
          <div class="prompt">
            <p class="who">
              <b>{item.synthetic ? "Written by the agent in your name" : "Another client"}</b>
            </p>
            <Said id={item.item} text={item.text ?? ""} />
          </div>
        ) : (
          <Reply item={item} isLive={isLive} />
        );
      case "reasoning":
        return <Reasoning item={item} />;
      case "tool":
        return <ToolWithSubagent item={item} isAsked={isAsked} children={steps} />;
      case "plan":
        return (
          <section class="card plan" aria-label="Plan">
            <p class="who">
              <b>Plan</b>
            </p>
            <Markdown id={item.item} text={item.text ?? ""} />
          </section>
        );
      case "file":
        return <p class="faint">A file{item.text === undefined ? "" : `: ${item.text}`}</p>;
      case "compaction":
        return <p class="faint">The agent shortened its memory of this conversation.</p>;
    }
  },
  (before, after) =>
    before.item === after.item &&
    before.isLive === after.isLive &&
    before.isAsked === after.isAsked &&
    before.steps.length === after.steps.length &&
    before.steps.every((step, place) => step === after.steps[place]) &&
    after.item.voidBy === undefined,
);

function Reply({ item, isLive }: { item: Item; isLive: boolean }) {
  const isOpen = item.state === "streaming";
  return (
    <div class={isOpen && isLive ? "reply open" : "reply"} data-item={item.item} data-state={item.state}>
      <Markdown id={item.item} text={item.text ?? ""} />
      {isOpen && !isLive && (
        <p class="faint">The text up to here is what came before the page was disconnected.</p>
      )}
      {item.state === "abandoned" && (
        <p class="faint c-lost">
          The reply was cut off here.{item.incomplete && " Some of it may be missing."}
        </p>
      )}
    </div>
  );
}

function Reasoning({ item }: { item: Item }) {
  const [isOpen, setOpen] = useKept(item.item, false);
  const ms = (item.ended ?? item.time) - item.time;
  return (
    <div class="folded" data-item={item.item}>
      <button type="button" class="fold" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        <span class={isOpen ? "chevron open" : "chevron"}>
          <Icon name="right" />
        </span>
        {item.state === "streaming" ? "Thinking" : ms < 100 ? "Thought" : `Thought for ${duration(ms)}`}{" "}
        · {plural(words(item.text ?? ""), "word")}
      </button>
      {isOpen && (
        <div class="reasoning">
          <Markdown id={item.item} text={item.text ?? ""} />
        </div>
      )}
    </div>
  );
}

function Superseded({ item, turn }: { item: Item; turn: Turn | undefined }) {
  const [isOpen, setOpen] = useKept(item.item, false);
  const number = (turn?.attempts.findIndex((attempt) => attempt.attempt === item.attempt) ?? -1) + 1;
  const counts = (turn?.attempts.findIndex((attempt) => attempt.attempt === item.voidBy) ?? -1) + 1;
  const text = item.text ?? (item.tool === undefined ? "" : `${verb(item.tool)} ${target(item.tool)}`);
  return (
    <div class="folded superseded" data-item={item.item}>
      <button type="button" class="fold" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        <span class={isOpen ? "chevron open" : "chevron"}>
          <Icon name="right" />
        </span>
        {number > 0 ? `Attempt ${number}, replaced` : "Replaced"}{" "}
        <del class="ellipsis grow">{isOpen ? "" : text.slice(0, 200)}</del>
      </button>
      {isOpen && (
        <div class="reasoning">
          <del class="pre-line">{text.slice(0, MOST_VOID)}</del>
          <p class="faint">{counts > 0 ? `Attempt ${counts} counts.` : "A later attempt counts."}</p>
        </div>
      )}
    </div>
  );
}

const FIRST_CALLS = 3;

function ToolWithSubagent({
  item,
  isAsked,
  children,
}: {
  item: Item;
  isAsked: boolean;
  children: Item[];
}) {
  const [all, setAll] = useKept(`${item.item} steps`, false);
  if (children.length === 0) return <ToolCard item={item} isAsked={isAsked} />;
  const calls = children.filter((child) => child.kind === "tool");
  const shown =
    all || children.length <= FIRST_CALLS + 2
      ? children
      : [...children.slice(0, FIRST_CALLS), ...children.slice(-1)];
  const hidden = children.length - shown.length;
  return (
    <>
      <ToolCard item={item} isAsked={isAsked} />
      <div class="subagent">
        <p class="who">
          <b>Subagent</b> <span>{plural(calls.length, "call")}</span>
        </p>
        {shown.map((child, place) => (
          <div key={child.item}>
            {hidden > 0 && place === FIRST_CALLS && (
              <button type="button" class="link" onClick={() => setAll(true)}>
                {plural(hidden, "more step")}
              </button>
            )}
            <SubagentStep item={child} />
          </div>
        ))}
      </div>
    </>
  );
}

function SubagentStep({ item }: { item: Item }) {
  if (item.kind === "tool" && item.tool !== undefined) {
    return (
      <p class="step" data-item={item.item}>
        <ToolStatus item={item} /> <b>{verb(item.tool)}</b>{" "}
        <span class="mono ellipsis grow">{target(item.tool)}</span>
        {item.ended !== undefined && <span class="faint">{duration(item.ended - item.time)}</span>}
      </p>
    );
  }
  if (item.kind === "message" && item.role !== "user") return <Reply item={item} isLive />;
  if (item.kind === "reasoning") return <Reasoning item={item} />;
  return null;
}
