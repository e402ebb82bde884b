// What can be done with a session as a whole: its settings, its export, its end.

import { useEffect, useRef, useState } from "preact/hooks";
import { type Permissions, type SessionInfo, sessionPath } from "turnstream";
import { useAct } from "./answer";
import { client } from "./api";
import { Icon } from "./icons";
import { POLICIES, useAgents } from "./new";
import { link } from "./route";

type Open = "settings" | "delete" | undefined;

export function SessionMenu({ session, isLive }: { session: SessionInfo; isLive: boolean }) {
  const menu = useRef<HTMLDetailsElement>(null);
  const [open, setOpen] = useState<Open>();
  const act = useAct();
  const close = () => menu.current?.removeAttribute("open");
  useEffect(() => {
    const elsewhere = (event: Event) => {
      if (event.target instanceof Node && !menu.current?.contains(event.target)) close();
    };
    const escape = (event: KeyboardEvent) => {
      if (event.key !== "Escape" || menu.current?.open !== true) return;
      close();
      menu.current.querySelector("summary")?.focus();
    };
    addEventListener("click", elsewhere);
    addEventListener("keydown", escape);
    return () => {
      removeEventListener("click", elsewhere);
      removeEventListener("keydown", escape);
    };
  }, []);
  const choose = (what: () => void) => () => {
    close();
    what();
  };
  return (
    <>
      <details class="menu" ref={menu}>
        <summary class="icon-button" aria-label="More about this session">
          <Icon name="more" />
        </summary>
        <ul>
          <li>
            <button type="button" disabled={!isLive} onClick={choose(() => setOpen("settings"))}>
              Title, model, mode, permissions
            </button>
          </li>
          <li>
            <a class="button" href={link.newFrom(session.id)}>
              Go on with another agent
            </a>
          </li>
          <li>
            <button
              type="button"
              disabled={!isLive}
              onClick={choose(() => void act.run(() => save(session.id, "markdown")))}
            >
              Export as Markdown
            </button>
          </li>
          <li>
            <button
              type="button"
              disabled={!isLive}
              onClick={choose(() => void act.run(() => save(session.id, "jsonl")))}
            >
              Export the log as JSON lines
            </button>
          </li>
          <li>
            <button type="button" class="c-lost" disabled={!isLive} onClick={choose(() => setOpen("delete"))}>
              Delete
            </button>
          </li>
        </ul>
      </details>
      {act.problem !== undefined && (
        <p class="problem" role="alert">
          {act.problem}
        </p>
      )}
      {open === "settings" && <Settings session={session} close={() => setOpen(undefined)} />}
      {open === "delete" && <Delete session={session} close={() => setOpen(undefined)} />}
    </>
  );
}

/** Saves an export as a file. The token is in a header, so a link would not do. */
async function save(session: string, format: "markdown" | "jsonl"): Promise<void> {
  const answer = await client.open(sessionPath(session, `/export?format=${format}`));
  const url = URL.createObjectURL(await answer.blob());
  const anchor = document.createElement("a");
  anchor.href = url;
  anchor.download = `${session}.${format === "markdown" ? "md" : "jsonl"}`;
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

/** A dialog over the page. Escape closes it, and focus goes back to where it was. */
function Dialog({
  label,
  close,
  children,
}: {
  label: string;
  close: () => void;
  children: preact.ComponentChildren;
}) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current?.showModal(), []);
  return (
    <dialog ref={dialog} class="dialog" aria-label={label} onClose={close}>
      {children}
    </dialog>
  );
}

function Settings({ session, close }: { session: SessionInfo; close: () => void }) {
  const { found } = useAgents();
  const agent = found?.agents.find((one) => one.name === session.agent);
  const [title, setTitle] = useState(session.title ?? "");
  const [model, setModel] = useState(session.model ?? "");
  const [mode, setMode] = useState(session.mode ?? "");
  const [policy, setPolicy] = useState<Permissions>(session.permissions ?? "ask");
  const act = useAct();
  const changed = {
    ...(title.trim() !== "" && title.trim() !== session.title && { title: title.trim() }),
    ...(model !== "" && model !== session.model && { model }),
    ...(mode !== "" && mode !== session.mode && { mode }),
    ...(policy !== (session.permissions ?? "ask") && { permissions: policy }),
  };
  const isChanged = Object.keys(changed).length > 0;
  const submit = async (event: SubmitEvent) => {
    event.preventDefault();
    if (!isChanged || (await act.run(() => client.updateSession(session.id, changed)))) close();
  };
  return (
    <Dialog label="Title, model, mode, permissions" close={close}>
      <form class="form" onSubmit={submit}>
        <h2>Session</h2>
        <label class="field">
          <span>Title</span>
          <input
            type="text"
            value={title}
            maxLength={1000}
            onInput={(event) => setTitle(event.currentTarget.value)}
          />
        </label>
        <Choice
          name="Model"
          value={model}
          now={session.model}
          known={agent?.models ?? []}
          change={setModel}
        />
        <Choice name="Mode" value={mode} now={session.mode} known={agent?.modes ?? []} change={setMode} />
        <fieldset>
          <legend>When the agent asks for permission</legend>
          {POLICIES.map((one) => (
            <label key={one.policy} class="choice">
              <input
                type="radio"
                name="policy"
                checked={policy === one.policy}
                onChange={() => setPolicy(one.policy)}
              />
              <span>
                {one.name}
                <span class="detail">{one.about}</span>
              </span>
            </label>
          ))}
        </fieldset>
        {act.problem !== undefined && (
          <p class="problem" role="alert">
            {act.problem}
          </p>
        )}
        <div class="buttons">
          <button type="submit" class="primary" disabled={act.isBusy}>
            Save
          </button>
          <button type="button" class="quiet" onClick={close}>
            Close
          </button>
        </div>
      </form>
    </Dialog>
  );
}

interface ChoiceProps {
  name: string;
  value: string;
  now: string | undefined;
  known: { id: string; about?: string }[];
  change: (value: string) => void;
}

/** A model or a mode: one that is known, or any other by its name. */
function Choice({ name, value, now, known, change }: ChoiceProps) {
  const ids = [...new Set([...(now === undefined ? [] : [now]), ...known.map((one) => one.id)])];
  const list = `known-${name}`;
  return (
    <label class="field">
      <span>{name}</span>
      <input
        type="text"
        list={list}
        value={value}
        placeholder="The agent’s own choice"
        onInput={(event) => change(event.currentTarget.value)}
      />
      <datalist id={list}>
        {ids.map((id) => (
          <option key={id} value={id} />
        ))}
      </datalist>
      {known.length > 0 && <span class="detail">Known: {ids.join(", ")}</span>}
    </label>
  );
}

function Delete({ session, close }: { session: SessionInfo; close: () => void }) {
  const act = useAct();
  const [isPending, setPending] = useState(false);
  const erase = () =>
    act.run(async () => {
      if ((await client.deleteSession(session.id)) === "pending") setPending(true);
      else location.hash = link.sessions.slice(1);
    });
  return (
    <Dialog label="Delete this session" close={close}>
      <div class="form">
        <h2>Delete this session?</h2>
        <p class="reading">
          “{session.title ?? session.id}” ends, and its log is erased from the gateway’s disk. Nobody can
          bring it back. Files that the agent changed stay as they are.
        </p>
        {isPending && <p class="faint">Erasing takes longer. Ask again in a moment.</p>}
        {act.problem !== undefined && (
          <p class="problem" role="alert">
            {act.problem}
          </p>
        )}
        <div class="buttons">
          <button type="button" class="danger" disabled={act.isBusy} onClick={erase}>
            {act.isBusy ? "Erasing" : "Delete for good"}
          </button>
          <button type="button" class="quiet" onClick={close}>
            Keep it
          </button>
        </div>
      </div>
    </Dialog>
  );
}
