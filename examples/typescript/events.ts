// Receives the events of a webhook of Atrium. The library standardwebhooks verifies the signatures.
//
//   WEBHOOK_SECRET=whsec_… node dist/events.js 127.0.0.1:8090

import { createServer, type IncomingMessage } from "node:http";
import { Webhook } from "standardwebhooks";

const maxBody = 1 << 20;
const webhook = new Webhook(process.env["WEBHOOK_SECRET"] ?? ""); // also compares the time: five minutes

type Event = { id: string; type: string; timestamp: string; tenantId: string; position: number; data: object };

// seen has the events that were handled. Replace it by a table with a unique key: it must survive a restart.
const seen = new Set<string>();

async function read(request: IncomingMessage): Promise<Buffer | undefined> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of request as AsyncIterable<Buffer>) {
    if ((size += chunk.length) > maxBody) return undefined;
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

async function receive(request: IncomingMessage): Promise<number> {
  if (request.method !== "POST" || request.url !== "/events") return 404;
  const body = await read(request);
  if (body === undefined) return 413;
  let event: Event;
  try {
    event = webhook.verify(body.toString(), request.headers as Record<string, string>) as Event;
  } catch {
    return 401;
  }
  if (typeof event?.id !== "string") return 400;
  if (!seen.has(event.id)) { // an event can arrive more than once
    seen.add(event.id);
    console.log(event.type, event.id);
  }
  return 204; // only now: without a 2xx, Atrium sends the event again
}

const address = new URL(`http://${process.argv[2]}`);
createServer({ requestTimeout: 10_000 }, (request, response) => {
  receive(request).then(
    (status) => response.writeHead(status).end(),
    () => response.destroy(), // the client has disconnected
  );
}).listen(Number(address.port), address.hostname);
