// Python face of the hot pool: where selected blocks are, and which of them stay.
#include <nanobind/stl/tuple.h>

#include <string>
#include <tuple>
#include <vector>

#include "attend.hpp"
#include "bindings.hpp"
#include "error.hpp"
#include "pool.hpp"

namespace nearkv {
namespace {

void check_shape(const char* name, bool fits) {
  if (!fits) throw ContractError(std::string(name) + " does not have the pool's shape");
}

// Where the bytes of block `column` of `stream` lie.
uint64_t address_in(const Stack<const uint8_t>& blocks, size_t stream, size_t column) {
  return reinterpret_cast<uintptr_t>(blocks.data() +
                                     (stream * blocks.shape(1) + column) * blocks.shape(2));
}

void check_blocks(const Table<const int32_t>& selected, size_t known) {
  const size_t count = selected.shape(0) * selected.shape(1);
  for (size_t i = 0; i < count; ++i)
    if (selected.data()[i] >= static_cast<int64_t>(known))
      throw ContractError("block " + std::to_string(selected.data()[i]) + " is beyond the pool's " +
                          std::to_string(known));
}

void check_quota(const Vector<const int64_t>& quota, const Table<const uint64_t>& addresses) {
  const size_t slots = addresses.shape(1);
  for (size_t s = 0; s < addresses.shape(0); ++s) {
    const int64_t usable = quota.data()[s];
    if (usable < 0 || usable > static_cast<int64_t>(slots))
      throw ContractError("a stream of " + std::to_string(slots) + " slots cannot use " +
                          std::to_string(usable));
    for (int64_t i = 0; i < usable; ++i)
      if (!addresses.data()[s * slots + static_cast<size_t>(i)])
        throw ContractError("slot " + std::to_string(i) + " of stream " + std::to_string(s) +
                            " has no address");
  }
}

// Slots of the selected blocks, (stream, position) of those that have none, and how many of the
// others are no pinned ones.
std::tuple<nb::object, nb::object, nb::object, size_t> py_look_up(
    const Table<const int64_t>& where, const Table<const int32_t>& selected, int32_t pinned) {
  const size_t streams = selected.shape(0), count = selected.shape(1);
  check_shape("where", where.shape(0) == streams);
  check_blocks(selected, where.shape(1));
  std::vector<int64_t> slot(streams * count), missed_streams, missed_positions;
  size_t hits = 0;
  for (size_t s = 0; s < streams; ++s)
    for (size_t i = 0; i < count; ++i) {
      const int32_t block = selected.data()[s * count + i];
      const int64_t found = block < 0 ? -1 : where.data()[s * where.shape(1) + block];
      slot[s * count + i] = found;
      hits += found >= 0 && block >= pinned;
      if (block < 0 || found >= 0) continue;
      missed_streams.push_back(static_cast<int64_t>(s));
      missed_positions.push_back(static_cast<int64_t>(i));
    }
  const size_t misses = missed_streams.size();
  return {to_numpy(std::move(slot), {streams, count}),
          to_numpy(std::move(missed_streams), {misses}),
          to_numpy(std::move(missed_positions), {misses}), hits};
}

// Host address of every selected block: its slot's, or where it lands.
nb::object py_locate(const Table<const int32_t>& selected, const Table<const int64_t>& slot,
                     const Table<const uint64_t>& addresses, const Table<const uint64_t>& landing) {
  const size_t streams = selected.shape(0), count = selected.shape(1), slots = addresses.shape(1);
  check_shape("slot", slot.shape(0) == streams && slot.shape(1) == count);
  check_shape("addresses", addresses.shape(0) == streams);
  check_shape("landing", landing.shape(0) == streams && landing.shape(1) >= count);
  std::vector<uint64_t> found(streams * count, 0);
  for (size_t s = 0; s < streams; ++s)
    for (size_t i = 0; i < count; ++i) {
      const size_t at = s * count + i;
      if (selected.data()[at] < 0) continue;
      const int64_t held = slot.data()[at];
      if (held >= static_cast<int64_t>(slots))
        throw ContractError("slot " + std::to_string(held) + " is beyond the pool's " +
                            std::to_string(slots));
      found[at] = held >= 0 ? addresses.data()[s * slots + static_cast<size_t>(held)]
                            : landing.data()[s * landing.shape(1) + i];
    }
  return to_numpy(std::move(found), {streams, count});
}

std::tuple<size_t, size_t> py_admit(const Table<int32_t>& resident, const Table<int64_t>& where,
                                    const Table<const uint64_t>& addresses,
                                    const Vector<const int64_t>& quota,
                                    const Table<const int32_t>& selected,
                                    const Table<const int64_t>& slot,
                                    const Table<const int64_t>& values, int32_t pinned,
                                    const Stack<const uint8_t>& fetched) {
  const size_t streams = resident.shape(0), slots = resident.shape(1), count = selected.shape(1);
  check_shape("where", where.shape(0) == streams);
  check_shape("addresses", addresses.shape(0) == streams && addresses.shape(1) == slots);
  check_shape("quota", quota.shape(0) == streams);
  check_shape("selected", selected.shape(0) == streams);
  check_shape("slot", slot.shape(0) == streams && slot.shape(1) == count);
  check_shape("values", values.shape(0) == streams && values.shape(1) == slots + count);
  check_shape("fetched", fetched.shape(0) == streams && fetched.shape(1) >= count);
  check_blocks(selected, where.shape(1));
  check_quota(quota, addresses);
  const nb::gil_scoped_release release;
  std::vector<uint64_t> sources, destinations;
  size_t promoted = 0, demoted = 0;
  for (size_t s = 0; s < streams; ++s) {
    const StreamSlots stream{
        resident.data() + s * slots,          where.data() + s * where.shape(1),
        selected.data() + s * count,          slot.data() + s * count,
        values.data() + s * (slots + count),  slots,
        static_cast<size_t>(quota.data()[s]), count};
    const uint64_t* const at = addresses.data() + s * slots;
    const Admission admission = admit(stream, pinned);
    for (const Move& move : admission.moves) {
      sources.push_back(move.selected ? address_in(fetched, s, move.from) : at[move.from]);
      destinations.push_back(at[move.slot]);
      promoted += move.selected;
    }
    demoted += admission.demoted;
  }
  copy_blocks(sources.data(), destinations.data(), sources.size(), fetched.shape(2));
  return {promoted, demoted};
}

}  // namespace

void bind_pool(nb::module_& module) {
  module.def("look_up", &py_look_up, nb::arg("where"), nb::arg("selected"), nb::arg("pinned"));
  module.def("locate", &py_locate, nb::arg("selected"), nb::arg("slot"), nb::arg("addresses"),
             nb::arg("landing"));
  module.def("admit", &py_admit, nb::arg("resident"), nb::arg("where"), nb::arg("addresses"),
             nb::arg("quota"), nb::arg("selected"), nb::arg("slot"), nb::arg("values"),
             nb::arg("pinned"), nb::arg("fetched"));
}

}  // namespace nearkv
