"""anthropic (Python) against a gateway, as its quick-start has it. ANTHROPIC_BASE_URL and ANTHROPIC_API_KEY are all it knows."""
import os
import sys

try:
    import anthropic
except ImportError:
    sys.exit(77)

client = anthropic.Anthropic()
greedy = {"temperature": 0}  # newer versions have no argument of that name
ask = [{"role": "user", "content": "What is a souk?"}]

message = client.messages.create(model="auto", max_tokens=20, messages=ask)
assert message.content[0].text and message.usage.output_tokens == 20, message
assert message.stop_reason == "max_tokens" and message.model_extra["souk"]["receipt"], message

# with a system prompt, cache marks, terms and a user of the client's own
kept = {"type": "ephemeral"}
message = client.messages.create(
    model="auto", max_tokens=20, metadata={"user_id": "u1"},
    system=[{"type": "text", "text": "Answer shortly.", "cache_control": kept}],
    messages=[{"role": "user", "content": [{"type": "text", "text": "What is a souk?", "cache_control": kept}]}],
    extra_body={"top_k": 5, "souk": {"terms": {"max_price": 0.01}}})
assert message.content[0].text, message

with client.messages.stream(model="auto", max_tokens=20, messages=ask, extra_body=greedy) as stream:
    text = "".join(stream.text_stream)
    final = stream.get_final_message()
whole = client.messages.create(model="auto", max_tokens=20, messages=ask, extra_body=greedy)
assert text and text == final.content[0].text == whole.content[0].text, (text, final, whole)
assert (final.stop_reason, final.usage.output_tokens) == ("max_tokens", 20), final
events = list(client.messages.create(model="auto", max_tokens=20, messages=ask, stream=True))
assert events[0].type == "message_start" and events[-1].type == "message_stop", events
assert events[-2].model_extra["souk"]["receipt"] and events[-2].usage.input_tokens > 0, events[-2]

# a tool, its result, and the answer to that
tools = [{"name": "weather", "description": "The weather of a city.",
          "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}]
for streamed in (False, True):
    if streamed:
        with client.messages.stream(model="auto", max_tokens=100, messages=ask, tools=tools) as stream:
            message = stream.get_final_message()
    else:
        message = client.messages.create(model="auto", max_tokens=100, messages=ask, tools=tools)
    call = message.content[-1]
    assert (call.type, call.name, call.input) == ("tool_use", "weather", {"city": "Oslo"}), message
    assert message.stop_reason == "tool_use", message
    follow = ask + [{"role": "assistant", "content": message.content}, {"role": "user", "content": [
        {"type": "tool_result", "tool_use_id": call.id, "content": "rain"}]}]
    message = client.messages.create(model="auto", max_tokens=10, messages=follow, tools=tools)
    assert message.content[0].text, message
both = tools + [{"name": "clock", "input_schema": {"type": "object", "properties": {}}}]
with client.messages.stream(model="auto", max_tokens=100, messages=ask, tools=both) as stream:
    called = [(b.name, b.input) for b in stream.get_final_message().content]
assert called == [("weather", {"city": "Oslo"}), ("clock", {"zone": "CET"})], called

counted = client.messages.count_tokens(model="auto", messages=ask, tools=tools)
assert 10 < counted.input_tokens < 200, counted
assert "auto" in [m.id for m in client.models.list()]

refusals = [
    (anthropic.NotFoundError, "not_found_error", dict(model="claude-sonnet-4-5")),
    (anthropic.BadRequestError, "invalid_request_error", dict(tools=[{"type": "web_search_20250305", "name": "web_search"}])),
    (anthropic.BadRequestError, "invalid_request_error", dict(messages=[{"role": "user", "content": "x " * 200_000}])),
]
for error, kind, more in refusals:
    try:
        client.messages.create(**{"model": "auto", "max_tokens": 5, "messages": ask, **more})
        raise AssertionError(f"{more} is taken")
    except error as e:
        assert e.body["error"]["type"] == kind, e.body
try:
    anthropic.Anthropic(api_key="sk-ant-wrong").messages.create(model="auto", max_tokens=5, messages=ask)
    raise AssertionError("a wrong key")
except anthropic.AuthenticationError as e:
    assert e.body["error"]["souk"]["code"] == "invalid_api_key", e.body
try:
    for event in client.messages.create(model="auto", max_tokens=100, tools=tools, stream=True,
                                        messages=[{"role": "user", "content": "Break off"}]):
        pass
    raise AssertionError("an answer that broke off")
except anthropic.APIStatusError as e:
    assert e.body["error"]["souk"]["code"] in ("engine_failed", "agent_failed"), repr(e.body)

# This key may ask once a second: the client is told when to ask again, and does.
slow = anthropic.Anthropic(api_key=os.environ["SLOW_API_KEY"], max_retries=4)
for _ in range(2):
    assert slow.messages.create(model="auto", max_tokens=5, messages=ask).content
print("ok")
