"""A witness of C2SP's tlog-witness that anybody runs: litewitness of filippo.io/torchwood, with a key of its own in an
ssh-agent of its own. Arguments: the program, and VKEYs of the journals' writers that it is to know. It prints its URL
and the line of a policy that names it, and serves until its input ends."""
import base64
import os
import re
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile

program = shutil.which(sys.argv[1])
if not program or not all(map(shutil.which, ("ssh-agent", "ssh-add", "ssh-keygen"))):
    sys.exit(77)

at = tempfile.mkdtemp()
running = []
try:
    key, agent, known = (os.path.join(at, name) for name in ("key", "agent", "known.db"))
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key], check=True)
    running.append(subprocess.Popen(["ssh-agent", "-D", "-a", agent], stdout=subprocess.PIPE, text=True))
    running[0].stdout.readline()  # it listens
    subprocess.run(["ssh-add", "-q", key], check=True, env={**os.environ, "SSH_AUTH_SOCK": agent})
    shown = subprocess.run(["ssh-keygen", "-l", "-f", key], check=True, capture_output=True, text=True).stdout
    with sqlite3.connect(known) as db:
        db.executescript("""
            CREATE TABLE log (origin TEXT PRIMARY KEY, tree_size INTEGER NOT NULL, tree_hash TEXT NOT NULL);
            CREATE TABLE key (origin TEXT NOT NULL, key TEXT NOT NULL, FOREIGN KEY(origin) REFERENCES log(origin));""")
        empty = base64.b64encode(bytes(32)).decode()
        for vkey in sys.argv[2:]:
            origin = vkey.split("+")[0]
            db.execute("INSERT OR IGNORE INTO log VALUES (?, 0, ?)", (origin, empty))
            db.execute("INSERT INTO key VALUES (?, ?)", (origin, vkey))
    db.close()
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        listen = "127.0.0.1:%d" % s.getsockname()[1]
    running.append(subprocess.Popen([program, "-db", known, "-name", "witness.example/lite", "-ssh-agent", agent,
                                     "-key", shown.split()[1], "-listen", listen], stderr=subprocess.PIPE, text=True))
    vkey = ""
    for line in running[1].stderr:
        found = re.search(r'msg="verifier key" vkey=(\S+)', line)
        vkey = found[1] if found else vkey
        if "msg=listening" in line:
            print(f"http://{listen}\nwitness lite {vkey} http://{listen}", flush=True)
            break
    else:
        sys.exit(1)
    sys.stdin.read()
finally:
    for p in reversed(running):
        p.terminate()
        p.wait()
    shutil.rmtree(at)
