// The fixed parts of the profile page.
#pragma once

#include <string_view>

namespace wr {

inline constexpr std::string_view kPageBegin = R"page(<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>Windrow profile</title>
<style>
:root{--ink:#1b1f24;--dim:#667;--line:#d8dde3;--page:#fff;--soft:#f4f6f8;--wait:#c9ced6}
@media(prefers-color-scheme:dark){:root{--ink:#e6e9ee;--dim:#9aa4b2;--line:#343b45;--page:#15181c;--soft:#1e2329;--wait:#3d4550}}
body{font:14px/1.45 system-ui,sans-serif;color:var(--ink);background:var(--page);max-width:1180px;margin:24px auto;padding:0 16px}
h1{font-size:22px;margin:0}h2{font-size:16px;margin:28px 0 6px}.dim{color:var(--dim)}
table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{padding:3px 8px;text-align:right;border-bottom:1px solid var(--line);white-space:nowrap}
th{cursor:pointer;color:var(--dim);font-weight:600}th:first-child,td:first-child{text-align:left}
td:first-child{max-width:420px;overflow:hidden;text-overflow:ellipsis}code{font:12px ui-monospace,monospace;color:var(--dim)}
svg{display:block;width:100%;background:var(--soft);border-radius:6px}svg text{font:11px system-ui,sans-serif;fill:var(--ink);pointer-events:none}
rect.box{stroke:var(--page);stroke-width:.5;cursor:pointer}.axis{fill:var(--dim)!important}
.facts{display:flex;flex-wrap:wrap;gap:8px 28px;margin:12px 0}.facts b{display:block;font-size:18px}
.issue{border-left:4px solid #d9822b;background:var(--soft);padding:8px 12px;margin:8px 0;border-radius:0 6px 6px 0}
.issue.small{border-color:var(--wait)}.gain{float:right;font-weight:600}
#tip{position:fixed;pointer-events:none;background:#111c;color:#fff;padding:6px 9px;border-radius:5px;font-size:12px;display:none;max-width:460px;white-space:pre-line;z-index:9}
nav button{font:inherit;margin:10px 6px 0 0;padding:4px 12px;border:1px solid var(--line);background:var(--soft);color:inherit;border-radius:6px;cursor:pointer}
nav button.on{background:#2f6fde;color:#fff;border-color:#2f6fde}
</style></head><body><h1>Windrow profile</h1><nav></nav><main></main><div id="tip"></div>
)page";

inline constexpr std::string_view kPageEnd = R"page(<script>
"use strict";
const data = JSON.parse(document.getElementById("profile").textContent);
const texts = JSON.parse(document.getElementById("lines").textContent);
const main = document.querySelector("main"), nav = document.querySelector("nav"), tip = document.getElementById("tip");
const NS = "http://www.w3.org/2000/svg";
const us = x => x >= 1000 ? (x / 1000).toFixed(2) + " ms" : x >= 10 ? x.toFixed(1) + " µs" : x.toFixed(2) + " µs";
const bytes = b => b < 1024 ? b + " B" : b < 1048576 ? (b / 1024).toFixed(1) + " KB" : (b / 1048576).toFixed(2) + " MB";
const short = k => k.file.split(/[\/\\]/).pop() + ":" + k.line;
function hue(name) { let h = 0; for (const c of name) h = (h * 31 + c.charCodeAt(0)) % 360; return h; }
function colour(k) { return k.gradient ? `hsl(${hue(k.op)} 45% 62%)` : `hsl(${hue(k.op)} 68% 58%)`; }
function el(tag, attributes, parent, text) {
  const e = document.createElement(tag);
  for (const [n, v] of Object.entries(attributes || {})) e.setAttribute(n, v);
  if (text !== undefined) e.textContent = text;
  if (parent) parent.append(e);
  return e;
}
function draw(tag, attributes, parent, text) {
  const e = document.createElementNS(NS, tag);
  for (const [n, v] of Object.entries(attributes)) e.setAttribute(n, v);
  if (text !== undefined) e.textContent = text;
  parent.append(e);
  return e;
}
function hint(e, text) {
  e.addEventListener("mousemove", m => {
    tip.style.display = "block"; tip.textContent = text;
    tip.style.left = Math.min(m.clientX + 14, innerWidth - tip.offsetWidth - 8) + "px"; tip.style.top = m.clientY + 16 + "px";
  });
  e.addEventListener("mouseleave", () => tip.style.display = "none");
}
function kernelText(k, p) {
  const busy = p.kernels.reduce((s, x) => s + x.us, 0);
  return `${k.gradient ? "gradient of " : ""}${k.op} ${k.detail}\n${short(k)}  ${texts[short(k)] || ""}\nkernel ${k.kernel}, phase ${k.phase}, strips of ${k.rows}\n` +
    `${us(k.us)} a run (${(100 * k.us / busy).toFixed(1)} %), ${k.calls} calls of ${us(k.mean_us)}\n` +
    `${(k.flops / Math.max(k.us, 1e-9) / 1e3).toFixed(1)} GFLOP/s, ${(k.bytes / Math.max(k.us, 1e-9) / 1e3).toFixed(1)} GB/s, ${(100 * k.roof_us / Math.max(k.us, 1e-9)).toFixed(0)} % of the roof, bound by ${k.bound}`;
}

// ---- flame graph: step > forward, backward, waiting > line > kernel; a click makes a box fill the width
function tree(p) {
  const root = { name: p.name, us: 0, kids: new Map() };
  const into = (node, name, amount, extra) => {
    if (!node.kids.has(name)) node.kids.set(name, { name, us: 0, kids: new Map(), ...extra });
    const kid = node.kids.get(name); kid.us += amount; return kid;
  };
  for (const k of p.kernels) {
    root.us += k.us;
    const side = into(root, k.gradient ? "backward" : "forward and optimiser", k.us);
    const line = into(side, short(k), k.us, { hint: texts[short(k)] || "" });
    into(line, k.op + (k.kernel === k.op ? "" : " [" + k.kernel + "]"), k.us, { kernel: k });
  }
  for (const t of p.thread_times) {
    const wait = t.start_us + t.finish_us + t.barrier_us.reduce((a, b) => a + b, 0);
    if (wait > 0) {
      root.us += wait; const w = into(root, "waiting", wait);
      into(w, "start", t.start_us); into(w, "finish", t.finish_us);
      t.barrier_us.forEach((b, i) => b > 0 && into(w, "barrier " + i, b));
    }
  }
  return root;
}
function flame(p, parent) {
  const root = tree(p), W = 1140, H = 22, depth = 4;
  const svg = draw("svg", { viewBox: `0 0 ${W} ${H * depth + 4}` }, parent);
  const paint = focus => {
    svg.replaceChildren();
    const walk = (node, x, w, level, inside) => {
      if (w < .4) return;
      const waiting = node.name === "waiting" || inside === "waiting";
      const fill = waiting ? "var(--wait)" : node.kernel ? colour(node.kernel) : level === 0 ? "#8fa3bf" : `hsl(${hue(node.name)} 50% 66%)`;
      const box = draw("rect", { class: "box", x, y: level * H + 2, width: Math.max(w - .5, .4), height: H - 1, fill, rx: 2 }, svg);
      hint(box, node.kernel ? kernelText(node.kernel, p) : `${node.name}\n${node.hint || ""}\n${us(node.us)}, ${(100 * node.us / root.us).toFixed(1)} % of all threads' time`);
      box.addEventListener("click", () => paint(node === focus ? root : node));
      if (w > 46) draw("text", { x: x + 4, y: level * H + 16, style: waiting ? "" : "fill:#111" }, svg, node.name.slice(0, Math.floor(w / 6.4)));
      let at = x;
      const total = [...node.kids.values()].reduce((s, k) => s + k.us, 0) || 1;
      for (const kid of [...node.kids.values()].sort((a, b) => b.us - a.us)) {
        const width = w * kid.us / Math.max(total, node.us); walk(kid, at, width, level + 1, waiting ? "waiting" : ""); at += width;
      }
    };
    walk(focus, 0, W, 0, "");
  };
  paint(root);
}

// ---- timeline: a row a thread; the wheel zooms, dragging moves
function timeline(p, parent) {
  if (!p.timeline.length) return;
  const W = 1140, row = 34, top = 18, H = top + (p.rows && p.rows.length || p.threads) * row + 4;
  const svg = draw("svg", { viewBox: `0 0 ${W} ${H}` }, parent);
  let begin = 0, all = 0;
  for (const e of p.timeline) all = Math.max(all, e[4]);
  const starts = p.timeline.filter(e => e[2] === -2 && e[0] === 0).map(e => e[3]);
  if (starts.length) begin = starts[0];
  let end = begin;  // at first, the first run that was recorded
  for (const e of p.timeline) if (starts.length < 2 || e[3] < starts[1]) end = Math.max(end, e[4]);
  const paint = () => {
    svg.replaceChildren();
    const scale = W / (end - begin), least = 70 / scale, power = Math.pow(10, Math.floor(Math.log10(least)));
    const step = power * [1, 2, 5, 10].find(f => f * power >= least);  // room for a text at each
    for (let t = Math.ceil(begin / step) * step; t < end; t += step) {
      const x = (t - begin) * scale;
      draw("line", { x1: x, x2: x, y1: top - 4, y2: H, stroke: "var(--line)" }, svg);
      if (x + 66 < W) draw("text", { x: x + 3, y: 12, class: "axis" }, svg, us(t - (starts[0] || 0)));
    }
    let boxes = 0;
    for (const [thread, lane, kernel, b, e] of p.timeline) {
      if (e < begin || b > end) continue;
      const x = (Math.max(b, begin) - begin) * scale, w = (Math.min(e, end) - Math.max(b, begin)) * scale;
      if (w < .15 || ++boxes > 6000) continue;
      const k = kernel >= 0 ? p.kernels[kernel] : null, y = top + thread * row;
      const box = draw("rect", { class: "box", x, y, width: w, height: row - 6, fill: k ? colour(k) : "var(--wait)" }, svg);
      hint(box, k ? `${us(e - b)} on ${p.rows && p.rows[thread] || `thread ${thread}, lane ${lane}`}\n` + kernelText(k, p) : `${kernel === -1 ? "barrier" : kernel === -2 ? "start" : "waiting for the others"}: ${us(e - b)}`);
      if (w > 50) draw("text", { x: x + 3, y: y + 18, style: k ? "fill:#111" : "" }, svg, (k ? k.op : "wait").slice(0, Math.floor(w / 6.4)));
    }
  };
  svg.addEventListener("wheel", m => {
    m.preventDefault();
    const at = begin + (end - begin) * m.offsetX / svg.clientWidth, f = m.deltaY > 0 ? 1.25 : .8;
    begin = Math.max(0, at - (at - begin) * f); end = Math.min(all, at + (end - at) * f); paint();
  }, { passive: false });
  let from = null;
  svg.addEventListener("pointerdown", m => from = m.clientX);
  addEventListener("pointerup", () => from = null);
  svg.addEventListener("pointermove", m => {
    if (from === null) return;
    const d = Math.max(-begin, Math.min(all - end, (from - m.clientX) / svg.clientWidth * (end - begin)));
    begin += d; end += d; from = m.clientX; paint();
  });
  paint();
}

function steps(points, parent, format, unit) {  // a chart of [x, y] with levels
  if (points.length < 2) return;
  const W = 1140, H = 130, left = 70, bottom = 20;
  const svg = draw("svg", { viewBox: `0 0 ${W} ${H}` }, parent);
  const x1 = Math.max(points[points.length - 1][0], 1e-9), top = Math.max(...points.map(p => p[1]), 1) * 1.1;
  const X = x => left + x / x1 * (W - left - 10), Y = y => H - bottom - y / top * (H - bottom - 8);
  for (const f of [0, .5, 1]) {
    draw("line", { x1: left, x2: W - 10, y1: Y(top * f / 1.1), y2: Y(top * f / 1.1), stroke: "var(--line)" }, svg);
    draw("text", { x: left - 6, y: Y(top * f / 1.1) + 4, "text-anchor": "end", class: "axis" }, svg, format(Math.round(top * f / 1.1)));
  }
  let path = `M${X(0)} ${Y(0)}`;
  let last = points[0][1];
  for (const [x, y] of points) { path += `L${X(x)} ${Y(last)}L${X(x)} ${Y(y)}`; last = y; }
  draw("path", { d: path + `L${X(x1)} ${Y(0)}Z`, fill: "#2f6fde55", stroke: "#2f6fde" }, svg);
  draw("text", { x: W - 10, y: H - 5, "text-anchor": "end", class: "axis" }, svg, unit(x1));
  draw("text", { x: left, y: H - 5, class: "axis" }, svg, "0");
}

function table(parent, heads, rows) {
  const t = el("table", {}, parent), head = el("tr", {}, el("thead", {}, t)), body = el("tbody", {}, t);
  const fill = () => { body.replaceChildren(); for (const r of rows) { const tr = el("tr", {}, body); r.forEach((c, i) => { const td = el("td", {}, tr, typeof c === "number" ? +c.toFixed(c < 10 ? 2 : 1) : c); if (i === 0 && r.code) { el("br", {}, td); el("code", {}, td, r.code); } }); } };
  heads.forEach((h, i) => el("th", {}, head, h).addEventListener("click", () => { rows.sort((a, b) => typeof a[i] === "number" ? b[i] - a[i] : String(a[i]).localeCompare(String(b[i]))); fill(); }));
  fill();
}
function grouped(p, key) {
  const groups = new Map();
  for (const k of p.kernels) {
    const name = key(k), g = groups.get(name) || { us: 0, calls: 0, flops: 0, bytes: 0, roof: 0, back: 0, min: 1e9, max: 0 };
    g.us += k.us; g.calls += k.calls; g.flops += k.flops; g.bytes += k.bytes; g.roof += k.roof_us;
    g.min = Math.min(g.min, k.min_us); g.max = Math.max(g.max, k.max_us); if (k.gradient) g.back += k.us; groups.set(name, g);
  }
  return [...groups].sort((a, b) => b[1].us - a[1].us);
}
function show(p) {
  main.replaceChildren();
  el("p", { class: "dim" }, main, `${p.name} on ${p.machine}, ${p.simd}, ${p.date}; ${p.runs} runs, ${p.recorded} recorded in full${p.every > 1 ? " (one in " + p.every + ")" : ""}`);
  const facts = el("div", { class: "facts" }, main), busy = p.kernels.reduce((s, k) => s + k.us, 0);
  for (const [name, value] of [["a run", us(p.run_us)], ["fastest", us(p.min_us)], ["between runs", us(p.between_us)], p.rows && p.rows.length ? ["device", p.simd] : ["threads", p.threads + " on " + p.lanes + " lanes"], ["phases", p.phases], ["arithmetic", (p.flops / Math.max(p.run_us, 1e-9) / 1e3).toFixed(1) + " GFLOP/s"], ["threads busy", (100 * busy / p.threads / Math.max(p.run_us, 1e-9)).toFixed(0) + " %"], ["allocations a run", p.memory.allocations_per_run.toFixed(1)]]) {
    const d = el("div", {}, facts); el("b", {}, d, value); el("span", { class: "dim" }, d, name);
  }
  el("h2", {}, main, "What bounds it");
  for (const b of p.bottlenecks) {
    const d = el("div", { class: b.gain < .05 ? "issue small" : "issue" }, main);
    el("span", { class: "gain" }, d, b.gain < .005 ? "" : "up to " + (100 * b.gain).toFixed(0) + " %");
    el("b", {}, d, b.kind + ": " + b.where); el("div", {}, d, b.text); el("div", { class: "dim" }, d, b.advice);
  }
  for (const c of p.cuts.filter(c => !c.needed)) el("p", { class: "dim" }, main, `Phase ${c.phase} begins because ${c.reader} (${c.reader_op}) needs ${c.maker_op} of ${c.maker} whole: ${c.why}.`);
  el("h2", {}, main, "Flame graph"); el("div", { class: "dim" }, main, "all threads added up; a click zooms"); flame(p, main);
  el("h2", {}, main, "Timeline"); el("div", { class: "dim" }, main, "one row a thread; the wheel zooms, dragging moves; pale colours are gradients, grey is waiting"); timeline(p, main);
  el("h2", {}, main, "Memory in one run"); el("div", { class: "dim" }, main, `what holds something: scratch of all lanes, lane sums, arena; besides, states ${bytes(p.memory.state_bytes)}, arguments ${bytes(p.memory.argument_bytes)}`);
  steps(p.memory.live.map(q => [q.us, q.bytes]), main, bytes, us);
  if (p.memory.samples.length > 1) {
    el("h2", {}, main, "Memory of the process");
    steps(p.memory.samples.map(s => [s.seconds, s.resident_bytes]), main, bytes, s => s.toFixed(1) + " s");
  }
  const roof = p.roof;
  el("h2", {}, main, "Lines");
  const columns = ["calls", "µs", "share %", "gradient %", "min", "max", "GFLOP/s", "GB/s", "roof %"];
  const line = (name, g, code) => Object.assign([name, g.calls, g.us, 100 * g.us / busy, 100 * g.back / Math.max(g.us, 1e-9), g.min, g.max, g.flops / Math.max(g.us, 1e-9) / 1e3, g.bytes / Math.max(g.us, 1e-9) / 1e3, 100 * g.roof / Math.max(g.us, 1e-9)], { code });
  table(main, ["line", ...columns], grouped(p, short).map(([n, g]) => line(n, g, texts[n])));
  el("h2", {}, main, "Kernels");
  table(main, ["kernel", ...columns], grouped(p, k => k.kernel === k.op ? k.op : `${k.op} [${k.kernel}]`).map(([n, g]) => line(n, g)));
  el("p", { class: "dim" }, main, `This machine, one core, measured: ${roof.gflops_f32.toFixed(0)} GFLOP/s f32, ${roof.gflops_f64.toFixed(0)} f64; ` + roof.levels.map(l => `${l.name} ${l.gbs.toFixed(0)} GB/s`).join(", ") + ".");
}
data.steps.forEach((p, i) => {
  const b = el("button", {}, nav, p.name);
  b.addEventListener("click", () => { for (const x of nav.children) x.className = ""; b.className = "on"; show(p); });
  if (i === 0) b.click();
});
if (data.steps.length < 2) nav.style.display = "none";
</script></body></html>
)page";

}  // namespace wr
