#include "score.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <new>

#include "contract.hpp"
#include "reduce.hpp"

namespace nearkv {
namespace {

// Bytes of score blocks per task: large enough to stream, small enough that a short start keeps
// every thread busy.
constexpr size_t kMostPieceBytes = 512 * 1024;
constexpr size_t kLeastPieceBytes = 32 * 1024;
constexpr size_t kPiecesPerThread = 4;

size_t piece_bytes(const std::vector<Command>& commands) {
  size_t total = 0;
  for (const Command& command : commands)
    for (const Run& run : command.runs)
      total += run.count * block_bytes(command.width, command.bits);
  const size_t threads = ThreadPool::shared().workers() + 1;
  return std::clamp(total / (kPiecesPerThread * threads), kLeastPieceBytes, kMostPieceBytes);
}

struct AlignedDelete {
  void operator()(uint8_t* data) const { ::operator delete(data, std::align_val_t(64)); }
};

}  // namespace

// A part of one command's run.
struct Start::Piece {
  size_t command;
  size_t order;  // among the command's pieces
  const Run* run;
  uint32_t first;  // block within the run
  uint32_t count;
  size_t position;  // of the first block in the request
};

// What one command needs while it runs.
struct Start::Work {
  std::unique_ptr<uint8_t, AlignedDelete> query;
  size_t blocks = 0;
  size_t first_piece = 0;
  size_t pieces = 0;
  std::vector<int32_t> log_mass;
  std::vector<uint8_t> bad;
  std::vector<TotalFold> totals;
  std::unique_ptr<std::atomic<bool>[]> scored;  // per piece
  std::atomic<size_t> unscored{0};
  std::mutex fold_mutex;
  size_t folded = 0;  // pieces
};

Start::Start(std::vector<Command> commands, const Isa& isa)
    : isa_(isa), commands_(std::move(commands)), results_(commands_.size()) {
  const size_t most_bytes = piece_bytes(commands_);
  for (size_t i = 0; i < commands_.size(); ++i) {
    const Command& command = commands_[i];
    auto work = std::make_unique<Work>();
    work->query.reset(static_cast<uint8_t*>(
        ::operator new(isa.query_bytes(command.group, command.width), std::align_val_t(64))));
    isa.prepare(command.q, command.group, command.width, command.bits, work->query.get());
    for (int h = 0; h < command.group; ++h)
      work->totals.emplace_back(command.initial_total ? command.initial_total[h] : kEmpty);
    work->first_piece = pieces_.size();
    const auto most = static_cast<uint32_t>(most_bytes / block_bytes(command.width, command.bits));
    for (const Run& run : command.runs)
      for (uint32_t first = 0; first < run.count; first += most) {
        const uint32_t count = std::min(most, run.count - first);
        pieces_.push_back(
            {i, pieces_.size() - work->first_piece, &run, first, count, work->blocks});
        work->blocks += count;
      }
    work->pieces = pieces_.size() - work->first_piece;
    work->unscored = work->pieces;
    work->scored = std::make_unique<std::atomic<bool>[]>(work->pieces);
    work->log_mass.resize(work->blocks * command.group);
    work->bad.resize(work->blocks);
    results_[i].blocks = work->blocks;
    works_.push_back(std::move(work));
    if (!works_.back()->pieces) finish(i);
  }
  job_ = ThreadPool::shared().start(pieces_.size(), [this](size_t i) { score_piece(pieces_[i]); });
}

Start::~Start() {
  try {
    ThreadPool::shared().wait(*job_);
  } catch (...) {  // wait() has reported it, or nobody asked
  }
}

std::vector<Result>& Start::wait() {
  ThreadPool::shared().wait(*job_);
  return results_;
}

void Start::score_piece(const Piece& piece) {
  Work& work = *works_[piece.command];
  const Command& command = commands_[piece.command];
  const uint8_t* blocks =
      piece.run->blocks + piece.first * block_bytes(command.width, command.bits);
  isa_.score_blocks({work.query.get(), command.group, command.width, command.bits},
                    piece.run->scale, blocks, piece.count, work.log_mass.data() + piece.position,
                    work.blocks, work.bad.data() + piece.position);
  work.scored[piece.order].store(true);
  if (const std::unique_lock lock(work.fold_mutex, std::try_to_lock); lock) fold_ready(work);
  if (work.unscored.fetch_sub(1) == 1) finish(piece.command);
}

// Folds the totals over the pieces that are complete from the front, while others still stream. The
// fold mutex is held.
void Start::fold_ready(Work& work) {
  for (; work.folded < work.pieces && work.scored[work.folded].load(); ++work.folded) {
    const Piece& piece = pieces_[work.first_piece + work.folded];
    for (size_t h = 0; h < work.totals.size(); ++h) {
      const int32_t* values = work.log_mass.data() + h * work.blocks + piece.position;
      TotalFold total = work.totals[h];
      for (uint32_t i = 0; i < piece.count; ++i) total.add(values[i]);
      work.totals[h] = total;
    }
  }
}

// The last piece of a command is scored: everything that needs all of its blocks.
void Start::finish(size_t index) {
  const Command& command = commands_[index];
  Work& work = *works_[index];
  Result& result = results_[index];
  {
    const std::lock_guard lock(work.fold_mutex);
    fold_ready(work);
  }
  for (const TotalFold& total : work.totals) result.total.push_back(total.total());
  for (size_t i = 0; i < work.blocks; ++i)
    if (work.bad[i]) result.bad.push_back(static_cast<uint32_t>(i));
  if (command.mode == Mode::kMass) {
    result.log_mass = std::move(work.log_mass);
    return;
  }
  TopK best =
      top_k(work.log_mass.data(), result.total.data(), command.group, work.blocks, command.k);
  result.positions = std::move(best.positions);
  result.priorities = std::move(best.priorities);
}

}  // namespace nearkv
