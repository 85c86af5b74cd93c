"""openai-python's embeddings against a gateway. OPENAI_BASE_URL and OPENAI_API_KEY are all it knows."""
import sys

try:
    import openai
except ImportError:
    sys.exit(77)

client = openai.OpenAI()
texts = ["A souk is a market.", "A fish swims in the sea."]

one = client.embeddings.create(model="bge-m3", input=texts[0])  # as base64, which it decodes
assert len(one.data) == 1 and one.usage.prompt_tokens == one.usage.total_tokens > 0, one
assert one.model_extra["souk"]["receipt"], one
both = client.embeddings.create(model="bge-m3", input=texts, encoding_format="float", user="u1")
assert [d.index for d in both.data] == [0, 1], both
assert max(abs(a - b) for a, b in zip(one.data[0].embedding, both.data[0].embedding)) < 1e-6, (one, both)
short = client.embeddings.create(model="auto", input=[[1, 2, 3], [4, 5]], dimensions=8)
assert [len(d.embedding) for d in short.data] == [8, 8], short
many = client.embeddings.create(model="bge-m3", input=texts * 1024, extra_body={"souk": {"terms": {"max_price": 0.1}}})
assert len(many.data) == 2048 and many.data[2046].embedding == one.data[0].embedding, len(many.data)


def refused(kind, ask, word):
    try:
        ask()
    except kind as e:
        assert word in str(e), e
    else:
        raise AssertionError(word)


refused(openai.BadRequestError, lambda: client.embeddings.create(model="bge-m3", input=""), "empty")
refused(openai.BadRequestError, lambda: client.embeddings.create(model="bge-m3", input=texts * 1025), "2048")
refused(openai.NotFoundError, lambda: client.embeddings.create(model="gpt-oss-20b", input="x"), "/v1/chat/completions")
ask = [{"role": "user", "content": "What is a souk?"}]
refused(openai.NotFoundError, lambda: client.chat.completions.create(model="bge-m3", messages=ask), "/v1/embeddings")
print("ok")
