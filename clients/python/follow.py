#!/usr/bin/env python3
"""Follows a session of a Turnstream gateway, with nothing but Python's standard library.

    export TURNSTREAM_ADDRESS=http://127.0.0.1:4180 TURNSTREAM_TOKEN=$(turnstream token)
    python3 follow.py ses_1                      # every event, until the session is deleted
    python3 follow.py ses_1 --prompt "Say hello" # sends a prompt, and shows its turn

`events()` is a plain generator. It reconnects with backoff and jitter, and continues after the last event:
none is lost, and none comes twice.
"""

import argparse
import http.client
import json
import os
import random
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
import uuid

# Without a byte for so long the connection is dead: the gateway sends a heartbeat every 15 s.
SILENCE = 45.0
FIRST_WAIT, MOST_WAIT = 1.0, 30.0
# What a lost connection looks like: refused, cut, silent, or ended in the middle of an answer.
LOST = (OSError, http.client.HTTPException, ValueError)


class Reset(Exception):
    """The cursor is void: the log was replaced or trimmed. `frame` says where it begins now."""

    def __init__(self, frame):
        super().__init__(f"the cursor is void ({frame['reason']}); begin at {frame['oldest']}")
        self.frame = frame


class Gateway:
    def __init__(self, address, token):
        self.address, self.token = address.rstrip("/"), token

    def open(self, path, body=None, headers=None, method=None):
        """Sends a request. Raises `HTTPError`, or another `OSError` if there is no connection."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.address + path, data, headers or {}, method=method)
        request.add_header("Authorization", f"Bearer {self.token}")
        if data is not None:
            request.add_header("Content-Type", "application/json")
        return urllib.request.urlopen(request, timeout=SILENCE)

    def request(self, path, body=None, method=None):
        with self.open(path, body, method=method) as answer:
            text = answer.read()
        return json.loads(text) if text else None

    def once(self, path, body):
        """Sends a request with a key. It is repeated until it was answered, and the gateway does it once."""
        body = {"key": f"py-{uuid.uuid4().hex}", **body}
        for failures in range(8):
            try:
                return self.request(path, body)
            except LOST as error:
                wait_or_raise(error, failures)
        return self.request(path, body)

    def prompt(self, session, text):
        """Sends a prompt. It is durable when this returns. Returns its id."""
        body = {"content": [{"type": "text", "text": text}]}
        return self.once(f"/v1/sessions/{quote(session)}/prompts", body)["prompt"]

    def answer(self, session, approval, outcome):
        """Answers an approval: `allow_once`, `allow_always` or `reject`."""
        self.once(f"/v1/sessions/{quote(session)}/approvals/{quote(approval)}", {"outcome": outcome})

    def events(self, session, after=None):
        """Every event of a session after the cursor, each once. Ends when the session is deleted."""
        cursor, failures = after, 0
        while True:
            try:
                headers = {} if cursor is None else {"Last-Event-ID": cursor}
                with self.open(f"/v1/sessions/{quote(session)}/events", headers=headers) as stream:
                    for name, data in server_sent_events(stream):
                        value = json.loads(data)
                        if name is not None:
                            cursor = name
                            yield value
                        elif value.get("outcome") == "reset":
                            raise Reset(value)
                        elif value.get("outcome") == "gone":
                            return
                        else:
                            failures = 0
                raise ConnectionError("the gateway closed the stream")
            except LOST as error:
                wait_or_raise(error, failures)
                failures += 1

    def run(self, session, text):
        """Sends a prompt, and gives the events from its acceptance to the end of its turn."""
        before = self.request(f"/v1/sessions/{quote(session)}")
        prompt, turn, seen = self.prompt(session, text), None, False
        for event in self.events(session, f"{before['generation']}:{before['head']}"):
            kind, own = event["type"], event.get("prompt") == prompt
            seen = seen or (kind == "prompt.accepted" and own)
            if not seen:
                continue
            if kind == "prompt.taken" and own:
                turn = event["turn"]
            yield event
            if (kind == "turn.ended" and event["turn"] == turn) or (kind == "prompt.withdrawn" and own):
                return


def quote(part):
    return urllib.parse.quote(part, safe="")


def wait_or_raise(error, failures):
    """Waits before the next attempt, unless no repetition helps: a wrong token, an unknown session."""
    asked = 0.0
    if isinstance(error, urllib.error.HTTPError):
        if error.code != 429 and error.code < 500:
            raise error
        asked = float(error.headers.get("Retry-After") or 0)
    wait = min(FIRST_WAIT * 2 ** min(failures, 10), MOST_WAIT)
    time.sleep(max(asked, wait * (0.8 + 0.2 * random.random())))


def server_sent_events(stream):
    """The id (or None) and the data of each event. An event that is cut off at the end is left out."""
    name, data = None, []
    for line in stream:
        field, _, value = line.decode().rstrip("\r\n").partition(":")
        value = value.removeprefix(" ")
        if field == "data":
            data.append(value)
        elif field == "id":
            name = value
        elif field == "" and value == "" and not line.startswith(b":"):
            if data:
                yield name, "\n".join(data)
            name, data = None, []


def main():
    parser = argparse.ArgumentParser(description="Follows a session of a Turnstream gateway.")
    parser.add_argument("session")
    parser.add_argument("--prompt", help="send this first, and stop when its turn has ended")
    parser.add_argument("--allow", action="store_true", help="allow what the agent asks for, once each")
    parser.add_argument("--json", action="store_true", help="print whole events instead of text")
    args = parser.parse_args()
    gateway = Gateway(os.environ["TURNSTREAM_ADDRESS"], os.environ["TURNSTREAM_TOKEN"])
    follow = gateway.events(args.session) if args.prompt is None else gateway.run(args.session, args.prompt)
    for event in follow:
        if args.allow and event["type"] == "approval.requested":
            gateway.answer(args.session, event["approval"], "allow_once")
        if args.json:
            print(json.dumps(event), flush=True)
        elif event["type"] == "item.delta" and "field" not in event:
            print(event["text"], end="", flush=True)
        elif event["type"] in ("item.ended", "turn.ended"):
            print(f" [{event['outcome']}]" if "outcome" in event else "", flush=True)


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit(130)
