#!/usr/bin/env python3
"""Judges proofs that a journal holds a record, by a policy and nothing else.

    deploy/verify.py POLICY PROOF...

It needs Python 3.8 or later alone (with the package cryptography it is faster), no network, key or journal, and
shares no line with the ledger command. A proof is what `ledger prove RECEIPT -o PROOF` writes, C2SP's tlog-proof
with the record as its extra data; POLICY, C2SP's tlog-policy, says whose checkpoints count, cosigned by how many of
whom: have it from somebody you trust, and not together with the proof.

Exit: 0 all are right, 1 one is not proven (too few have signed, or others than the policy names), 2 one is no proof,
or usage, 3 one is false: a signature or the record is not what it claims to be. The highest of these counts.
"""
import base64
import datetime
import hashlib
import sys

try:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
except ImportError:
    Ed25519PublicKey = None

MAX_PROOF, MAX_SIZE = 1 << 20, 1 << 48
KINDS = ["", "open", "round", "hold", "capture", "void", "", "", "deposit", "payout", "grant", "accept", "return",
         "reclaim", "distribute", "close", "seal", "tariff", "move", "budget", "mark", "writeoff"]


class Refused(Exception):
    """Why a proof proves nothing: it is none."""
    word, code = "malformed", 2


class Unproven(Refused):
    """It may be true, and too few have signed."""
    word, code = "not proven", 1


class Untrue(Refused):
    """It has its form and cannot be true."""
    word, code = "false", 3


# Ed25519 as RFC 8032 has it, in extended coordinates.
P = 2**255 - 19
L = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, P - 2, P) % P
ROOT = pow(2, (P - 1) // 4, P)  # of -1


def add(a, b):
    x, y = (a[1] - a[0]) * (b[1] - b[0]) % P, (a[1] + a[0]) * (b[1] + b[0]) % P
    z, w = 2 * a[3] * b[3] * D % P, 2 * a[2] * b[2] % P
    e, f, g, h = y - x, w - z, w + z, y + x
    return e * f % P, g * h % P, f * g % P, e * h % P


def times(n, a):
    out = (0, 1, 1, 0)
    while n:
        if n & 1:
            out = add(out, a)
        a, n = add(a, a), n >> 1
    return out


def point(b):
    y = int.from_bytes(b, "little")
    sign, y = y >> 255, y & (1 << 255) - 1
    if y >= P:
        return None
    square = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * ROOT % P
    if (x * x - square) % P or x == 0 and sign:
        return None
    if x & 1 != sign:
        x = P - x
    return x, y, 1, x * y % P


BASE = point((4 * pow(5, P - 2, P) % P).to_bytes(32, "little"))


def signed_slowly(public, signature, message):
    key, r, s = point(public), point(signature[:32]), int.from_bytes(signature[32:], "little")
    if key is None or r is None or s >= L:
        return False
    h = int.from_bytes(hashlib.sha512(signature[:32] + public + message).digest(), "little") % L
    a, b = times(s, BASE), add(r, times(h, key))
    return (a[0] * b[2] - b[0] * a[2]) % P == 0 and (a[1] * b[2] - b[1] * a[2]) % P == 0


def signed(public, signature, message):
    """Whether the 64 bytes are the key's signature."""
    if len(signature) != 64:
        return False
    if Ed25519PublicKey is None:
        return signed_slowly(public, signature, message)
    try:
        Ed25519PublicKey.from_public_bytes(public).verify(signature, message)
    except (InvalidSignature, ValueError):
        return False
    return True


def plain(text):
    """The bytes of a base64 that is written in its only form."""
    try:
        raw = base64.b64decode(text, validate=True)
    except ValueError:
        raise Refused(f"{text[:60]!r} is no base64") from None
    if base64.b64encode(raw).decode() != text:
        raise Refused(f"{text[:60]!r} is not in its only form")
    return raw


def decimal(text):
    if not (text.isascii() and text.isdigit()) or str(int(text[:20])) != text or int(text) >= 1 << 63:
        raise Refused(f"{text[:40]!r} is no number")
    return int(text)


def named(name):
    """Whether a name may be a journal's."""
    return name and "+" not in name and not any(c < " " or "\x7f" <= c < "\xa0" or c.isspace() for c in name) and \
        len(name.encode("utf-8", "surrogateescape")) < 256


class Key:
    """A verifier key: NAME+ID+BASE64 of its kind and its bytes, 32 of Ed25519. Its kind is 1 of a writer and 4 of a
    witness; what others of a witness sign counts for nothing here."""

    def __init__(self, text, writer):
        self.name, _, rest = text.partition("+")
        given, _, encoded = rest.partition("+")
        raw = plain(encoded)
        self.kind, self.public = raw[:1], raw[1:]
        self.id = hashlib.sha256(self.name.encode("utf-8", "surrogateescape") + b"\n" + raw).digest()[:4]
        if not self.name or self.id.hex() != given or writer and self.kind != b"\1" or \
                self.kind in (b"\1", b"\4") and len(raw) != 33 or not writer and self.kind == b"\1":
            raise Refused(f"{text[:120]!r} is no key that can be read here")

    def verifies(self, signature, text):
        """The time of a witness's signature, or 0; None if it is false."""
        if self.kind == b"\1":
            return 0 if signed(self.public, signature, text) else None
        at = int.from_bytes(signature[:8], "big")
        whole = b"cosignature/v1\ntime %d\n" % at + text
        return at if at < 1 << 63 and signed(self.public, signature[8:], whole) else None


class Policy:
    def __init__(self, data):
        self.logs, self.witnesses, self.groups, self.quorum = [], {}, {}, None
        used, seen = set(), set()
        for line in data.decode("utf-8", "surrogateescape").split("\n"):
            if any(c < " " and c != "\t" or c == "\x7f" for c in line):
                raise Refused(f"{line[:80]!r} is no text")
            words = line.replace("\t", " ").split(" ")
            words = [w for w in words if w]
            if not words or words[0].startswith("#"):
                continue
            what, *rest = words
            if what == "log" and len(rest) in (1, 2):
                self.logs.append(self.fresh(seen, what, Key(rest[0], True)))
            elif what == "witness" and len(rest) in (2, 3):
                self.witnesses[self.new(rest[0])] = self.fresh(seen, what, Key(rest[1], False))
            elif what == "group" and len(rest) > 2:
                name, need, *members = rest
                need = {"all": len(members), "any": 1}.get(need) or decimal(need)
                if not 1 <= need <= len(members) or any(not self.knows(m) or m in used for m in members) or \
                        len(set(members)) < len(members):
                    raise Refused(f"group {name}: {need} of {len(members)} members, each named before and used once")
                used.update(members)
                self.groups[self.new(name)] = need, members
            elif what == "quorum" and len(rest) == 1 and self.quorum is None and \
                    (rest[0] == "none" or self.knows(rest[0])):
                self.quorum = rest[0]
            else:
                raise Refused(f"{line[:80]!r} is no line of a policy")
        if self.quorum is None:
            raise Refused("the policy has no quorum")

    @staticmethod
    def fresh(seen, what, key):
        if (what, key.public) in seen:
            raise Refused(f"two lines {what!r} have one key")
        seen.add((what, key.public))
        return key

    def knows(self, name):
        return name in self.witnesses or name in self.groups

    def new(self, name):
        if self.knows(name) or name == "none":
            raise Refused(f"{name!r} is named twice, or may not be a name")
        return name

    def enough(self, name, have):
        if name == "none" or name in have:
            return True
        need, members = self.groups.get(name, (1, ()))
        return sum(self.enough(m, have) for m in members) >= need

    def judge(self, note):
        """Returns origin, size, root and who cosigned when, of a checkpoint that enough have signed."""
        text, found, lines = note.partition("\n\n")
        text += "\n"
        if not found or not lines.endswith("\n") or text.count("\n") != 3:
            raise Refused("there is no checkpoint with signatures")
        origin, size, root = text.split("\n")[:3]
        size, root, body = decimal(size), plain(root), text.encode()
        if not named(origin) or size > MAX_SIZE or len(root) != 32 or size == 0 and root != hashlib.sha256().digest():
            raise Refused("this is no checkpoint of records")
        signatures = {}
        for line in lines[:-1].split("\n"):
            dash, name, encoded = (line.split(" ") + ["", ""])[:3]
            odd = not name or "+" in name or any(c < " " or c.isspace() for c in name)
            if odd or dash != "\u2014" or line != f"\u2014 {name} {encoded}":
                raise Refused(f"{line[:80]!r} is no signature")
            raw = plain(encoded)
            if (name, raw[:4]) in signatures or len(raw) < 5:
                raise Refused(f"two signatures of {name}, or an empty one")
            signatures[name, raw[:4]] = raw[4:]
        writers = [k for k in self.logs if k.name == origin]
        if not writers:
            raise Unproven(f"the policy does not name {origin!r}")

        def by(key):
            signature = signatures.get((key.name, key.id))
            if signature is None:
                return None
            at = key.verifies(signature, body)
            if at is None:
                raise Untrue(f"the signature of {key.name} is not on this checkpoint")
            return at

        if all([by(k) is None for k in writers]):
            raise Unproven(f"the writer of {origin} has not signed")
        have = {name: by(k) for name, k in self.witnesses.items() if k.kind == b"\4" and k.name != origin}
        have = {name: at for name, at in have.items() if at is not None}
        if not self.enough(self.quorum, have):
            raise Unproven(f"too few have cosigned: {', '.join(have) or 'nobody'}")
        return origin, size, root, have


def root_of(leaf, index, size, path):
    """The root that follows from a leaf (RFC 9162, 2.1.3.2)."""
    if index >= size:
        raise Untrue(f"record {index} is not among {size}")
    at, last = index, size - 1
    for sibling in path:
        if last == 0:
            raise Untrue("too many hashes")
        if at & 1 or at == last:
            leaf = hashlib.sha256(b"\1" + sibling + leaf).digest()
            while not at & 1 and at:
                at, last = at >> 1, last >> 1
        else:
            leaf = hashlib.sha256(b"\1" + leaf + sibling).digest()
        at, last = at >> 1, last >> 1
    if last:
        raise Untrue("too few hashes")
    return leaf


def words(leaf):
    """What a leaf says: when the record was written, its kind and id, and what it moves."""
    at = 1

    def number():
        nonlocal at
        n = shift = 0
        while True:
            b = leaf[at]
            at, n, shift = at + 1, n | (b & 127) << shift, shift + 7
            if b < 128:
                return n

    def string():
        nonlocal at
        n = number()
        at += n
        return leaf[at - n:at].decode()

    try:
        _epoch, _sequence, written, _one, _length = number(), number(), number(), number(), number()
        kind = KINDS[leaf[at]] if leaf[at] < len(KINDS) and KINDS[leaf[at]] else f"kind {leaf[at]}"
        at += 17  # with its salt
        out, legs = f"{moment(written // 10**9)}: {kind} {string()}", []
        for _ in range(number()):
            account, n = string(), number()
            sign, amount = "-" if n & 1 else "", (n + 1) >> 1
            legs.append(f"{account} {sign}{amount // 10**9}.{amount % 10**9:09d}")
        return out + (" " + ", ".join(legs) if legs else "")
    except (IndexError, UnicodeDecodeError):
        return f"{len(leaf)} bytes that this program cannot read"


def moment(at):
    try:
        return f"{datetime.datetime.fromtimestamp(at, datetime.timezone.utc):%Y-%m-%d %H:%M:%SZ}"
    except (OverflowError, OSError, ValueError):  # beyond what calendars have
        return f"second {at}"


def judge(policy, data):
    """Says what a proof proves, or raises Refused."""
    if len(data) > MAX_PROOF:
        raise Refused(f"{len(data)} bytes, want at most {MAX_PROOF}")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        raise Refused("this is no text") from None
    head, found, note = text.partition("\n\n")
    lines = head.split("\n")
    if not found or len(lines) < 3 or lines[0] != "c2sp.org/tlog-proof@v1" or lines[1][:6] != "extra " or \
            lines[2][:6] != "index " or len(lines) > 67:
        raise Refused("this is no proof with its record, or it is cut")
    record, index, path = plain(lines[1][6:]), decimal(lines[2][6:]), [plain(h) for h in lines[3:]]
    if index >= MAX_SIZE or any(len(h) != 32 for h in path):
        raise Refused("its index is too large, or a hash has not 32 bytes")
    origin, size, root, have = policy.judge(note)
    if root_of(hashlib.sha256(b"\0" + record).digest(), index, size, path) != root:
        raise Untrue(f"the record is not record {index} of the {size} of {origin}")
    when = ", ".join(f"{name} at {moment(at)}" for name, at in have.items())
    return f"record {index} of {origin}, {words(record)}; cosigned by {when or 'nobody'}"


def main(args):
    if len(args) < 2:
        print(__doc__, file=sys.stderr)
        return 2
    try:
        with open(args[0], "rb") as f:
            policy = Policy(f.read(MAX_PROOF))
    except (OSError, Refused) as e:
        print(f"{args[0]}: {e}", file=sys.stderr)
        return 2
    code = 0
    for path in args[1:]:
        try:
            with open(path, "rb") as f:
                print(f"{path}: right: {judge(policy, f.read(MAX_PROOF + 1))}")
        except OSError as e:
            print(f"{path}: {e}", file=sys.stderr)
            return 2
        except Refused as e:
            print(f"{path}: {e.word}: {e}")
            code = max(code, e.code)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
