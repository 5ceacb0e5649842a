#include "apps/automaton/play_page.h"

#include <fmt/format.h>

#include "apps/automaton/export.h"
#include "apps/automaton/show.h"
#include "windrow/report.h"

namespace wr::apps {
namespace {

const char* const kControls = R"(
<div class="wide"><canvas id="grid"></canvas></div>
<p><button id="play">pause</button> <button id="one">one step</button> <button id="again">another start</button>
<label>speed <input id="speed" type="range" min="0" max="100" value="55"></label>
<label>wound <input id="size" type="range" min="1" max="32" value="6"></label></p>
<p>step <b id="steps">0</b>, <b id="right"></b> <span class="note">Click or drag on the grid to wound it.</span></p>
<style>canvas{image-rendering:pixelated;width:min(92vw,80vh);height:auto;border:1px solid var(--line);cursor:crosshair}
button{font:inherit;padding:.2rem .8rem}label{margin-left:1rem}</style>
)";

// What is known of the automaton stands in `rule`; see page below.
const char* const kProgram = R"(
'use strict';
const words = Math.ceil(rule.width / 32), stride = words + 2, channels = rule.channels;
let now = new Int32Array(channels * rule.height * stride), next = new Int32Array(now.length);
const blank = new Int32Array(stride);
let steps = 0, playing = true, life = null;
const at = (channel, y) => (channel * rule.height + y) * stride + 1;
const get = (c, y, x) => now[at(c, y) + (x >> 5)] >>> (x & 31) & 1;
const set = (c, y, x, bit) => {
  const i = at(c, y) + (x >> 5);
  now[i] = now[i] & ~(1 << (x & 31)) | bit << (x & 31);
};
// What lies beyond the border goes into the words at both ends and into the bit behind the last cell.
function carry(grid, row) {
  const last = (rule.width - 1) & 31;
  const first = grid[row] & 1, end = grid[row + words - 1] >>> last & 1;
  if (last < 31) grid[row + words - 1] &= (2 << last) - 1;
  grid[row - 1] = rule.wrap ? end << 31 : 0;
  grid[row + words] = rule.wrap && last === 31 ? first : 0;
  if (rule.wrap && last < 31) grid[row + words - 1] |= first << (last + 1);
}
function carryAll() {
  for (let c = 0; c < channels; ++c) for (let y = 0; y < rule.height; ++y) carry(now, at(c, y));
}
// A word whose bits are 1 with the probability that a cell takes its new state.
function firing() {
  let word = 0;
  const share = Math.floor(rule.fire * 65536);
  for (let i = 0; i < 16; ++i) {
    const bits = Math.random() * 4294967296 | 0;
    word = share >> i & 1 ? bits | word : bits & word;
  }
  return word;
}
function stepLife() {
  const h = rule.height, w = rule.width, made = new Uint8Array(h * w);
  for (let y = 0; y < h; ++y) for (let x = 0; x < w; ++x) {
    let alive = 0;
    for (let dy = -1; dy <= 1; ++dy) for (let dx = -1; dx <= 1; ++dx)
      if (dy || dx) alive += life[(y + dy + h) % h * w + (x + dx + w) % w];
    made[y * w + x] = alive === 3 || (alive === 2 && life[y * w + x]) ? 1 : 0;
  }
  life = made;
}
function step() {
  const rows = new Array(3 * channels), from = new Array(3 * channels), to = new Array(channels);
  for (let y = 0; y < rule.height; ++y) {
    for (let c = 0; c < channels; ++c) {
      for (let d = 0; d < 3; ++d) {
        const up = y + d - 1, inside = up >= 0 && up < rule.height;
        rows[3 * c + d] = inside || rule.wrap ? now : blank;
        from[3 * c + d] = inside || rule.wrap ? at(c, (up + rule.height) % rule.height) : 1;
      }
      to[c] = at(c, y);
    }
    stepRow(rows, from, next, to, words);
    if (rule.fire < 1) for (let i = 0; i < words; ++i) {
      const mask = firing();
      for (let c = 0; c < channels; ++c) next[to[c] + i] = next[to[c] + i] & mask | now[to[c] + i] & ~mask;
    }
    for (let c = 0; c < channels; ++c) carry(next, to[c]);
  }
  [now, next] = [next, now];
  if (life) stepLife();
  ++steps;
}
function begin() {
  steps = 0;
  now.fill(0);
  for (let c = 0; c < channels; ++c) for (let y = 0; y < rule.height; ++y) for (let x = 0; x < rule.width; ++x)
    if (rule.start === 'random' ? Math.random() < 0.5
        : rule.start === 'centre' && y === rule.height >> 1 && x === rule.width >> 1) set(c, y, x, 1);
  carryAll();
  takeLife();
}
function takeLife() {
  if (!rule.life) return;
  life = new Uint8Array(rule.height * rule.width);
  for (let y = 0; y < rule.height; ++y) for (let x = 0; x < rule.width; ++x) life[y * rule.width + x] = get(0, y, x);
}
function wound(cx, cy, radius) {
  for (let y = Math.max(0, cy - radius); y <= Math.min(rule.height - 1, cy + radius); ++y)
    for (let x = Math.max(0, cx - radius); x <= Math.min(rule.width - 1, cx + radius); ++x)
      if ((x - cx) ** 2 + (y - cy) ** 2 <= radius ** 2)
        for (let c = 0; c < channels; ++c) set(c, y, x, Math.random() < 0.5 ? 1 : 0);
  carryAll();
  takeLife();
}
// The share of cells that are as they should be; nothing where nobody can say.
function right() {
  if (!rule.target && !rule.checkers && !life) return null;
  let good = 0, all = 0;
  for (let c = 0; c < rule.visible; ++c) for (let y = 0; y < rule.height; ++y) for (let x = 0; x < rule.width; ++x) {
    const wanted = life ? life[y * rule.width + x]
                   : rule.target ? +rule.target[(c * rule.height + y) * rule.width + x] : ((x >> 1) + (y >> 1)) & 1;
    good += get(c, y, x) === wanted;
    ++all;
  }
  return good / all;
}
const canvas = document.getElementById('grid'), pen = canvas.getContext('2d');
canvas.width = rule.width;
canvas.height = rule.height;
const picture = pen.createImageData(rule.width, rule.height);
function draw() {
  for (let y = 0, i = 0; y < rule.height; ++y) for (let x = 0; x < rule.width; ++x, i += 4) {
    const c = rule.visible === 3 ? get(0, y, x) * 4 + get(1, y, x) * 2 + get(2, y, x) : get(0, y, x) * 7;
    for (let k = 0; k < 3; ++k) picture.data[i + k] = c & 4 >> k ? 240 : 20;  // as in a GIF
    picture.data[i + 3] = 255;
  }
  pen.putImageData(picture, 0, 0);
  document.getElementById('steps').textContent = steps;
  const share = right();
  document.getElementById('right').textContent = share === null ? '' : (100 * share).toFixed(3) + ' % right';
}
const perSecond = () => 2 ** (+document.getElementById('speed').value / 10);
let owed = 0, before = 0;
function frame(time) {
  owed = Math.min(owed + (playing ? (time - before) / 1000 * perSecond() : 0), 64);
  before = time;
  const any = owed >= 1;
  for (; owed >= 1; --owed) step();
  if (any) draw();
  requestAnimationFrame(frame);
}
document.getElementById('play').onclick = e => {
  playing = !playing;
  owed = 0;
  e.target.textContent = playing ? 'pause' : 'play';
};
document.getElementById('one').onclick = () => { step(); draw(); };
document.getElementById('again').onclick = () => { begin(); draw(); };
function hurt(e) {
  const box = canvas.getBoundingClientRect();
  wound(Math.floor((e.clientX - box.left) / box.width * rule.width),
        Math.floor((e.clientY - box.top) / box.height * rule.height), +document.getElementById('size').value);
  draw();
}
canvas.onpointerdown = e => { canvas.setPointerCapture(e.pointerId); hurt(e); };
canvas.onpointermove = e => { if (e.buttons) hurt(e); };
begin();
draw();
requestAnimationFrame(frame);
)";

/// What the task wants to see, as digits; empty where it is not a picture of this size.
std::string target_of(const AutomatonSettings& s, std::int64_t height, std::int64_t width) {
  if (!grows_picture(s.task) || height != s.height || width != s.width) return "";
  std::string digits;
  for (const float v : AutomatonTask(s).all().target.astype(DType::f32).to_vector<float>())
    digits += v > 0.5f ? '1' : '0';
  return digits;
}

}  // namespace

std::string play_page(const TrainedAutomaton& trained, const std::string& title, std::int64_t height,
                      std::int64_t width) {
  const AutomatonSettings& s = trained.settings;
  const logic::Circuit circuit = visible_circuit(trained);
  const std::string rule = fmt::format(
      "const rule = {{height: {}, width: {}, channels: {}, visible: {}, wrap: {}, fire: {}, start: '{}', life: {}, "
      "checkers: {}, target: '{}'}};\n",
      height, width, circuit.outputs.size(), s.task == "colour" ? 3 : 1, s.border == "wrap", s.fire,
      s.task == "pattern"  ? "centre"
      : s.task == "colour" ? "none"
                           : "random",
      s.task == "life", s.task.starts_with("checkerboard"), target_of(s, height, width));
  report::Page page(title);
  page.note(fmt::format("{}: {} x {} cells, {} gates, all in this page.", s.task, height, width, circuit.gates.size()));
  page.html(kControls).html("<script>\n" + rule + to_javascript(circuit) + kProgram + "</script>\n");
  return page.text();
}

}  // namespace wr::apps
