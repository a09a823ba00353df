#include "row_codec_tiles.inl"

namespace nearkv {

const RowCodec kRowsAvx512 = kRows;

}  // namespace nearkv
