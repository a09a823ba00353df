// Python face of the books of lookahead eviction.
#include <algorithm>
#include <string>

#include "bindings.hpp"
#include "error.hpp"
#include "lookahead.hpp"

namespace nearkv {
namespace {

// The books of all streams of a layer.
class Books {
 public:
  Books(const Table<int64_t>& selected, const Table<int64_t>& seen, const Stack<float>& means,
        const Table<const float>& powers)
      : selected_(selected), seen_(seen), means_(means), powers_(powers) {
    const size_t streams = selected.shape(0), blocks = selected.shape(1);
    if (seen.shape(0) != streams || seen.shape(1) != blocks || means.shape(0) != 2 ||
        means.shape(1) != streams || means.shape(2) != blocks || powers.shape(0) != 2 ||
        powers.shape(1) < 2)
      throw ContractError("the books of a layer do not fit each other");
  }

  LookaheadBooks of(size_t stream) const {
    const size_t streams = selected_.shape(0), blocks = selected_.shape(1), ages = powers_.shape(1);
    const size_t row = stream * blocks;
    return {selected_.data() + row,
            seen_.data() + row,
            {means_.data() + row, means_.data() + streams * blocks + row},
            {Decay{powers_.data(), ages}, Decay{powers_.data() + ages, ages}}};
  }

  void check(const Table<const int32_t>& blocks) const {
    if (blocks.shape(0) != selected_.shape(0))
      throw ContractError("blocks must be of all streams of the layer");
    const size_t count = blocks.shape(0) * blocks.shape(1);
    const int32_t highest = count ? *std::max_element(blocks.data(), blocks.data() + count) : -1;
    if (highest >= static_cast<int64_t>(selected_.shape(1)))
      throw ContractError("block " + std::to_string(highest) + " is beyond the books");
  }

 private:
  const Table<int64_t>& selected_;
  const Table<int64_t>& seen_;
  const Stack<float>& means_;
  const Table<const float>& powers_;
};

void py_report(const Table<int64_t>& selected, const Table<int64_t>& seen,
               const Stack<float>& means, const Table<const float>& powers,
               const Table<const int32_t>& blocks, const Table<const uint32_t>& priority,
               int64_t step, bool chosen) {
  const Books books(selected, seen, means, powers);
  books.check(blocks);
  const size_t count = blocks.shape(1);
  if (priority.shape(0) != blocks.shape(0) || priority.shape(1) != count)
    throw ContractError("priority must have the shape of blocks");
  for (size_t s = 0; s < blocks.shape(0); ++s) {
    const LookaheadBooks stream = books.of(s);
    const int32_t* const row = blocks.data() + s * count;
    report(stream, row, priority.data() + s * count, count, step);
    for (size_t i = 0; chosen && i < count; ++i)
      if (row[i] >= 0) stream.selected[row[i]] = step;
  }
}

nb::object py_values(const Table<int64_t>& selected, const Table<int64_t>& seen,
                     const Stack<float>& means, const Table<const float>& powers,
                     const Table<const int32_t>& blocks, int64_t step, int64_t window) {
  const Books books(selected, seen, means, powers);
  books.check(blocks);
  const size_t count = blocks.shape(1);
  std::vector<int64_t> value(blocks.shape(0) * count);
  for (size_t s = 0; s < blocks.shape(0); ++s)
    values(books.of(s), blocks.data() + s * count, count, step, window, value.data() + s * count);
  return to_numpy(std::move(value), {blocks.shape(0), count});
}

}  // namespace

void bind_lookahead(nb::module_& module) {
  module.def("lookahead_report", &py_report, nb::arg("selected"), nb::arg("seen"), nb::arg("means"),
             nb::arg("powers"), nb::arg("blocks"), nb::arg("priority"), nb::arg("step"),
             nb::arg("chosen"));
  module.def("lookahead_values", &py_values, nb::arg("selected"), nb::arg("seen"), nb::arg("means"),
             nb::arg("powers"), nb::arg("blocks"), nb::arg("step"), nb::arg("window"));
}

}  // namespace nearkv
