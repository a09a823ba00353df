// Python face of kernel starts, folds and the choice of the best blocks.
#include <nanobind/stl/string.h>

#include <chrono>
#include <optional>
#include <string>

#include "bindings.hpp"
#include "contract.hpp"
#include "error.hpp"
#include "reduce.hpp"
#include "score.hpp"

namespace nearkv {
namespace {

using Blocks = HostArray<const uint8_t, nb::ndim<2>, nb::c_contig>;
using Heads = HostArray<const int8_t, nb::ndim<2>, nb::c_contig>;
using Mantissas = HostArray<const uint16_t, nb::ndim<1>, nb::c_contig>;
using Shifts = HostArray<const uint8_t, nb::ndim<1>, nb::c_contig>;
using Ints = HostArray<const int32_t, nb::ndim<1>, nb::c_contig>;
using Masses = HostArray<const int32_t, nb::ndim<2>, nb::c_contig>;
using Memory = HostArray<const uint8_t, nb::ndim<1>, nb::c_contig>;
using Addresses = HostArray<const uint64_t, nb::ndim<1>, nb::c_contig>;
using Counts = HostArray<const uint32_t, nb::ndim<1>, nb::c_contig>;
using RunMantissas = HostArray<const uint16_t, nb::ndim<2>, nb::c_contig>;
using RunShifts = HostArray<const uint8_t, nb::ndim<2>, nb::c_contig>;

std::string text(size_t number) { return std::to_string(number); }

// Reads request tuples and keeps every array that a command points to.
class RequestReader {
 public:
  std::vector<nb::ndarray<>> kept;

  Command read(const nb::tuple& request) {
    if (request.size() != 5)
      throw ContractError("a request is (q, bits, k, initial total or None, runs)");
    Command command = read_query(request);
    size_t blocks = 0;
    for (nb::handle run : nb::cast<nb::sequence>(request[4])) {
      command.runs.push_back(read_run(nb::cast<nb::tuple>(run), command));
      blocks += command.runs.back().count;
    }
    if (blocks > UINT32_MAX)
      throw ContractError("a request holds " + text(blocks) + " blocks: at most 2^32 - 1");
    return command;
  }

  // The same with the runs as arrays over them, block addresses counting from the start of
  // `memory`.
  Command read_descriptors(const Memory& memory, const nb::tuple& request) {
    if (request.size() != 9)
      throw ContractError(
          "a command is (q, bits, k, initial total or None, addresses, blocks, c, r, b)");
    Command command = read_query(request);
    const auto addresses = keep<Addresses>(request[4]);
    const auto blocks = keep<Counts>(request[5]);
    const auto c = keep<RunMantissas>(request[6]);
    const auto r = keep<RunShifts>(request[7]);
    const auto b = keep<Masses>(request[8]);
    const size_t runs = addresses.shape(0), group = static_cast<size_t>(command.group);
    for (const size_t length : {blocks.shape(0), c.shape(0), r.shape(0), b.shape(0)})
      if (length != runs)
        throw ContractError(text(length) + " entries for a command of " + text(runs) + " runs");
    check_heads("c", c.shape(1), command.group);
    check_heads("r", r.shape(1), command.group);
    check_heads("b", b.shape(1), command.group);
    for (size_t i = 0; i < runs * group; ++i) check_shift(r.data()[i]);
    const size_t size = block_bytes(command.width, command.bits);
    command.runs.reserve(runs);
    for (size_t i = 0; i < runs; ++i) {
      const uint64_t address = addresses.data()[i], bytes = blocks.data()[i] * uint64_t{size};
      if (address > memory.shape(0) || bytes > memory.shape(0) - address)
        throw ContractError(text(blocks.data()[i]) + " score blocks at address " + text(address) +
                            " leave the memory of " + text(memory.shape(0)) + " bytes");
      command.runs.push_back({memory.data() + address,
                              blocks.data()[i],
                              {c.data() + i * group, r.data() + i * group, b.data() + i * group}});
    }
    return command;
  }

 private:
  // What every command begins with: q, bits, k, initial total or None.
  Command read_query(const nb::tuple& request) {
    Command command{};
    const auto q = keep<Heads>(request[0]);
    command.q = q.data();
    command.group = static_cast<int>(q.shape(0));
    command.width = static_cast<int>(q.shape(1));
    command.bits = nb::cast<int>(request[1]);
    const auto k = nb::cast<int64_t>(request[2]);
    check_query(q.shape(0), q.shape(1), command.bits, k);
    command.mode = k ? Mode::kTopK : Mode::kMass;
    command.k = static_cast<uint32_t>(k);
    if (!request[3].is_none()) {
      const auto total = keep<Ints>(request[3]);
      check_heads("the initial total", total.shape(0), command.group);
      command.initial_total = total.data();
    }
    return command;
  }

  template <typename Array>
  Array keep(nb::handle value) {
    Array array = nb::cast<Array>(value);
    kept.emplace_back(array);
    return array;
  }

  static void check_query(size_t group, size_t width, int bits, int64_t k) {
    if (group < 1 || group > kMaxGroup)
      throw ContractError("q must hold 1..16 heads, not " + text(group));
    if (width != 32 && width != 64 && width != 128 && width != 256)
      throw ContractError("q has rows of " + text(width) +
                          " values: 32, 64, 128 or 256 are possible");
    if (bits != 4 && bits != 8)
      throw ContractError("score blocks hold 4 or 8 bits per value, not " + std::to_string(bits));
    if (k < 0 || k > kMaxTopK)
      throw ContractError("k must lie in 1..2048, not " + std::to_string(k));
  }

  static void check_heads(const char* name, size_t length, int group) {
    if (length != static_cast<size_t>(group))
      throw ContractError(std::string(name) + " has " + text(length) + " values for " +
                          text(group) + " heads");
  }

  static void check_shift(uint8_t shift) {
    if (shift > 63) throw ContractError("a right shift of " + text(shift) + ": at most 63");
  }

  Run read_run(const nb::tuple& run, const Command& command) {
    if (run.size() != 4) throw ContractError("a run is (blocks, c, r, b)");
    const auto blocks = keep<Blocks>(run[0]);
    const size_t size = block_bytes(command.width, command.bits);
    if (blocks.shape(1) != size)
      throw ContractError("score blocks of " + text(blocks.shape(1)) +
                          " bytes for a query of row width " + text(command.width) + " at " +
                          text(command.bits) + " bits, which has " + text(size));
    const auto c = keep<Mantissas>(run[1]);
    const auto r = keep<Shifts>(run[2]);
    const auto b = keep<Ints>(run[3]);
    check_heads("c", c.shape(0), command.group);
    check_heads("r", r.shape(0), command.group);
    check_heads("b", b.shape(0), command.group);
    for (int h = 0; h < command.group; ++h) check_shift(r.data()[h]);
    return {blocks.data(), static_cast<uint32_t>(blocks.shape(0)), {c.data(), r.data(), b.data()}};
  }
};

// A kernel start and the arrays that it reads.
class PyStart {
 public:
  PyStart(const nb::sequence& requests, const std::string& isa) {
    RequestReader reader;
    std::vector<Command> commands;
    for (nb::handle request : requests)
      commands.push_back(reader.read(nb::cast<nb::tuple>(request)));
    begin(reader, std::move(commands), select_isa(isa));
  }

  PyStart(const Memory& memory, const nb::sequence& requests) {
    RequestReader reader;
    std::vector<Command> commands;
    for (nb::handle request : requests)
      commands.push_back(reader.read_descriptors(memory, nb::cast<nb::tuple>(request)));
    reader.kept.emplace_back(memory);
    begin(reader, std::move(commands), select_isa());
  }

  ~PyStart() {
    const nb::gil_scoped_release release;
    start_.reset();
  }

  bool done() const { return start_->done(); }
  // Seconds of the monotonic clock, as Python's time.monotonic counts them.
  double finished() const {
    return std::chrono::duration<double>(start_->finished().time_since_epoch()).count();
  }

  nb::list wait() {
    std::vector<Result>* results;
    {
      const nb::gil_scoped_release release;
      results = &start_->wait();
    }
    if (!results_.is_valid()) {  // looked at under the GIL: several threads may wait
      results_ = nb::list();
      for (size_t i = 0; i < results->size(); ++i)
        results_.append(to_python((*results)[i], groups_[i]));
      kept_.clear();
    }
    return results_;
  }

 private:
  void begin(RequestReader& reader, std::vector<Command> commands, const Isa& isa) {
    kept_ = std::move(reader.kept);
    for (const Command& command : commands) groups_.push_back(command.group);
    const nb::gil_scoped_release release;
    start_ = std::make_unique<Start>(std::move(commands), isa);
  }

  static nb::tuple to_python(Result& result, size_t group) {
    const size_t bad = result.bad.size(), best = result.positions.size();
    nb::object log_mass = nb::none();
    if (result.log_mass.size() || !result.blocks)
      log_mass = to_numpy(std::move(result.log_mass), {group, result.blocks});
    return nb::make_tuple(to_numpy(std::move(result.total), {group}),
                          to_numpy(std::move(result.bad), {bad}), log_mass,
                          to_numpy(std::move(result.positions), {best}),
                          to_numpy(std::move(result.priorities), {best}));
  }

  std::vector<nb::ndarray<>> kept_;
  std::vector<size_t> groups_;
  std::unique_ptr<Start> start_;
  nb::list results_{nb::steal<nb::list>(nullptr)};
};

nb::object py_fold_total(const Ints& initial, const Masses& log_mass) {
  const size_t heads = log_mass.shape(0), blocks = log_mass.shape(1);
  if (initial.shape(0) != heads)
    throw ContractError("the initial total has " + text(initial.shape(0)) + " values for " +
                        text(heads) + " heads");
  std::vector<int32_t> totals(heads);
  {
    const nb::gil_scoped_release release;
    for (size_t h = 0; h < heads; ++h) {
      TotalFold fold(initial.data()[h]);
      for (size_t i = 0; i < blocks; ++i) fold.add(log_mass.data()[h * blocks + i]);
      totals[h] = fold.total();
    }
  }
  return to_numpy(std::move(totals), {heads});
}

nb::tuple py_top_k(const Masses& log_mass, const Ints& total, int64_t k) {
  if (k < 1 || k > kMaxTopK) throw ContractError("k must lie in 1..2048, not " + std::to_string(k));
  if (total.shape(0) != log_mass.shape(0))
    throw ContractError("the total has " + text(total.shape(0)) + " values for " +
                        text(log_mass.shape(0)) + " heads");
  TopK best;
  {
    const nb::gil_scoped_release release;
    best = top_k(log_mass.data(), total.data(), static_cast<int>(log_mass.shape(0)),
                 log_mass.shape(1), static_cast<size_t>(k));
  }
  const size_t count = best.positions.size();
  return nb::make_tuple(to_numpy(std::move(best.positions), {count}),
                        to_numpy(std::move(best.priorities), {count}));
}

}  // namespace

void bind_score(nb::module_& module) {
  nb::class_<PyStart>(module, "Start")
      .def(nb::init<const Memory&, nb::sequence>(), nb::arg("memory"), nb::arg("commands"))
      .def(nb::init<nb::sequence, std::string>(), nb::arg("requests"), nb::arg("isa") = "")
      .def("done", &PyStart::done)
      .def("finished", &PyStart::finished)
      .def("wait", &PyStart::wait);
  module.def("fold_total", &py_fold_total, nb::arg("initial"), nb::arg("log_mass"));
  module.def("top_k", &py_top_k, nb::arg("log_mass"), nb::arg("total"), nb::arg("k"));
  module.def("isas", [] {
    nb::list names;
    for (const Isa* isa : available_isas()) names.append(nb::str(isa->name));
    return nb::tuple(names);
  });
}

}  // namespace nearkv
