// Python face of decode attention over KV by address.
#include <nanobind/stl/string.h>

#include <cmath>
#include <string>

#include "attend.hpp"
#include "bindings.hpp"
#include "contract.hpp"
#include "error.hpp"

namespace nearkv {
namespace {

using Queries = HostArray<const float, nb::ndim<3>, nb::c_contig>;
using Blocks = Table<const uint64_t>;
using Addresses = HostArray<const uint64_t, nb::ndim<1>, nb::c_contig>;
using Counts = HostArray<const int64_t, nb::ndim<1>, nb::c_contig>;

void check_streams(const char* name, size_t count, size_t streams) {
  if (count != streams)
    throw ContractError(std::string(name) + " has " + std::to_string(count) +
                        " entries for queries of " + std::to_string(streams) + " streams");
}

AttendInput input_of(const Queries& queries, const Addresses& tails, const Counts& tail_tokens,
                     const std::string& dtype, double scale) {
  const auto d = static_cast<int>(queries.shape(2));
  if (!row_width(d))
    throw ContractError("head size " + std::to_string(queries.shape(2)) +
                        " is not a multiple of 16 from 32 to 256");
  if (!std::isfinite(scale)) throw ContractError("the attention scale must be finite");
  const KvType type = kv_type(dtype);
  const size_t streams = queries.shape(0);
  check_streams("tails", tails.shape(0), streams);
  check_streams("tail tokens", tail_tokens.shape(0), streams);
  for (size_t s = 0; s < streams; ++s) {
    const int64_t count = tail_tokens.data()[s];
    if (count < 0)
      throw ContractError("stream " + std::to_string(s) + " has " + std::to_string(count) +
                          " tail tokens");
    if (count && (!tails.data()[s] || tails.data()[s] % element_bytes(type)))
      throw ContractError("the tail of stream " + std::to_string(s) + " cannot lie at address " +
                          std::to_string(tails.data()[s]));
  }
  return {queries.data(), streams,           queries.shape(1), d, type, scale, nullptr, 0,
          tails.data(),   tail_tokens.data()};
}

nb::object py_attend(const Queries& queries, const Blocks& blocks, const Addresses& tails,
                     const Counts& tail_tokens, const std::string& dtype, double scale,
                     const std::string& isa) {
  AttendInput input = input_of(queries, tails, tail_tokens, dtype, scale);
  check_streams("blocks", blocks.shape(0), input.streams);
  input.blocks = blocks.data();
  input.block_count = blocks.shape(1);
  for (size_t s = 0; s < input.streams; ++s) {
    bool any = tail_tokens.data()[s] > 0;
    for (size_t i = 0; i < input.block_count; ++i) {
      const uint64_t address = input.blocks[s * input.block_count + i];
      any |= address != 0;
      if (address % kBlockAlignment)
        throw ContractError("block " + std::to_string(i) + " of stream " + std::to_string(s) +
                            " does not start at a multiple of 4096 bytes");
    }
    if (!any) throw ContractError("stream " + std::to_string(s) + " has no tokens to attend");
  }
  const Isa& chosen = select_isa(isa);
  std::vector<float> output(input.streams * input.group * input.d);
  {
    const nb::gil_scoped_release release;
    attend(input, chosen, output.data());
  }
  return to_numpy(std::move(output), {input.streams, input.group, static_cast<size_t>(input.d)});
}

nb::object py_tail_mass(const Queries& queries, const Addresses& tails, const Counts& tail_tokens,
                        const std::string& dtype, double scale, const std::string& isa) {
  const AttendInput input = input_of(queries, tails, tail_tokens, dtype, scale);
  const Isa& chosen = select_isa(isa);
  std::vector<int32_t> mass(input.streams * input.group);
  {
    const nb::gil_scoped_release release;
    tail_mass(input, chosen, mass.data());
  }
  return to_numpy(std::move(mass), {input.streams, input.group});
}

void py_copy_blocks(const Addresses& sources, const Addresses& destinations, size_t length) {
  if (sources.shape(0) != destinations.shape(0))
    throw ContractError(std::to_string(sources.shape(0)) + " sources cannot be copied to " +
                        std::to_string(destinations.shape(0)) + " destinations");
  const size_t count = sources.shape(0);
  for (size_t i = 0; i < count; ++i)
    if (!sources.data()[i] || !destinations.data()[i])
      throw ContractError("block " + std::to_string(i) + " of the copy has no address");
  const nb::gil_scoped_release release;
  copy_blocks(sources.data(), destinations.data(), count, length);
}

}  // namespace

void bind_attend(nb::module_& module) {
  module.def("attend", &py_attend, nb::arg("queries"), nb::arg("blocks"), nb::arg("tails"),
             nb::arg("tail_tokens"), nb::arg("dtype"), nb::arg("scale"), nb::arg("isa") = "");
  module.def("tail_mass", &py_tail_mass, nb::arg("queries"), nb::arg("tails"),
             nb::arg("tail_tokens"), nb::arg("dtype"), nb::arg("scale"), nb::arg("isa") = "");
  module.def("copy_blocks", &py_copy_blocks, nb::arg("sources"), nb::arg("destinations"),
             nb::arg("length"));
}

}  // namespace nearkv
