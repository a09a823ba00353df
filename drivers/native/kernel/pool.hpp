// Which KV blocks of a stream keep a slot of the hot pool, and the books over them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace nearkv {

// One stream's slots and what was selected. A candidate is what a slot holds, then what was missed.
struct StreamSlots {
  int32_t* resident;        // [share] block of each slot, -1 where empty
  int64_t* where;           // slot of every block, -1 where not resident
  const int32_t* selected;  // [count], -1 for none
  const int64_t* slot;      // [count], -1 where missed
  const int64_t* values;    // [share + count] of the candidates
  size_t share;
  size_t count;
};

// A selected block that has moved into a slot.
struct Newcomer {
  size_t position;
  size_t slot;
};

// Keeps the `share` candidates of highest value (the earlier one of equals); those below `pinned`
// stand above all. The i-th newcomer takes the i-th slot that is not kept.
std::vector<Newcomer> admit(const StreamSlots& stream, int32_t pinned);

}  // namespace nearkv
