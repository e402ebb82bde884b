// An agent that has forgotten its session: a person chooses how it goes on.

import { type ResumeAs, type SessionInfo } from "turnstream";
import { client } from "./api";
import type { Act } from "./answer";

const WAYS: { as: ResumeAs; name: string; about: string }[] = [
  {
    as: "transcript",
    name: "Tell it what was said",
    about: "Your next prompt carries the finished messages and tool calls.",
  },
  { as: "fresh", name: "Begin anew", about: "The agent knows nothing of what was said before." },
];

/** The choice; `done` sends the prompt that was refused. */
export function Forgotten({ session, act, done }: { session: SessionInfo; act: Act; done: () => void }) {
  return (
    <section class="notice you forgotten" aria-label="The agent has forgotten this session">
      <div>
        <p>
          <b>{session.agent} has forgotten this session.</b> Its own record of the conversation is gone. The
          transcript above is kept by the gateway. Your prompt was not sent.
        </p>
        <ul>
          {WAYS.map((way) => (
            <li key={way.as}>
              <button
                type="button"
                disabled={act.isBusy}
                onClick={async () => {
                  if (await act.run(() => client.resume(session.id, way.as))) done();
                }}
              >
                {way.name}
              </button>{" "}
              <span>{way.about}</span>
            </li>
          ))}
        </ul>
      </div>
    </section>
  );
}
