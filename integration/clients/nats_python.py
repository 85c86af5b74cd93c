"""The market by plain NATS in Python: a whole answer, a stream with a chunk lost, a balance, a quote, an error."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

try:
    import msgpack  # noqa: F401, what stream.py reads chunks with
    import nats
except ImportError:
    sys.exit(77)

url, creds = os.environ["SOUK_NATS"], os.environ["SOUK_CREDS"]
prompt = [{"role": "user", "content": "What is a souk?"}]


async def main():
    bus = await nats.connect(url, user_credentials=creds, inbox_prefix=b"_INBOX.dev")

    async def ask(subject, **what):
        return json.loads((await bus.request(subject, json.dumps(what).encode(), timeout=60)).data)

    whole = await ask("souk.v1.task.dev", model="auto", messages=prompt, max_tokens=8)
    assert whole["text"] and whole["receipt"]["id"] and float(whole["paid"]) > 0, whole
    money = await ask("souk.v1.ledger.balance.dev", id="b", hubs=True)
    assert float(money["allotted"]) + float(money["prepaid"]) > 0, money
    quote = await ask("souk.v1.quote.dev", model="auto", messages=prompt)
    assert quote["estimate"] and quote["hubs"][0]["models"], quote
    refused = await ask("souk.v1.task.dev", model="none", messages=prompt)
    assert refused["code"] == "unknown_model", refused
    await bus.close()


asyncio.run(main())
stream = Path(__file__).parent.parent / "foreign" / "stream.py"
out = subprocess.run([sys.executable, stream, url, "dev", "What is a souk?", "--creds", creds, "--lose", "1"],
                     capture_output=True, text=True, timeout=60)
text, last = out.stdout.rstrip("\n").rsplit("\n", 1)
assert out.returncode == 0 and text and json.loads(last)["receipt"], out
print("ok")
