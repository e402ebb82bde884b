// A gateway without sessions: what a session is, and three ways to begin.

import { Command } from "./copy";
import { Icon } from "./icons";
import { useAgents } from "./new";
import { link } from "./route";

export function Empty() {
  const { found } = useAgents();
  const usable = (found?.agents ?? []).filter((agent) => agent.problem === undefined && !agent.scripted);
  const [scripted] = (found?.agents ?? []).filter((agent) => agent.scripted);
  return (
    <main id="main" class="narrow empty" tabIndex={-1}>
      <h1>No sessions yet</h1>
      <p class="reading">
        A session is a conversation with one agent in one directory. It goes on when you close this page, and
        nothing in it is lost when the gateway stops.
      </p>
      <ol class="ways">
        <li>
          <h2>Use an agent you have</h2>
          {found !== undefined && usable.length === 0 && (
            <p class="dim">
              The gateway found none that it can use. <a href={link.new}>New session</a> says what each of
              them needs.
            </p>
          )}
          {usable.length > 0 && (
            <ul class="card">
              {usable.map((agent) => (
                <li key={agent.name}>
                  <Icon name="check" />
                  <span class="grow min0">
                    <b>{agent.name}</b> <span class="faint">{agent.version}</span>
                    <span class="detail">{agent.about}</span>
                  </span>
                  <a class="button" href={link.newWith(agent.name)} aria-label={`Start ${agent.name}`}>
                    Start
                  </a>
                </li>
              ))}
            </ul>
          )}
        </li>
        {scripted !== undefined && (
          <li>
            <h2>See a turn without any account</h2>
            <p class="dim">
              Run this in a terminal. The agent plays a script, and asks before it writes a file. The session
              shows up here by itself.
            </p>
            <Command text={`turnstream run "Hello" --agent ${scripted.name}`} />
          </li>
        )}
        <li>
          <h2>Follow from your phone</h2>
          <p class="dim">The phone has to reach the gateway. The command says how, if it cannot.</p>
          <Command text="turnstream open --qr" />
        </li>
      </ol>
    </main>
  );
}
