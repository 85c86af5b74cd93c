"""LiteLLM against a gateway: any model as openai/MODEL at a base URL."""
import os
import sys

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # or it asks the network for prices
try:
    import litellm
except ImportError:
    sys.exit(77)

at = dict(model="openai/auto", api_base=os.environ["OPENAI_BASE_URL"], api_key=os.environ["OPENAI_API_KEY"])
ask = [{"role": "user", "content": "What is a souk?"}]

answer = litellm.completion(messages=ask, max_tokens=20, **at)
assert answer.choices[0].message.content and answer.usage.completion_tokens == 20, answer

text, usage = "", None
for event in litellm.completion(messages=ask, max_tokens=20, stream=True,
                                stream_options={"include_usage": True}, **at):
    if event.choices:
        text += event.choices[0].delta.content or ""
    usage = getattr(event, "usage", None) or usage
assert text and usage.completion_tokens == 20, usage

tools = [{"type": "function", "function": {"name": "weather", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}}}}]
call = litellm.completion(messages=ask, tools=tools, **at).choices[0].message.tool_calls[0]
assert call.function.name == "weather" and call.function.arguments == '{"city": "Oslo"}', call

try:
    litellm.completion(messages=ask, **{**at, "model": "openai/nothing"})
    raise AssertionError("a model that nobody sells")
except litellm.NotFoundError:
    pass
try:
    litellm.completion(messages=ask, **{**at, "api_key": "sk-wrong"})
    raise AssertionError("a wrong key")
except litellm.AuthenticationError:
    pass
for _ in range(3):
    litellm.completion(messages=ask, max_tokens=5, num_retries=4, **{**at, "api_key": os.environ["SLOW_API_KEY"]})
print("ok")
