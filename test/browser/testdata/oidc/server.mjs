// A certified identity provider with three people, on a free port of this machine. The arguments are the
// redirect URI of its only client and its post-logout redirect URI. It prints its issuer.

import { generateKeyPairSync, randomUUID } from "node:crypto";
import { createServer } from "node:http";
import Provider from "oidc-provider";

const people = {
  jane: { name: "Jane Doe", groups: ["editors"] },
  kim: { name: "Kim Park", groups: ["editors", "sales"] },
  sam: { name: "Sam Reed", groups: ["interns"] },
};

const key = generateKeyPairSync("rsa", { modulusLength: 2048 }).privateKey.export({ format: "jwk" });

const server = createServer();
server.listen(0, "127.0.0.1", () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  const provider = new Provider(issuer, {
    clients: [{ client_id: "atrium", client_secret: process.env.CLIENT_SECRET, redirect_uris: [process.argv[2]], post_logout_redirect_uris: [process.argv[3]] }],
    claims: { openid: ["sub"], profile: ["name", "groups"] },
    cookies: { keys: [randomUUID()] },
    features: {
      devInteractions: { enabled: false },
      rpInitiatedLogout: { // its own page loads a font from another site
        logoutSource: (ctx, form) => {
          ctx.body = `<!doctype html><html lang="en"><title>Provider</title><link rel="icon" href="data:,"><h1>Sign out?</h1>${form}
<button form="op.logoutForm" name="logout" value="yes">Yes</button></html>`;
        },
      },
    },
    findAccount: (_, id) => people[id] && { accountId: id, claims: () => ({ sub: id, ...people[id] }) },
    interactions: { url: (_, interaction) => `/interaction/${interaction.uid}` },
    jwks: { keys: [{ ...key, use: "sig", alg: "RS256", kid: "test" }] },
    loadExistingGrant: async (ctx) => {
      const grant = new provider.Grant({ clientId: ctx.oidc.client.clientId, accountId: ctx.oidc.session.accountId });
      grant.addOIDCScope("openid profile");
      await grant.save();
      return grant;
    },
    ttl: { AccessToken: 60, AuthorizationCode: 60, Grant: 60, IdToken: 60, Interaction: 600, Session: 600 },
  });
  const serve = provider.callback();
  server.on("request", async (request, response) => {
    const { pathname } = new URL(request.url, issuer);
    if (!pathname.startsWith("/interaction/")) {
      serve(request, response);
      return;
    }
    if (request.method === "POST") {
      let body = "";
      for await (const part of request) body += part;
      await provider.interactionFinished(request, response, { login: { accountId: new URLSearchParams(body).get("login") } });
      return;
    }
    response.setHeader("Content-Type", "text/html; charset=utf-8");
    response.end(`<!doctype html><html lang="en"><title>Provider</title><link rel="icon" href="data:,"><h1>Provider</h1>
<form method="post"><label>Name <input name="login" autofocus></label><button>Continue</button></form></html>`);
  });
  console.log(issuer);
});
