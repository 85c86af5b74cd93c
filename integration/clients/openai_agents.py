"""openai-agents against a gateway: its quick-start, by responses and by chats, with a function tool."""
import asyncio
import sys

try:
    import agents
except ImportError:
    sys.exit(77)

agents.set_tracing_disabled(True)
ran = []


@agents.function_tool
def weather(city: str) -> str:
    """The weather of a city."""
    ran.append(city)
    return "rain"


async def main():
    for api in ("responses", "chat_completions"):
        agents.set_default_openai_api(api)
        agent = agents.Agent(name="Guide", instructions="Answer shortly.", model="auto")  # it raises on an answer cut short
        result = await agents.Runner.run(agent, "What is a souk?")
        assert result.final_output, result
        assert result.context_wrapper.usage.output_tokens > 0, result.context_wrapper.usage
        streamed, text = agents.Runner.run_streamed(agent, "What is a souk?"), ""
        async for event in streamed.stream_events():
            if event.type == "raw_response_event" and event.data.type == "response.output_text.delta":
                text += event.data.delta
        assert text and streamed.final_output == text, text
        # the second turn has what was said in the first
        again = await agents.Runner.run(agent, result.to_input_list() + [{"role": "user", "content": "And?"}])
        assert again.final_output, again

        caller = agents.Agent(name="Caller", tools=[weather], model="auto",
                              tool_use_behavior="stop_on_first_tool")
        result = await agents.Runner.run(caller, "What is the weather in Oslo?")
        assert result.final_output == "rain" and ran[-1] == "Oslo", result
        try:
            await agents.Runner.run(agents.Agent(name="Lost", model="nothing"), "Hello")
            raise AssertionError("a model that nobody sells")
        except Exception as e:
            assert getattr(e, "status_code", 0) == 404, repr(e)


asyncio.run(main())
print("ok")
