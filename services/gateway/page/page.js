// Shows the OpenAPI document, and sends the requests that a person fills in.

const doc = await (await fetch("openapi.json")).json();

function element(name, properties = {}, ...children) {
  const e = Object.assign(document.createElement(name), properties);
  e.append(...children);
  return e;
}

function resolve(schema, seen = []) {
  if (!schema?.$ref || seen.includes(schema.$ref)) return schema?.$ref ? {} : schema ?? {};
  return { ...resolve(doc.components.schemas[schema.$ref.split("/").pop()], [...seen, schema.$ref]), from: schema.$ref };
}

// example makes a value of a schema, with what is required alone.
function example(schema, depth = 0) {
  const s = resolve(schema);
  const type = Array.isArray(s.type) ? s.type[0] : s.type;
  if (s.examples) return s.examples[0];
  if (s.default !== undefined) return s.default;
  if (s.enum) return s.enum[0];
  switch (type) {
    case "object": {
      const required = depth > 4 ? [] : s.required ?? [];
      return Object.fromEntries(required.map((name) => [name, example(s.properties[name], depth + 1)]));
    }
    case "array": return [];
    case "integer": case "number": return 0;
    case "boolean": return false;
    default: return "";
  }
}

function operation(method, path, op) {
  const inputs = [];
  const form = element("form");
  for (const p of op.parameters ?? []) {
    const input = element("input", { autocomplete: "off" });
    inputs.push({ ...p, input });
    form.append(element("label", {}, element("code", { textContent: p.name }), ` (${p.in}${p.required ? "" : ", optional"}) `, input, element("small", { textContent: p.description ?? "" })));
  }
  const media = op.requestBody?.content?.["application/json"];
  const body = media && element("textarea", { spellcheck: false, value: JSON.stringify(example(media.schema), null, 2) });
  if (body) form.append(element("label", {}, "Body", body));
  const send = element("button", { textContent: "Send" });
  const stop = element("button", { textContent: "Stop", type: "button", hidden: true });
  const out = element("pre", { hidden: true });
  form.append(send, " ", stop, out);
  form.addEventListener("submit", (e) => {
    e.preventDefault();
    ask(method, path, inputs, body, out, send, stop);
  });
  const title = element("summary", {}, element("span", { className: "method", textContent: method.toUpperCase() }), element("code", { textContent: path }), ` ${op.summary ?? ""}`);
  return element("details", {}, title, element("p", { textContent: op.description ?? "" }), form);
}

async function ask(method, path, inputs, body, out, send, stop) {
  const url = new URL(location.origin);
  const token = document.getElementById("token").value.trim();
  const headers = {};
  if (token) headers.Authorization = `Bearer ${token}`;
  else headers["Diapause-Page"] = localStorage.getItem("diapause-page") ?? ""; // of the login, with its cookie
  for (const p of inputs) {
    const value = p.input.value.trim();
    if (p.in === "path") path = path.replace(`{${p.name}}`, encodeURIComponent(value));
    else if (value === "") continue;
    else if (p.in === "header") headers[p.name] = value;
    else url.searchParams.set(p.name, value);
  }
  url.pathname = path;
  if (body) headers["Content-Type"] = "application/json";
  const abort = new AbortController();
  stop.onclick = () => abort.abort();
  stop.hidden = false;
  send.disabled = true;
  out.hidden = false;
  out.textContent = "…";
  try {
    const r = await fetch(url, { method, headers, body: body?.value, signal: abort.signal, redirect: "error" });
    const head = `${r.status} ${r.statusText}\n`;
    if (r.headers.get("Content-Type")?.startsWith("text/event-stream")) {
      out.textContent = head;
      for await (const text of r.body.pipeThrough(new TextDecoderStream())) out.append(text);
      return;
    }
    const text = await r.text();
    try {
      out.textContent = head + JSON.stringify(JSON.parse(text), null, 2);
    } catch {
      out.textContent = head + text;
    }
  } catch (e) {
    out.append(`\n${e.name === "AbortError" ? "stopped" : e}`);
  } finally {
    stop.hidden = true;
    send.disabled = false;
  }
}

const groups = new Map();
for (const [path, item] of Object.entries(doc.paths)) {
  for (const [method, op] of Object.entries(item)) {
    if (!op.operationId) continue;
    const tag = op.tags?.[0] ?? "other";
    if (!groups.has(tag)) groups.set(tag, []);
    groups.get(tag).push(operation(method, path, op));
  }
}
const main = document.getElementById("operations");
main.replaceChildren(...[...groups].flatMap(([tag, operations]) => [element("h2", { textContent: tag }), ...operations]));
