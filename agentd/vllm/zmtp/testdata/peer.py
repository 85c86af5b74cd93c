"""A publisher and its replay by libzmq, as vLLM has them: peer.py bind|connect ENDPOINT REPLAY.

Lines on stdin: "send N SIZE" publishes N messages of SIZE bytes.
"""

import sys

import zmq

how, endpoint, replay = sys.argv[1:4]
context = zmq.Context()


def publish():
    pub = context.socket(zmq.PUB)
    pub.set_hwm(100_000)
    getattr(pub, how)(endpoint)
    router = context.socket(zmq.ROUTER)
    router.bind(replay)
    buffer = []
    poller = zmq.Poller()
    poller.register(router, zmq.POLLIN)
    poller.register(sys.stdin.fileno(), zmq.POLLIN)
    print("libzmq", zmq.zmq_version(), flush=True)
    while True:
        for ready, _ in poller.poll():
            if ready is router:
                who, _, start = router.recv_multipart()
                for seq, payload in buffer:
                    if seq >= int.from_bytes(start, "big"):
                        router.send_multipart((who, b"", b"kv", seq.to_bytes(8, "big"), payload))
                router.send_multipart((who, b"", b"", (-1).to_bytes(8, "big", signed=True), b""))
                continue
            line = sys.stdin.buffer.raw.readline()
            if not line:
                return
            _, n, size = line.split()
            for _ in range(int(n)):
                seq, payload = len(buffer), bytes([len(buffer) % 251]) * int(size)
                pub.send_multipart((b"kv", seq.to_bytes(8, "big"), payload))
                buffer.append((seq, payload))


publish()
