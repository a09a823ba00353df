// Python face of the hot pool's admission.
#include <string>

#include "attend.hpp"
#include "bindings.hpp"
#include "error.hpp"
#include "pool.hpp"

namespace nearkv {
namespace {

template <typename T>
using Table = HostArray<T, nb::ndim<2>, nb::c_contig>;
template <typename T>
using BlockTable = HostArray<T, nb::ndim<3>, nb::c_contig>;

void check_shape(const char* name, bool fits) {
  if (!fits) throw ContractError(std::string(name) + " does not have the pool's shape");
}

// Where the bytes of block `column` of `stream` lie.
template <typename T>
uint64_t address_in(const BlockTable<T>& blocks, size_t stream, size_t column) {
  return reinterpret_cast<uintptr_t>(blocks.data() +
                                     (stream * blocks.shape(1) + column) * blocks.shape(2));
}

size_t py_admit(const Table<int32_t>& resident, const Table<int64_t>& where,
                const Table<const int32_t>& selected, const Table<const int64_t>& slot,
                const Table<const int64_t>& values, int32_t pinned,
                const BlockTable<const uint8_t>& fetched, const BlockTable<uint8_t>& memory) {
  const size_t streams = resident.shape(0), share = resident.shape(1), count = selected.shape(1);
  check_shape("where", where.shape(0) == streams);
  check_shape("selected", selected.shape(0) == streams);
  check_shape("slot", slot.shape(0) == streams && slot.shape(1) == count);
  check_shape("values", values.shape(0) == streams && values.shape(1) == share + count);
  check_shape("fetched", fetched.shape(0) == streams && fetched.shape(1) >= count);
  check_shape("memory", memory.shape(0) == streams && memory.shape(1) == share &&
                            memory.shape(2) == fetched.shape(2));
  for (size_t i = 0; i < streams * count; ++i)
    if (selected.data()[i] >= static_cast<int64_t>(where.shape(1)))
      throw ContractError("block " + std::to_string(selected.data()[i]) + " is beyond the pool's " +
                          std::to_string(where.shape(1)));
  const nb::gil_scoped_release release;
  std::vector<uint64_t> sources, destinations;
  for (size_t s = 0; s < streams; ++s) {
    const StreamSlots stream{resident.data() + s * share,
                             where.data() + s * where.shape(1),
                             selected.data() + s * count,
                             slot.data() + s * count,
                             values.data() + s * (share + count),
                             share,
                             count};
    for (const Newcomer& newcomer : admit(stream, pinned)) {
      sources.push_back(address_in(fetched, s, newcomer.position));
      destinations.push_back(address_in(memory, s, newcomer.slot));
    }
  }
  copy_blocks(sources.data(), destinations.data(), sources.size(), fetched.shape(2));
  return sources.size();
}

}  // namespace

void bind_pool(nb::module_& module) {
  module.def("admit", &py_admit, nb::arg("resident"), nb::arg("where"), nb::arg("selected"),
             nb::arg("slot"), nb::arg("values"), nb::arg("pinned"), nb::arg("fetched"),
             nb::arg("memory"));
}

}  // namespace nearkv
