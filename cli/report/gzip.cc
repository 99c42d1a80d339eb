// SPDX-License-Identifier: BSD-3-Clause
#include <zlib.h>

#include "image/image.h"
#include "report/pprof.h"

namespace cli {

std::string Gzip(const std::string& text) {
  constexpr int kGzipFormat = 16;
  constexpr int kDefaultMemory = 8;
  z_stream stream = {};
  if (deflateInit2(&stream, Z_DEFAULT_COMPRESSION, Z_DEFLATED, MAX_WBITS + kGzipFormat,
                   kDefaultMemory, Z_DEFAULT_STRATEGY) != Z_OK) {
    throw Failure("zlib has no memory");
  }
  std::string out(deflateBound(&stream, text.size()), '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  const int result = deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  if (result != Z_STREAM_END) throw Failure("the profile is too large to be compressed");
  return out;
}

}  // namespace cli
