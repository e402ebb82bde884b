// A chat with an agent behind a Turnstream gateway. The address of the page says which one:
// `?gateway=http://127.0.0.1:4180&agent=claude&thread=my-thread#TOKEN`.

import { CopilotKitCore } from "@copilotkit/core";
import { useEffect, useReducer, useState } from "react";
import { createRoot } from "react-dom/client";

const query = new URLSearchParams(location.search);
const copilotkit = new CopilotKitCore({
  runtimeUrl: `${query.get("gateway") ?? "http://127.0.0.1:4180"}/ag-ui`,
  runtimeTransport: "rest",
  headers: { authorization: `Bearer ${location.hash.slice(1)}` },
});
const runtimeAgentId = query.get("agent") ?? "claude";
const { agent } = copilotkit.registerProxiedAgent({ agentId: "chat", runtimeAgentId });
agent.threadId = query.get("thread") ?? "my-thread";

/** What the agent asks, and its last error. The component is rendered with each change of the agent. */
function useAgent() {
  const [, render] = useReducer((count) => count + 1, 0);
  const [asked, setAsked] = useState([]);
  const [error, setError] = useState();
  useEffect(() => {
    const followed = agent.subscribe({
      onMessagesChanged: render,
      onRunInitialized: () => setAsked([]),
      onRunFinishedEvent: ({ event }) => setAsked(event.outcome?.interrupts ?? []),
      onRunFinalized: render,
      onRunFailed: render,
    });
    const watched = copilotkit.subscribe({ onError: ({ error }) => setError(error.message) });
    // All messages of the thread, and the run that goes on.
    copilotkit.connectAgent({ agent });
    return () => [followed, watched].forEach((one) => one.unsubscribe());
  }, []);
  return { asked, error };
}

function Chat() {
  const { asked, error } = useAgent();
  const [text, setText] = useState("");
  const submit = (event) => {
    event.preventDefault();
    agent.addMessage({ id: crypto.randomUUID(), role: "user", content: text });
    copilotkit.runAgent({ agent });
    setText("");
  };
  const answer = (interruptId, payload) => {
    copilotkit.runAgent({ agent, resume: [{ interruptId, status: "resolved", payload }] });
  };
  return (
    <main data-status={agent.isRunning ? "running" : "ready"}>
      {agent.messages.map((message) => (
        <Message key={message.id} message={message} />
      ))}
      {asked.map((interrupt) => (
        <Ask key={interrupt.id} interrupt={interrupt} answer={answer} />
      ))}
      {error && <p role="alert">{error}</p>}
      <form onSubmit={submit}>
        <input aria-label="Message" value={text} onChange={(event) => setText(event.target.value)} />
        <button>Send</button>
        {agent.isRunning && (
          <button type="button" onClick={() => copilotkit.stopAgent({ agent })}>
            Stop
          </button>
        )}
      </form>
    </main>
  );
}

function Message({ message: { role, content, toolCalls } }) {
  if (role === "tool" || role === "activity") return null;
  const result = (id) => agent.messages.find(({ toolCallId }) => toolCallId === id)?.content;
  return (
    <article data-role={role}>
      {content && <p>{content}</p>}
      {toolCalls?.map(({ id, function: { name } }) => (
        <section className="call" key={id}>
          {name}: {result(id) ?? "…"}
        </section>
      ))}
    </article>
  );
}

/** An approval with its choices, or a question. */
function Ask({ interrupt: { id, message, responseSchema, metadata }, answer }) {
  const outcomes = metadata.questions ? [] : responseSchema.properties.outcome.enum;
  const questions = metadata.questions ?? [];
  return (
    <fieldset>
      <legend>{message}</legend>
      {outcomes.map((outcome) => (
        <button key={outcome} onClick={() => answer(id, { outcome })}>
          {outcome}
        </button>
      ))}
      {questions.flatMap((question) =>
        question.options.map(({ label }) => (
          <button key={label} onClick={() => answer(id, { [question.id]: [label] })}>
            {label}
          </button>
        )),
      )}
    </fieldset>
  );
}

createRoot(document.getElementById("root")).render(<Chat />);
