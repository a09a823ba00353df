#pragma once

#include <sys/uio.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

namespace nearkv::io {

enum class Direction { kRead, kWrite };

// One transfer between a file range and memory. All three are in bytes.
struct Transfer {
  std::int64_t offset;
  std::uint64_t address;
  std::int64_t length;
};

// Why a transfer failed. `error` is an errno, or 0 where the file ended before the transfer did.
struct Failure {
  int error;
  std::int64_t offset;
};

// A batch of transfers, cut into pieces that any thread may claim and perform: neighbours in the
// file become one system call, long transfers several that run beside each other. An engine
// decides which threads those are; the thread that waits always helps, so that a batch completes
// without a single context switch where the caller has nothing better to do.
class Batch {
 public:
  Batch(int fd, Direction direction, const std::vector<Transfer>& transfers);
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  // Performs one piece that nobody has claimed; false where none is left to claim.
  bool perform_one();
  bool all_claimed() const { return next_.load(std::memory_order_relaxed) >= pieces_.size(); }
  std::size_t pieces() const { return pieces_.size(); }

  bool done() const { return remaining_.load(std::memory_order_acquire) == 0; }
  // Returns when no piece is in flight any more. After a failure the unclaimed pieces are skipped.
  void wait();
  // The first failure, once done.
  std::optional<Failure> failure() const;

 private:
  struct Piece {
    std::int64_t offset;
    std::size_t first_vector;
    std::size_t vectors;
    std::int64_t bytes;
  };

  // Adds a piece, or lengthens the last one to at most `joined` bytes where it continues it.
  void append(std::int64_t offset, std::uint64_t address, std::int64_t length, std::int64_t joined);
  std::optional<Failure> perform(const Piece& piece);

  const int fd_;
  const Direction direction_;
  std::vector<iovec> vectors_;
  std::vector<Piece> pieces_;
  std::atomic<std::size_t> next_{0};
  std::atomic<int> remaining_{0};
  std::atomic<bool> failed_{false};
  mutable std::mutex mutex_;
  std::optional<Failure> failure_;
};

}  // namespace nearkv::io
