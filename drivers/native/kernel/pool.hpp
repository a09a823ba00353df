// Which KV blocks of a stream keep a slot of the hot pool, and the books over them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace nearkv {

// One stream's slots and what was selected. A candidate is what a slot holds, then what was missed.
struct StreamSlots {
  int32_t* resident;        // [slots] block of each slot, -1 where empty
  int64_t* where;           // slot of every block, -1 where not resident
  const int32_t* selected;  // [count], -1 for none
  const int64_t* slot;      // [count], -1 where missed
  const int64_t* values;    // [slots + count] of the candidates
  size_t slots;
  size_t quota;  // slots that may be used, the first ones: at most `slots`
  size_t count;
};

// A block that has to be copied to `slot`: from a slot beyond the quota, or one of those selected.
struct Move {
  bool selected;
  size_t from;  // position among those selected, or the slot that is given up
  size_t slot;
};

struct Admission {
  std::vector<Move> moves;
  size_t demoted = 0;  // residents that left
};

// Keeps the `quota` candidates of highest value (the lower block of equals); those below `pinned`
// stand above all. Those that need a slot take the free ones in order: residents from beyond the
// quota first, then newcomers by position.
Admission admit(const StreamSlots& stream, int32_t pinned);

}  // namespace nearkv
