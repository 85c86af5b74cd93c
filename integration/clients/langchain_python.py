"""LangChain's ChatOpenAI against a gateway."""
import os
import sys

try:
    from langchain_openai import ChatOpenAI
except ImportError:
    sys.exit(77)

model = ChatOpenAI(model="auto", max_tokens=20)
answer = model.invoke("What is a souk?")
assert answer.content and answer.usage_metadata["output_tokens"] == 20, answer
text, tokens = "", 0
for piece in ChatOpenAI(model="auto", max_tokens=20, stream_usage=True).stream("What is a souk?"):
    text += piece.content
    tokens = (piece.usage_metadata or {}).get("output_tokens") or tokens
assert text and tokens == 20, (text, tokens)
weather = {"type": "function", "function": {"name": "weather", "parameters": {
    "type": "object", "properties": {"city": {"type": "string"}}}}}
calls = ChatOpenAI(model="auto").bind_tools([weather]).invoke("What is a souk?").tool_calls
assert calls[0]["name"] == "weather" and calls[0]["args"] == {"city": "Oslo"}, calls
try:
    ChatOpenAI(model="nothing").invoke("What is a souk?")
    raise AssertionError("a model that nobody sells")
except Exception as e:
    assert getattr(e, "code", "") == "model_not_found" or "model_not_found" in str(e), e
slow = ChatOpenAI(model="auto", max_tokens=5, api_key=os.environ["SLOW_API_KEY"], max_retries=4)
for _ in range(3):
    assert slow.invoke("What is a souk?").content
print("ok")
