#include "row_codec.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "thread_pool.hpp"

namespace nearkv {
namespace {

// Blocks per task: some microseconds of work each.
constexpr size_t kTaskBlocks = 8;

template <typename Task>
void for_blocks(size_t count, const Task& task) {
  ThreadPool::shared().run((count + kTaskBlocks - 1) / kTaskBlocks, [&](size_t part) {
    for (size_t i = part * kTaskBlocks; i < std::min(count, (part + 1) * kTaskBlocks); ++i) task(i);
  });
}

uint8_t* pointer_to(uint64_t address) {
  return reinterpret_cast<uint8_t*>(static_cast<uintptr_t>(address));
}

}  // namespace

size_t encode_blocks(const RowFormat& format, const uint64_t* sources, size_t count, uint8_t* codes,
                     size_t stride, uint16_t* scales, const Isa& isa) {
  std::atomic<size_t> first_bad{count * kBlockRows};
  for_blocks(count, [&](size_t i) {
    const size_t row = isa.rows.encode(format, pointer_to(sources[i]), kBlockRows,
                                       codes + i * stride, scales + i * kBlockRows);
    if (row == kBlockRows) return;
    size_t seen = first_bad.load();
    while (i * kBlockRows + row < seen &&
           !first_bad.compare_exchange_weak(seen, i * kBlockRows + row)) {
    }
  });
  return first_bad;
}

void decode_blocks(const RowFormat& format, const uint64_t* codes, const uint16_t* scales,
                   const uint64_t* targets, size_t count, const Isa& isa) {
  for_blocks(count, [&](size_t i) {
    uint8_t copy[kBlockRows * kMaxWidth];
    std::memcpy(copy, pointer_to(codes[i]), kBlockRows * code_bytes(format));
    isa.rows.decode(format, copy, scales + i * kBlockRows, kBlockRows, pointer_to(targets[i]));
  });
}

}  // namespace nearkv
