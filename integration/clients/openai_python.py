"""openai-python against a gateway, as its quick-start has it. OPENAI_BASE_URL and OPENAI_API_KEY are all it knows."""
import os
import sys

try:
    import openai
except ImportError:
    sys.exit(77)

client = openai.OpenAI()
ask = [{"role": "user", "content": "What is a souk?"}]

answer = client.chat.completions.create(model="auto", messages=ask, max_tokens=20)
assert answer.choices[0].message.content and answer.usage.completion_tokens == 20, answer
assert answer.model_extra["souk"]["receipt"], answer

text, last = "", None
for event in client.chat.completions.create(model="auto", messages=ask, max_tokens=20, stream=True):
    text += event.choices[0].delta.content or ""
    last = event
assert text and last.choices[0].finish_reason == "length", last

events = list(client.chat.completions.create(model="auto", messages=ask, max_tokens=20, stream=True,
                                             stream_options={"include_usage": True}))
assert events[-1].usage.completion_tokens == 20 and not events[-1].choices, events[-1]

tools = [{"type": "function", "function": {"name": "weather", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}}}}]
for stream in (False, True):
    if stream:
        chat = client.chat if hasattr(client.chat.completions, "stream") else client.beta.chat  # until 1.92
        with chat.completions.stream(model="auto", messages=ask, tools=tools) as s:
            message = s.get_final_completion().choices[0]
    else:
        message = client.chat.completions.create(model="auto", messages=ask, tools=tools).choices[0]
    call = message.message.tool_calls[0]
    assert call.function.name == "weather" and call.function.arguments == '{"city": "Oslo"}', message
    assert message.finish_reason == "tool_calls", message

several = client.chat.completions.create(model="auto", messages=ask, max_tokens=5, n=3)
assert [c.index for c in several.choices] == [0, 1, 2], several
assert client.completions.create(model="auto", prompt="Once", max_tokens=5).choices[0].text
assert "auto" in [m.id for m in client.models.list()]

try:
    client.chat.completions.create(model="nothing", messages=ask)
    raise AssertionError("a model that nobody sells")
except openai.NotFoundError as e:
    assert e.code == "model_not_found", e
try:
    openai.OpenAI(api_key="sk-wrong").models.list()
    raise AssertionError("a wrong key")
except openai.AuthenticationError as e:
    assert e.code == "invalid_api_key", e

# This key may ask once a second: the client is told when to ask again, and does.
slow = openai.OpenAI(api_key=os.environ["SLOW_API_KEY"], max_retries=4)
for _ in range(3):
    assert slow.chat.completions.create(model="auto", messages=ask, max_tokens=5).choices

if not hasattr(client, "responses"):  # until 1.66
    print("ok")
    sys.exit()
response = client.responses.create(model="auto", input="What is a souk?", max_output_tokens=20)
assert response.output_text and response.usage.output_tokens == 20, response
assert response.incomplete_details.reason == "max_output_tokens", response
with client.responses.stream(model="auto", input="What is a souk?") as s:
    text = "".join(e.delta for e in s if e.type == "response.output_text.delta")
    assert text and s.get_final_response().output_text == text, text
weather = [{"type": "function", "name": "weather", "parameters": tools[0]["function"]["parameters"]}]
for stream in (False, True):
    if stream:
        with client.responses.stream(model="auto", input=ask, tools=weather) as s:
            response = s.get_final_response()
    else:
        response = client.responses.create(model="auto", input=ask, tools=weather)
    call = response.output[-1]
    assert call.type == "function_call" and call.arguments == '{"city": "Oslo"}', response
clock = {"type": "function", "name": "clock", "parameters": {"type": "object", "properties": {}}}
ended = []
with client.responses.stream(model="auto", input=ask, tools=weather + [clock]) as s:
    for e in s:
        if e.type in ("response.output_item.added", "response.output_item.done"):
            ended.append((e.type.split(".")[-1], e.item.name))
    both = s.get_final_response().output
assert [(c.name, c.arguments) for c in both] == [("weather", '{"city": "Oslo"}'), ("clock", '{"zone": "CET"}')], both
assert ended == [("added", "weather"), ("done", "weather"), ("added", "clock"), ("done", "clock")], ended
outputs = [{"type": "function_call_output", "call_id": c.call_id, "output": "so so"} for c in both]
assert client.responses.create(model="auto", input=ask + [c.model_dump() for c in both] + outputs, tools=weather + [clock],
                               max_output_tokens=5).output_text
try:
    list(client.responses.create(model="auto", input="Break off", tools=weather, stream=True))
    raise AssertionError("an answer that broke off")
except openai.APIError as e:
    assert e.code in ("engine_failed", "agent_failed"), repr(e)
follow = ask + [call.model_dump(), {"type": "function_call_output", "call_id": call.call_id, "output": "rain"}]
assert client.responses.create(model="auto", input=follow, max_output_tokens=5).output
try:
    client.responses.create(model="auto", input="x", previous_response_id="resp_1")
    raise AssertionError("a response that is not stored")
except openai.BadRequestError as e:
    assert e.code == "unsupported_field", e
print("ok")
