"""What Open WebUI 0.12.4 sends to an OpenAI connection, as its routers/openai.py, routers/tasks.py, utils/headers.py and
main.py make it, and what its utils/middleware.py reads: the list of models, a chat, the questions beside it (title,
tags, what follows), a tool, a picture of what is refused. Its browser's part is not here."""
import asyncio
import json
import os
import sys

try:
    import aiohttp
except ImportError:
    sys.exit(77)

URL, KEY, SLOW = os.environ["OPENAI_BASE_URL"], os.environ["OPENAI_API_KEY"], os.environ["SLOW_API_KEY"]
CHAT = "2b0a7a0e-9a4c-4a7f-8f5e-0c7e6a1f3d55"
# with ENABLE_FORWARD_USER_INFO_HEADERS, and a connection's own header for what a session is here
USER = {"X-OpenWebUI-User-Name": "Ann%20Other", "X-OpenWebUI-User-Id": "b6c2", "X-OpenWebUI-User-Email":
        "ann@example.org", "X-OpenWebUI-User-Role": "user", "X-OpenWebUI-Chat-Id": CHAT, "X-Souk-Session": CHAT}


def headers(key=KEY):
    return {"Content-Type": "application/json", **USER, "Authorization": f"Bearer {key}"}


async def models(session, key=KEY):
    async with session.get(f"{URL}/models", headers=headers(key)) as r:
        return r.status, await r.json()


async def complete(session, payload, key=KEY):
    r = await session.request("POST", f"{URL}/chat/completions", data=json.dumps(payload), headers=headers(key))
    if "text/event-stream" not in r.headers.get("Content-Type", ""):
        return r.status, await r.json(), r.headers
    assert r.status == 200, r.status
    text, usage, calls, errors, done = "", {}, {}, [], False
    async for line in r.content:  # as its handler reads lines
        line = line.decode()
        if not line.startswith("data:"):
            continue
        data = line[5:].strip()
        if data == "[DONE]":
            done = True
            continue
        data = json.loads(data)
        usage = data.get("usage", {}) or usage
        if not data.get("choices", []):
            if data.get("error"):
                errors.append(data["error"])
            continue
        delta = data["choices"][0].get("delta", {})
        text += delta.get("content") or ""
        for call in delta.get("tool_calls") or []:
            known = calls.setdefault(call["index"], {"name": "", "arguments": ""})
            for k in known:
                known[k] += call.get("function", {}).get(k) or ""
    return r.status, {"text": text, "usage": usage, "calls": calls, "errors": errors, "done": done}, r.headers


async def main():
    async with aiohttp.ClientSession(trust_env=True) as session:
        status, listed = await models(session)
        assert status == 200 and "auto" in [m["id"] for m in listed["data"]], listed
        status, listed = await models(session, "sk-wrong")
        assert status == 401 and listed["error"]["code"] == "invalid_api_key", listed

        chat = [{"role": "system", "content": "User Context:\n\nToday is Sunday."},
                {"role": "user", "content": [{"type": "text", "text": "What is a souk?"}]}]
        asked = {"stream": True, "model": "auto", "messages": chat, "temperature": 0.8, "max_tokens": 20, "seed": 3,
                 "stop": ["\n\n\n"], "stream_options": {"include_usage": True}}
        status, answer, _ = await complete(session, asked)
        assert answer["text"] and answer["done"] and answer["usage"]["completion_tokens"] == 20, answer
        assert answer["usage"]["prompt_tokens_details"]["cached_tokens"] >= 0 and not answer["errors"], answer

        chat += [{"role": "assistant", "content": answer["text"]}, {"role": "user", "content": "And whose?"}]
        status, answer, _ = await complete(session, {**asked, "messages": chat})
        assert answer["text"] and answer["done"], answer

        for task in ("### Task:\nGenerate a concise, 3-5 word title with an emoji",
                     "### Task:\nGenerate 1-3 broad tags categorizing the main themes",
                     "### Task:\nSuggest 3-5 relevant follow-up questions"):
            prompt = f"{task}\n### Chat History:\n<chat_history>\nUSER: What is a souk?\n</chat_history>"
            status, answer, got = await complete(session, {"model": "auto", "messages": [
                {"role": "user", "content": prompt}], "stream": False, "max_tokens": 40})
            assert status == 200 and answer["choices"][0]["message"]["content"], answer
            assert answer["usage"]["completion_tokens"] == 40 and got["X-Souk-Receipt"], (answer, got)

        tool = {"type": "function", "function": {"name": "weather", "description": "of a city", "parameters": {
            "type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}
        status, answer, _ = await complete(session, {**asked, "tools": [tool]})
        assert json.loads(answer["calls"][0]["arguments"]) == {"city": "Oslo"}, answer
        assert answer["calls"][0]["name"] == "weather" and not answer["text"], answer

        status, answer, _ = await complete(session, {**asked, "model": "nothing"})
        assert status == 404 and answer["error"]["code"] == "model_not_found", answer
        statuses = set()
        for _ in range(3):  # it shows what it is told, and when to come again
            status, answer, got = await complete(session, {**asked, "stream": False}, SLOW)
            statuses.add(status)
            assert status == 200 or status == 429 and int(got["retry-after-ms"]) > 0, answer
        assert 429 in statuses, statuses
    print("ok")


asyncio.run(main())
