// openai-node against a gateway. OPENAI_BASE_URL and OPENAI_API_KEY are all it knows.
let OpenAI;
try {
  ({ OpenAI } = require("openai"));
} catch {
  process.exit(77);
}
const assert = require("node:assert");
const messages = [{ role: "user", content: "What is a souk?" }];
const tools = [{ type: "function", function: { name: "weather",
  parameters: { type: "object", properties: { city: { type: "string" } } } } }];

(async () => {
  const client = new OpenAI();
  const answer = await client.chat.completions.create({ model: "auto", messages, max_tokens: 20 });
  assert(answer.choices[0].message.content && answer.usage.completion_tokens === 20 && answer.souk.receipt);

  let text = "", last;
  for await (const event of await client.chat.completions.create({ model: "auto", messages, max_tokens: 20,
    stream: true })) {
    text += event.choices[0].delta.content ?? "";
    last = event;
  }
  assert(text && last.choices[0].finish_reason === "length");

  const chat = client.chat.completions.stream ? client.chat : client.beta.chat; // until 5.0
  const runner = chat.completions.stream({ model: "auto", messages, tools,
    stream_options: { include_usage: true } });
  const choice = (await runner.finalChatCompletion()).choices[0];
  assert.equal(choice.message.tool_calls[0].function.arguments, '{"city": "Oslo"}');
  assert((await runner.totalUsage()).completion_tokens > 0);

  await assert.rejects(client.chat.completions.create({ model: "nothing", messages }),
    (e) => e.status === 404 && e.code === "model_not_found");
  await assert.rejects(new OpenAI({ apiKey: "sk-wrong" }).models.list(), (e) => e.status === 401);

  const slow = new OpenAI({ apiKey: process.env.SLOW_API_KEY, maxRetries: 4 });
  for (let i = 0; i < 3; i++)
    assert((await slow.chat.completions.create({ model: "auto", messages, max_tokens: 5 })).choices.length);
  console.log("ok");
})().catch((e) => { console.error(e); process.exit(1); });
