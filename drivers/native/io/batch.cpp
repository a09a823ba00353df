#include "batch.h"

#include <algorithm>
#include <cerrno>
#include <span>

namespace nearkv::io {
namespace {

// Size of a system call within a long transfer, which is cut so that several are in flight. Drives
// and P2P both need about 1 MiB per request for their full rate.
constexpr std::int64_t kLongPiece = 1 << 20;
// Neighbouring transfers are joined up to this much, and up to a long piece in batches that keep
// all threads busy even so.
constexpr std::int64_t kJoinedPiece = 256 << 10;
constexpr std::int64_t kBusyPieces = 16;
constexpr std::size_t kMaxVectors = 1024;  // IOV_MAX on Linux
// A count that is not a multiple of this ended inside a drive block: the file ends there, and
// O_DIRECT could not continue from it.
constexpr std::int64_t kSector = 512;
constexpr std::int64_t kPage = 4096;

// Equal pieces of whole pages, so that a transfer of a little over 1 MiB stays one.
std::int64_t piece_bytes(std::int64_t length) {
  const std::int64_t pieces = std::max<std::int64_t>(1, (length + kLongPiece / 2) / kLongPiece);
  return ((length + pieces - 1) / pieces + kPage - 1) / kPage * kPage;
}

}  // namespace

Batch::Batch(int fd, Direction direction, const std::vector<Transfer>& transfers)
    : fd_(fd), direction_(direction) {
  std::int64_t total = 0;
  for (const Transfer& transfer : transfers) total += transfer.length;
  const std::int64_t joined = std::clamp(total / kBusyPieces, kJoinedPiece, kLongPiece);
  vectors_.reserve(transfers.size());
  pieces_.reserve(transfers.size());
  for (const Transfer& transfer : transfers) {
    const std::int64_t size = piece_bytes(transfer.length);
    for (std::int64_t at = 0; at < transfer.length; at += size) {
      append(transfer.offset + at, transfer.address + static_cast<std::uint64_t>(at),
             std::min(size, transfer.length - at), joined);
    }
  }
  remaining_.store(static_cast<int>(pieces_.size()), std::memory_order_release);
}

void Batch::append(std::int64_t offset, std::uint64_t address, std::int64_t length,
                   std::int64_t joined) {
  auto* base = reinterpret_cast<char*>(address);
  if (!pieces_.empty()) {
    Piece& last = pieces_.back();
    if (last.offset + last.bytes == offset && last.bytes + length <= joined) {
      iovec& tail = vectors_.back();
      if (static_cast<char*>(tail.iov_base) + tail.iov_len == base) {
        tail.iov_len += static_cast<std::size_t>(length);
        last.bytes += length;
        return;
      }
      if (last.vectors < kMaxVectors) {
        vectors_.push_back({base, static_cast<std::size_t>(length)});
        ++last.vectors;
        last.bytes += length;
        return;
      }
    }
  }
  pieces_.push_back({offset, vectors_.size(), 1, length});
  vectors_.push_back({base, static_cast<std::size_t>(length)});
}

bool Batch::perform_one() {
  const std::size_t index = next_.fetch_add(1, std::memory_order_relaxed);
  if (index >= pieces_.size()) return false;
  if (!failed_.load(std::memory_order_relaxed)) {
    if (const auto failure = perform(pieces_[index])) {
      const std::lock_guard lock(mutex_);
      if (!failure_) failure_ = failure;
      failed_.store(true, std::memory_order_relaxed);
    }
  }
  if (remaining_.fetch_sub(1, std::memory_order_acq_rel) == 1) remaining_.notify_all();
  return true;
}

std::optional<Failure> Batch::perform(const Piece& piece) {
  std::span<iovec> rest(vectors_.data() + piece.first_vector, piece.vectors);
  std::int64_t offset = piece.offset;
  while (true) {
    const int count = static_cast<int>(rest.size());
    const ssize_t moved = direction_ == Direction::kRead
                              ? ::preadv(fd_, rest.data(), count, offset)
                              : ::pwritev(fd_, rest.data(), count, offset);
    if (moved < 0) {
      if (errno == EINTR) continue;
      return Failure{errno, offset};
    }
    offset += moved;
    if (offset == piece.offset + piece.bytes) return std::nullopt;
    if (direction_ == Direction::kRead && (moved == 0 || moved % kSector != 0)) {
      return Failure{0, offset};
    }
    auto left = static_cast<std::size_t>(moved);
    while (left >= rest.front().iov_len) {
      left -= rest.front().iov_len;
      rest = rest.subspan(1);
    }
    rest.front().iov_base = static_cast<char*>(rest.front().iov_base) + left;
    rest.front().iov_len -= left;
  }
}

void Batch::wait() {
  while (perform_one()) {
  }
  for (int left = remaining_.load(std::memory_order_acquire); left != 0;
       left = remaining_.load(std::memory_order_acquire)) {
    remaining_.wait(left, std::memory_order_acquire);
  }
}

std::optional<Failure> Batch::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

}  // namespace nearkv::io
