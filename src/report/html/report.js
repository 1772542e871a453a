
"use strict";
// Draws the timeline, the plots and the tables from the rows in this page. Text is only ever set as text:
// the policy in the page's head forbids everything that makes markup of it.
(() => {
  const $ = (id) => document.getElementById(id);
  const D = JSON.parse($("data").textContent);

  // Elements.

  function fill(element, props, kids) {
    for (const [name, value] of Object.entries(props || {})) {
      if (name === "on") for (const [event, run] of Object.entries(value)) element.addEventListener(event, run);
      else if (value !== undefined && value !== null && value !== false) element.setAttribute(name, value === true ? "" : value);
    }
    for (const kid of kids.flat()) if (kid !== null && kid !== undefined && kid !== "") element.append(kid);
    return element;
  }
  const h = (tag, props, ...kids) => fill(document.createElement(tag), props, kids);
  const g = (tag, props, ...kids) => fill(document.createElementNS("http://www.w3.org/2000/svg", tag), props, kids);
  const button = (label, run, props) => h("button", { type: "button", on: { click: run }, ...props }, label);
  const say = (text) => { $("live").textContent = text; };
  const once = (draw) => {
    let due = false;
    return () => {
      if (due) return;
      due = true;
      requestAnimationFrame(() => { due = false; draw(); });
    };
  };

  // Values.

  const TEXT = new Set(["Word", "List", "Text", "File", "Endpoint", "Hash"]);
  const T = {};
  for (const [name, table] of Object.entries(D.tables)) {
    const columns = table.columns.map((c) => {
      const raw = "all" in c ? () => c.all : (row) => c.d[row];
      const isText = TEXT.has(c.kind);
      return {
        name: c.name, kind: c.kind, about: c.about, isText, raw,
        value: isText ? (row) => { const n = raw(row); return n === null ? null : D.strings[n]; } : raw,
      };
    });
    const byName = new Map(columns.map((c) => [c.name, c]));
    T[name] = {
      name, about: table.about, rows: table.rows, of: table.of, columns, byName,
      get: (column, row) => byName.get(column).value(row),
    };
  }

  const group = (n) => String(n).replace(/\B(?=(\d{3})+(?!\d))/g, ",");
  const count = (n, one, many) => group(n) + " " + (n === 1 ? one : many || one + "s");
  const base = BigInt(D.base);

  function time(us) {
    const ns = base + BigInt(Math.round(us * 1000));
    let seconds = ns / 1000000000n, rest = ns % 1000000000n;
    if (rest < 0n) { rest += 1000000000n; seconds -= 1n; }
    const nine = String(rest).padStart(9, "0");
    const digits = nine.endsWith("000") ? nine.slice(0, 6) : nine;
    if (D.time === "epoch") return seconds + "." + digits;
    return new Date(Number(seconds) * 1000).toISOString().slice(0, 19) + "." + digits + "Z";
  }
  // Of a day, for axes: as many decimals as the step needs.
  function clock(us, step) {
    const text = time(us);
    if (D.time === "epoch") return text.slice(0, step < 1e6 ? -3 : -7);
    const decimals = step >= 1e6 ? 0 : step >= 1e5 ? 2 : 4;
    return step >= 86400e6 ? text.slice(0, 10) : text.slice(11, 19 + decimals);
  }
  function human(ms) {
    const sign = ms < 0 ? "−" : "";
    const a = Math.abs(ms);
    if (a < 10) return sign + Number(a.toFixed(3)) + " ms";
    if (a < 1000) return sign + Math.round(a) + " ms";
    if (a < 120000) return sign + Number((a / 1000).toFixed(a < 10000 ? 3 : 1)) + " s";
    const s = Math.floor(a / 1000);
    if (a < 7200000) return sign + Math.floor(s / 60) + " min" + (s % 60 ? " " + (s % 60) + " s" : "");
    return sign + Math.floor(s / 3600) + " h" + (Math.floor(s / 60) % 60 ? " " + (Math.floor(s / 60) % 60) + " min" : "");
  }
  function show(column, row) {
    const value = column.value(row);
    if (value === null) return "";
    switch (column.kind) {
      case "Time": return time(value);
      case "Millis": return value.toFixed(3);
      case "Decimal": return value.toFixed(4);
      case "Bool": return value ? "true" : "false";
      default: return String(value);
    }
  }
  const clip = (text, most) => (text.length > most ? text.slice(0, most - 1) + "…" : text);

  // What the view is, kept in the fragment of the address.

  const S = { table: "resumes", sort: "", q: "", page: 1, columns: "", sel: "", show: "", theme: "" };
  const FRESH = { ...S };
  function fromFragment() {
    const given = new URLSearchParams(location.hash.slice(1));
    if (![...given.keys()].some((key) => key in FRESH)) return false;
    for (const key of Object.keys(FRESH)) S[key] = given.has(key) ? given.get(key) : FRESH[key];
    S.page = Math.max(1, parseInt(S.page, 10) || 1);
    if (!TABS.includes(S.table)) S.table = "resumes";
    return true;
  }
  let written = location.hash;
  function toFragment() {
    const parts = new URLSearchParams();
    for (const key of Object.keys(FRESH)) if (S[key] !== FRESH[key]) parts.set(key, S[key]);
    if (S.table !== FRESH.table || S.q || S.sort) parts.set("table", S.table);
    written = "#" + parts;
    try { history.replaceState(null, "", written); } catch { location.replace(written); }
  }
  addEventListener("hashchange", () => {
    if (location.hash === written || !fromFragment()) return;
    written = location.hash;
    applyTheme();
    drawTable();
    $("tables").scrollIntoView();
    $("tables").focus({ preventScroll: true });
  });

  // Lanes: a session with all its lives.

  const RANK = { info: 1, warning: 2, loss: 3, fork: 4 };
  const VERDICT_RANK = { forked: 4, lossy: 3, ignored: 3 };
  const lanes = [];
  const laneOfSession = [];
  {
    const known = new Map();
    const ids = T.sessions.byName.get("session_id"), services = T.sessions.byName.get("service");
    for (let row = 0; row < T.sessions.rows; row++) {
      const key = ids.raw(row) + "/" + services.raw(row);
      let lane = known.get(key);
      if (!lane) {
        lane = { number: lanes.length, first: row, id: ids.value(row) || "", sessions: [], segments: [], resumes: [], findings: [], rank: 0, items: null };
        lanes.push(lane);
        known.set(key, lane);
      }
      lane.sessions.push(row);
      laneOfSession.push(lane);
    }
  }
  const seg = (name, row) => T.segments.get(name, row);
  const laneOf = (kind, row) => { const home = D.homes[kind][row]; return home < 0 ? null : laneOfSession[home]; };
  for (let row = 0; row < T.segments.rows; row++) laneOf("segments", row)?.segments.push(row);
  for (let row = 0; row < T.resumes.rows; row++) {
    const lane = laneOf("resumes", row);
    if (!lane) continue;
    lane.resumes.push(row);
    lane.rank = Math.max(lane.rank, VERDICT_RANK[T.resumes.get("verdict", row)] || 0);
  }
  for (let row = 0; row < T.findings.rows; row++) {
    const lane = laneOf("findings", row);
    if (!lane) continue;
    lane.findings.push(row);
    lane.rank = Math.max(lane.rank, RANK[T.findings.get("severity", row)] || 0);
  }
  const begins = (row) => seg("open_time", row);
  const ends = (row) => seg("end_time", row) ?? seg("last_event_time", row) ?? begins(row);
  const MOST_ROWS = 5;
  let first = Infinity, last = -Infinity;
  for (const lane of lanes) {
    // Streams keep their row as long as it is free.
    lane.segments.sort((a, b) => begins(a) - begins(b) || a - b);
    lane.rowOf = new Map();
    const ending = [], own = new Map();
    lane.shared = 0;
    for (const row of lane.segments) {
      const from = begins(row), to = ends(row), stream = seg("stream", row);
      first = Math.min(first, from);
      last = Math.max(last, to);
      let at = own.get(stream);
      if (at === undefined || ending[at] > from) at = ending.findIndex((end) => end <= from);
      if (at < 0) at = ending.length < MOST_ROWS ? ending.push(-Infinity) - 1 : (lane.shared++, MOST_ROWS - 1);
      ending[at] = Math.max(ending[at], to);
      own.set(stream, at);
      lane.rowOf.set(row, at);
    }
    lane.rows = Math.max(1, ending.length);
    // The worst last, so that nothing covers it.
    const rank = (row) => VERDICT_RANK[T.resumes.get("verdict", row)] || 0;
    lane.drawn = [...lane.resumes].sort((a, b) => rank(a) - rank(b) || a - b);
    lane.begin = T.sessions.get("first_time", lane.first);
    for (const row of lane.sessions) {
      first = Math.min(first, T.sessions.get("first_time", row));
      last = Math.max(last, T.sessions.get("last_time", row));
    }
  }
  const bySegment = new Map();
  for (const lane of lanes) for (const row of lane.segments) bySegment.set(lane.number + "/" + seg("stream", row) + "/" + seg("segment", row), row);
  // The segment that a resume goes on from.
  function before(resume) {
    const opened = D.opened[resume], lane = laneOf("resumes", resume);
    if (opened < 0 || !lane) return -1;
    return bySegment.get(lane.number + "/" + seg("stream", opened) + "/" + (seg("segment", opened) - 1)) ?? -1;
  }
  const findingsOf = new Map();
  for (let row = 0; row < T.findings.rows; row++) {
    const number = T.findings.get("resume", row), lane = laneOf("findings", row);
    if (number === null || !lane) continue;
    const key = lane.number + "/" + number;
    findingsOf.set(key, [...(findingsOf.get(key) || []), row]);
  }
  const findingsOn = (resume) => [...(findingsOf.get(laneOf("resumes", resume)?.number + "/" + T.resumes.get("resume", resume)) || [])];
  const itemsOf = (lane) => {
    if (lane.items) return lane.items;
    const items = lane.segments.map((row) => ({ kind: "segments", row, t: begins(row) }));
    for (const row of lane.resumes) items.push({ kind: "resumes", row, t: T.resumes.get("resume_time", row) });
    for (const row of lane.findings) items.push({ kind: "findings", row, t: T.findings.get("time", row) });
    items.sort((a, b) => a.t - b.t || a.kind.localeCompare(b.kind) || a.row - b.row);
    items.unshift({ kind: "sessions", row: lane.first, t: lane.begin });
    lane.items = items;
    return items;
  };
  const SIDE = {
    "stream-end": "clean", "server-fin": "server", "server-rst": "server", goaway: "server", "stream-reset": "server",
    "client-fin": "client", "client-rst": "client", silent: "silent", "capture-end": "open", unknown: "open",
  };
  const SIDES = { clean: "ended cleanly", server: "cut by the server", client: "cut by the client", silent: "went silent", open: "end not seen" };
  const LETTER = { forked: "F", lossy: "L", ignored: "I", replayed: "R", rejected: "J", failed: "X", empty: "E", indeterminate: "?", continued: "" };
  function naming(kind, row) {
    const t = T[kind];
    switch (kind) {
      case "resumes": {
        const gap = t.get("gap_ms", row);
        return "Resume " + t.get("resume", row) + ": " + t.get("verdict", row) + (gap === null ? "" : ", gap " + human(gap)) + ", session " + clip(t.get("session_id", row), 40);
      }
      case "findings": return "Finding, " + t.get("severity", row) + ": " + t.get("code", row) + ": " + clip(t.get("detail", row), 160);
      case "segments": {
        const events = t.get("events", row);
        return "Segment " + t.get("segment", row) + " of stream " + t.get("stream", row) + ": " + (t.get("method", row) || "?") + ", " + count(events, "event") +
          ", " + human((ends(row) - begins(row)) / 1000) + ", " + t.get("end_cause", row);
      }
      case "sessions": return "Session " + clip(t.get("session_id", row), 60) + ", incarnation " + t.get("incarnation", row);
      default: return (t.columns[0].value(row) ?? "") + "";
    }
  }

  // Copying.

  async function copy(text, from) {
    let done = false;
    try {
      await navigator.clipboard.writeText(text);
      done = true;
    } catch {
      const box = h("textarea", { "aria-hidden": "true", class: "unseen", readonly: true });
      box.value = text;
      document.body.append(box);
      box.select();
      done = document.execCommand("copy");
      box.remove();
      from.focus();
    }
    const label = from.textContent;
    from.textContent = done ? "Copied" : "Not copied";
    say(done ? "Copied " + text : "The browser did not let it be copied: " + text);
    setTimeout(() => { from.textContent = label === "Copied" ? "Copy" : label; }, 1500);
  }
  const copying = (text) => button("Copy", (event) => copy(text, event.currentTarget), { class: "copy", "aria-label": "Copy " + text });
  for (const code of document.querySelectorAll("code.filter")) code.after(copying(code.textContent));

  // The details of one row.

  const formats = new Map();
  for (let row = 0; row < T.inputs.rows; row++) formats.set(T.inputs.get("input", row), T.inputs.get("format", row) || "");
  function proof(label, input, stream, frame) {
    if (input === null || (stream === null && frame === null)) return null;
    const har = (formats.get(input) || "").startsWith("har");
    const parts = [h("span", {}, label + " " + input + (frame === null ? "" : (har ? " entry " : " frame ") + frame))];
    const filters = har ? [] : [stream === null ? "" : "tcp.stream eq " + stream, frame === null ? "" : "frame.number == " + frame];
    for (const filter of filters.filter(Boolean)) parts.push(h("span", { class: "pairing" }, h("code", {}, filter), copying(filter)));
    return h("div", { class: "proof" }, parts);
  }
  function fields(table, row) {
    const list = h("dl");
    for (const column of table.columns) {
      const text = show(column, row);
      if (text !== "") list.append(h("dt", { title: column.about }, column.name), h("dd", {}, column.kind === "Millis" ? text + " (" + human(column.value(row)) + ")" : text));
    }
    return list;
  }
  function explanation(code) {
    const source = $("about-" + code);
    if (!source) return null;
    const copied = source.cloneNode(true);
    copied.removeAttribute("id");
    copied.removeAttribute("open");
    return copied;
  }
  function finding(row) {
    const t = T.findings;
    const code = t.get("code", row), severity = t.get("severity", row);
    return [
      h("h3", {}, h("span", { class: "tag s-" + severity }, severity), " " + code),
      h("p", {}, t.get("detail", row)),
      h("p", {}, h("small", {}, t.get("confidence", row) + " confidence; evidence: " + t.get("evidence", row))),
      explanation(code),
    ];
  }
  function details(kind, row) {
    const t = T[kind], out = [];
    const at = (column) => (t.byName.has(column) ? t.get(column, row) : null);
    if (kind === "resumes") {
      const verdict = at("verdict");
      out.push(h("p", {}, h("strong", {}, D.verdicts[verdict]), " " + at("confidence").replace(/^./, (letter) => letter.toUpperCase()) + " confidence" + (at("reason") ? ": " + at("reason") : "") + "."));
      out.push(proof("Resume:", at("input"), at("tcp_stream"), at("frame")));
      out.push(proof("Before:", at("input"), at("tcp_stream_before"), at("frame_before")));
      const story = D.stories[row];
      out.push(h("h3", {}, "Events around it"));
      if (story && story.length) out.push(h("ol", { class: "story" }, story.map((n) => h("li", {}, D.strings[n]))));
      else {
        const from = before(row), opened = D.opened[row];
        const lines = [];
        if (from >= 0) lines.push("before: " + count(seg("events", from), "event") + ", last id " + (seg("last_id", from) ?? "none") + "; then " + seg("end_cause", from));
        lines.push("asked with Last-Event-ID " + at("last_event_id"));
        if (opened >= 0) lines.push("came: " + count(seg("events", opened), "event") + ", first id " + (seg("first_event_id", opened) ?? "none") + ", last id " + (seg("last_id", opened) ?? "none"));
        out.push(h("ol", { class: "story" }, lines.map((line) => h("li", {}, line))));
      }
      const on = findingsOn(row), told = new Set(on.map((one) => T.findings.get("code", one)));
      // What several resumes show together is one finding of the session.
      for (const code of (at("findings") || "").split(";").filter((code) => code && !told.has(code))) {
        const one = laneOf("resumes", row)?.findings.find((f) => T.findings.get("code", f) === code);
        if (one !== undefined) on.push(one);
      }
      for (const one of on) out.push(...finding(one));
      if (!on.length) out.push(h("p", { class: "quiet" }, "No finding is on it."));
    } else if (kind === "findings") {
      out.push(...finding(row), proof("Evidence:", at("input"), at("tcp_stream"), at("frame")));
      const lane = laneOf("findings", row), number = at("resume");
      const resume = number === null || !lane ? undefined : lane.resumes.find((r) => T.resumes.get("resume", r) === number);
      if (resume !== undefined) out.push(h("p", {}, button("Resume " + number, () => select("resumes", resume, true))));
    } else if (kind === "segments") {
      out.push(h("p", {}, SIDES[SIDE[at("end_cause")] || "open"] + " after " + human((ends(row) - begins(row)) / 1000)));
      out.push(proof("Request:", at("input"), at("tcp_stream"), at("frame")));
      if (at("end_frame") !== null) out.push(proof("End:", at("input"), null, at("end_frame")));
    } else if (kind === "sessions") {
      const lane = laneOfSession[row];
      const told = new Set();
      for (const one of lane.findings) {
        const code = T.findings.get("code", one);
        if (told.has(code) || told.size === 8) continue;
        told.add(code);
        out.push(...finding(one));
      }
    }
    out.push(h("h3", {}, "Its row in " + t.name), fields(t, row));
    return out;
  }
  const TITLE = { resumes: "Resume", findings: "Finding", segments: "Segment", sessions: "Session", incidents: "Incident", timers: "Timer", shares: "Share", servers: "Server", inputs: "Input" };
  function title(kind, row) {
    const t = T[kind];
    if (kind === "resumes") return "Resume " + t.get("resume", row) + ": " + t.get("verdict", row).toUpperCase();
    if (kind === "findings") return "Finding: " + t.get("code", row);
    if (kind === "segments") return "Segment " + t.get("segment", row) + " of stream " + t.get("stream", row);
    return TITLE[kind] + " " + clip(show(t.columns[0], row), 80);
  }
  // The pane takes room from the page: what somebody looks at stays where it was.
  function holdingStill(change) {
    const at = document.activeElement, holds = at && at !== document.body && !$("detail").contains(at);
    const top = holds ? at.getBoundingClientRect().top : 0;
    change();
    if (holds && at.isConnected) scrollBy(0, at.getBoundingClientRect().top - top);
  }
  let opener = null;
  function select(kind, row, focus) {
    S.sel = kind + ":" + row;
    toFragment();
    const pane = $("detail");
    if (!pane.contains(document.activeElement)) opener = document.activeElement;
    const lane = kind === "sessions" ? laneOfSession[row] : D.homes[kind] ? laneOf(kind, row) : null;
    const session = lane && kind !== "sessions" ? h("p", { class: "mono" }, "session " + lane.id) : null;
    const find = lane ? button("Show in the timeline", () => reveal(kind, row), { class: "to-timeline" }) : null;
    pane.replaceChildren(
      button("Close", shut, { class: "close" }),
      h("h2", { tabindex: "-1" }, title(kind, row)),
      ...[session, find, ...details(kind, row)].filter(Boolean),
    );
    if (pane.hidden) holdingStill(() => {
      pane.hidden = false;
      document.body.classList.add("with-detail");
      resized();
    });
    pane.scrollTop = 0;
    say(naming(kind, row));
    for (const item of document.querySelectorAll(".item[data-on]")) item.removeAttribute("data-on");
    for (const item of document.querySelectorAll(".item")) if (item.dataset.key === S.sel) item.setAttribute("data-on", "");
    for (const line of document.querySelectorAll("tbody tr")) line.setAttribute("aria-selected", line.dataset.key === S.sel ? "true" : "false");
    if (focus) pane.querySelector("h2").focus({ preventScroll: true });
  }
  function shut() {
    S.sel = "";
    toFragment();
    const back = opener && opener.isConnected ? opener : view.box?.querySelector(".item[tabindex='0']");
    opener = null;
    back?.focus({ preventScroll: true });
    holdingStill(() => {
      $("detail").hidden = true;
      document.body.classList.remove("with-detail");
      resized();
    });
  }
  addEventListener("keydown", (event) => { if (event.key === "Escape" && !$("detail").hidden) shut(); });

  // The timeline.

  const LABEL = 20, MARKS = 13, ROW = 13, FOOT = 7, MOST_ITEMS = 2500, ON_PAPER = 25;
  if (!(last > first)) { first = Number.isFinite(first) ? first - 5e5 : 0; last = first + 1e6; }
  const margin = (last - first) * 0.02;
  const whole = [first - margin, last + margin];
  const view = { from: whole[0], to: whole[1], lanes: [], tops: [], height: 0, cur: "", width: 600, box: null, space: null, svg: null };
  const sorted = [...lanes].sort((a, b) => b.rank - a.rank || a.begin - b.begin || a.number - b.number);
  const judged = sorted.filter((lane) => lane.rank > 0);
  const heightOf = (lane) => LABEL + MARKS + lane.rows * ROW + FOOT;
  function arrange() {
    view.lanes = S.show === "all" || !judged.length ? sorted : judged;
    view.tops = [];
    let y = 0;
    for (const lane of view.lanes) { lane.at = view.tops.length; view.tops.push(y); y += heightOf(lane); }
    view.height = y;
    view.space.style.height = y + "px";
    const more = sorted.length - judged.length;
    view.fold.hidden = !judged.length || !more;
    view.fold.textContent = S.show === "all" ? "Fold " + count(more, "session") + " without findings" : "Show also " + count(more, "session") + " without findings";
    view.fold.setAttribute("aria-expanded", S.show === "all" ? "true" : "false");
  }
  const x = (t) => ((t - view.from) / (view.to - view.from)) * view.width;
  const clampX = (t) => Math.max(-50, Math.min(view.width + 50, x(t)));
  function ticks(from, to, most) {
    const steps = [1, 2, 5, 10, 20, 50, 100, 200, 500].flatMap((n) => [n, n * 1000]).sort((a, b) => a - b);
    for (const s of [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 28800, 43200]) steps.push(s * 1e6);
    for (const d of [1, 2, 7, 14, 30, 90, 365, 3650]) steps.push(d * 86400e6);
    const step = steps.find((s) => (to - from) / s <= most) || (to - from) / most;
    const shift = Number(base % 86400000000000n) / 1000;
    const out = [];
    const start = Math.ceil((from + shift) / step) * step - shift;
    // Counted: far from the first time a step may be too small to be added.
    for (let n = 0; n <= most + 1 && start + n * step <= to; n++) out.push(start + n * step);
    return [out, step];
  }
  function zoom(factor, around) {
    const middle = around ?? (view.from + view.to) / 2;
    const span = Math.max(50, Math.min(whole[1] - whole[0], (view.to - view.from) * factor));
    const part = (middle - view.from) / (view.to - view.from);
    moveTo(middle - part * span, span);
  }
  function moveTo(from, span) {
    const width = Math.min(span, whole[1] - whole[0]);
    view.from = Math.max(whole[0], Math.min(whole[1] - width, from));
    view.to = view.from + width;
    redraw();
  }
  const pan = (part) => moveTo(view.from + (view.to - view.from) * part, view.to - view.from);
  // Brings a row into sight: its lane, and its time with what is around it.
  function reveal(kind, row) {
    const lane = kind === "sessions" ? laneOfSession[row] : laneOf(kind, row);
    if (!lane) return;
    if (lane.rank === 0 && S.show !== "all" && judged.length) { S.show = "all"; toFragment(); arrange(); }
    const item = itemsOf(lane).find((one) => one.kind === kind && one.row === row);
    if (kind === "resumes") {
      const cut = T.resumes.get("disconnect_time", row) ?? item.t;
      const span = Math.max(Math.abs(item.t - cut) * 5, 2e6);
      moveTo((item.t + Math.min(cut, item.t)) / 2 - span / 2, span);
    }
    focusItem(lane, item, true);
    // Last: the details may have taken room.
    $("timeline").scrollIntoView({ block: "start" });
  }
  const keyOf = (item) => item.kind + ":" + item.row;
  function focusItem(lane, item, centre) {
    const top = view.tops[lane.at], bottom = top + heightOf(lane), box = view.box;
    if (centre || top < box.scrollTop || bottom > box.scrollTop + box.clientHeight) box.scrollTop = Math.max(0, top - (centre ? 60 : 20));
    if (item.kind !== "sessions" && (item.t < view.from || item.t > view.to)) {
      const span = view.to - view.from;
      view.from = Math.max(whole[0], Math.min(whole[1] - span, item.t - span / 2));
      view.to = view.from + span;
    }
    view.cur = keyOf(item);
    view.want = view.cur;
    draw();
    const drawn = [...view.svg.querySelectorAll(".item")].find((one) => one.dataset.key === view.cur);
    drawn?.focus({ preventScroll: true });
    select(item.kind, item.row, false);
  }
  function current() {
    const key = document.activeElement?.dataset?.key || view.cur;
    if (!key) return null;
    const [kind, number] = key.split(":");
    const row = Number(number);
    const lane = kind === "sessions" ? laneOfSession[row] : laneOf(kind, row);
    if (!lane) return null;
    const items = itemsOf(lane);
    const index = items.findIndex((item) => item.kind === kind && item.row === row);
    return { lane, items, index: Math.max(0, index) };
  }
  function nextBad(from) {
    const start = from ? from.lane.at : 0;
    for (let step = 0; step <= view.lanes.length; step++) {
      const lane = view.lanes[(start + step) % view.lanes.length];
      const items = itemsOf(lane);
      const after = step === 0 && from ? from.index + 1 : 0;
      const index = items.findIndex((item, n) => n >= after && item.kind === "resumes" && VERDICT_RANK[T.resumes.get("verdict", item.row)]);
      if (index >= 0) return [lane, items[index]];
    }
    return null;
  }
  function onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const at = current();
    const go = (lane, item) => { if (lane && item) focusItem(lane, item); };
    const nearest = (lane, t) => { const items = itemsOf(lane); return items.reduce((best, item) => (Math.abs(item.t - t) < Math.abs(best.t - t) ? item : best), items[items.length > 1 ? 1 : 0]); };
    const vertical = (by) => {
      if (!at) return;
      const lane = view.lanes[Math.max(0, Math.min(view.lanes.length - 1, at.lane.at + by))];
      if (lane !== at.lane) go(lane, at.index === 0 ? itemsOf(lane)[0] : nearest(lane, at.items[at.index].t));
    };
    switch (event.key) {
      case "ArrowRight": if (at) go(at.lane, at.items[at.index + 1]); break;
      case "ArrowLeft": if (at) go(at.lane, at.items[at.index - 1]); break;
      case "ArrowDown": vertical(1); break;
      case "ArrowUp": vertical(-1); break;
      case "PageDown": vertical(10); break;
      case "PageUp": vertical(-10); break;
      case "Home": if (at) go(at.lane, at.items[0]); break;
      case "End": if (at) go(at.lane, at.items[at.items.length - 1]); break;
      case "Enter": case " ": if (at) select(at.items[at.index].kind, at.items[at.index].row, true); break;
      case "+": case "=": zoom(0.5, at ? Math.max(view.from, Math.min(view.to, at.items[at.index].t)) : undefined); break;
      case "-": zoom(2); break;
      case "0": moveTo(whole[0], whole[1] - whole[0]); break;
      case "f": case "F": { const bad = nextBad(at); if (bad) go(...bad); break; }
      default: return;
    }
    event.preventDefault();
  }
  function mark(kind, row, shapes) {
    const key = kind + ":" + row;
    return g("g", { class: "item", role: "button", tabindex: "-1", "data-key": key, "aria-label": naming(kind, row), "data-on": S.sel === key }, shapes);
  }
  const SHAPES = {
    fork: (cx, cy) => `M${cx} ${cy - 6}L${cx + 6} ${cy}L${cx} ${cy + 6}L${cx - 6} ${cy}Z`,
    loss: (cx, cy) => `M${cx - 5.5} ${cy - 4.5}H${cx + 5.5}L${cx} ${cy + 5.5}Z`,
    warning: (cx, cy) => `M${cx - 4.5} ${cy - 4.5}h9v9h-9Z`,
    info: (cx, cy) => `M${cx - 4} ${cy}a4 4 0 1 0 8 0a4 4 0 1 0 -8 0Z`,
  };
  function drawLane(lane, y, drawn) {
    const nodes = [g("line", { class: "lane-line", x1: 0, x2: view.width, y1: y + heightOf(lane) - 0.5, y2: y + heightOf(lane) - 0.5 })];
    const verdicts = new Map();
    for (const row of lane.resumes) { const v = T.resumes.get("verdict", row); verdicts.set(v, (verdicts.get(v) || 0) + 1); }
    const told = [...verdicts].sort((a, b) => (VERDICT_RANK[b[0]] || 0) - (VERDICT_RANK[a[0]] || 0));
    const lives = lane.sessions.length;
    const name = g("text", { class: "lane-name", x: 6, y: y + 14 }, clip(lane.id || "(no id)", view.width < 700 ? 20 : 40),
      ...told.map(([v, n]) => g("tspan", { class: VERDICT_RANK[v] ? "lane-bad" : "lane-sub", dx: 10 }, n + " " + v)),
      g("tspan", { class: "lane-sub", dx: 10 }, [lives > 1 ? count(lives, "life", "lives") : "", T.sessions.get("client", lane.first), T.sessions.get("service", lane.first)].filter(Boolean).join(" · ")));
    nodes.push(mark("sessions", lane.first, [g("rect", { class: "halo", x: 1, y: y + 1, width: view.width - 3, height: LABEL - 3, rx: 3 }), name]));
    const rowY = (at) => y + LABEL + MARKS + at * ROW;
    const lastX = [];
    for (const row of lane.segments) {
      const from = begins(row), to = ends(row);
      if (to < view.from || from > view.to) continue;
      const x1 = clampX(from), x2 = Math.max(clampX(to), x1 + 1.5), at = lane.rowOf.get(row);
      const isOn = S.sel === "segments:" + row || view.want === "segments:" + row;
      if (!isOn && (drawn.items >= MOST_ITEMS || (x2 - x1 <= 2 && x1 - (lastX[at] ?? -9) < 1))) { drawn.left++; continue; }
      lastX[at] = x2;
      drawn.items++;
      const cause = seg("end_cause", row), side = SIDE[cause] || "open", top = rowY(at);
      const shapes = [
        g("rect", { x: x1, y: top, width: x2 - x1, height: 9, class: "e-" + side }),
        g("rect", { class: "halo", x: x1 - 2, y: top - 2, width: x2 - x1 + 4, height: 13, rx: 2 }),
      ];
      if (to <= view.to && side !== "clean" && side !== "open") {
        const d = cause.endsWith("rst") || cause === "stream-reset" ? `M${x2 - 3.5} ${top + 1}l7 7m0 -7l-7 7`
          : side === "silent" ? `M${x2} ${top - 1}v3m0 2v3m0 2v2` : `M${x2} ${top - 2}v13`;
        shapes.push(g("path", { class: "cut", d }));
      }
      nodes.push(mark("segments", row, shapes));
    }
    for (const row of lane.drawn) {
      const t = T.resumes.get("resume_time", row), old = before(row);
      const cut = T.resumes.get("disconnect_time", row) ?? (old < 0 ? t : ends(old));
      if (Math.max(t, cut) < view.from || Math.min(t, cut) > view.to) continue;
      if (drawn.items >= MOST_ITEMS) { drawn.left++; continue; }
      drawn.items++;
      const opened = D.opened[row];
      const toRow = opened >= 0 ? lane.rowOf.get(opened) ?? 0 : 0, fromRow = old >= 0 ? lane.rowOf.get(old) ?? toRow : toRow;
      const x1 = clampX(cut), x2 = clampX(t), y1 = rowY(fromRow) + 4.5, y2 = rowY(toRow) + 4.5;
      const verdict = T.resumes.get("verdict", row), bend = Math.max(6, Math.abs(x2 - x1) / 2);
      const d = fromRow === toRow ? `M${x1} ${y1}H${x2}` : `M${x1} ${y1}C${x1 + bend} ${y1} ${x2 - bend} ${y2} ${x2} ${y2}`;
      const letter = LETTER[verdict] ?? "?";
      const shapes = [g("path", { class: "arrow a-" + verdict, d })];
      if (letter === "") shapes.push(g("path", { class: "v-" + verdict, d: `M${x2 - 5} ${y2 - 4.5}L${x2 + 3} ${y2}L${x2 - 5} ${y2 + 4.5}Z` }));
      else shapes.push(g("path", { class: "v-" + verdict, d: `M${x2 - 13} ${y2 - 6}H${x2 - 4}L${x2 + 3} ${y2}L${x2 - 4} ${y2 + 6}H${x2 - 13}Z` }), g("text", { class: "m-text m-" + verdict, x: x2 - 7.5, y: y2 + 0.5 }, letter));
      shapes.push(g("rect", { class: "halo", x: x2 - 15, y: y2 - 8, width: 20, height: 16, rx: 3 }));
      nodes.push(mark("resumes", row, shapes));
    }
    let edge = -99;
    for (const row of lane.findings) {
      const t = T.findings.get("time", row);
      if (t < view.from || t > view.to) continue;
      const wanted = x(t), cx = Math.max(wanted, edge + 12);
      if (cx - wanted > 50 || drawn.items >= MOST_ITEMS) { drawn.left++; continue; }
      drawn.items++;
      edge = cx;
      const severity = T.findings.get("severity", row), cy = y + LABEL + 5;
      nodes.push(mark("findings", row, [g("path", { class: "f-" + severity, d: SHAPES[severity](cx, cy) }), g("rect", { class: "halo", x: cx - 8, y: cy - 8, width: 16, height: 16, rx: 3 })]));
    }
    return g("g", { role: "group", "aria-label": "Session " + clip(lane.id, 60) }, nodes);
  }
  function incidentsInView() {
    const out = [];
    for (let row = 0; row < T.incidents.rows; row++) {
      const start = T.incidents.get("start_time", row), stop = T.incidents.get("end_time", row);
      if (stop >= view.from && start <= view.to) out.push([clampX(start) - 1, Math.max(clampX(start) + 2, clampX(stop)), row]);
    }
    return out;
  }
  function drawAxis() {
    const [at, step] = ticks(view.from, view.to, Math.max(2, view.width / 110));
    const hurt = incidentsInView(), down = hurt.length ? 13 : 0;
    const svg = g("svg", { width: view.width, height: 34 + down, "aria-hidden": "true" });
    for (const t of at) svg.append(g("line", { class: "grid", x1: x(t), x2: x(t), y1: 28 + down, y2: 34 + down }), g("text", { class: "axis-text", x: x(t), y: 25 + down, "text-anchor": x(t) < 30 ? "start" : x(t) > view.width - 30 ? "end" : "middle" }, clock(t, step)));
    svg.append(g("text", { class: "axis-text", x: 0, y: 10 }, (D.time === "epoch" ? "" : time(at[0] ?? view.from).slice(0, 10) + " UTC, ") + human((view.to - view.from) / 1000) + " across"));
    let edge = -99;
    for (const [a, b, row] of hurt) {
      const tip = "Incident " + T.incidents.get("incident", row) + ": " + count(T.incidents.get("segments_cut", row), "segment") + " of " + count(T.incidents.get("sessions", row), "session") + " of " + T.incidents.get("server", row) + " cut, " + T.incidents.get("cause", row);
      svg.append(g("rect", { class: "incident-bar", x: a, y: 30 + down + (row % 2) * 2, width: b - a, height: 2, "data-tip": tip }));
      if (a < edge + 26) continue;
      edge = a;
      svg.append(g("text", { class: "incident-no", x: between(a, 0, view.width - 24), y: 24, "text-anchor": "start", "data-tip": tip }, "▾" + T.incidents.get("incident", row)));
    }
    $("tl-axis").replaceChildren(svg);
    return at;
  }
  function draw() {
    const box = view.box;
    if (!box) return;
    view.width = Math.max(200, box.clientWidth);
    const focused = document.activeElement?.closest?.(".lanes .item")?.dataset.key;
    const at = drawAxis();
    const top = printing ? 0 : box.scrollTop;
    const bottom = printing ? view.tops[ON_PAPER] ?? view.height : top + (box.clientHeight || 400);
    let from = 0, to = view.tops.length;
    while (from < to) { const middle = (from + to) >> 1; if (view.tops[middle] + heightOf(view.lanes[middle]) < top) from = middle + 1; else to = middle; }
    let end = from;
    const height = Math.min(view.height, bottom) - top;
    view.svg.setAttribute("width", view.width);
    view.svg.setAttribute("height", Math.max(1, height));
    view.svg.style.top = top + "px";
    const nodes = [];
    for (const t of at) nodes.push(g("line", { class: "grid", x1: x(t), x2: x(t), y1: 0, y2: height }));
    // One shape: where incidents overlap, it is no darker.
    const shades = incidentsInView().map(([a, b]) => `M${a} 0H${b}V${height}H${a}Z`);
    if (shades.length) nodes.push(g("path", { class: "incident", d: shades.join("") }));
    const drawn = { items: 0, left: 0 };
    while (end < view.lanes.length && view.tops[end] < bottom) { nodes.push(drawLane(view.lanes[end], view.tops[end] - top, drawn)); end++; }
    view.svg.replaceChildren(...nodes);
    const all = [...view.svg.querySelectorAll(".item")];
    const home = all.find((item) => item.dataset.key === (focused || view.cur)) || all.find((item) => item.dataset.key.startsWith("resumes")) || all[0];
    home?.setAttribute("tabindex", "0");
    if (focused && home?.dataset.key === focused) home.focus({ preventScroll: true });
    const notes = [];
    if (view.lanes.length) notes.push("Lanes " + group(from + 1) + " to " + group(end) + " of " + group(view.lanes.length) + " are drawn" + (end - from < view.lanes.length ? "; scroll for the others" : "") + ".");
    const folded = sorted.length - view.lanes.length;
    if (folded) notes.push(count(folded, "session") + " without findings " + (folded === 1 ? "is" : "are") + " folded.");
    if (drawn.left) notes.push(count(drawn.left, "mark") + " too close to others at this zoom " + (drawn.left === 1 ? "is" : "are") + " not drawn: zoom in.");
    const shared = view.lanes.slice(from, end).reduce((sum, lane) => sum + lane.shared, 0);
    if (shared) notes.push(count(shared, "segment") + " of sessions with many streams at once share" + (shared === 1 ? "s" : "") + " a row with others.");
    const outside = D.homes.segments.filter((home) => home < 0).length;
    if (outside) notes.push(count(outside, "segment") + " of the 2024-11-05 transport or of sessions that are not in this file " + (outside === 1 ? "has" : "have") + " no lane.");
    if (T.segments.rows < T.segments.of) notes.push("Of " + group(T.segments.of) + " segments " + group(T.segments.rows) + " are in this file: all that were resumed or cut come first.");
    $("tl-note").textContent = notes.join(" ");
    $("tl-note").className = notes.length > 1 ? "note" : "quiet";
  }
  let printing = false;
  const redraw = once(draw);
  const tip = $("tip");
  function hover(event) {
    const item = event.target.closest?.("[data-tip], .item");
    if (!item) { tip.hidden = true; return; }
    const key = item.dataset.key;
    tip.textContent = item.dataset.tip || (key ? naming(...(([kind, row]) => [kind, Number(row)])(key.split(":"))) : "");
    tip.hidden = false;
    tip.style.left = Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8) + "px";
    tip.style.top = (event.clientY + 18 + tip.offsetHeight > innerHeight ? event.clientY - tip.offsetHeight - 8 : event.clientY + 18) + "px";
  }
  document.addEventListener("pointermove", hover);
  document.addEventListener("scroll", () => { tip.hidden = true; }, true);

  function startTimeline() {
    if (!lanes.length) {
      $("tl-view").append(h("p", { class: "quiet" }, "There is no session to draw."));
      $("tl-help").hidden = $("tl-note").hidden = true;
      return;
    }
    $("timeline").querySelector("h2").after(h("p", { class: "quiet" }, "A lane a session, the worst first; a bar a connection's share of an event stream; an arrow a resume, from the cut to where it came back."));
    view.fold = button("", () => { S.show = S.show === "all" ? "" : "all"; toFragment(); arrange(); draw(); });
    $("tl-tools").append(
      button("Zoom in", () => zoom(0.5)), button("Zoom out", () => zoom(2)), button("Earlier", () => pan(-0.4)), button("Later", () => pan(0.4)),
      button("Whole", () => moveTo(whole[0], whole[1] - whole[0])),
      button("Next fork or loss", () => { const bad = nextBad(current()); if (bad) focusItem(...bad, true); else say("There is none."); }), view.fold);
    const key = (shape, text) => h("li", {}, g("svg", { width: 22, height: 14, "aria-hidden": "true" }, shape), text);
    $("tl-legend").append(h("ul", { class: "keys", "aria-label": "Signs of the timeline" },
      ...Object.entries(SIDES).map(([side, text]) => key(g("rect", { class: "e-" + side, y: 3, width: 22, height: 9 }), text)),
      key(g("path", { class: "cut", d: "M6 3l7 7m0 -7l-7 7" }), "reset"), key(g("path", { class: "cut", d: "M10 1v12" }), "closed"),
      ...[...new Set(Array.from({ length: T.resumes.rows }, (_, row) => T.resumes.get("verdict", row)))].sort().map((v) => key(
        LETTER[v] ? [g("path", { class: "v-" + v, d: "M4 1H13L20 7L13 13H4Z" }), g("text", { class: "m-text m-" + v, x: 10, y: 7.5 }, LETTER[v])] : [g("path", { class: "v-" + v, d: "M7 2L15 7L7 12Z" })], v)),
      ...Object.keys(SHAPES).map((severity) => key(g("path", { class: "f-" + severity, d: SHAPES[severity](9, 7) }), "finding: " + severity)),
      T.incidents.rows ? key(g("rect", { class: "incident", x: 8, width: 5, height: 14 }), "incident") : null));
    view.svg = g("svg", { role: "group", "aria-label": "Sessions over time", "aria-describedby": "tl-help" });
    view.space = h("div", { class: "space" }, view.svg);
    view.box = h("div", { class: "lanes" }, view.space);
    $("tl-view").append(view.box);
    view.box.addEventListener("scroll", redraw);
    view.box.addEventListener("keydown", onKey);
    view.box.addEventListener("wheel", (event) => {
      if (!event.ctrlKey && !event.shiftKey) return;
      event.preventDefault();
      if (event.shiftKey) return pan(Math.sign(event.deltaY || event.deltaX) * 0.15);
      const at = (event.clientX - view.box.getBoundingClientRect().left) / view.width;
      zoom(event.deltaY > 0 ? 1.3 : 1 / 1.3, view.from + at * (view.to - view.from));
    }, { passive: false });
    view.svg.addEventListener("click", (event) => {
      const item = event.target.closest(".item");
      if (!item || view.dragged) return;
      const [kind, row] = item.dataset.key.split(":");
      view.cur = item.dataset.key;
      select(kind, Number(row), false);
    });
    // Not on the picture: a listener there would make a stop of it.
    view.box.addEventListener("focusin", (event) => {
      const item = event.target.closest(".item");
      if (!item || item.dataset.key === S.sel || !event.target.matches(":focus-visible")) return;
      const [kind, row] = item.dataset.key.split(":");
      view.cur = item.dataset.key;
      select(kind, Number(row), false);
    });
    let held = null;
    view.svg.addEventListener("pointerdown", (event) => { held = { x: event.clientX, from: view.from }; view.dragged = false; });
    addEventListener("pointermove", (event) => {
      if (!held) return;
      const by = event.clientX - held.x;
      if (Math.abs(by) > 4) view.dragged = true;
      if (view.dragged) moveTo(held.from - (by / view.width) * (view.to - view.from), view.to - view.from);
    });
    addEventListener("pointerup", () => { held = null; });
    arrange();
    draw();
  }

  // Plots.

  const ORDER = ["forked", "lossy", "ignored", "failed", "rejected", "replayed", "indeterminate", "empty", "continued"];
  const FEW = 600;
  let chosen = -1;
  function logTicks(low, high) {
    const seconds = [1, 2, 5, 10, 20, 30, 60, 120, 300, 600, 1800, 3600, 7200, 21600, 43200, 86400, 259200, 864000, 8640000];
    const named = [1, 2, 5, 10, 20, 50, 100, 200, 500, ...seconds.map((s) => s * 1000)];
    return named.filter((t) => t >= low && t <= high);
  }
  const between = (value, low, high) => Math.max(low, Math.min(high, value));
  const span = (list) => (list.length ? [list.reduce((a, b) => Math.min(a, b)), list.reduce((a, b) => Math.max(a, b))] : [0, 0]);
  function figure(title, text, width, height, label) {
    const svg = g("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label });
    return { svg, element: h("figure", {}, h("figcaption", {}, h("b", {}, title), text), svg) };
  }
  function logScale(values, left, right) {
    let [low, high] = span(values);
    low = low <= 2 ? 1 : low / 1.6;
    high = Math.max(low * 8, high * 1.3);
    const place = (ms) => left + (Math.log10(between(ms, low, high)) - Math.log10(low)) / (Math.log10(high) - Math.log10(low)) * (right - left);
    return { low, high, place };
  }
  function axis(svg, scale, top, bottom) {
    let edge = -99;
    for (const t of logTicks(scale.low, scale.high)) {
      const at = scale.place(t);
      svg.append(g("line", { class: "grid", x1: at, x2: at, y1: top, y2: bottom }));
      if (at - edge > 52) { svg.append(g("text", { class: "axis-text", x: at, y: bottom + 14, "text-anchor": "middle" }, (t === 1 ? "≤ " : "") + human(t))); edge = at; }
    }
  }
  function gapPlot(width) {
    const t = T.resumes, rows = [];
    const server = chosen < 0 ? null : T.servers.get("server", chosen);
    for (let row = 0; row < t.rows; row++) if (t.get("gap_ms", row) !== null && (server === null || t.get("server", row) === server)) rows.push(row);
    const verdicts = ORDER.filter((v) => rows.some((row) => t.get("verdict", row) === v));
    const of = new Map(verdicts.map((v) => [v, rows.filter((row) => t.get("verdict", row) === v)]));
    const left = 122, right = width - 14, line = 30;
    const gaps = rows.map((row) => t.get("gap_ms", row));
    const bounds = ["threshold_low_ms", "threshold_high_ms"].map((c) => (chosen < 0 ? null : T.servers.get(c, chosen))).filter((v) => v !== null);
    const top = bounds.length === 2 ? 40 : 10, bottom = top + Math.max(1, verdicts.length) * line;
    const scale = logScale([...gaps, ...bounds], left, right);
    const many = rows.length > FEW;
    const label = "Gap between cut and resume by verdict. " + verdicts.map((v) => { const [a, b] = span(of.get(v).map((row) => t.get("gap_ms", row))); return count(of.get(v).length, v, v) + ", gaps " + human(a) + " to " + human(b); }).join("; ") + (bounds.length === 2 ? "; lifetime between " + human(bounds[0]) + " and " + human(bounds[1]) : "");
    const { svg, element } = figure("Gap against verdict", h("span", {}, many ? "Each bar counts the resumes of a narrow range of gaps; its height grows with the root of the count. Log axis." : "A dot a resume; a click shows it. Log axis."), width, bottom + 24, label);
    axis(svg, scale, top, bottom);
    if (bounds.length === 2) {
      const [a, b] = bounds.map(scale.place), middle = scale.place(T.servers.get("threshold_ms", chosen));
      svg.append(g("rect", { class: "bracket", x: a, y: top, width: Math.max(2, b - a), height: bottom - top }), g("line", { class: "threshold", x1: middle, x2: middle, y1: top - 4, y2: bottom }));
      const side = middle > width * 0.6 ? "end" : "start";
      svg.append(g("text", { x: middle + (side === "end" ? 4 : -4), y: 14, "text-anchor": side }, "lifetime of sessions without a connection"));
      svg.append(g("text", { x: middle + (side === "end" ? 4 : -4), y: 30, "text-anchor": side }, "between " + human(bounds[0]) + " and " + human(bounds[1])));
    }
    verdicts.forEach((v, n) => {
      const middle = top + n * line + line / 2;
      svg.append(g("text", { x: left - 10, y: middle + 4, "text-anchor": "end" }, group(of.get(v).length) + " " + v));
      svg.append(g("line", { class: "grid", x1: left, x2: right, y1: middle + line / 2, y2: middle + line / 2 }));
      if (many) {
        const bins = new Map();
        for (const row of of.get(v)) { const bin = Math.floor((scale.place(t.get("gap_ms", row)) - left) / 5); bins.set(bin, (bins.get(bin) || 0) + 1); }
        const most = span([...bins.values()])[1];
        for (const [bin, number] of bins) {
          const height = Math.max(2, Math.sqrt(number / most) * (line - 5));
          svg.append(g("rect", { class: "v-" + v, x: left + bin * 5, width: 4.4, y: middle + line / 2 - height, height, "data-tip": count(number, "resume") + ", " + v }));
        }
      } else of.get(v).forEach((row, i) => svg.append(g("circle", { class: "point v-" + v, cx: scale.place(t.get("gap_ms", row)), cy: middle + ((i * 7) % 5 - 2) * 4, r: 4.5, "data-key": "resumes:" + row, "data-tip": naming("resumes", row) })));
    });
    svg.addEventListener("click", (event) => { const key = event.target.dataset?.key; if (key) select("resumes", Number(key.split(":")[1]), false); });
    return element;
  }
  function stacked(title, text, width, bins, classes, names, label, marks) {
    const left = 54, right = width - 10, top = 26, bottom = 190;
    const { svg, element } = figure(title, text, width, 216, label);
    const most = Math.max(1, span(bins.map((bin) => [...bin.values()].reduce((a, b) => a + b, 0)))[1]);
    const y = (n) => bottom - (n / most) * (bottom - top);
    for (const n of [0, Math.ceil(most / 2), most].filter((n, i, all) => all.indexOf(n) === i)) svg.append(g("line", { class: "grid", x1: left, x2: right, y1: y(n), y2: y(n) }), g("text", { class: "axis-text", x: left - 6, y: y(n) + 4, "text-anchor": "end" }, group(n)));
    const step = (right - left) / bins.length;
    bins.forEach((bin, i) => {
      let sum = 0;
      const told = classes.filter((c) => bin.get(c)).map((c) => bin.get(c) + " " + names(c)).join(", ");
      for (const c of classes) {
        const n = bin.get(c) || 0;
        if (!n) continue;
        svg.append(g("rect", { class: marks.prefix + c, x: left + i * step, width: Math.max(1, step - 1), y: y(sum + n), height: Math.max(1, y(sum) - y(sum + n)), "data-tip": told }));
        sum += n;
      }
    });
    marks.more?.(svg, left, right, top, bottom);
    element.append(h("ul", { class: "keys" }, classes.filter((c) => bins.some((bin) => bin.get(c))).map((c) => h("li", {}, g("svg", { width: 14, height: 14, "aria-hidden": "true" }, g("rect", { class: marks.prefix + c, width: 14, height: 14 })), names(c)))));
    return element;
  }
  function timePlot(width) {
    const t = T.resumes, times = Array.from({ length: t.rows }, (_, row) => t.get("resume_time", row));
    let [low, high] = span(times);
    if (high - low < 1) { low -= 5e5; high += 5e5; }
    const size = between(Math.floor(width / 8), 10, 120), bins = Array.from({ length: size }, () => new Map());
    times.forEach((at, row) => { const bin = bins[between(Math.floor((at - low) / (high - low) * size), 0, size - 1)], v = t.get("verdict", row); bin.set(v, (bin.get(v) || 0) + 1); });
    return stacked("Resumes over time", "Stacked by verdict, " + human((high - low) / size / 1000) + " a bar" + (T.incidents.rows ? "; ▾ marks an incident." : "."), width, bins, ORDER, (v) => v,
      "Resumes over time: " + count(t.rows, "resume") + " from " + time(low) + " to " + time(high), { prefix: "v-", more: (svg, left, right, top, bottom) => {
        const place = (at) => left + (at - low) / (high - low) * (right - left);
        const [at, step] = ticks(low, high, Math.max(2, (right - left) / 110));
        for (const tick of at) svg.append(g("text", { class: "axis-text", x: between(place(tick), left + 24, right - 24), y: bottom + 16, "text-anchor": "middle" }, clock(tick, step)));
        let edge = -99;
        for (let row = 0; row < T.incidents.rows; row++) {
          const p = place(T.incidents.get("start_time", row));
          if (p < left || p > right || p - edge < 36) continue;
          edge = p;
          svg.append(g("text", { class: "incident-no", x: p, y: top - 8, "text-anchor": "middle", "data-tip": "Incident " + T.incidents.get("incident", row) }, "▾" + T.incidents.get("incident", row)));
        }
      } });
  }
  function cutPlot(width, kind) {
    const values = [];
    for (let row = 0; row < T.segments.rows; row++) {
      const side = SIDE[seg("end_cause", row)], end = seg("end_time", row);
      // The answer to a POST ends of itself.
      if (side === "open" || end === null || (side === "clean" && seg("method", row) === "POST")) continue;
      const from = kind === "age" ? begins(row) : seg("last_event_time", row);
      if (from !== null) values.push([(end - from) / 1000, side]);
    }
    if (!values.length) return null;
    const sides = ["server", "client", "silent", "clean"];
    const size = between(Math.floor(width / 9), 10, 90);
    const scale = logScale(values.map(([ms]) => ms), 0, size);
    const bins = Array.from({ length: size }, () => new Map());
    for (const [ms, side] of values) { const bin = bins[between(Math.floor(scale.place(ms)), 0, size - 1)]; bin.set(side, (bin.get(side) || 0) + 1); }
    const timers = Array.from({ length: T.timers.rows }, (_, row) => row).filter((row) => T.timers.get("kind", row) === kind);
    const said = timers.map((row) => T.timers.get("side", row) + " cuts at " + human(T.timers.get("period_ms", row)));
    return stacked(kind === "age" ? "Ages of streams at their end" : "Silence before the end",
      (kind === "age" ? "From the request to the end" : "From the last event to the end") + ", by who ended it; answers to POST that ended cleanly aside. Log axis" + (timers.length ? "; dashed: a timer." : "; no timer of this kind was found."), width, bins, sides, (c) => SIDES[c],
      (kind === "age" ? "Ages" : "Silences") + " of " + count(values.length, "stream end") + (said.length ? "; timers: " + said.join(", ") : ""), { prefix: "e-", more: (svg, left, right, top, bottom) => {
        const place = (ms) => left + scale.place(ms) / size * (right - left);
        let edge = -99;
        for (const t of logTicks(scale.low, scale.high)) {
          const p = between(place(t), left + 14, right - 14);
          if (p - edge < 52) continue;
          edge = p;
          svg.append(g("text", { class: "axis-text", x: p, y: bottom + 16, "text-anchor": "middle" }, (t === 1 ? "≤ " : "") + human(t)));
        }
        for (const row of timers.slice(0, 12)) {
          const p = place(T.timers.get("period_ms", row));
          svg.append(g("line", { class: "timer", x1: p, x2: p, y1: top - 6, y2: bottom }), g("text", { x: p + (p > width / 2 ? -5 : 5), y: top - 10, "text-anchor": p > width / 2 ? "end" : "start" }, T.timers.get("side", row) + " timer: " + human(T.timers.get("period_ms", row))));
        }
      } });
  }
  function drawPlots() {
    const area = $("plot-area");
    const columns = area.clientWidth > 980 ? 2 : 1;
    const width = between(Math.floor((area.clientWidth - (columns - 1) * 20) / columns), 280, 760);
    const out = [];
    if (T.resumes.rows) out.push(gapPlot(width), timePlot(width));
    out.push(cutPlot(width, "age"), cutPlot(width, "silence"));
    area.replaceChildren(...out.filter(Boolean));
    if (!area.childElementCount) area.append(h("p", { class: "quiet" }, "There is nothing to plot."));
  }
  function startPlots() {
    const rows = Array.from({ length: T.servers.rows }, (_, row) => row);
    const known = rows.filter((row) => T.servers.get("threshold_ms", row) !== null).sort((a, b) => T.servers.get("forked", b) - T.servers.get("forked", a));
    if (known.length) chosen = known[0];
    if (rows.length > 1 && T.resumes.rows) {
      const pick = h("select", { id: "pick-server", on: { change: () => { chosen = Number(pick.value); drawPlots(); } } },
        h("option", { value: "-1" }, "all servers"), rows.slice(0, 200).map((row) => h("option", { value: row }, T.servers.get("server", row))));
      pick.value = String(chosen);
      $("plot-area").before(h("div", { class: "controls" }, h("label", { for: "pick-server" }, "Gaps of"), pick));
    }
    drawPlots();
  }

  // Tables.

  const TABS = ["resumes", "findings", "sessions", "incidents", "timers", "shares", "servers", "inputs"];
  const MAIN = {
    resumes: ["session_id", "resume", "verdict", "gap_ms", "disconnect_cause", "last_event_id", "first_event_id", "events_dropped_by_dedup", "lost_requests", "confidence", "findings", "resume_time", "server", "tcp_stream", "frame"],
    findings: ["code", "severity", "confidence", "session_id", "resume", "time", "detail", "server", "tcp_stream", "frame"],
    sessions: ["session_id", "incarnation", "service", "client", "first_time", "last_time", "streams", "segments", "events", "resumes", "forked", "lossy", "ignored", "end", "findings"],
  };
  const PAGE = 50;
  let rowsShown = [];
  const matching = new Map();
  // The numbers of the texts that hold a word.
  function holding(word) {
    if (!matching.has(word)) {
      const found = new Set();
      D.strings.forEach((text, n) => { if (text.toLowerCase().includes(word)) found.add(n); });
      if (matching.size > 50) matching.clear();
      matching.set(word, found);
    }
    return matching.get(word);
  }
  function test(table, word) {
    const cut = word.indexOf(":");
    const column = cut > 0 ? table.byName.get(word.slice(0, cut)) : undefined;
    if (column) {
      const wanted = word.slice(cut + 1);
      if (wanted === "") return () => true;
      if (wanted === "*") return (row) => show(column, row) !== "";
      const bound = /^([<>])=?(-?[\d.]+)$/.exec(wanted);
      if (bound && !column.isText) { const limit = Number(bound[2]); return (row) => { const v = column.value(row); return v !== null && (bound[1] === "<" ? v < limit : v > limit); }; }
      if (column.isText) { const found = holding(wanted); return (row) => found.has(column.raw(row)); }
      return (row) => show(column, row).startsWith(wanted);
    }
    const found = holding(word);
    return (row) => table.columns.some((c) => (c.isText ? found.has(c.raw(row)) : show(c, row) === word));
  }
  function filtered(table) {
    const tests = S.q.toLowerCase().split(/\s+/).filter(Boolean).map((word) => (word.startsWith("-") && word.length > 1 ? ((t) => (row) => !t(row))(test(table, word.slice(1))) : test(table, word)));
    const rows = [];
    for (let row = 0; row < table.rows; row++) if (tests.every((t) => t(row))) rows.push(row);
    const down = S.sort.startsWith("-"), column = table.byName.get(S.sort.replace(/^-/, ""));
    if (column) {
      const compare = column.isText ? (a, b) => (a < b ? -1 : a > b ? 1 : 0) : (a, b) => a - b;
      rows.sort((a, b) => {
        const x = column.value(a), y = column.value(b);
        if (x === null || y === null) return (x === null) - (y === null) || a - b;
        return (down ? compare(y, x) : compare(x, y)) || a - b;
      });
    }
    return rows;
  }
  function sortBy(name) {
    S.sort = S.sort === name ? "-" + name : S.sort === "-" + name ? "" : name;
    S.page = 1;
    toFragment();
    drawRows();
    [...$("table-panel").querySelectorAll("thead button")].find((one) => one.dataset.column === name)?.focus();
    say("Sorted by " + name + (S.sort.startsWith("-") ? ", falling" : S.sort ? ", rising" : ": no more"));
  }
  function drawRows() {
    const table = T[S.table], all = S.columns === "all" || !MAIN[S.table];
    const columns = all ? table.columns : MAIN[S.table].map((name) => table.byName.get(name)).filter(Boolean);
    rowsShown = filtered(table);
    const pages = Math.max(1, Math.ceil(rowsShown.length / PAGE));
    S.page = Math.min(S.page, pages);
    const from = (S.page - 1) * PAGE, part = rowsShown.slice(from, from + PAGE);
    const head = h("tr", {}, columns.map((c) => {
      const state = S.sort === c.name ? "ascending" : S.sort === "-" + c.name ? "descending" : "none";
      return h("th", { scope: "col", "aria-sort": state }, button(c.name + (state === "ascending" ? " ▲" : state === "descending" ? " ▼" : ""), () => sortBy(c.name), { title: c.about, "data-column": c.name }));
    }));
    const body = part.map((row) => h("tr", { "data-key": S.table + ":" + row, "aria-selected": S.sel === S.table + ":" + row ? "true" : "false" }, columns.map((c, n) => {
      const text = show(c, row);
      if (n === 0) return h("th", { scope: "row" }, button(clip(text || "row " + (row + 1), 60), () => select(S.table, row, true), { title: text }));
      const dot = c.name === "verdict" && text ? g("svg", { class: "dot", width: 12, height: 12, "aria-hidden": "true" }, g("rect", { class: "v-" + text, width: 12, height: 12 }), g("rect", { class: "p-" + text, width: 12, height: 12 })) : null;
      return h("td", { class: c.isText || c.kind === "Time" ? null : "num", title: text.length > 40 ? text : null }, dot, clip(text, 200));
    })));
    const title = h("caption", { class: "unseen" }, table.about);
    $("rows").replaceChildren(h("table", {}, title, h("thead", {}, head), h("tbody", {}, body)));
    $("rows").setAttribute("aria-label", "Rows of " + S.table);
    const turn = (by) => () => { S.page += by; toFragment(); drawRows(); $("rows").scrollTop = 0; };
    const total = table.rows < table.of ? group(table.rows) + " in this file, " + group(table.of) + " in all" : group(table.of);
    $("pager").replaceChildren(
      button("Previous", turn(-1), { disabled: S.page <= 1 }), button("Next", turn(1), { disabled: S.page >= pages }),
      h("span", { id: "rows-said" }, rowsShown.length ? "Rows " + group(from + 1) + " to " + group(from + part.length) + " of " + group(rowsShown.length) + (rowsShown.length < table.rows || table.rows < table.of ? " (" + total + ")" : "") : "No row" + (table.rows ? " of " + total + " fits the filter" : "")));
  }
  function drawTable() {
    for (const tab of $("tabs").querySelectorAll("[role=tab]")) {
      const on = tab.id === "tab-" + S.table;
      tab.setAttribute("aria-selected", on ? "true" : "false");
      tab.tabIndex = on ? 0 : -1;
    }
    $("table-panel").setAttribute("aria-labelledby", "tab-" + S.table);
    $("about-table").textContent = T[S.table].about;
    $("q").value = S.q;
    $("all-columns").checked = S.columns === "all";
    $("all-columns").parentElement.hidden = !MAIN[S.table];
    drawRows();
  }
  function pickTable(name) {
    S.table = name; S.sort = ""; S.q = ""; S.page = 1;
    toFragment();
    drawTable();
  }
  function startTables() {
    const tabs = h("div", { class: "tabs", role: "tablist", "aria-label": "Tables" }, TABS.map((name) => button(name + " " + group(T[name].of), () => pickTable(name), { role: "tab", id: "tab-" + name, "aria-controls": "table-panel", "aria-selected": "false" })));
    tabs.addEventListener("keydown", (event) => {
      const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
      if (!by) return;
      const name = TABS[(TABS.indexOf(S.table) + by + TABS.length) % TABS.length];
      pickTable(name);
      $("tab-" + name).focus();
    });
    $("tabs").append(tabs);
    const later = once(() => { S.q = $("q").value; S.page = 1; toFragment(); drawRows(); say(count(rowsShown.length, "row")); });
    $("table-panel").setAttribute("role", "tabpanel");
    $("table-panel").append(
      h("p", { class: "quiet", id: "about-table" }),
      h("div", { class: "controls" },
        h("label", { class: "grow", for: "q" }, "Filter", h("input", { id: "q", type: "search", autocomplete: "off", spellcheck: "false", "aria-describedby": "q-help", on: { input: later } })),
        h("label", {}, h("input", { id: "all-columns", type: "checkbox", on: { change: () => { S.columns = $("all-columns").checked ? "all" : ""; toFragment(); drawRows(); } } }), "All columns")),
      h("p", { class: "quiet", id: "q-help" }, "Words that a row must hold; ", h("code", {}, "column:text"), ", ", h("code", {}, "gap_ms:>30000"), ", ", h("code", {}, "findings:*"), " (not empty), ", h("code", {}, "-word"), " (not)."),
      h("div", { id: "rows", class: "scroll", role: "region", tabindex: "0" }),
      h("div", { id: "pager", class: "controls pager" }));
    drawTable();
  }

  // Everything.

  function applyTheme() {
    const dark = S.theme ? S.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    if (S.theme) document.documentElement.dataset.theme = S.theme; else delete document.documentElement.dataset.theme;
    $("theme").textContent = dark ? "Light" : "Dark";
    $("theme").setAttribute("aria-label", (dark ? "Light" : "Dark") + " colours");
  }
  let lastWidth = 0;
  function resized() {
    draw();
    if ($("plot-area").clientWidth !== lastWidth) { lastWidth = $("plot-area").clientWidth; drawPlots(); }
  }
  const asked = fromFragment();
  $("theme").addEventListener("click", () => {
    S.theme = $("theme").textContent === "Dark" ? "dark" : "light";
    toFragment();
    applyTheme();
  });
  $("print").addEventListener("click", () => print());
  addEventListener("beforeprint", () => { printing = true; resized(); });
  addEventListener("afterprint", () => { printing = false; resized(); });
  for (const link of document.querySelectorAll("nav a, .skip")) {
    link.addEventListener("click", (event) => {
      const part = $(link.getAttribute("href").slice(1));
      if (!part) return;
      // The fragment is the state of the view.
      event.preventDefault();
      part.scrollIntoView();
      part.focus({ preventScroll: true });
    });
  }
  for (const card of document.querySelectorAll("[data-resume]")) {
    const row = Number(card.dataset.resume);
    card.append(h("p", { class: "to-timeline" }, button("Details of resume " + T.resumes.get("resume", row), () => select("resumes", row, true)), " ", button("Show in the timeline", () => reveal("resumes", row))));
  }
  $("tools").hidden = false;
  for (const part of document.querySelectorAll(".scripted")) part.hidden = false;
  applyTheme();
  startTimeline();
  startPlots();
  startTables();
  lastWidth = $("plot-area").clientWidth;
  addEventListener("resize", once(resized));
  if (S.sel) {
    const [kind, row] = S.sel.split(":");
    if (T[kind] && Number(row) < T[kind].rows) select(kind, Number(row), false);
  }
  if (asked && /(^|[#&])(table|q|sort)=/.test(location.hash)) $("tables").scrollIntoView();
  document.documentElement.dataset.ready = "";
})();
