#pragma once

#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "engine.h"

namespace nearkv::io {

// Persistent threads that perform pieces of the submitted batches, one piece of each in turn, so
// that a small batch of reads is not stuck behind a long write.
class PoolEngine final : public Engine {
 public:
  explicit PoolEngine(int threads);
  ~PoolEngine() override;  // completes what was submitted
  PoolEngine(const PoolEngine&) = delete;
  PoolEngine& operator=(const PoolEngine&) = delete;

  void submit(std::shared_ptr<Batch> batch) override;

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::shared_ptr<Batch>> queue_;
  int idle_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace nearkv::io
