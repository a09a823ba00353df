// What follows the log-masses of a stream's blocks: totals, priorities, the k best.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace nearkv {

// The running total of one head: mass * 2^(exponent - 20).
class TotalFold {
 public:
  explicit TotalFold(int32_t initial) { add(initial); }

  void add(int32_t log_mass);
  // T, kEmpty if nothing was added.
  int32_t total() const;

 private:
  int64_t exponent_ = 0;
  uint64_t mass_ = 0;
  bool empty_ = true;
};

struct TopK {
  std::vector<uint32_t> positions;
  std::vector<uint32_t> priorities;
};

// The k blocks of highest priority of log_mass [heads][blocks] under total [heads], ties to the
// lower position.
TopK top_k(const int32_t* log_mass, const int32_t* total, int heads, size_t blocks, size_t k);

}  // namespace nearkv
