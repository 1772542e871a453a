// What would keep somebody from using the page with a keyboard, a screen reader or weak eyes: the rules of
// axe-core that such a page can break, as one list of what is wrong.
const wrong = [];
const tell = (rule, e) => wrong.push(rule + ": " + (e.outerHTML ?? e).slice(0, 160));
const all = (selector) => [...document.querySelectorAll(selector)];
const seen = (e) => e.checkVisibility({ visibilityProperty: true });
const named = (e) => {
  const by = (attribute) => (e.getAttribute(attribute) || "").split(/\s+/).filter(Boolean).map((id) => document.getElementById(id)?.textContent ?? "").join(" ");
  return (e.getAttribute("aria-label") || by("aria-labelledby") || [...(e.labels || [])].map((l) => l.textContent).join(" ") ||
    (e.matches("input, select, textarea") ? "" : e.textContent) || e.getAttribute("title") || "").trim();
};

// Whatever can be used has a name.
for (const e of all("a[href], button, input, select, textarea, summary, [tabindex='0'], [role=button], [role=tab], [role=region], [role=group], [role=toolbar], [role=tablist], [role=tabpanel]"))
  if (seen(e) && !named(e)) tell("no name", e);
for (const e of all("input, select, textarea")) if (seen(e) && !e.labels.length && !e.getAttribute("aria-label")) tell("no label", e);
// A picture has a role and a name, or is hidden from who cannot see it, or belongs to something with a name.
for (const e of all("svg")) if (!e.closest("[aria-hidden=true]") && !(["img", "group"].includes(e.getAttribute("role")) && e.getAttribute("aria-label"))) tell("svg without role and name", e);
for (const e of all("img")) if (!e.hasAttribute("alt")) tell("no alt", e);
// What is hidden cannot be focused.
for (const e of all("[aria-hidden=true]")) if (e.matches("a, button, input, [tabindex]") || e.querySelector("a, button, input, [tabindex='0']")) tell("focus within what is hidden", e);
for (const e of all("[tabindex]")) if (e.tabIndex > 0) tell("order of focus changed", e);

// Headings: one first, and none skipped.
const headings = all("h1, h2, h3, h4, h5, h6").filter(seen);
if (headings.filter((e) => e.localName === "h1").length !== 1) tell("not one h1", document.body);
let level = 0;
for (const e of headings) {
  const own = Number(e.localName[1]);
  if (own > level + 1) tell("heading skips a level", e);
  if (!e.textContent.trim()) tell("empty heading", e);
  level = own;
}
// Landmarks.
for (const part of ["header", "main", "footer", "nav"]) if (all("body > " + part + ", body > header > " + part).length !== 1) tell("not one landmark", part);
for (const e of all("nav, aside, section")) if (!named(e) || !(e.hasAttribute("aria-label") || e.hasAttribute("aria-labelledby"))) tell("landmark without a name", e);
if (!document.documentElement.lang) tell("no language", document.documentElement);
if (!document.title) tell("no title", document.head);

// Ids are unique and what refers to one finds it.
const ids = new Map();
for (const e of all("[id]")) { if (ids.has(e.id)) tell("id twice", e); ids.set(e.id, e); }
for (const attribute of ["aria-controls", "aria-labelledby", "aria-describedby", "for"])
  for (const e of all("[" + attribute + "]")) for (const id of e.getAttribute(attribute).split(/\s+/)) if (!ids.has(id)) tell("refers to nothing by " + attribute, e);
const roles = ["button", "tab", "tablist", "tabpanel", "region", "group", "toolbar", "img", "status"];
for (const e of all("[role]")) if (!roles.includes(e.getAttribute("role"))) tell("role unknown", e);
for (const e of all("[role=tablist]")) if (e.querySelectorAll("[role=tab][aria-selected=true]").length !== 1) tell("not one tab selected", e);
if (!all("[aria-live], [role=status]").length) tell("no live region", document.body);

// Tables: headers say what they head.
for (const e of all("th")) if (!["col", "row"].includes(e.getAttribute("scope"))) tell("header without scope", e);
for (const e of all("table")) if (!e.caption || !e.caption.textContent.trim()) tell("table without caption", e);
for (const e of all("ul, ol")) for (const child of e.children) if (child.localName !== "li") tell("not an item in a list", child);
for (const e of all("dl")) for (const child of e.children) if (!["dt", "dd", "div"].includes(child.localName)) tell("not a term in a list", child);

// Text can be told from what is behind it: 4.5 to 1 (WCAG 2.2, 1.4.3).
const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
const rgba = (color) => {
  canvas.clearRect(0, 0, 1, 1);
  canvas.fillStyle = color;
  canvas.fillRect(0, 0, 1, 1);
  return canvas.getImageData(0, 0, 1, 1).data;
};
const luminance = ([r, g, b]) => {
  const [x, y, z] = [r, g, b].map((v) => ((v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
  return 0.2126 * x + 0.7152 * y + 0.0722 * z;
};
const behind = (e) => {
  for (let at = e; at; at = at.parentElement) { const c = rgba(getComputedStyle(at).backgroundColor); if (c[3] === 255) return c; }
  return [255, 255, 255, 255];
};
const checked = new Set();
for (const e of all("body *")) {
  if (!seen(e) || e.closest("[disabled], .unseen, .skip, #tip") || ![...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim())) continue;
  const style = getComputedStyle(e), isText = e.namespaceURI.endsWith("svg");
  // Letters within a mark stand on the mark; its name says the same.
  if (e.matches(".m-text, .bar text")) continue;
  const front = isText ? style.fill : style.color, back = behind(e);
  const key = front + "/" + back;
  if (checked.has(key)) continue;
  checked.add(key);
  const [a, b] = [luminance(rgba(front)), luminance(back)].sort((x, y) => y - x);
  const ratio = (a + 0.05) / (b + 0.05);
  if (ratio < 4.5) tell("contrast " + ratio.toFixed(2) + " of " + key, e);
}
return wrong;
