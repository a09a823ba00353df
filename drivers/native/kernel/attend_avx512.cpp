#include "attend_tiles.inl"

namespace nearkv {

const AttendTokens kAttendAvx512 = attend_tokens;

}  // namespace nearkv
