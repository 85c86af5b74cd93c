// @anthropic-ai/sdk against a gateway, as its quick-start has it. ANTHROPIC_BASE_URL and ANTHROPIC_API_KEY are all it knows.
import assert from "node:assert";
import { createRequire } from "node:module";

let Anthropic; // by require, which heeds NODE_PATH
try {
  Anthropic = createRequire(import.meta.url)("@anthropic-ai/sdk").default;
} catch {
  process.exit(77);
}
const client = new Anthropic();
const ask = { model: "auto", max_tokens: 20, temperature: 0, messages: [{ role: "user", content: "What is a souk?" }] };

const whole = await client.messages.create(ask);
assert(whole.content[0].text && whole.usage.output_tokens === 20 && whole.souk.receipt, JSON.stringify(whole));
let text = "", prompt = 0;
const stream = client.messages.stream(ask).on("text", (more) => (text += more))
  .on("streamEvent", (e) => (prompt = e.usage?.input_tokens ?? prompt));
const final = await stream.finalMessage();
assert(text && text === final.content[0].text && text === whole.content[0].text, text);
assert(final.stop_reason === "max_tokens" && prompt > 0, JSON.stringify(final));

const tools = [{ name: "weather", input_schema: { type: "object", properties: { city: { type: "string" } } } }];
const messages = [...ask.messages];
const called = await client.messages.stream({ ...ask, tools }).finalMessage();
const call = called.content.at(-1);
assert.deepEqual([call.name, call.input, called.stop_reason], ["weather", { city: "Oslo" }, "tool_use"]);
messages.push({ role: "assistant", content: called.content });
messages.push({ role: "user", content: [{ type: "tool_result", tool_use_id: call.id, content: "rain" }] });
assert((await client.messages.create({ ...ask, tools, messages })).content[0].text);
assert((await client.messages.countTokens({ model: "auto", messages: ask.messages })).input_tokens > 3);

await assert.rejects(client.messages.create({ ...ask, model: "claude-sonnet-4-5" }),
  (e) => e.status === 404 && e.error.error.type === "not_found_error");
await assert.rejects(async () => {
  const broken = { ...ask, tools, messages: [{ role: "user", content: "Break off" }] };
  for await (const _ of await client.messages.create({ ...broken, stream: true }));
}, (e) => /"code": ?"(engine|agent)_failed"/.test(e.error ? JSON.stringify(e.error) : e.cause.message)); // until 0.36
const slow = new Anthropic({ apiKey: process.env.SLOW_API_KEY, maxRetries: 4 });
for (let i = 0; i < 2; i++) assert((await slow.messages.create({ ...ask, max_tokens: 5 })).content.length);
console.log("ok");
