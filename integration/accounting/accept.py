"""Has hledger, Ledger and beancount read what `ledger export` writes, and compares balances.

    python3 accept.py LEDGER DATA...

LEDGER is the market's command, DATA are data directories. Programs that are not there are said to be missing;
beancount is looked for in this Python. What is refused, or differs in the last digit from what `ledger bal`
says, ends it with exit status 1.
"""

import csv
import decimal
import os
import re
import shutil
import subprocess
import sys
import tempfile

Decimal = decimal.Decimal


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8")
    if done.returncode or done.stderr.strip():
        said = (done.stdout + done.stderr)[-2000:]
        sys.exit(f"{' '.join(command)}: exit status {done.returncode}\n{said}")
    return done.stdout


def word(name):
    """An id as one word, by the manual of `ledger export`."""
    out = ""
    for i, c in enumerate(name.encode()):
        c, after = chr(c), name[i + 1:i + 2]
        if i == 0 and "a" <= c <= "z":
            out += c.upper()
            continue
        out += "0" if i == 0 else ""
        plain = re.fullmatch("[A-Za-z0-9]", c) or c == "-" and re.fullmatch("[A-Za-z0-9]", after)
        out += c if plain else f"--{ord(c):02X}"
    return out or "0"


def account(journal, name):
    kind = "Equity" if name.startswith("external:") else "Assets"
    return ":".join([kind, word(journal)] + [word(part) for part in name.split(":")])


def of_hledger(path):
    rows = csv.reader(run("hledger", "-f", path, "bal", "-N", "--flat", "-E", "-O", "csv").splitlines())
    return {row[0]: Decimal(row[1].split()[0]) for row in list(rows)[1:]}


def of_ledger(path):
    out = run(ledger(), "--pedantic", "-f", path, "bal", "--flat", "--empty", "--no-total", "--format",
              "%(account)\t%(quantity(display_total))\n")
    rows = (line.split("\t") for line in out.splitlines())
    return {name: Decimal(amount) for name, amount in rows}


def of_beancount(path):
    from beancount import loader
    from beancount.core import data
    entries, errors, _ = loader.load_file(path)
    if errors:
        sys.exit(f"beancount: {len(errors)} errors, first: {errors[0]}")
    balances = {}
    for entry in data.filter_txns(entries):
        for p in entry.postings:
            balances[p.account] = balances.get(p.account, 0) + p.units.number
    return balances


def ledger():
    """The program Ledger, whose name is ours, too."""
    for folder in os.environ["PATH"].split(os.pathsep):
        path = shutil.which("ledger", path=folder)
        if path and "command-line accounting" in run(path, "--version"):
            return path
    return None


def has_beancount():
    try:
        import beancount
        return bool(beancount)
    except ImportError:
        return False


def main(command, *data):
    decimal.getcontext().prec = 60
    want = {}
    for row in csv.DictReader(run(command, "bal", "-E", "-O", "csv", *data).splitlines()):
        want[account(row["journal"], row["account"])] = Decimal(row["credits"])
    asked = 0
    for name, there, read in (("hledger", shutil.which("hledger"), of_hledger),
                              ("ledger", ledger(), of_ledger),
                              ("beancount", has_beancount(), of_beancount)):
        if not there:
            print(f"{name}: missing")
            continue
        asked += 1
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "export." + name)
            with open(path, "w", encoding="utf-8") as file:
                file.write(run(command, "export", "--format", name, *data))
            got = read(path)
            for key in want.keys() | got.keys():
                if want.get(key, 0) != got.get(key, 0):
                    sys.exit(f"{name}: {key} has {got.get(key, 0)}, and {want.get(key, 0)} by ledger bal")
            print(f"{name}: {len(got)} accounts as ledger bal has them, of {os.path.getsize(path)} bytes")
    if not asked:
        print("none of them is here")


main(*sys.argv[1:])
