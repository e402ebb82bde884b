// The transcript of a session: its turns, with what a person said, what the agent did, and what waits.

import { memo } from "preact/compat";
import { useState } from "preact/hooks";
import { ownName } from "../client/api";
import type { Notice, SessionFold } from "../client/fold";
import type { Approval, Asked, Item, Prompt, SessionInfo, Turn } from "../client/values";
import { clock, clockSeconds, count, duration, money, plural, tokens } from "./format";
import { Icon } from "./icons";
import { Markdown } from "./markdown";
import { link } from "./route";
import { ToolCard, ToolStatus } from "./tool";
import { ApprovalCard, QuestionCard } from "./waits";
import { endWords, target, verb } from "./words";

export function promptText(prompt: Prompt): string {
  const parts = prompt.content.map(
    (block) => block.text ?? `[${block.type}${block.name === undefined ? "" : ` ${block.name}`}]`,
  );
  return parts.join("\n");
}

/** One thing in a turn, at its time. */
type Entry =
  | { time: number; kind: "item"; item: Item }
  | { time: number; kind: "approval"; approval: Approval }
  | { time: number; kind: "question"; asked: Asked }
  | { time: number; kind: "notice"; notice: Notice };

interface Block {
  turn: Turn | undefined;
  entries: Entry[];
}

function blocks(fold: SessionFold): Block[] {
  const of = new Map<string | undefined, Block>();
  for (const turn of fold.turns.values()) of.set(turn.turn, { turn, entries: [] });
  const between: Block = { turn: undefined, entries: [] };
  const block = (turn: string | undefined) => (turn === undefined ? undefined : of.get(turn)) ?? between;
  for (const item of fold.items.values()) {
    const hasParent = item.parent !== undefined && fold.items.has(item.parent);
    // What a person said in a prompt is shown as the prompt.
    const isPrompt =
      item.role === "user" && !item.synthetic && (fold.turns.get(item.turn ?? "")?.prompts.length ?? 0) > 0;
    if (!hasParent && !isPrompt) block(item.turn).entries.push({ time: item.time, kind: "item", item });
  }
  for (const approval of fold.approvals.values()) {
    block(approval.turn).entries.push({ time: approval.time, kind: "approval", approval });
  }
  for (const asked of fold.questions.values())
    block(asked.turn).entries.push({ time: asked.time, kind: "question", asked });
  for (const notice of fold.notices)
    block(notice.turn).entries.push({ time: notice.time, kind: "notice", notice });
  const all = [...of.values()];
  // Notices of before the first turn that is shown belong to pages that are not here.
  const first = all[0]?.turn?.started ?? 0;
  between.entries = between.entries.filter(
    (entry) => entry.kind !== "notice" || entry.time >= first || all.length === 0,
  );
  if (between.entries.length > 0) all.push(between);
  for (const one of all) one.entries.sort((a, b) => a.time - b.time);
  return all;
}

interface Place {
  fold: SessionFold;
  session: SessionInfo;
  isLive: boolean;
}

export function Transcript(place: Place) {
  const numbered = [...place.fold.turns.keys()];
  return (
    <div role="log" aria-live="off" aria-label="Transcript" class="transcript">
      {blocks(place.fold).map((block) => (
        <TurnBlock
          key={block.turn?.turn ?? "between"}
          block={block}
          number={
            block.turn === undefined
              ? undefined
              : place.fold.next === undefined
                ? numbered.indexOf(block.turn.turn) + 1
                : undefined
          }
          {...place}
        />
      ))}
    </div>
  );
}

function TurnBlock({
  block,
  number,
  fold,
  session,
  isLive,
}: Place & { block: Block; number: number | undefined }) {
  const { turn } = block;
  const seq = turn === undefined ? undefined : fold.turnSeq.get(turn.turn);
  const model = turn?.attempts.findLast((attempt) => attempt.model !== undefined)?.model;
  return (
    <section class="turn" data-turn={turn?.turn} data-outcome={turn?.outcome ?? "open"}>
      {turn === undefined ? (
        <h2 class="turn-line">Between turns</h2>
      ) : (
        <h2 class="turn-line">
          <b>{number === undefined ? "Turn" : `Turn ${count(number)}`}</b>
          <span>{clockSeconds(turn.started)}</span>
          <span>
            {session.agent}
            {model === undefined ? "" : ` · ${model}`}
          </span>
          {turn.origin === "agent" && <span>begun by the agent</span>}
          {turn.origin === "foreign" && <span>begun by another client of the agent</span>}
          {seq !== undefined && <a href={link.timeline(session.id, seq)}>seq {count(seq)}</a>}
          <span class="rule" />
        </h2>
      )}
      {turn?.prompts.map((id) => {
        const prompt = fold.prompts.get(id) ?? fold.queue.get(id);
        return prompt === undefined ? null : (
          <div key={id} class="prompt" data-prompt={id}>
            <p class="who">
              <b>
                {prompt.actor === undefined ? "Prompt" : prompt.actor === ownName() ? "You" : prompt.actor}
              </b>{" "}
              <span>{clockSeconds(prompt.time)}</span>
            </p>
            <Said text={promptText(prompt)} />
          </div>
        );
      })}
      {block.entries.map((entry) => {
        switch (entry.kind) {
          case "item":
            return <ItemView key={entry.item.item} item={entry.item} fold={fold} isLive={isLive} />;
          case "approval": {
            const item = entry.approval.item === undefined ? undefined : fold.items.get(entry.approval.item);
            return (
              <ApprovalCard
                key={entry.approval.approval}
                approval={entry.approval}
                item={item}
                session={session}
                isLive={isLive}
              />
            );
          }
          case "question":
            return (
              <QuestionCard
                key={entry.asked.question}
                asked={entry.asked}
                session={session}
                isLive={isLive}
              />
            );
          case "notice":
            return (
              <NoticeLine key={`notice-${entry.notice.seq}`} notice={entry.notice} session={session.id} />
            );
        }
      })}
      {turn !== undefined && <TurnEnd turn={turn} />}
    </section>
  );
}

/** A longer prompt is folded. */
const SAID_LINES = 12;
const SAID_CHARS = 1_000;

function Said({ text }: { text: string }) {
  const [all, setAll] = useState(false);
  const short = text.split("\n").slice(0, SAID_LINES).join("\n").slice(0, SAID_CHARS);
  const isCut = !all && short.length < text.length;
  return (
    <>
      <p class="reading pre-line">{isCut ? `${short.slice(0, SAID_CHARS / 2)}…` : text}</p>
      {isCut && (
        <button type="button" class="link" onClick={() => setAll(true)}>
          Show all, {plural(words(text), "word")}
        </button>
      )}
    </>
  );
}

function TurnEnd({ turn }: { turn: Turn }) {
  if (turn.outcome === undefined)
    return turn.cancelling === undefined ? null : (
      <p class="faint">Cancelling. The agent has to stop first.</p>
    );
  const words = endWords(turn);
  const bad = turn.outcome === "failed" || turn.outcome === "lost";
  const facts = [
    turn.ended === undefined ? undefined : duration(turn.ended - turn.started),
    turn.cost === undefined ? undefined : money(turn.cost),
    turn.usage?.output === undefined ? undefined : `${tokens(turn.usage.output)} tokens written`,
  ].filter((fact) => fact !== undefined);
  return (
    <>
      {words !== undefined && (
        <div class={bad ? "notice lost" : "notice plain-notice"}>
          <Icon name={bad ? "cross" : "stop"} />
          <p>
            <b>{words}.</b> {turn.error?.message ?? ""}
            {turn.error?.retry_at !== undefined && ` It can be tried again at ${clock(turn.error.retry_at)}.`}
          </p>
        </div>
      )}
      <p class="turn-end faint">
        {turn.outcome === "completed" ? "Finished" : "Ended"}
        {facts.map((fact) => ` · ${fact}`)}
      </p>
    </>
  );
}

const NOTICES: Record<string, string> = {
  gap: "The agent’s stream was cut.",
  repaired: "Gap repaired.",
  corrupt: "Damaged bytes.",
  degraded: "The log cannot be written.",
  healed: "The log can be written again.",
  unexpected_permission: "An unexpected permission.",
  budget: "Budget.",
  late: "It came late.",
  unknown_event: "An unknown event of the agent.",
  forgotten: "The agent has forgotten this session.",
};

const LOUD = new Set(["corrupt", "degraded", "forgotten"]);

function NoticeLine({ notice, session }: { notice: Notice; session: string }) {
  const tone = LOUD.has(notice.code) ? "lost" : notice.code === "budget" ? "you" : "gate";
  return (
    <div class={`notice ${tone}`}>
      <Icon name="gate" />
      <p>
        <b>{NOTICES[notice.code] ?? notice.code}</b> {notice.message}{" "}
        <a href={link.timeline(session, notice.seq)}>seq {count(notice.seq)}</a>
      </p>
    </div>
  );
}

const ItemView = memo(
  function ItemView({ item, fold, isLive }: { item: Item; fold: SessionFold; isLive: boolean }) {
    if (item.voidBy !== undefined) return <Superseded item={item} fold={fold} />;
    switch (item.kind) {
      case "message":
        return item.role === "user" ? (
          <div class="prompt">
            <p class="who">
              <b>{item.synthetic ? "Written by the agent in your name" : "Another client"}</b>
            </p>
            <p class="reading pre-line">{item.text}</p>
          </div>
        ) : (
          <Reply item={item} isLive={isLive} />
        );
      case "reasoning":
        return <Reasoning item={item} />;
      case "tool":
        return <ToolWithSubagent item={item} fold={fold} />;
      case "plan":
        return (
          <section class="card plan" aria-label="Plan">
            <p class="who">
              <b>Plan</b>
            </p>
            <Markdown text={item.text ?? ""} />
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
    (after.item.kind !== "tool" || !hasChildren(after.fold, after.item)) &&
    after.item.voidBy === undefined,
);

function hasChildren(fold: SessionFold, item: Item): boolean {
  for (const other of fold.items.values()) if (other.parent === item.item) return true;
  return false;
}

function Reply({ item, isLive }: { item: Item; isLive: boolean }) {
  const isOpen = item.state === "streaming";
  return (
    <div class={isOpen && isLive ? "reply open" : "reply"} data-item={item.item} data-state={item.state}>
      <Markdown text={item.text ?? ""} />
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

function words(text: string): number {
  return text.split(/\s+/).filter((word) => word !== "").length;
}

function Reasoning({ item }: { item: Item }) {
  const [isOpen, setOpen] = useState(false);
  const lasted = item.ended === undefined ? undefined : duration(item.ended - item.time);
  return (
    <div class="folded" data-item={item.item}>
      <button type="button" class="fold" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
        <span class={isOpen ? "chevron open" : "chevron"}>
          <Icon name="right" />
        </span>
        {item.state === "streaming" ? "Thinking" : lasted === undefined ? "Thought" : `Thought for ${lasted}`}{" "}
        · {plural(words(item.text ?? ""), "word")}
      </button>
      {isOpen && (
        <div class="reasoning">
          <Markdown text={item.text ?? ""} />
        </div>
      )}
    </div>
  );
}

function Superseded({ item, fold }: { item: Item; fold: SessionFold }) {
  const [isOpen, setOpen] = useState(false);
  const turn = fold.turns.get(item.turn ?? "");
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
          <del class="pre-line">{text}</del>
          <p class="faint">{counts > 0 ? `Attempt ${counts} counts.` : "A later attempt counts."}</p>
        </div>
      )}
    </div>
  );
}

const FIRST_CALLS = 3;

function ToolWithSubagent({ item, fold }: { item: Item; fold: SessionFold }) {
  const children = [...fold.items.values()].filter((child) => child.parent === item.item);
  const [all, setAll] = useState(false);
  if (children.length === 0) return <ToolCard item={item} />;
  const calls = children.filter((child) => child.kind === "tool");
  const shown =
    all || children.length <= FIRST_CALLS + 2
      ? children
      : [...children.slice(0, FIRST_CALLS), ...children.slice(-1)];
  const hidden = children.length - shown.length;
  return (
    <>
      <ToolCard item={item} />
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
