"""Streams an answer from a Souk market by plain NATS and msgpack, as any language can: pip install nats-py[nkeys] msgpack

    python stream.py nats://127.0.0.1:4222 dev "What is a souk?" --creds souk-data/auth/creds/dev.creds

Prints the text as it comes, then the last word on the task, as JSON. --lose N drops chunk N on arrival, to see it come again.
"""

import argparse
import asyncio
import json
import os
import sys
import uuid

import msgpack
import nats


async def main(a):
    # Answers go to nobody's inbox but the client's own.
    async def first(e):  # without it nats.connect goes on trying for two minutes
        if bus is None:
            print(f"{a.url}: {e}; is the server there, and are {a.creds} the creds of {a.client}?", file=sys.stderr)
            os._exit(1)

    bus = None
    bus = await nats.connect(a.url, inbox_prefix=f"_INBOX.{a.client}".encode(), user_credentials=a.creds, error_cb=first)
    task = uuid.uuid4().hex
    # The reply subject is known beforehand, so nothing that comes before the answer to the request is missed.
    chunks = await bus.subscribe(f"souk.v1.reply.{a.client}.{task}.*")
    body = {"messages": [{"role": "user", "content": a.prompt}], "max_tokens": a.max_tokens, "stream": True, "souk": {"task": task}}
    accepted = json.loads((await bus.request(f"souk.v1.task.{a.client}", json.dumps(body).encode(), timeout=600)).data)
    if "code" in accepted:
        sys.exit(f"{accepted['code']}: {accepted['message']}")

    async def tell(**what):  # one of resume, ack, cancel
        await bus.publish(f"souk.v1.agent.{accepted['agent']}.stream.{a.client}", msgpack.packb({"task": task, **what}))

    next, early, end, lose = 0, {}, None, a.lose
    while end is None or next < end.get("chunks", 0):
        try:
            said = await chunks.next_msg(timeout=6)  # an agent says something every 2 s
        except nats.errors.TimeoutError:
            sys.exit("unknown: the agent fell silent")
        sender, c = said.subject.rsplit(".", 1)[1], msgpack.unpackb(said.data)
        if sender == accepted["hub"]:  # names the agent that serves the task now, or says that none does
            if c.get("o"):
                sys.exit("unknown: nobody listens any more where the agent did")
            accepted["agent"] = c.get("g", accepted["agent"])
            end = c.get("r")
            continue
        if sender != accepted["agent"]:
            continue  # nobody has named it: anybody may say anything here
        if "r" in c:
            end = c["r"]
        elif c.get("h"):  # a heartbeat names the number that comes next
            if c.get("n", 0) > next:
                await tell(resume=next)
            continue
        elif c["n"] == lose:
            lose = None
        else:
            early[c["n"]] = c
        while next in early:
            sys.stdout.write(early.pop(next).get("x", ""))
            sys.stdout.flush()
            next += 1
        if early or end is not None and next < end.get("chunks", 0):
            await tell(resume=next)  # something before these is missing
    await tell(ack=end.get("chunks", 0) + 1)  # the agent may forget the answer
    await bus.flush()
    print("\n" + json.dumps(end, ensure_ascii=False))
    await bus.close()
    sys.exit(1 if end.get("code") else 0)


p = argparse.ArgumentParser()
p.add_argument("url")
p.add_argument("client")
p.add_argument("prompt")
p.add_argument("--creds", required=True, help="the client's key to the market: DATA/auth/creds/CLIENT.creds")
p.add_argument("--max-tokens", type=int, default=200)
p.add_argument("--lose", type=int)
asyncio.run(main(p.parse_args()))
