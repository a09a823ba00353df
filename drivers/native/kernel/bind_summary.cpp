// Python face of the first stage.
#include <string>

#include "bindings.hpp"
#include "error.hpp"
#include "summary.hpp"
#include "thread_pool.hpp"

namespace nearkv {
namespace {

// Rows of a task, below which a thread of its own does not pay.
constexpr size_t kLeastRows = 512;

void require(bool fits, const char* what) {
  if (!fits) throw ContractError(std::string(what) + " does not fit the other arrays");
}

size_t widest(const Vector<const int64_t>& counts, size_t most) {
  int64_t width = 0;
  for (size_t i = 0; i < counts.shape(0); ++i) {
    const int64_t count = counts.data()[i];
    require(count >= 0 && static_cast<uint64_t>(count) <= most, "a count of blocks");
    width = std::max(width, count);
  }
  return static_cast<size_t>(width);
}

template <typename Work>
void for_each_stream(size_t streams, size_t width, Work work) {
  const nb::gil_scoped_release release;
  if (streams > 1 && width >= kLeastRows)
    ThreadPool::shared().run(streams, work);
  else
    for (size_t r = 0; r < streams; ++r) work(r);
}

// What the kernel sees as a value of a row: halves come as their bits.
const uint8_t* values(const Stack<const uint8_t>& rows) { return rows.data(); }
const Half* values(const Stack<const uint16_t>& rows) {
  return reinterpret_cast<const Half*>(rows.data());
}
const float* values(const Stack<const float>& rows) { return rows.data(); }

template <typename T>
nb::object py_summary_products(const Stack<const T>& rows, const Vector<const int64_t>& streams,
                               const Vector<const int64_t>& counts,
                               const Stack<const float>& features) {
  const size_t asked = streams.shape(0), group = features.shape(1), width = rows.shape(2);
  require(counts.shape(0) == asked && features.shape(0) == asked, "the number of streams");
  require(features.shape(2) == width, "the width of a row");
  for (size_t r = 0; r < asked; ++r)
    require(streams.data()[r] >= 0 && static_cast<size_t>(streams.data()[r]) < rows.shape(0),
            "a stream");
  const size_t most = widest(counts, rows.shape(1));
  std::vector<float> products(asked * group * most, 0.0f);
  for_each_stream(asked, most, [&](size_t r) {
    const auto stream = static_cast<size_t>(streams.data()[r]);
    summary_products(
        values(rows) + stream * rows.shape(1) * width,
        {static_cast<size_t>(counts.data()[r]), width, features.data() + r * group * width, group,
         products.data() + r * group * most, most});
  });
  return to_numpy(std::move(products), {asked, group, most});
}

nb::object py_summary_shares(const Stack<const float>& log_mass,
                             const Vector<const int64_t>& counts,
                             const Table<const float>& outside) {
  const size_t asked = log_mass.shape(0), group = log_mass.shape(1), most = log_mass.shape(2);
  require(counts.shape(0) == asked, "the number of streams");
  require(outside.shape(0) == asked && outside.shape(1) == group, "outside");
  widest(counts, most);
  std::vector<float> shares(asked * most, 0.0f);
  for_each_stream(asked, most, [&](size_t r) {
    summary_shares({log_mass.data() + r * group * most, most, static_cast<size_t>(counts.data()[r]),
                    outside.data() + r * group, group},
                   shares.data() + r * most);
  });
  return to_numpy(std::move(shares), {asked, most});
}

nb::object py_choose_candidates(const Table<const float>& shares,
                                const Vector<const int64_t>& counts,
                                const Vector<const double>& fractions, size_t sinks) {
  const size_t asked = shares.shape(0), most = shares.shape(1);
  require(counts.shape(0) == asked && fractions.shape(0) == asked, "the number of streams");
  widest(counts, most);
  std::vector<uint8_t> chosen(asked * most, 0);
  for_each_stream(asked, most, [&](size_t r) {
    choose_candidates(shares.data() + r * most, static_cast<size_t>(counts.data()[r]),
                      fractions.data()[r], sinks, chosen.data() + r * most);
  });
  return to_numpy(std::move(chosen), {asked, most});
}

}  // namespace

void bind_summary(nb::module_& module) {
  module.def("summary_products", &py_summary_products<uint8_t>, nb::arg("rows").noconvert(),
             nb::arg("streams"), nb::arg("counts"), nb::arg("features"));
  module.def("summary_products", &py_summary_products<uint16_t>, nb::arg("rows").noconvert(),
             nb::arg("streams"), nb::arg("counts"), nb::arg("features"));
  module.def("summary_products", &py_summary_products<float>, nb::arg("rows").noconvert(),
             nb::arg("streams"), nb::arg("counts"), nb::arg("features"));
  module.def("summary_shares", &py_summary_shares, nb::arg("log_mass"), nb::arg("counts"),
             nb::arg("outside"));
  module.def("choose_candidates", &py_choose_candidates, nb::arg("shares"), nb::arg("counts"),
             nb::arg("fractions"), nb::arg("sinks"));
}

}  // namespace nearkv
