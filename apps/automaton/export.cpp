// Circuits as C, as JavaScript and as Verilog.
#include "apps/automaton/export.h"

#include <algorithm>

namespace wr::apps {

using namespace logic;

namespace {

/// An expression of a function: what stands for "a" and "b" in function_name() replaced.
std::string expression(int function, const std::string& a, const std::string& b) {
  std::string out;
  for (const char* c = function_name(function); *c != '\0'; ++c) {
    if (*c == 'a')
      out += a;
    else if (*c == 'b')
      out += b;
    else
      out += *c;
  }
  return out;
}

struct Names {
  std::string zero, one;
  std::int64_t inputs;
  std::string operator()(std::int32_t wire) const {
    if (wire == kZero) return zero;
    if (wire == kOne) return one;
    return wire < inputs ? "x" + std::to_string(wire) : "g" + std::to_string(wire - inputs);
  }
};

std::string gate_text(const Gate& g, const Names& name) {
  if (g.function == 0) return name.zero;
  if (g.function == 15) return name.one;
  return expression(g.function, name(g.a), name(g.b));
}

std::vector<std::int32_t> used_inputs(const Circuit& c) {
  std::vector<bool> used(static_cast<std::size_t>(c.inputs), false);
  auto mark = [&](std::int32_t wire) {
    if (wire >= 0 && wire < c.inputs) used[wire] = true;
  };
  for (const Gate& g : c.gates) {
    mark(g.a);
    mark(g.b);
  }
  for (auto o : c.outputs) mark(o);
  std::vector<std::int32_t> list;
  for (std::size_t i = 0; i < used.size(); ++i)
    if (used[i]) list.push_back(static_cast<std::int32_t>(i));
  return list;
}

const Names c_names(const Circuit& c) { return {"(uint64_t)0", "~(uint64_t)0", c.inputs}; }

std::string c_gates(const Circuit& c, const std::string& indent) {
  const Names name = c_names(c);
  std::string out;
  for (std::size_t i = 0; i < c.gates.size(); ++i)
    out += indent + "const uint64_t g" + std::to_string(i) + " = " + gate_text(c.gates[i], name) + ";\n";
  return out;
}

}  // namespace

std::string to_c(const Circuit& c, const std::string& name) {
  const Names names = c_names(c);
  std::string out = "/* A circuit of " + std::to_string(c.gates.size()) +
                    " gates, exported by Windrow. Each bit of a word is a cell of its own. */\n#include <stdint.h>\n\n";
  out += "void " + name + "(const uint64_t in[" + std::to_string(c.inputs) + "], uint64_t out[" +
         std::to_string(c.outputs.size()) + "]) {\n";
  for (auto i : used_inputs(c)) out += "  const uint64_t x" + std::to_string(i) + " = in[" + std::to_string(i) + "];\n";
  if (used_inputs(c).empty()) out += "  (void)in;\n";
  out += c_gates(c, "  ");
  for (std::size_t i = 0; i < c.outputs.size(); ++i)
    out += "  out[" + std::to_string(i) + "] = " + names(c.outputs[i]) + ";\n";
  return out + "}\n";
}

std::string to_c_program(const Circuit& c) {
  const Names names = c_names(c);
  const std::string channels = std::to_string(c.outputs.size());
  std::string row =
      "/* One row: row[3 * channel + dy] are the rows above, at and below, each with a word of carry on both sides. "
      "*/\n"
      "static void step_row(const uint64_t* const row[], uint64_t* const out[], long words) {\n";
  std::vector<bool> have(c.outputs.size() * 3, false);
  for (auto i : used_inputs(c)) {
    const auto r = static_cast<std::size_t>(i / 3);  // 3 * channel + dy
    if (!have[r]) row += "  const uint64_t* r" + std::to_string(r) + " = row[" + std::to_string(r) + "];\n";
    have[r] = true;
  }
  for (std::size_t k = 0; k < c.outputs.size(); ++k)
    row += "  uint64_t* restrict o" + std::to_string(k) + " = out[" + std::to_string(k) + "];\n";
  row += "  for (long i = 0; i < words; ++i) {\n";
  for (auto i : used_inputs(c)) {
    const std::string r = "r" + std::to_string(i / 3);
    const char* forms[] = {" << 1 | L[i - 1] >> 63", "", " >> 1 | L[i + 1] << 63"};
    std::string text = r + "[i]" + forms[i % 3];
    if (const auto at = text.find('L'); at != std::string::npos) text.replace(at, 1, r);
    row += "    const uint64_t x" + std::to_string(i) + " = " + text + ";\n";
  }
  row += c_gates(c, "    ");
  for (std::size_t k = 0; k < c.outputs.size(); ++k)
    row += "    o" + std::to_string(k) + "[i] = " + names(c.outputs[k]) + ";\n";
  row += "  }\n}\n";
  std::string plain =
      "\n/* The same one cell at a time, a byte each; the grids have a border of zeros. */\n"
      "static void step_plain(const uint8_t* from, uint8_t* to, long height, long width) {\n"
      "  const long line = width + 2, plane = (height + 2) * line;\n"
      "  for (long y = 1; y <= height; ++y)\n    for (long x = 1; x <= width; ++x) {\n"
      "      const uint8_t* cell = from + y * line + x;\n";
  for (auto i : used_inputs(c))
    plain += "      const uint64_t x" + std::to_string(i) + " = cell[" + std::to_string(i / 9) + " * plane + (" +
             std::to_string(i / 3 % 3 - 1) + ") * line + (" + std::to_string(i % 3 - 1) + ")];\n";
  if (used_inputs(c).empty()) plain += "      (void)cell;\n";
  plain += c_gates(c, "      ");
  for (std::size_t k = 0; k < c.outputs.size(); ++k)
    plain +=
        "      to[" + std::to_string(k) + " * plane + y * line + x] = (uint8_t)(1 & (" + names(c.outputs[k]) + "));\n";
  plain += "    }\n}\n";
  row += plain;
  return "/* An automaton of " + std::to_string(c.gates.size()) + " gates, exported by Windrow.\n" +
         "   usage: program HEIGHT WIDTH STEPS SEED zero|wrap print|time|plain */\n"
         "#include <stdint.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include <time.h>\n\n"
         "enum { CHANNELS = " +
         channels + " };\n\n" + row + R"(
static long height, width, words, stride;
static int wrap;
static uint64_t *now, *next, *blank;

static uint64_t* at(uint64_t* grid, long channel, long y) { return grid + (channel * height + y) * stride + 1; }

static uint64_t draw(uint64_t* state) {
  uint64_t x = *state += 0x9e3779b97f4a7c15u;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
  x = (x ^ x >> 27) * 0x94d049bb133111ebu;
  return x ^ x >> 31;
}

/* Puts what lies beyond the border into the words of carry, and into the bit behind the last cell. */
static void carry(uint64_t* row) {
  const long last = (width - 1) % 64;
  const uint64_t first_cell = row[0] & 1, last_cell = row[words - 1] >> last & 1;
  if (last < 63) row[words - 1] &= ((uint64_t)2 << last) - 1;
  row[-1] = wrap ? last_cell << 63 : 0;
  row[words] = wrap && last == 63 ? first_cell : 0;
  if (wrap && last < 63) row[words - 1] |= first_cell << (last + 1);
}

static void step(void) {
  for (long y = 0; y < height; ++y) {
    const uint64_t* rows[3 * CHANNELS];
    uint64_t* out[CHANNELS];
    for (long c = 0; c < CHANNELS; ++c) {
      for (long dy = -1; dy <= 1; ++dy) {
        const long up = y + dy, inside = up >= 0 && up < height;
        rows[3 * c + dy + 1] = inside || wrap ? at(now, c, (up + height) % height) : blank + 1;
      }
      out[c] = at(next, c, y);
    }
    step_row(rows, out, words);
    for (long c = 0; c < CHANNELS; ++c) carry(out[c]);
  }
  uint64_t* const swap = now;
  now = next;
  next = swap;
}

int main(int argc, char** argv) {
  if (argc != 7) return fprintf(stderr, "usage: %s HEIGHT WIDTH STEPS SEED zero|wrap print|time|plain\n", argv[0]), 2;
  height = atol(argv[1]), width = atol(argv[2]);
  const long steps = atol(argv[3]);
  uint64_t state = strtoull(argv[4], 0, 10);
  wrap = !strcmp(argv[5], "wrap");
  if (height < 1 || width < 1 || height > 1 << 20 || width > 1 << 20) return fprintf(stderr, "no such grid\n"), 2;
  words = (width + 63) / 64, stride = words + 2;
  const size_t size = (size_t)(CHANNELS * height * stride);
  now = calloc(size, 8), next = calloc(size, 8), blank = calloc((size_t)stride, 8);
  if (!now || !next || !blank) return fprintf(stderr, "no memory\n"), 1;
  for (long c = 0; c < CHANNELS; ++c)
    for (long y = 0; y < height; ++y) {
      for (long x = 0; x < width; ++x) at(now, c, y)[x / 64] |= (draw(&state) >> 40 & 1) << (x % 64);
      carry(at(now, c, y));
    }
  struct timespec begin, end;
  if (!strcmp(argv[6], "plain")) {
    const size_t plane = (size_t)((height + 2) * (width + 2));
    uint8_t *from = calloc(CHANNELS, plane), *to = calloc(CHANNELS, plane);
    if (!from || !to) return fprintf(stderr, "no memory\n"), 1;
    for (long c = 0; c < CHANNELS; ++c)
      for (long y = 0; y < height; ++y)
        for (long x = 0; x < width; ++x)
          from[(size_t)c * plane + (size_t)((y + 1) * (width + 2) + x + 1)] = at(now, c, y)[x / 64] >> (x % 64) & 1;
    clock_gettime(CLOCK_MONOTONIC, &begin);
    for (long i = 0; i < steps; ++i) {
      step_plain(from, to, height, width);
      uint8_t* const swap = from;
      from = to;
      to = swap;
    }
    clock_gettime(CLOCK_MONOTONIC, &end);
    for (long i = 0; i < steps; ++i) step();
    for (long c = 0; c < CHANNELS; ++c)
      for (long y = 0; y < height; ++y)
        for (long x = 0; x < width; ++x)
          if (from[(size_t)c * plane + (size_t)((y + 1) * (width + 2) + x + 1)] != (at(now, c, y)[x / 64] >> (x % 64) & 1))
            return fprintf(stderr, "the plain loop and the words differ\n"), 1;
    const double plain = (double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec);
    return printf("%.4g cells a second\n", (double)height * (double)width * (double)steps / plain), 0;
  }
  clock_gettime(CLOCK_MONOTONIC, &begin);
  for (long i = 0; i < steps; ++i) step();
  clock_gettime(CLOCK_MONOTONIC, &end);
  const double seconds = (double)(end.tv_sec - begin.tv_sec) + 1e-9 * (double)(end.tv_nsec - begin.tv_nsec);
  if (!strcmp(argv[6], "time"))
    return printf("%.4g cells a second\n", (double)height * (double)width * (double)steps / seconds), 0;
  for (long c = 0; c < CHANNELS; ++c)
    for (long y = 0; y < height; ++y, putchar('\n'))
      for (long x = 0; x < width; ++x) putchar('0' + (int)(at(now, c, y)[x / 64] >> (x % 64) & 1));
  return 0;
}
)";
}

std::string to_javascript(const Circuit& c) {
  const Names names{"0", "-1", c.inputs};
  std::string out = "function stepRow(rows, from, grid, to, words) {\n";
  std::vector<bool> have(c.outputs.size() * 3, false);
  for (auto i : used_inputs(c)) {
    const std::string r = std::to_string(i / 3);
    if (!have[i / 3]) out += "  const r" + r + " = rows[" + r + "], f" + r + " = from[" + r + "];\n";
    have[i / 3] = true;
  }
  out += "  for (let i = 0; i < words; ++i) {\n";
  for (auto i : used_inputs(c)) {
    const std::string n = std::to_string(i / 3), word = "r" + n + "[f" + n + " + i";
    const std::string left = word + "] << 1 | " + word + " - 1] >>> 31",
                      right = word + "] >>> 1 | " + word + " + 1] << 31";
    out += "    const x" + std::to_string(i) + " = " + (i % 3 == 0 ? left : i % 3 == 1 ? word + "]" : right) + ";\n";
  }
  for (std::size_t i = 0; i < c.gates.size(); ++i)
    out += "    const g" + std::to_string(i) + " = " + gate_text(c.gates[i], names) + ";\n";
  for (std::size_t k = 0; k < c.outputs.size(); ++k)
    out += "    grid[to[" + std::to_string(k) + "] + i] = " + names(c.outputs[k]) + ";\n";
  return out + "  }\n}\n";
}

std::string to_verilog(const Circuit& c, const std::string& name) {
  const Names names{"1'b0", "1'b1", c.inputs};
  std::string out = "// A circuit of " + std::to_string(c.gates.size()) + " gates, exported by Windrow.\n";
  out += "module " + name + "(input wire [" + std::to_string(c.inputs - 1) + ":0] in, output wire [" +
         std::to_string(std::max<std::int64_t>(std::ssize(c.outputs), 1) - 1) + ":0] out);\n";
  for (auto i : used_inputs(c)) out += "  wire x" + std::to_string(i) + " = in[" + std::to_string(i) + "];\n";
  for (std::size_t i = 0; i < c.gates.size(); ++i)
    out += "  wire g" + std::to_string(i) + " = " + gate_text(c.gates[i], names) + ";\n";
  for (std::size_t i = 0; i < c.outputs.size(); ++i)
    out += "  assign out[" + std::to_string(i) + "] = " + names(c.outputs[i]) + ";\n";
  return out + "endmodule\n";
}

}  // namespace wr::apps
