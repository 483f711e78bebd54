// Makes elements of SVG. Their attributes are no styles, so that the page's policy allows them.

export function svg(name, attributes = {}, ...children) {
  const e = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) e.setAttribute(key, value);
  e.append(...children.flat().filter(Boolean));
  return e;
}

// named is svg with a tooltip.
export function named(text, name, attributes) {
  const title = svg("title");
  title.textContent = text;
  return svg(name, attributes, title);
}
