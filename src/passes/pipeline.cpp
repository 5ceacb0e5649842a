// The passes in order.
#include <cstdlib>
#include <string_view>

#include "passes/passes.h"
#include "passes/simplify.h"

namespace wr::passes {
namespace {

constexpr int kMostRounds = 4;

std::shared_ptr<Graph> verified([[maybe_unused]] const char* pass, std::shared_ptr<Graph> graph) {
#ifdef WINDROW_VERIFY
  try {
    ir::verify(*graph);
  } catch (const Error& error) {
    throw Error(std::string("after pass ") + pass + ": " + error.what());
  }
#endif
  return graph;
}

/// Rules that look at how often a node is used may apply anew once dead nodes are gone.
std::shared_ptr<Graph> simplify_until_stable(std::shared_ptr<Graph> graph) {
  for (int round = 0; round < kMostRounds; ++round) {
    int applied = 0;
    auto simpler = verified("simplify", simplify_and_count(*graph, applied));
    if (applied == 0) break;
    graph = verified("dce", dce(*simpler));
  }
  return graph;
}

bool is_lowered(const Graph& graph) {
  for (int id = 0; id < graph.size(); ++id)
    if (!passes::is_lowered(graph, id)) return false;
  return true;
}

}  // namespace

Fuse fuse_by_environment() {
  const char* text = std::getenv("WINDROW_FUSE");  // NOLINT(concurrency-mt-unsafe)
  return text && std::string_view(text) == "0" ? Fuse::no : Fuse::yes;
}

std::shared_ptr<Graph> optimise(const Graph& graph, Fuse fused) {
  auto current = verified("trim_scans", trim_scans(graph));
  current = verified("optimise_bodies", optimise_bodies(std::move(current), fused));
  if (fused == Fuse::no) current = verified("dce", dce(*verified("spell_out", spell_out(*current))));
  current = simplify_until_stable(std::move(current));
  current = verified("dce", dce(*verified("join_pads", join_pads(*current))));
  // Simplifying may take a label from an einsum, which is then to be lowered again; so the last word is the lowering's.
  for (int round = 0; round < kMostRounds && !is_lowered(*current); ++round) {
    current = verified("lower_einsum", lower_einsum(*current));
    current = simplify_until_stable(std::move(current));
  }
  if (!is_lowered(*current)) current = verified("lower_einsum", lower_einsum(*current));
  current = verified("contract", contract(*current));
  current = verified("dce", dce(*current));
  if (fused == Fuse::no) return current;
  return verified("dce", dce(*verified("fuse", fuse(*current))));
}

}  // namespace wr::passes
