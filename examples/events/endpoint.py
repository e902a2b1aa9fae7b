"""Receives the events of a webhook of Atrium."""
import base64, hashlib, hmac, json, os, sys, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MAX_BODY = 1 << 20
TOLERANCE = 300  # seconds: older requests may be copies that someone sends again
KEY = base64.b64decode(os.environ["WEBHOOK_SECRET"].removeprefix("whsec_")) or sys.exit("WEBHOOK_SECRET is empty")

seen = set()  # replace it by a table with a unique key: it must survive a restart


def verified(headers, body):
    """Reports whether one of the signatures is that of the body, and is new enough."""
    identifier, timestamp = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not (timestamp.isascii() and timestamp.isdigit()) or abs(time.time() - int(timestamp)) > TOLERANCE:
        return False
    mac = hmac.new(KEY, f"{identifier}.{timestamp}.".encode() + body, hashlib.sha256)
    want = b"v1," + base64.b64encode(mac.digest())
    signatures = headers.get("webhook-signature", "").split()  # two while a secret is rotated
    return any(hmac.compare_digest(s.encode(), want) for s in signatures)


class Endpoint(BaseHTTPRequestHandler):
    timeout = 10  # seconds that a client may be silent

    def do_POST(self):
        length = int(self.headers.get("Content-Length") or 0)
        if self.path != "/events" or not 0 < length <= MAX_BODY:
            return self.send_error(404 if self.path != "/events" else 413)
        body = self.rfile.read(length)
        if not verified(self.headers, body):
            return self.send_error(401, "wrong signature")
        try:
            event = json.loads(body)
            identifier, kind = event["id"], event["type"]
        except (ValueError, KeyError, TypeError):
            return self.send_error(400, "not an event")
        if identifier not in seen:  # an event can arrive more than once
            seen.add(identifier)
            self.log_message("%s %s", kind, identifier)
        self.send_response(204)  # only now: without a 2xx, Atrium sends the event again
        self.end_headers()


host, port = sys.argv[1].rsplit(":", 1)
ThreadingHTTPServer((host, int(port)), Endpoint).serve_forever()
