// Shows the document of this server. Nothing is kept in the browser, and no other
// server is asked: the validator badge is off.
SwaggerUIBundle({
  url: "/openapi.json",
  dom_id: "#viewer",
  deepLinking: true,
  validatorUrl: null,
  persistAuthorization: false,
  tryItOutEnabled: false,
  defaultModelsExpandDepth: 0,
});
