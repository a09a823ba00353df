#include "row_codec_tiles.inl"

namespace nearkv {

const RowCodec kRowsAvx2 = kRows;

}  // namespace nearkv
