"""AutoGen against a gateway: its quick-start, a stream, a tool call, usage, an error."""
import asyncio
import os
import sys

try:
    from autogen_agentchat.agents import AssistantAgent
    from autogen_core.models import ModelFamily, UserMessage
    from autogen_ext.models.openai import OpenAIChatCompletionClient
except ImportError:
    sys.exit(77)


def client(model="auto", key=None, **more):
    return OpenAIChatCompletionClient(
        model=model, base_url=os.environ["OPENAI_BASE_URL"], api_key=key or os.environ["OPENAI_API_KEY"],
        model_info={"vision": False, "function_calling": True, "json_output": True,
                    "structured_output": False, "family": ModelFamily.UNKNOWN}, **more)


async def weather(city: str) -> str:
    """The weather of a city."""
    return "rain in " + city


async def main():
    ask = [UserMessage(content="What is a souk?", source="user")]
    answer = await client(max_tokens=20).create(ask)
    assert answer.content and answer.finish_reason == "length" and answer.usage.completion_tokens == 20, answer
    text, last = "", None
    async for piece in client(max_tokens=20).create_stream(ask, include_usage=True):
        if isinstance(piece, str):
            text += piece
        else:
            last = piece
    assert text and last.content == text and last.finish_reason == "length", last
    assert last.usage.completion_tokens == 20, last

    agent = AssistantAgent("guide", model_client=client(), tools=[weather])
    result = await agent.run(task="What is the weather in Oslo?")
    assert "rain in Oslo" in result.messages[-1].content, result
    try:
        await client("nothing").create(ask)
        raise AssertionError("a model that nobody sells")
    except Exception as e:
        assert getattr(e, "status_code", 0) == 404, repr(e)
    slow = client(key=os.environ["SLOW_API_KEY"], max_retries=4, max_tokens=5)
    for _ in range(3):
        assert (await slow.create(ask)).content


asyncio.run(main())
print("ok")
