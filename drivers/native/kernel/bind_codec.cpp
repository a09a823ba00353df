// Python face of the codec and of CRC-32C.
#include <nanobind/stl/string.h>

#include <atomic>
#include <string>

#include "bindings.hpp"
#include "contract.hpp"
#include "encode.hpp"
#include "error.hpp"
#include "thread_pool.hpp"

namespace nearkv {
namespace {

// [segments, tokens, d]: any stride but the last, which is 1.
using Keys = HostArray<const float, nb::ndim<3>>;
using Centres = HostArray<const float, nb::ndim<2>, nb::c_contig>;
using Scales = HostArray<const double, nb::ndim<1>, nb::c_contig>;
using Streams = HostArray<const uint64_t, nb::ndim<1>, nb::c_contig>;
using FirstBlocks = HostArray<const uint32_t, nb::ndim<1>, nb::c_contig>;
using Bytes = HostArray<const uint8_t, nb::ndim<1>, nb::c_contig>;
using Addresses = HostArray<const uint64_t, nb::ndim<1>, nb::c_contig>;
using Rows = HostArray<const uint8_t, nb::ndim<2>>;

void check_keys(const Keys& keys, int bits) {
  if (bits != 4 && bits != 8)
    throw ContractError("score blocks hold 4 or 8 bits per value, not " + std::to_string(bits));
  if (!row_width(static_cast<int>(keys.shape(2))))
    throw ContractError("head size " + std::to_string(keys.shape(2)) +
                        " is not a multiple of 16 from 32 to 256");
  if (!keys.shape(1)) throw ContractError("keys must hold at least one token");
  if (keys.stride(2) != 1)
    throw ContractError("the values of a key must follow each other in memory");
}

void check_length(const char* name, size_t length, size_t segments) {
  if (length != segments)
    throw ContractError(std::string(name) + " has " + std::to_string(length) + " entries for " +
                        std::to_string(segments) + " segments");
}

// Adopted centres [segments][d] and scales [segments], or nothing.
struct Adopted {
  const float* centres = nullptr;
  const double* scales = nullptr;
};

Adopted read_adopted(const nb::object& centres, const nb::object& scales, const Keys& keys) {
  if (centres.is_none()) return {};
  const auto c = nb::cast<Centres>(centres);
  const auto s = nb::cast<Scales>(scales);
  check_length("the adopted centres", c.shape(0), keys.shape(0));
  check_length("the adopted scales", s.shape(0), keys.shape(0));
  if (c.shape(1) != keys.shape(2))
    throw ContractError("an adopted centre of head size " + std::to_string(c.shape(1)) +
                        " for keys of head size " + std::to_string(keys.shape(2)));
  return {c.data(), s.data()};
}

SegmentKeys segment_of(const Keys& keys, size_t i, int bits, const Adopted& adopted) {
  const KeyRows rows{keys.data() + static_cast<ptrdiff_t>(i) * keys.stride(0), keys.stride(1),
                     keys.shape(1), static_cast<int>(keys.shape(2))};
  if (!adopted.centres) return {rows, bits, 0, 0, nullptr, 0};
  return {rows, bits, 0, 0, adopted.centres + i * rows.d, adopted.scales[i]};
}

nb::tuple py_encode_segments(const Keys& keys, int bits, const Streams& streams,
                             const FirstBlocks& first_blocks, const nb::object& centres,
                             const nb::object& scales, const std::string& isa) {
  check_keys(keys, bits);
  const size_t segments = keys.shape(0), d = keys.shape(2);
  check_length("streams", streams.shape(0), segments);
  check_length("first blocks", first_blocks.shape(0), segments);
  const Adopted adopted = read_adopted(centres, scales, keys);
  const Isa& chosen = select_isa(isa);
  const size_t size = block_bytes(row_width(static_cast<int>(d)), bits);
  const size_t blocks = (keys.shape(1) + kBlockTokens - 1) / kBlockTokens;
  std::vector<float> centre(segments * d);
  std::vector<double> scale(segments);
  std::vector<uint8_t> bytes(segments * blocks * size);
  {
    const nb::gil_scoped_release release;
    ThreadPool::shared().run(segments, [&](size_t i) {
      SegmentKeys input = segment_of(keys, i, bits, adopted);
      input.stream = streams.data()[i];
      input.first_block = first_blocks.data()[i];
      encode_segment(input,
                     {centre.data() + i * d, scale.data() + i, bytes.data() + i * blocks * size},
                     chosen);
    });
  }
  return nb::make_tuple(to_numpy(std::move(bytes), {segments, blocks, size}),
                        to_numpy(std::move(centre), {segments, d}),
                        to_numpy(std::move(scale), {segments}));
}

nb::object py_can_adopt(const Keys& keys, int bits, const nb::object& centres,
                        const nb::object& scales, const std::string& isa) {
  check_keys(keys, bits);
  const Adopted adopted = read_adopted(centres, scales, keys);
  if (!adopted.centres)
    throw ContractError("adopting needs the centres and scales of earlier segments");
  const Isa& chosen = select_isa(isa);
  std::vector<uint8_t> fits(keys.shape(0));
  {
    const nb::gil_scoped_release release;
    ThreadPool::shared().run(fits.size(), [&](size_t i) {
      fits[i] = fits_adopted(segment_of(keys, i, bits, adopted), chosen);
    });
  }
  const size_t count = fits.size();
  return to_numpy(std::move(fits), {count});
}

nb::tuple py_encode_queries(const HostArray<const float, nb::ndim<3>, nb::c_contig>& queries,
                            const HostArray<const float, nb::ndim<3>, nb::c_contig>& centres,
                            const HostArray<const double, nb::ndim<2>, nb::c_contig>& scales,
                            double attention_scale) {
  const size_t streams = queries.shape(0), group = queries.shape(1), d = queries.shape(2),
               segments = scales.shape(1);
  if (group < 1 || group > kMaxGroup)
    throw ContractError("queries must hold 1..16 heads per stream, not " + std::to_string(group));
  const int width = row_width(static_cast<int>(d));
  if (!width)
    throw ContractError("head size " + std::to_string(d) +
                        " is not a multiple of 16 from 32 to 256");
  if (centres.shape(0) != streams || scales.shape(0) != streams || centres.shape(1) != segments)
    throw ContractError(
        "centres and scales must be [streams, segments, ...] like the queries' streams");
  if (centres.shape(2) != d)
    throw ContractError("queries of head size " + std::to_string(d) +
                        " cannot score keys of head size " + std::to_string(centres.shape(2)));
  std::vector<int8_t> q(streams * group * width);
  std::vector<uint16_t> c(streams * segments * group);
  std::vector<uint8_t> r(c.size());
  std::vector<int32_t> b(c.size());
  encode_queries({queries.data(), centres.data(), scales.data(), streams, segments,
                  static_cast<int>(group), static_cast<int>(d), attention_scale},
                 {q.data(), c.data(), r.data(), b.data()}, select_isa());
  return nb::make_tuple(to_numpy(std::move(q), {streams, group, static_cast<size_t>(width)}),
                        to_numpy(std::move(c), {streams, segments, group}),
                        to_numpy(std::move(r), {streams, segments, group}),
                        to_numpy(std::move(b), {streams, segments, group}));
}

uint32_t py_crc32c(const Bytes& data, uint32_t seed, const std::string& isa) {
  const Isa& chosen = select_isa(isa);
  const nb::gil_scoped_release release;
  return chosen.crc32c(seed, data.data(), data.shape(0));
}

// CRC-32C of `count` pieces of `length` bytes, the i-th at piece(i).
template <typename Piece>
nb::object crc32c_of(size_t count, size_t length, const Isa& isa, const Piece& piece) {
  std::vector<uint32_t> sums(count);
  constexpr size_t kTaskBytes = 256 * 1024;
  const size_t per_task = std::max<size_t>(1, kTaskBytes / std::max<size_t>(1, length));
  {
    const nb::gil_scoped_release release;
    ThreadPool::shared().run((count + per_task - 1) / per_task, [&](size_t task) {
      for (size_t i = task * per_task; i < std::min(count, (task + 1) * per_task); ++i)
        sums[i] = isa.crc32c(0, piece(i), length);
    });
  }
  return to_numpy(std::move(sums), {count});
}

nb::object py_crc32c_rows(const Rows& rows, const std::string& isa) {
  if (rows.shape(1) > 1 && rows.stride(1) != 1)
    throw ContractError("the bytes of a row must follow each other in memory");
  return crc32c_of(rows.shape(0), rows.shape(1), select_isa(isa), [&rows](size_t i) {
    return rows.data() + static_cast<ptrdiff_t>(i) * rows.stride(0);
  });
}

nb::object py_crc32c_at(const Addresses& addresses, size_t length) {
  for (size_t i = 0; i < addresses.shape(0); ++i)
    if (!addresses.data()[i]) throw ContractError("piece " + std::to_string(i) + " has no address");
  return crc32c_of(addresses.shape(0), length, select_isa(), [&addresses](size_t i) {
    return reinterpret_cast<const uint8_t*>(static_cast<uintptr_t>(addresses.data()[i]));
  });
}

}  // namespace

void bind_codec(nb::module_& module) {
  module.def("encode_segments", &py_encode_segments, nb::arg("keys"), nb::arg("bits"),
             nb::arg("streams"), nb::arg("first_blocks"), nb::arg("centres").none(),
             nb::arg("scales").none(), nb::arg("isa") = "");
  module.def("can_adopt", &py_can_adopt, nb::arg("keys"), nb::arg("bits"), nb::arg("centres"),
             nb::arg("scales"), nb::arg("isa") = "");
  module.def("encode_queries", &py_encode_queries, nb::arg("queries"), nb::arg("centres"),
             nb::arg("scales"), nb::arg("attention_scale"));
  module.def("crc32c", &py_crc32c, nb::arg("data"), nb::arg("seed") = 0, nb::arg("isa") = "");
  module.def("crc32c_rows", &py_crc32c_rows, nb::arg("rows"), nb::arg("isa") = "");
  module.def("crc32c_at", &py_crc32c_at, nb::arg("addresses"), nb::arg("length"));
}

}  // namespace nearkv
