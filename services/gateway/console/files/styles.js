// xterm.js writes style elements and style attributes, which the page's policy refuses. Both have a way that it allows: style
// sheets and declarations that a script makes. This gives xterm.js elements that go that way.

const make = Document.prototype.createElement;

function styleElement() {
  const sheet = new CSSStyleSheet();
  const e = make.call(document, "i");
  e.hidden = true;
  document.adoptedStyleSheets.push(sheet);
  Object.defineProperty(e, "textContent", { set: (text) => sheet.replaceSync(text) });
  e.remove = () => {
    document.adoptedStyleSheets = document.adoptedStyleSheets.filter((s) => s !== sheet);
    Element.prototype.remove.call(e);
  };
  return e;
}

function setAttribute(name, value) {
  if (name === "style") this.style.cssText = value;
  else Element.prototype.setAttribute.call(this, name, value);
}

// install has all elements that are made from now on allowed.
export function install() {
  document.createElement = (name, options) => {
    if (name === "style") return styleElement();
    const e = make.call(document, name, options);
    if (name === "span") e.setAttribute = setAttribute;
    return e;
  };
}
