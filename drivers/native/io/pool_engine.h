#pragma once

#include <memory>

#include "engine.h"

namespace nearkv::io {

// Persistent threads that perform pieces of the submitted batches, one piece of each in turn, so
// that a small batch of reads is not stuck behind a long write.
class PoolEngine final : public Engine {
 public:
  explicit PoolEngine(int threads);
  // Completes what was submitted. In a forked child, which has none of the threads, does nothing.
  ~PoolEngine() override;
  PoolEngine(const PoolEngine&) = delete;
  PoolEngine& operator=(const PoolEngine&) = delete;

  void submit(std::shared_ptr<Batch> batch) override;

 private:
  struct Shared;
  static void work(Shared& shared);

  std::unique_ptr<Shared> shared_;
};

}  // namespace nearkv::io
