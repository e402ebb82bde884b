// Files that go with a prompt, as far as the agent takes them.

import { useEffect, useRef, useState } from "preact/hooks";
import type { ContentBlock } from "turnstream";
import { client } from "./api";
import { size } from "./format";
import { Icon } from "./icons";

/** Larger files are better named in the prompt: the agent reads them itself. */
const MOST_BYTES = 5 * 1024 * 1024;

export interface Attachment {
  name: string;
  bytes: number;
  block: ContentBlock & Record<string, unknown>;
}

const KNOWN = new Map<string, string[]>();

/** What an agent takes in prompts. While it is not known, everything is offered, and the gateway decides. */
export function useTakes(agent: string): string[] | undefined {
  const [takes, setTakes] = useState(KNOWN.get(agent));
  useEffect(() => {
    if (takes !== undefined) return;
    const gone = new AbortController();
    client
      .agents(gone.signal)
      .then((agents) => {
        for (const one of agents) if (one.takes !== undefined) KNOWN.set(one.name, one.takes);
        setTakes(KNOWN.get(agent));
      })
      .catch(() => undefined);
    return () => gone.abort();
  }, [agent]);
  return takes;
}

/** Why the agent does not take this file. */
function refusal(file: File, block: ContentBlock, takes: string[] | undefined): string | undefined {
  if (takes === undefined) return undefined;
  const kind = block.type === "resource" && block.resource?.text === undefined ? "pdf" : block.type;
  const isTaken = takes.includes(kind) && (kind !== "pdf" || takes.includes("audio") || isPdf(file));
  if (isTaken) return undefined;
  const what =
    { image: "images", audio: "sound", resource: "files of text", pdf: "such files" }[kind] ?? kind;
  return `${file.name}: this agent takes no ${what}. Name its path in the prompt instead.`;
}

function isPdf(file: File): boolean {
  return file.type === "application/pdf";
}

/** What the file dialog offers first. */
function accepted(takes: string[] | undefined): string | undefined {
  if (takes === undefined || takes.includes("audio")) return undefined;
  const kinds = { image: "image/*", resource: "text/*", pdf: "application/pdf" };
  const offered = Object.entries(kinds).filter(([kind]) => takes.includes(kind));
  // Source code has types that browsers do not know.
  return takes.includes("resource") ? undefined : offered.map(([, type]) => type).join(",");
}

function base64(bytes: Uint8Array): string {
  let text = "";
  for (let at = 0; at < bytes.length; at += 0x8000) {
    text += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  }
  return btoa(text);
}

function textOf(bytes: Uint8Array): string | undefined {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    return undefined;
  }
}

async function read(file: File): Promise<Attachment> {
  const bytes = new Uint8Array(await file.arrayBuffer());
  const mimeType = file.type === "" ? "application/octet-stream" : file.type;
  const about = { name: file.name, bytes: bytes.length };
  if (mimeType.startsWith("image/") || mimeType.startsWith("audio/")) {
    const type = mimeType.startsWith("image/") ? "image" : "audio";
    return { ...about, block: { type, mimeType, data: base64(bytes) } };
  }
  const uri = `attachment:///${encodeURIComponent(file.name)}`;
  const text = textOf(bytes);
  const content =
    text === undefined ? { blob: base64(bytes), mimeType } : { text, mimeType: file.type || "text/plain" };
  return { ...about, block: { type: "resource", resource: { uri, ...content } } };
}

interface AttachProps {
  attached: Attachment[];
  change: (attached: Attachment[]) => void;
}

/** The button that adds files; none if the agent takes only text. */
export function AttachButton({ attached, change, takes }: AttachProps & { takes: string[] | undefined }) {
  const input = useRef<HTMLInputElement>(null);
  const [problem, setProblem] = useState<string>();
  const add = async (files: File[]) => {
    const large = files.filter((file) => file.size > MOST_BYTES);
    const problems = large.map((file) => `${file.name}: larger than ${size(MOST_BYTES)}.`);
    const taken: Attachment[] = [];
    for (const file of files.filter((file) => file.size <= MOST_BYTES)) {
      const one = await read(file);
      const why = refusal(file, one.block, takes);
      if (why === undefined) taken.push(one);
      else problems.push(why);
    }
    setProblem(problems.length === 0 ? undefined : problems.join(" "));
    change([...attached, ...taken]);
    if (input.current !== null) input.current.value = "";
  };
  if (takes !== undefined && !takes.some((kind) => ["image", "audio", "resource", "pdf"].includes(kind)))
    return null;
  return (
    <>
      <input
        ref={input}
        type="file"
        multiple
        hidden
        accept={accepted(takes)}
        onChange={(event) => void add([...(event.currentTarget.files ?? [])])}
      />
      <button
        type="button"
        class="icon-button"
        aria-label="Attach files"
        title="Attach files"
        onClick={() => input.current?.click()}
      >
        <Icon name="attach" />
      </button>
      {problem !== undefined && <span class="c-lost">{problem}</span>}
    </>
  );
}

export function Attached({ attached, change }: AttachProps) {
  if (attached.length === 0) return null;
  return (
    <ul class="queue attached" aria-label="Attached files">
      {attached.map((one, place) => (
        <li key={place}>
          <Icon name="attach" /> <span class="ellipsis grow">{one.name}</span>
          <span class="faint">{size(one.bytes)}</span>
          <button
            type="button"
            class="link"
            aria-label={`Remove ${one.name}`}
            onClick={() => change(attached.filter((other) => other !== one))}
          >
            Remove
          </button>
        </li>
      ))}
    </ul>
  );
}
