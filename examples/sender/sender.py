"""Sends the entries in a directory, one JSON file each, in the order of their names: sender.py DIRECTORY."""
import json, os, random, sys, time, urllib.error, urllib.request
from pathlib import Path

DEADLINE = 24 * 60 * 60  # seconds: how long the service may be down


def send(entry):
    """Returns the status, 0 for no response, the seconds of Retry-After, and the body."""
    request = urllib.request.Request(os.environ["ATRIUM_SERVER"] + "/v0/account_logs", entry, {
        "Content-Type": "application/json", "x-api-key": os.environ["ATRIUM_KEY"]})
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            if ignored := response.headers.get("Atrium-Ignored"):
                print("fields that the server does not know:", ignored, file=sys.stderr)
            return response.status, 0, response.read()
    except urllib.error.HTTPError as error:
        after = error.headers.get("Retry-After") or ""
        return error.code, int(after) if after.isdecimal() else 1, error.read()
    except OSError:  # refused, broken or too slow: the entry may or may not be stored
        return 0, 1, b""


def deliver(message):
    """Sends one message until its outcome is known."""
    entry = message.read_bytes()
    if not json.loads(entry).get("idempotencyKey"):
        sys.exit(f"{message}: without a key, a retry could store the entry twice")
    wait, began = 1, time.monotonic()
    while True:
        status, after, body = send(entry)
        if status == 201:
            return message.unlink()
        if status in (401, 403, 405):  # every message would fail
            sys.exit(f"{message}: {status}: {body.decode()}")
        if 400 <= status < 500 and status != 429:  # somebody must fix the message
            print(f"{message}: {status}: {body.decode()}", file=sys.stderr)
            return message.rename(message.with_suffix(".rejected"))
        if time.monotonic() - began > DEADLINE:
            sys.exit(f"{message}: no success in a day: {status}")
        time.sleep(max(wait, after) * (1 + random.random() / 2))
        wait = min(2 * wait, 60)


for message in sorted(Path(sys.argv[1]).glob("*.json")):
    deliver(message)
