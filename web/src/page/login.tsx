// Signing in: with the address that the gateway printed, or with a token.

import { useState } from "preact/hooks";
import { setToken } from "./api";
import { Command } from "./copy";
import { Icon } from "./icons";

export function LoginView({ problem }: { problem: string | undefined }) {
  const [text, setText] = useState("");
  return (
    <main id="main" class="narrow" tabIndex={-1}>
      <p class="brand">
        <Icon name="logo" /> Turnstream
      </p>
      <h1>Sign in</h1>
      {problem !== undefined && (
        <p class="problem" role="alert">
          {problem}
        </p>
      )}
      <p class="reading">
        Run this where the gateway runs, and open the address it prints. It signs in one browser tab, once.
      </p>
      <Command text="turnstream login" />
      <form
        class="form"
        onSubmit={(event) => {
          event.preventDefault();
          setToken(text.trim());
          location.reload();
        }}
      >
        <label class="field">
          <span>Or a token</span>
          <input
            type="password"
            autocomplete="off"
            value={text}
            onInput={(event) => setText(event.currentTarget.value)}
          />
          <span class="detail">
            <code>turnstream token</code> prints it. This tab forgets it when it is closed.
          </span>
        </label>
        <div class="buttons">
          <button type="submit" class="primary" disabled={text.trim() === ""}>
            Sign in
          </button>
        </div>
      </form>
    </main>
  );
}
