// A chat with an agent behind a Turnstream gateway. The address of the page says which one:
// `?gateway=http://127.0.0.1:4180&chat=my-chat#TOKEN`.

import { useChat } from "@ai-sdk/react";
import { DefaultChatTransport } from "ai";
import { StrictMode, useState } from "react";
import { createRoot } from "react-dom/client";
import { isAnswered, visible } from "./turnstream.js";

const query = new URLSearchParams(location.search);
const chat = query.get("chat") ?? "my-chat";
const api = `${query.get("gateway") ?? "http://127.0.0.1:4180"}/ai/v7`;
const headers = { authorization: `Bearer ${location.hash.slice(1)}` };
const transport = new DefaultChatTransport({ api, headers });

function Chat({ messages: initial }) {
  const { messages, sendMessage, status, error, addToolApprovalResponse, addToolOutput } = useChat({
    id: chat,
    messages: initial,
    transport,
    resume: true,
    sendAutomaticallyWhen: isAnswered,
  });
  const [text, setText] = useState("");
  const submit = (event) => {
    event.preventDefault();
    sendMessage({ text });
    setText("");
  };
  // The SDK's own `stop` only closes the connection.
  const stop = () => fetch(`${api}/${encodeURIComponent(chat)}/stop`, { method: "POST", headers });
  const approve = (part, approved) => addToolApprovalResponse({ id: part.approval.id, approved });
  const answer = (part, id, label) => {
    const output = { answers: { [id]: [label] } };
    addToolOutput({ tool: "ask_user", toolCallId: part.toolCallId, output });
  };
  return (
    <main data-status={status}>
      {messages.map((message) => (
        <article key={message.id} data-role={message.role}>
          {visible(message.parts).map((part, index) => (
            <Part key={index} part={part} approve={approve} answer={answer} />
          ))}
        </article>
      ))}
      {error && <p role="alert">{error.message}</p>}
      <form onSubmit={submit}>
        <input aria-label="Message" value={text} onChange={(event) => setText(event.target.value)} />
        <button>Send</button>
        {status !== "ready" && (
          <button type="button" onClick={stop}>
            Stop
          </button>
        )}
      </form>
    </main>
  );
}

function Part({ part, approve, answer }) {
  if (part.type === "text") return <p>{part.text}</p>;
  if (part.type === "reasoning") return <p className="reasoning">{part.text}</p>;
  if (part.type !== "dynamic-tool") return null;
  if (part.toolName === "ask_user" && part.state === "input-available") {
    return part.input.questions.map(({ id, text, options }) => (
      <fieldset key={id}>
        <legend>{text}</legend>
        {options.map(({ label }) => (
          <button key={label} onClick={() => answer(part, id, label)}>
            {label}
          </button>
        ))}
      </fieldset>
    ));
  }
  return (
    <section className="call">
      {part.title ?? part.toolName}: {part.state}
      {part.state === "approval-requested" && (
        <>
          <button onClick={() => approve(part, true)}>Allow</button>
          <button onClick={() => approve(part, false)}>Deny</button>
        </>
      )}
    </section>
  );
}

// The answer that runs is not among these: the stream brings all of it.
const loaded = await fetch(`${api}/${encodeURIComponent(chat)}/messages`, { headers });
const messages = await loaded.json();
createRoot(document.getElementById("root")).render(
  <StrictMode>
    <Chat messages={messages} />
  </StrictMode>,
);
