// Python face of the selection.
#include <nanobind/stl/optional.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <optional>
#include <string>
#include <tuple>

#include "bindings.hpp"
#include "error.hpp"
#include "selection.hpp"

namespace nearkv {
namespace {

using Ranks = std::optional<Vector<const uint32_t>>;

std::vector<RankedBlocks> ranked_blocks(const std::vector<Ranks>& positions,
                                        const std::vector<Ranks>& priorities,
                                        const Vector<const int64_t>& candidates) {
  if (priorities.size() != positions.size() || candidates.shape(0) != positions.size())
    throw ContractError("positions, priorities and candidates must be of equally many streams");
  std::vector<RankedBlocks> streams;
  for (size_t s = 0; s < positions.size(); ++s) {
    if (positions[s].has_value() != priorities[s].has_value() ||
        (positions[s] && positions[s]->shape(0) != priorities[s]->shape(0)))
      throw ContractError("stream " + std::to_string(s) +
                          " must have as many positions as priorities");
    if (positions[s])
      streams.push_back({positions[s]->data(), priorities[s]->data(), positions[s]->shape(0)});
    else
      streams.push_back(
          {nullptr, nullptr, static_cast<size_t>(std::max<int64_t>(candidates.data()[s], 0))});
  }
  return streams;
}

std::tuple<nb::object, nb::object> py_share_budget(const std::vector<Ranks>& positions,
                                                   const std::vector<Ranks>& priorities,
                                                   const Vector<const int64_t>& candidates,
                                                   size_t room, uint32_t sinks) {
  const auto streams = ranked_blocks(positions, priorities, candidates);
  const auto chosen = share_budget(streams, room, sinks);
  std::vector<size_t> count(streams.size(), sinks);
  for (const ChosenBlock& each : chosen) ++count[each.stream];
  const size_t width = count.empty() ? 0 : *std::max_element(count.begin(), count.end());
  std::vector<int32_t> selected(streams.size() * width, -1);
  std::vector<uint32_t> priority(streams.size() * width, 0);
  for (size_t s = 0; s < streams.size(); ++s)
    for (uint32_t i = 0; i < sinks; ++i) selected[s * width + i] = static_cast<int32_t>(i);
  std::fill(count.begin(), count.end(), sinks);
  for (const ChosenBlock& each : chosen) {
    const size_t at = each.stream * width + count[each.stream]++;
    selected[at] = each.position;
    priority[at] = each.priority;
  }
  return {to_numpy(std::move(selected), {streams.size(), width}),
          to_numpy(std::move(priority), {streams.size(), width})};
}

}  // namespace

void bind_selection(nb::module_& module) {
  module.def("share_budget", &py_share_budget, nb::arg("positions"), nb::arg("priorities"),
             nb::arg("candidates"), nb::arg("room"), nb::arg("sinks"));
}

}  // namespace nearkv
