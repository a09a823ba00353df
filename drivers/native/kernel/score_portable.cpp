// The score kernel for any processor.
#include "attend.hpp"
#include "codec.hpp"
#include "crc32c.hpp"
#include "row_codec.hpp"

#define block_crc_of crc32c_portable
#include "score_generic.inl"

namespace nearkv {

const Isa kPortable{"portable",      query_bytes,    prepare,         score_blocks,
                    crc32c_portable, kCodecPortable, kAttendPortable, kRowsPortable};

}  // namespace nearkv
