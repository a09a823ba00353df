// Python face of cold K and V.
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <string>
#include <tuple>

#include "attend.hpp"
#include "bindings.hpp"
#include "error.hpp"
#include "row_codec.hpp"

namespace nearkv {
namespace {

using Addresses = HostArray<const uint64_t, nb::ndim<1>, nb::c_contig>;
using Codes = HostArray<uint8_t, nb::ndim<2>, nb::c_contig>;
using Scales = HostArray<const uint16_t, nb::ndim<2>, nb::c_contig>;

RowFormat format_of(int head_dim, int bits, const std::string& dtype) {
  if (!row_width(head_dim))
    throw ContractError("head size " + std::to_string(head_dim) +
                        " is not a multiple of 16 from 32 to 256");
  if (bits != 4 && bits != 8)
    throw ContractError("cold K and V hold 8 or 4 bits per value, not " + std::to_string(bits));
  return {head_dim, bits, kv_type(dtype)};
}

void check_addresses(const char* name, const Addresses& addresses, size_t count) {
  if (addresses.shape(0) != count)
    throw ContractError(std::to_string(addresses.shape(0)) + " " + name + " for " +
                        std::to_string(count) + " blocks");
  for (size_t i = 0; i < count; ++i)
    if (!addresses.data()[i] || addresses.data()[i] % alignof(float))
      throw ContractError("block " + std::to_string(i) + " of the " + name +
                          " cannot lie at address " + std::to_string(addresses.data()[i]));
}

std::tuple<nb::object, size_t> py_encode_blocks(const Addresses& sources, const Codes& codes,
                                                int head_dim, int bits, const std::string& dtype,
                                                const std::string& isa) {
  const RowFormat format = format_of(head_dim, bits, dtype);
  const size_t count = codes.shape(0);
  check_addresses("sources", sources, count);
  if (codes.shape(1) < kBlockRows * code_bytes(format))
    throw ContractError("the codes of a block do not fit in " + std::to_string(codes.shape(1)) +
                        " bytes");
  const Isa& chosen = select_isa(isa);
  std::vector<uint16_t> scales(count * kBlockRows);
  size_t bad;
  {
    const nb::gil_scoped_release release;
    bad = encode_blocks(format, sources.data(), count, codes.data(), codes.shape(1), scales.data(),
                        chosen);
  }
  return {to_numpy(std::move(scales), {count, kBlockRows}), bad};
}

void py_decode_blocks(const Addresses& codes, const Scales& scales, const Addresses& targets,
                      int head_dim, int bits, const std::string& dtype, const std::string& isa) {
  const RowFormat format = format_of(head_dim, bits, dtype);
  const size_t count = scales.shape(0);
  check_addresses("codes", codes, count);
  check_addresses("targets", targets, count);
  if (scales.shape(1) != kBlockRows)
    throw ContractError("a block has 64 scales, not " + std::to_string(scales.shape(1)));
  const Isa& chosen = select_isa(isa);
  const nb::gil_scoped_release release;
  decode_blocks(format, codes.data(), scales.data(), targets.data(), count, chosen);
}

}  // namespace

void bind_row_codec(nb::module_& module) {
  module.def("encode_blocks", &py_encode_blocks, nb::arg("sources"), nb::arg("codes"),
             nb::arg("head_dim"), nb::arg("bits"), nb::arg("dtype"), nb::arg("isa") = "");
  module.def("decode_blocks", &py_decode_blocks, nb::arg("codes"), nb::arg("scales"),
             nb::arg("targets"), nb::arg("head_dim"), nb::arg("bits"), nb::arg("dtype"),
             nb::arg("isa") = "");
}

}  // namespace nearkv
