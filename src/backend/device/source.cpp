#include "backend/device/source.h"

#include <algorithm>
#include <limits>
#include <set>

#include "backend/device/prelude.h"

namespace wr::device {
namespace {

constexpr std::size_t kApart = 256;  // between arguments, constants and results, and between lanes' scratch

std::size_t rounded(std::size_t bytes) { return (bytes + kApart - 1) / kApart * kApart; }

std::size_t bytes_of(const Spec& spec) { return static_cast<std::size_t>(spec.shape.count()) * size_of(spec.dtype); }

class SourceWriter {
 public:
  SourceWriter(const lower::Program& program, Kernels& kernels, const ir::Graph& graph, const std::vector<int>& states)
      : program_(program), kernels_(kernels), graph_(graph) {
    place_leaves(states);
  }

  Source write() {
    s_.text = prelude(kernels_.form(), kernels_.wide());
    write_functions();
    for (std::size_t phase = 0; phase < program_.pieces.size(); ++phase) write_phase(phase);
    if (!program_.commits.calls.empty()) write_commits();
    s_.tables = kernels_.tables();
    s_.bytes[kTables] = std::max<std::size_t>(s_.tables.size(), 1) * sizeof(std::int32_t);
    return std::move(s_);
  }

 private:
  const Form& form() const { return kernels_.form(); }
  bool local() const { return form().local_bytes > 0; }

  void place_leaves(const std::vector<int>& states) {
    s_.homes.resize(static_cast<std::size_t>(program_.bases));
    s_.bytes.assign(kFirstState + states.size(), 0);
    const auto put = [&](int base, int slot, const Spec& spec) {
      const std::size_t bytes = bytes_of(spec), at = s_.bytes[slot];
      s_.homes[base] = {slot, at, bytes};
      s_.bytes[slot] = rounded(at + std::max<std::size_t>(bytes, 1));
    };
    for (std::size_t i = 0; i < graph_.inputs.size(); ++i)
      put(program_.input_base[i], kInputs, graph_[graph_.inputs[i]].spec);
    for (std::size_t i = 0; i < states.size(); ++i)
      put(program_.state_base[i], kFirstState + static_cast<int>(i), graph_[states[i]].spec);
    for (std::size_t i = 0; i < program_.constants.size(); ++i)
      put(program_.constant_base[i], kConstants, {program_.constants[i]->dtype(), program_.constants[i]->shape()});
    for (std::size_t i = 0; i < graph_.outputs.size(); ++i)
      put(program_.output_base[i], kOutputs, graph_[graph_.outputs[i]].spec);
    const auto lanes = static_cast<std::size_t>(program_.lanes);
    s_.bytes[kScratch] = local() ? 0 : rounded(program_.scratch_bytes) * lanes;
    s_.bytes[kPartials] = program_.partial_bytes * lanes;
    s_.bytes[kArena] = program_.arena_bytes;
  }

  /// A function takes each operand as a piece of memory and how far it stands from its beginning: a kernel that made
  /// the pointers would hold those of all its calls in registers at once.
  void write_functions() {
    const auto& functions = kernels_.functions();
    for (std::size_t i = 0; i < functions.size(); ++i) {
      std::string parameters, pointers;
      for (std::size_t k = 0; k < functions[i].types.size(); ++k) {
        const std::string& type = functions[i].types[k];
        const bool near = type.starts_with("WR_LOCAL");
        parameters += cat(near ? "WR_LOCAL" : "WR_GLOBAL", " char* b", k, ", const long o", k, ", ");
        pointers += cat("  ", near ? "WR_IN_LOCAL" : "WR_IN_GLOBAL", "(b", k, ") ", type, " p", k, " = (", type, ")(b",
                        k, " + o", k, ");\n");
      }
      s_.text +=
          cat("\nWR_STAGES void f", i, '(', parameters,
              "WR_GLOBAL const int* tables, const long row0, const int item) {\n", pointers, functions[i].body, "}\n");
    }
  }

  int slot_of(int base) const {
    switch (base) {
      case lower::kScratch:
        return kScratch;
      case lower::kPartial:
      case lower::kPartials:
        return kPartials;
      case lower::kArena:
        return kArena;
      default:
        return s_.homes[base].slot;
    }
  }

  /// The piece of memory, and how far from its beginning.
  std::string pointer(const lower::Operand& o) const {
    const std::int64_t offset =
        o.offset + (o.base >= lower::kFirstLeaf ? static_cast<std::int64_t>(s_.homes[o.base].offset) : 0);
    std::string text = o.base == lower::kScratch   ? "scratch"
                       : o.base == lower::kPartial ? "partial"
                                                   : cat('m', slot_of(o.base));
    text += cat(", ", offset);
    if (o.advance) text += cat(" + row0 * ", o.advance);
    if (o.inner) text += cat(" + inner * ", o.inner);
    if (o.step) text += cat(" + turn * ", o.step);
    return text;
  }

  std::string call_text(const lower::Call& call, const lower::Operand* operands) const {
    std::string text = cat('f', call.kernel, '(');
    for (int k = 0; k < call.operands; ++k) text += cat(pointer(operands[k]), ", ");
    return text + "tables, row0, item);";
  }

  void note_slots(const lower::CallList& list, std::set<int>& slots) const {
    for (const lower::Operand& o : list.operands)
      if (!(o.base == lower::kScratch && local())) slots.insert(slot_of(o.base));
  }

  /// The head of a kernel: its arguments, and where a lane's memory begins.
  void open_kernel(const std::string& name, int groups, const std::set<int>& slots, int phase = -1) {
    Launch launch{name, groups, form().items, {slots.begin(), slots.end()}, phase};
    const bool cpp = form().dialect == Dialect::cpp;
    std::string arguments;
    for (int slot : launch.slots) arguments += cat(arguments.empty() ? "" : ", ", "WR_GLOBAL char* m", slot);
    s_.text += cpp ? cat("\nextern \"C\" void ", name, "(int group, char* const* m) {\n")
                   : cat("\nWR_KERNEL ", name, '(', arguments, ") {\n");
    std::size_t k = 0;
    if (cpp)
      for (int slot : launch.slots) s_.text += cat("  char* m", slot, " = m[", k++, "];\n");
    switch (form().dialect) {
      case Dialect::opencl:
        s_.text += "  const int group = (int)get_group_id(0), item = (int)get_local_id(0);\n";
        break;
      case Dialect::cuda:
        s_.text += "  const int group = (int)blockIdx.x, item = (int)threadIdx.x;\n";
        break;
      case Dialect::cpp:
        s_.text += "  const int item = 0;\n";
    }
    if (local()) {
      const char* space = form().dialect == Dialect::opencl ? "__local"
                          : form().dialect == Dialect::cuda ? "__shared__"
                                                            : "static thread_local";
      s_.text += cat("  ", space, " char scratch[", std::max<std::size_t>(program_.scratch_bytes, 64),
                     "] __attribute__((aligned(64)));\n");
    } else if (slots.contains(kScratch)) {
      s_.text += cat("  WR_GLOBAL char* scratch = m", int{kScratch}, " + (long)group * ",
                     rounded(program_.scratch_bytes), ";\n");
    }
    if (slots.contains(kPartials))
      s_.text +=
          cat("  WR_GLOBAL char* partial = m", int{kPartials}, " + (long)group * ", program_.partial_bytes, ";\n");
    s_.text += cat("  WR_GLOBAL const int* tables = (WR_GLOBAL const int*)m", int{kTables}, ";\n");
    s_.launches.push_back(std::move(launch));
  }

  void write_phase(std::size_t phase) {
    std::vector<std::int32_t> begins{0}, pieces;
    std::set<int> codes, slots{kTables};
    for (const auto& lane : program_.pieces[phase]) {
      lower::for_each_run(lane, [&](const lower::Piece& piece, std::int64_t turn) {
        if (piece.row0 > std::numeric_limits<std::int32_t>::max())
          throw NotKnown("a region of more than 2^31 rows: device code counts to 2^31");
        codes.insert(piece.code);
        pieces.insert(pieces.end(), {piece.code, static_cast<std::int32_t>(piece.row0),
                                     static_cast<std::int32_t>(piece.inner), static_cast<std::int32_t>(turn)});
      });
      begins.push_back(static_cast<std::int32_t>(pieces.size() / 4));
    }
    for (int code : codes) note_slots(program_.codes[code], slots);
    const auto begin = kernels_.keep(begins), table = kernels_.keep(pieces);
    open_kernel(cat("wr_phase", phase), program_.lanes, slots, static_cast<int>(phase));
    s_.launches.back().begins = begin;
    s_.launches.back().pieces = table;
    s_.text += cat("  const int end = tables[", begin, " + group + 1];\n  for (int p = tables[", begin,
                   " + group]; p < end; ++p) {\n    WR_GLOBAL const int* piece = tables + ", table,
                   " + 4 * p;\n    const long row0 = piece[1], inner = piece[2], turn = piece[3];\n",
                   "    (void)inner;\n    (void)turn;\n    switch (piece[0]) {\n");
    for (int code : codes) {
      const lower::Code& c = program_.codes[code];
      s_.text += cat("      case ", code, ":\n");
      const lower::Operand* operands = c.operands.data();
      for (const lower::Call& call : c.calls) {
        s_.text += cat("        ", call_text(call, operands), "  // ", call.name, '\n');
        operands += call.operands;
      }
      s_.text += "        break;\n";
    }
    s_.text += "    }\n  }\n}\n";
  }

  /// Copies that do not wait for one another are shared out.
  void write_commits() {
    std::set<int> slots{kTables};
    note_slots(program_.commits, slots);
    const bool apart = std::none_of(program_.commits.operands.begin(), program_.commits.operands.end(),
                                    [](const lower::Operand& o) { return o.base == lower::kScratch; });
    const int groups = apart ? std::min<int>(program_.lanes, static_cast<int>(program_.commits.calls.size())) : 1;
    open_kernel("wr_commit", groups, slots);
    // As in a phase without pieces, nothing happens while the tables are empty.
    s_.text += cat("  const long row0 = 0;\n  if (tables[", kernels_.keep({1}), "] == 0) return;\n");
    const lower::Operand* operands = program_.commits.operands.data();
    int number = 0;
    for (const lower::Call& call : program_.commits.calls) {
      s_.text +=
          cat("  ", groups > 1 ? cat("if (group == ", number++ % groups, ") ") : "", call_text(call, operands), '\n');
      operands += call.operands;
    }
    s_.text += "}\n";
  }

  const lower::Program& program_;
  Kernels& kernels_;
  const ir::Graph& graph_;
  Source s_;
};

}  // namespace

Source write_source(const lower::Program& program, Kernels& kernels, const ir::Graph& graph,
                    const std::vector<int>& states) {
  return SourceWriter(program, kernels, graph, states).write();
}

}  // namespace wr::device
