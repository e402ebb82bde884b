// Files that go with a prompt. What an agent does not take, the gateway refuses with the reason.

import { useRef, useState } from "preact/hooks";
import type { ContentBlock } from "../client/values";
import { size } from "./format";
import { Icon } from "./icons";

/** Larger files are better named in the prompt: the agent reads them itself. */
const MOST_BYTES = 5 * 1024 * 1024;

export interface Attachment {
  name: string;
  bytes: number;
  block: ContentBlock & Record<string, unknown>;
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

/** The button that adds files. */
export function AttachButton({ attached, change }: AttachProps) {
  const input = useRef<HTMLInputElement>(null);
  const [problem, setProblem] = useState<string>();
  const add = async (files: File[]) => {
    const large = files.filter((file) => file.size > MOST_BYTES);
    const names = large.map((file) => file.name).join(", ");
    setProblem(large.length === 0 ? undefined : `${names}: larger than ${size(MOST_BYTES)}.`);
    const fine = files.filter((file) => file.size <= MOST_BYTES);
    change([...attached, ...(await Promise.all(fine.map(read)))]);
    if (input.current !== null) input.current.value = "";
  };
  return (
    <>
      <input
        ref={input}
        type="file"
        multiple
        hidden
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
