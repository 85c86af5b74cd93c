"""Cohere's client, by either of its versions, has a gateway rerank documents."""
import os
import sys

try:
    import cohere
except ImportError:
    sys.exit(77)

base, key = os.environ["OPENAI_BASE_URL"].removesuffix("/v1"), os.environ["OPENAI_API_KEY"]
documents = ["Cars have four wheels.", "A souk is a market.", "Fish live in the sea."]
for client in (cohere.Client(base_url=base, api_key=key), cohere.ClientV2(base_url=base, api_key=key)):
    got = client.rerank(model="bge-m3", query="Is a souk a market?", documents=documents, top_n=2)
    assert [r.index for r in got.results][0] == 1 and len(got.results) == 2, got
    assert got.results[0].relevance_score > got.results[1].relevance_score, got
print("ok")
