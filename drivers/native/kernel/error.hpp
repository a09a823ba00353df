// Input that the score contract refuses; becomes nearkv_drivers.wire.ContractError in Python.
#pragma once

#include <stdexcept>

namespace nearkv {

struct ContractError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace nearkv
