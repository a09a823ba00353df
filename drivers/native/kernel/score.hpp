// Kernel starts on score blocks in memory: a list of commands, one result each.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "isa.hpp"
#include "thread_pool.hpp"

namespace nearkv {

// Consecutive score blocks of one segment, and how the query scales against it (c, r, b: [G]).
struct Run {
  const uint8_t* blocks;
  uint32_t count;
  RunScale scale;
};

enum class Mode { kMass, kTopK };

// One stream's request. Everything it points to must stay alive until its start is done.
struct Command {
  std::vector<Run> runs;
  const int8_t* q;  // [G][D]
  int group;
  int width;
  int bits;
  Mode mode;
  uint32_t k;                    // kTopK only
  const int32_t* initial_total;  // [G], or null for nothing
};

struct Result {
  std::vector<int32_t> total;                   // [G]
  std::vector<uint32_t> bad;                    // positions, ascending
  std::vector<int32_t> log_mass;                // kMass: [G][blocks]
  std::vector<uint32_t> positions, priorities;  // kTopK: highest first
  size_t blocks = 0;
};

// A started list of commands. Destroying it waits.
class Start {
 public:
  // Begins at once on the shared pool.
  Start(std::vector<Command> commands, const Isa& isa);
  ~Start();
  Start(const Start&) = delete;
  Start& operator=(const Start&) = delete;

  bool done() const { return job_->done(); }
  // See ThreadPool::Job.
  std::chrono::steady_clock::time_point finished() const { return job_->finished(); }
  // Helps until done; one result per command.
  std::vector<Result>& wait();

 private:
  struct Work;
  struct Piece;

  void score_piece(const Piece& piece);
  void fold_ready(Work& work);
  void finish(size_t index);

  const Isa& isa_;
  std::vector<Command> commands_;
  std::vector<std::unique_ptr<Work>> works_;
  std::vector<Piece> pieces_;
  std::vector<Result> results_;
  std::shared_ptr<ThreadPool::Job> job_;
};

}  // namespace nearkv
