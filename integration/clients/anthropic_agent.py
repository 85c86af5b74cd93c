"""A coding agent over anthropic (Python): it reads a file, runs it and answers, each turn a stream, as Claude Code's loop does."""
import pathlib
import subprocess
import sys
import tempfile

try:
    import anthropic
except ImportError:
    sys.exit(77)

client = anthropic.Anthropic()
folder = pathlib.Path(tempfile.mkdtemp())
(folder / "main.py").write_text("print(6 * 7)\n")


def schema(name):
    return {"type": "object", "properties": {name: {"type": "string"}}, "required": [name]}


tools = [
    {"name": "read_file", "description": "Read a file of the project.", "input_schema": schema("path")},
    {"name": "run", "description": "Run a command in the project.", "input_schema": schema("command"),
     "cache_control": {"type": "ephemeral"}},
]


def use(name, args):
    if name == "read_file":
        return (folder / args["path"]).read_text()
    return subprocess.run(args["command"], shell=True, cwd=folder, capture_output=True, text=True, timeout=30).stdout


messages = [{"role": "user", "content": "What does main.py print?"}]
used, paid = [], 0
for turn in range(5):
    with client.messages.stream(
            model="auto", max_tokens=2000, messages=messages, tools=tools,
            system=[{"type": "text", "text": "You are a coding agent.", "cache_control": {"type": "ephemeral"}}],
            extra_body={"thinking": {"type": "enabled", "budget_tokens": 1024}}) as stream:
        for event in stream:
            if event.type == "message_delta":
                paid += event.model_extra["souk"]["paid"]
        message = stream.get_final_message()
    messages.append({"role": "assistant", "content": message.content})
    calls = [b for b in message.content if b.type == "tool_use"]
    assert (message.stop_reason == "tool_use") == bool(calls), message
    if not calls:
        break
    results = []
    for call in calls:
        out = use(call.name, call.input)
        used.append((call.name, out))
        results.append({"type": "tool_result", "tool_use_id": call.id, "content": [{"type": "text", "text": out}]})
    messages.append({"role": "user", "content": results})
assert used == [("read_file", "print(6 * 7)\n"), ("run", "42\n")], used
assert message.content[-1].text and message.stop_reason == "end_turn" and paid > 0, (message, paid)
print("ok")
