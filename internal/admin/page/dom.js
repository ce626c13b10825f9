// Making and keeping elements.

// el makes an element: el("td", {class: "num"}, "text", child …).
export function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) made.setAttribute(name, "");
    else if (value !== false && value != null) made.setAttribute(name, value);
  }
  made.append(...children.filter((c) => c != null && c !== ""));
  return made;
}

// svg is el for parts of a picture.
export function svg(tag, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  made.append(...children);
  return made;
}

export const byId = (id) => document.getElementById(id);

// put sets an element's text if it is another.
export function put(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

// sync makes the children of a parent those of items, in their order. An element stays as long as its item does, so
// that focus and selection stay where they are; make makes a new one, and fill fills any.
export function sync(parent, items, keyOf, make, fill) {
  const focused = parent.contains(document.activeElement) ? document.activeElement : null;
  const keys = new Set(items.map((item) => String(keyOf(item))));
  const kept = new Map();
  for (const child of [...parent.children]) {
    if (keys.has(child.dataset.key)) kept.set(child.dataset.key, child);
    else child.remove();
  }
  let at = parent.firstElementChild;
  for (const item of items) {
    const key = String(keyOf(item));
    let child = kept.get(key);
    if (!child) {
      child = make(item);
      child.dataset.key = key;
    }
    fill(child, item);
    if (child === at) at = at.nextElementSibling;
    else parent.insertBefore(child, at);
  }
  if (focused && document.activeElement !== focused) {
    if (focused.isConnected) focused.focus({ preventScroll: true });
    else parent.closest("[tabindex]").focus({ preventScroll: true });
  }
}
