"""Drives an ACP agent with the official Python SDK: python_sdk.py CWD PROMPT COMMAND [ARGS...]"""

import asyncio
import sys

from acp import PROTOCOL_VERSION, Client, spawn_agent_process, text_block
from acp.schema import AgentMessageChunk, DeniedOutcome, RequestPermissionResponse


class Editor(Client):
    def __init__(self):
        self.text = ""

    async def session_update(self, session_id, update, **kwargs):
        if isinstance(update, AgentMessageChunk):
            self.text += update.content.text

    async def request_permission(self, options, session_id, tool_call, **kwargs):
        return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))


async def main(cwd, prompt, command, *args):
    editor = Editor()
    async with spawn_agent_process(editor, command, *args) as (agent, _process):
        await agent.initialize(protocol_version=PROTOCOL_VERSION)
        session = await agent.new_session(cwd=cwd, mcp_servers=[])
        answer = await agent.prompt(session_id=session.session_id, prompt=[text_block(prompt)])
        print(editor.text)
        print(answer.stop_reason)


asyncio.run(main(*sys.argv[1:]))
