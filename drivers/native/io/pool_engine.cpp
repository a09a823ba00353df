#include "pool_engine.h"

#include <utility>

namespace nearkv::io {

PoolEngine::PoolEngine(int threads) {
  threads_.reserve(static_cast<std::size_t>(threads));
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
}

PoolEngine::~PoolEngine() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void PoolEngine::submit(std::shared_ptr<Batch> batch) {
  if (batch->pieces() == 0) return;
  bool wake = false;
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back(std::move(batch));
    wake = idle_ > 0;
  }
  // One thread is woken here and each wakes the next while work is left: the caller pays for one.
  if (wake) wake_.notify_one();
}

void PoolEngine::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    ++idle_;
    wake_.wait(lock, [this] { return stopping_ || !queue_.empty(); });
    --idle_;
    if (queue_.empty()) return;
    std::shared_ptr<Batch> batch = std::move(queue_.front());
    queue_.pop_front();
    if (batch->all_claimed()) continue;
    if (batch->pieces() > 1) queue_.push_back(batch);
    const bool wake = idle_ > 0 && !queue_.empty();
    lock.unlock();
    if (wake) wake_.notify_one();
    batch->perform_one();
    batch.reset();
    lock.lock();
  }
}

}  // namespace nearkv::io
