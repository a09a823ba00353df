#include "pool_engine.h"

#include <unistd.h>

#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace nearkv::io {

struct PoolEngine::Shared {
  std::mutex mutex;
  std::condition_variable wake;
  std::deque<std::shared_ptr<Batch>> queue;
  int idle = 0;
  bool stopping = false;
  std::vector<std::thread> threads;
  const pid_t owner = ::getpid();
};

PoolEngine::PoolEngine(int threads) : shared_(std::make_unique<Shared>()) {
  shared_->threads.reserve(static_cast<std::size_t>(threads));
  for (int i = 0; i < threads; ++i) {
    shared_->threads.emplace_back([shared = shared_.get()] { work(*shared); });
  }
}

PoolEngine::~PoolEngine() {
  if (::getpid() != shared_->owner) {
    // Joining threads, or destroying a condition they waited on, would wait for ever.
    static_cast<void>(shared_.release());
    return;
  }
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->stopping = true;
  }
  shared_->wake.notify_all();
  for (std::thread& thread : shared_->threads) thread.join();
}

void PoolEngine::submit(std::shared_ptr<Batch> batch) {
  if (batch->pieces() == 0) return;
  bool wake = false;
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->queue.push_back(std::move(batch));
    wake = shared_->idle > 0;
  }
  // One thread is woken here and each wakes the next while work is left: the caller pays for one.
  if (wake) shared_->wake.notify_one();
}

void PoolEngine::work(Shared& shared) {
  std::unique_lock lock(shared.mutex);
  while (true) {
    ++shared.idle;
    shared.wake.wait(lock, [&shared] { return shared.stopping || !shared.queue.empty(); });
    --shared.idle;
    if (shared.queue.empty()) return;
    std::shared_ptr<Batch> batch = std::move(shared.queue.front());
    shared.queue.pop_front();
    if (batch->all_claimed()) continue;
    if (batch->pieces() > 1) shared.queue.push_back(batch);
    const bool wake = shared.idle > 0 && !shared.queue.empty();
    lock.unlock();
    if (wake) shared.wake.notify_one();
    batch->perform_one();
    batch.reset();
    lock.lock();
  }
}

}  // namespace nearkv::io
