/** Every state has a URL: `#/run/reviews/inside?text=…&head=2`. A view reads its parameters from here and writes them back. */

/** @typedef {{parts: string[], query: URLSearchParams}} Route */

/** @returns {Route} */
export function route() {
  const [path, query] = location.hash.replace(/^#\/?/, "").split("?");
  return { parts: path.split("/").filter(Boolean).map(decodeURIComponent), query: new URLSearchParams(query || "") };
}

/** The address of a state. @param {string[]} parts @param {Record<string, any>} [query] */
export function href(parts, query = {}) {
  const kept = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const words = new URLSearchParams(kept.map(([key, value]) => [key, String(value)])).toString();
  return `#/${parts.map(encodeURIComponent).join("/")}${words ? `?${words}` : ""}`;
}

/** Change parameters of the present state without leaving it. @param {Record<string, any>} changes */
export function remember(changes) {
  const { parts, query } = route();
  const all = { ...Object.fromEntries(query), ...changes };
  history.replaceState(null, "", href(parts, all));
}
