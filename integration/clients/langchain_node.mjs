// LangChain for JavaScript against a gateway: its quick-start, a stream, a tool call, usage, an error, a retry.
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
const { ChatOpenAI } = await find("@langchain/openai");
const configuration = { baseURL: process.env.OPENAI_BASE_URL };
const apiKey = process.env.OPENAI_API_KEY;
const ask = "What is a souk?";

for (const useResponsesApi of [false, true]) {
  const model = new ChatOpenAI({ model: "auto", apiKey, configuration, maxTokens: 20, useResponsesApi });
  const answer = await model.invoke(ask);
  assert(answer.text && answer.usage_metadata.output_tokens === 20, JSON.stringify(answer));
  let text = "";
  for await (const piece of await model.stream(ask)) text += piece.text;
  assert(text);
  const weather = { type: "function", function: { name: "weather",
    parameters: { type: "object", properties: { city: { type: "string" } } } } };
  const called = await model.bindTools([weather]).invoke(ask);
  assert.deepEqual(called.tool_calls[0].args, { city: "Oslo" });
}
await assert.rejects(new ChatOpenAI({ model: "nothing", apiKey, configuration }).invoke(ask),
  (e) => e.status === 404);
const slow = new ChatOpenAI({ model: "auto", apiKey: process.env.SLOW_API_KEY, configuration, maxTokens: 5,
  maxRetries: 4 });
for (let i = 0; i < 3; i++) assert((await slow.invoke(ask)).text);
console.log("ok");
