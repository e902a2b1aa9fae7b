"""Records the signed webhooks of GitHub as entries."""
import hashlib, hmac, json, os, sys, urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

MAX_BODY = 900 << 10  # Atrium accepts 1 MiB with the other fields
SECRET = os.environ["WEBHOOK_SECRET"].encode() or sys.exit("WEBHOOK_SECRET is empty")


class Receiver(BaseHTTPRequestHandler):
    timeout = 10  # seconds that a client may be silent

    def do_POST(self):
        length = int(self.headers.get("Content-Length") or 0)
        if self.path != "/github" or not 0 < length <= MAX_BODY:
            return self.send_error(404 if self.path != "/github" else 413)
        body = self.rfile.read(length)
        signature = "sha256=" + hmac.new(SECRET, body, hashlib.sha256).hexdigest()
        if not hmac.compare_digest(signature.encode(), self.headers.get("X-Hub-Signature-256", "").encode()):
            return self.send_error(401, "wrong signature")
        delivery, kind = self.headers.get("X-GitHub-Delivery"), self.headers.get("X-GitHub-Event")
        try:
            event = json.loads(body)
            owner = event.get("repository", {}).get("owner", {}).get("login")
        except (ValueError, AttributeError):
            delivery = None
        if not delivery or not kind:
            return self.send_error(400, "not an event")
        entry = {"source": "github", "type": kind, "payload": event,
                 "idempotencyKey": "github-" + delivery}  # the same for each attempt
        if owner:
            entry["name"] = owner  # selects the account with this name
        try:
            record(json.dumps(entry).encode())
        except Exception as error:  # the sender sees the failure: deliver it again
            cause = error.read() if hasattr(error, "read") else error
            self.log_error("%s: %s", delivery, cause)
            return self.send_error(502, "not recorded")
        self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()


def record(entry):
    """Sends an entry. It returns only if Atrium has stored it."""
    request = urllib.request.Request(os.environ["ATRIUM_SERVER"] + "/v0/account_logs", entry, {
        "Content-Type": "application/json", "x-api-key": os.environ["ATRIUM_KEY"]})
    with urllib.request.urlopen(request, timeout=8) as response:  # GitHub waits 10 seconds
        if response.status != 201:
            raise OSError(response.status)


host, port = sys.argv[1].rsplit(":", 1)
ThreadingHTTPServer((host, int(port)), Receiver).serve_forever()
