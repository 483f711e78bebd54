// Makes elements. All text is set as text: what comes from sessions is never markup.

// plain is a text without controls and marks of direction: a program that prints them has the words beside its own read otherwise.
const plain = (text) => String(text).replace(/[\p{Cc}\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/gu, " ");

// element makes one, with properties, attributes (of names with a dash, and role), and children: nodes or texts.
export function element(name, properties = {}, ...children) {
  const e = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (value === undefined || value === null) continue;
    if (key === "textContent") e.textContent = plain(value);
    else if (key === "role" || key.includes("-")) e.setAttribute(key, value);
    else e[key] = value;
  }
  e.append(...children.flat().filter((c) => c !== null && c !== undefined && c !== false));
  return e;
}

// put sets a text, and leaves the node alone if it has that.
export function put(node, text) {
  text = plain(text);
  if (node.textContent !== text) node.textContent = text;
}

// fill replaces children, unless they show what they showed before: that keeps the focus and what is selected.
export function fill(node, key, make) {
  const text = JSON.stringify(key);
  if (node.shows === text) return;
  node.shows = text;
  node.replaceChildren(...[make()].flat().filter((c) => c !== null && c !== undefined && c !== false));
}

const nameOf = (e) => e.getAttribute("aria-label") ?? e.textContent;

// kept has fn show a node anew: the details that are open stay so, what was typed stays, and so does the focus. Details with a
// function show make what is in them with it.
export function kept(node, fn) {
  const open = new Set([...node.querySelectorAll("details[open] > summary")].map(nameOf));
  const typed = new Map([...node.querySelectorAll("input[aria-label]")].map((e) => [nameOf(e), e.value]));
  const focused = node.contains(document.activeElement) ? document.activeElement : null;
  fn();
  for (const summary of node.querySelectorAll("details > summary")) {
    const details = summary.parentElement;
    if (!open.has(nameOf(summary)) || details.open) continue;
    details.show?.();
    details.open = true;
  }
  for (const e of node.querySelectorAll("input[aria-label]")) {
    const value = typed.get(nameOf(e));
    if (value === undefined || value === e.value) continue;
    e.value = value;
    e.oninput?.();
  }
  if (focused && !node.contains(focused)) [...node.querySelectorAll(focused.localName)].find((e) => nameOf(e) === nameOf(focused))?.focus();
}

// unreachable says that files of the console didn't come. The browser doesn't ask for them again by itself.
export function unreachable() {
  return [element("p", { textContent: "This can't be loaded: the gateway doesn't answer." }), element("p", {}, element("button", { type: "button", textContent: "Try again", onclick: () => location.reload() }))];
}

// say has a screen reader say something.
export function say(text) {
  put(document.getElementById("said"), text);
}

// command shows a command line, with a button that copies it.
export function command(line) {
  const text = element("code", { textContent: line });
  const copy = element("button", { type: "button", className: "copy", textContent: "Copy", "aria-label": `Copy: ${line}` });
  copy.onclick = async () => {
    try {
      await navigator.clipboard.writeText(line);
      put(copy, "Copied");
      say("Copied");
      setTimeout(() => put(copy, "Copy"), 2000);
    } catch { // a page without TLS beyond this machine has no clipboard
      getSelection().selectAllChildren(text);
    }
  };
  return element("span", { className: "command" }, text, copy);
}
