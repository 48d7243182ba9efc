/** Building pages without HTML strings: text given by users or models only ever becomes a text node. */

/** @typedef {Node | string | number | null | undefined | false | Child[]} Child */

const SVG = "http://www.w3.org/2000/svg";

/**
 * An HTML element. `props`: attributes; `on…` functions are listeners, `class`, `value`, `checked`, `disabled` as expected.
 * @param {string} tag @param {Record<string, any>} [props] @param {...Child} children @returns {any}
 */
export function h(tag, props = {}, ...children) {
  return fill(document.createElement(tag), props, children);
}

/** An SVG element. @param {string} tag @param {Record<string, any>} [props] @param {...Child} children @returns {any} */
export function s(tag, props = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), props, children);
}

/** @param {any} element @param {Record<string, any>} props @param {Child[]} children */
function fill(element, props, children) {
  for (const [name, value] of Object.entries(props || {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "value" || name === "checked" || name === "disabled") element[name] = value;
    else if (name === "style") Object.assign(element.style, value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  append(element, children);
  return element;
}

/** @param {Node} parent @param {Child[]} children */
function append(parent, children) {
  for (const child of children.flat(Infinity)) {
    if (child === null || child === undefined || child === false) continue;
    parent.appendChild(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

/** Replace what an element holds. @param {Element} element @param {...Child} children @returns {Element} */
export function put(element, ...children) {
  const kept = document.createDocumentFragment();
  append(kept, children);
  element.replaceChildren(kept);
  return element;
}

/** The last call within `wait` milliseconds. @param {(...given: any[]) => void} work @param {number} wait */
export function later(work, wait = 250) {
  /** @type {any} */ let timer;
  return (/** @type {any[]} */ ...given) => {
    clearTimeout(timer);
    timer = setTimeout(() => work(...given), wait);
  };
}

/** A colour of the page's style sheet, for canvases. @param {string} name */
export function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/** Units across of a drawing that is `wide` of them on a screen: fewer on a phone, so that its letters keep their size. @param {number} wide */
export const unitsAcross = (wide) => (window.innerWidth < 640 ? Math.min(wide, 380) : wide);
