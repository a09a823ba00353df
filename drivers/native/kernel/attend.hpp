// Decode attention over KV where it lies: blocks by address, and the newest tokens of each stream.
#pragma once

#include <cstddef>
#include <cstdint>

#include "isa.hpp"

namespace nearkv {

static inline size_t element_bytes(KvType type) { return type == KvType::kFloat32 ? 4 : 2; }

// One query per head of every stream. Addresses must stay readable until the call returns.
struct AttendInput {
  const float* queries;  // [streams][group][d]
  size_t streams;
  size_t group;
  int d;
  KvType type;
  double scale;
  const uint64_t* blocks;  // [streams][block_count] addresses of 32 tokens each, 0 for none
  size_t block_count;
  const uint64_t* tails;       // [streams] addresses of the newest tokens
  const int64_t* tail_tokens;  // [streams]
};

// softmax(scale q K^T) V over a stream's blocks and tail: output [streams][group][d]. Runs on the
// shared pool.
void attend(const AttendInput& input, const Isa& isa, float* output);

// log2 of the sum of exp(scale q k) over the tail, with 8 fraction bits: mass [streams][group].
void tail_mass(const AttendInput& input, const Isa& isa, int32_t* mass);

// Copies `count` pieces of `length` bytes that do not overlap; large jobs run on the shared pool.
void copy_blocks(const uint64_t* sources, const uint64_t* destinations, size_t count,
                 size_t length);

extern const AttendTokens kAttendPortable;
#if defined(__x86_64__)
extern const AttendTokens kAttendAvx2;
extern const AttendTokens kAttendAvx512;
#endif

}  // namespace nearkv
