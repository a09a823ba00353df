#pragma once

#include <memory>
#include <vector>

#include "batch.h"

namespace nearkv::io {

// How batches get performed. A thread pool of positional system calls today; a completion ring
// fits behind the same call.
class Engine {
 public:
  virtual ~Engine() = default;
  // Starts `batch`. The memory and the descriptor behind it must outlive its completion.
  virtual void submit(std::shared_ptr<Batch> batch) = 0;
};

}  // namespace nearkv::io
