#include "attend_tiles.inl"

namespace nearkv {

const AttendTokens kAttendPortable = attend_tokens;

}  // namespace nearkv
