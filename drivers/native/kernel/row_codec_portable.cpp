#include "row_codec_tiles.inl"

namespace nearkv {

const RowCodec kRowsPortable = kRows;

}  // namespace nearkv
