// Signs in with the code in the fragment, and shows the page.

import { render } from "preact";
import { Connection } from "turnstream";
import { client, signIn } from "./api";
import { problemWords } from "./answer";
import { App, applyTheme } from "./app";
import "./style.css";
import "./views.css";
import "./session.css";
import "./narrow.css";

async function begin(): Promise<void> {
  applyTheme();
  const code = new URLSearchParams(location.hash.slice(1)).get("login");
  let problem: string | undefined;
  if (code !== null) {
    // Also from the history: the code is of no use to anybody from now on.
    history.replaceState(null, "", location.pathname);
    try {
      await signIn(code);
    } catch (error) {
      problem = problemWords(error);
    }
  }
  const connection = new Connection(client);
  const place = document.getElementById("page");
  if (place !== null) render(<App connection={connection} problem={problem} />, place);
  connection.start();
}

void begin();
