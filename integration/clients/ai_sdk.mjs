// The AI SDK against a gateway, by createOpenAICompatible, and by createOpenAI's chats and responses.
import assert from "node:assert";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const require = createRequire(import.meta.url);
const find = async (name) => {
  try {
    return await import(pathToFileURL(require.resolve(name, { paths: (process.env.NODE_PATH ?? "").split(":") })));
  } catch {
    process.exit(77);
  }
};
const { generateText, streamText, jsonSchema, stepCountIs } = await find("ai");
const { createOpenAICompatible } = await find("@ai-sdk/openai-compatible");
const { createOpenAI } = await find("@ai-sdk/openai");
const at = { baseURL: process.env.OPENAI_BASE_URL, apiKey: process.env.OPENAI_API_KEY };
const souk = (apiKey) => createOpenAICompatible({ name: "souk", ...at, apiKey,
  headers: five ? {} : { Authorization: `Bearer ${apiKey}` } }); // its first versions read no apiKey
const prompt = "What is a souk?";
// what AI SDK 4 and 5 call otherwise; 4 has no responses
const five = stepCountIs !== undefined;
const most = (n) => (five ? { maxOutputTokens: n } : { maxTokens: n });
const written = (usage) => (five ? usage.outputTokens : usage.completionTokens);
const input = (call) => (five ? call.input : call.args);
const taking = (schema) => (five ? { inputSchema: schema } : { parameters: schema });
const given = (text) => (five ? { output: { type: "text", value: text } } : { result: text });

for (const model of [souk(at.apiKey)("auto"), createOpenAI(at).chat("auto"),
  ...(five ? [createOpenAI(at)("auto")] : [])]) {
  const { text, usage } = await generateText({ model, prompt, ...most(20) });
  assert(text && written(usage) === 20, `${text} ${JSON.stringify(usage)}`);
  const stream = streamText({ model, prompt, ...most(20) });
  let streamed = "";
  for await (const piece of stream.textStream) streamed += piece;
  assert(streamed && (await stream.finishReason) === "length");
  const weather = { description: "Weather",
    ...taking(jsonSchema({ type: "object", properties: { city: { type: "string" } } })) };
  const called = await generateText({ model, prompt, tools: { weather } });
  assert.deepEqual(input(called.toolCalls[0]), { city: "Oslo" });
  // two calls at once, whose outputs go back with the next turn
  const clock = { description: "Clock",
    ...taking(jsonSchema({ type: "object", properties: { zone: { type: "string" } } })) };
  const both = streamText({ model, prompt, tools: { weather, clock } });
  const seen = [];
  for await (const part of both.fullStream) if (part.type === "tool-call") seen.push(part.toolName, input(part));
  assert.deepEqual(seen, ["weather", { city: "Oslo" }, "clock", { zone: "CET" }]);
  const said = (await both.response).messages;
  const outputs = { role: "tool", content: (await both.toolCalls).map(({ toolCallId, toolName }) => ({
    type: "tool-result", toolCallId, toolName, ...given("so so") })) };
  const turn = await generateText({ model, tools: { weather, clock }, ...most(5),
    messages: [{ role: "user", content: prompt }, ...said, outputs] });
  assert(turn.text, JSON.stringify(turn));
  // half of a call is none, or one that the SDK knows to be no good
  const broken = streamText({ model, prompt: "Break off", tools: { weather }, onError() {} });
  const errors = [], half = [];
  for await (const part of broken.fullStream) {
    if (part.type === "error") errors.push(part.error);
    if (part.type === "tool-call") half.push(part);
  }
  assert(errors.length > 0 && half.every((call) => call.invalid), JSON.stringify([errors, half]));
}
// what a response said is named in the next request, by the ids of its items
if (five) {
  const model = createOpenAI(at)("auto");
  const first = await generateText({ model, prompt, maxOutputTokens: 5 });
  const second = await generateText({ model, maxOutputTokens: 5, messages: [{ role: "user", content: prompt },
    ...first.response.messages, { role: "user", content: "And a bazaar?" }] });
  assert(second.text && JSON.stringify(second.request.body).includes("item_reference"));
}
const wrong = souk(at.apiKey)("nothing");
await assert.rejects(generateText({ model: wrong, prompt }), (e) => e.statusCode === 404);
const slow = souk(process.env.SLOW_API_KEY)("auto");
for (let i = 0; i < 3; i++)
  assert((await generateText({ model: slow, prompt, ...most(5), maxRetries: 4 })).text);
console.log("ok");
