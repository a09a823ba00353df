#include "attend_tiles.inl"

namespace nearkv {

const AttendTokens kAttendAvx2 = attend_tokens;

}  // namespace nearkv
