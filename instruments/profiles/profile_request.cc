// SPDX-License-Identifier: BSD-3-Clause
#include "instruments/profiles/profile_request.h"

#include "base/duration.h"
#include "base/text_fields.h"
#include "instruments/profiles/signal_number.h"

namespace tcmalloc {
namespace {

// The kinds of files, by the ending of the path.
struct Kind {
  std::string_view ending;
  std::string_view extension;
  ProfileFormat format;
};
constexpr Kind kKinds[] = {{".heap", ".heap", ProfileFormat::kLegacyText},
                           {".pb", ".pb", ProfileFormat::kProto},
                           // This is the usual name of such a file, which here is not compressed.
                           {".pb.gz", ".pb", ProfileFormat::kProto},
                           {".folded", ".folded", ProfileFormat::kFolded}};

void TakePath(std::string_view path, ProfileRequest* request) {
  request->base = path;
  for (const Kind& kind : kKinds) {
    if (!path.ends_with(kind.ending)) continue;
    request->base.remove_suffix(kind.ending.size());
    request->extension = kind.extension;
    request->format = kind.format;
  }
}

bool TakeOption(std::string_view option, ProfileRequest* request) {
  std::string_view value = option;
  const std::string_view name = TakeField(&value, '=');
  if (name == "at") return request->at_exit = value == "exit";
  if (name == "signal") return (request->signal = SignalNumber(value)) != 0;
  if (name == "every") return ParseInterval(value, &request->interval_ms);
  return request->peak = option == "peak";
}

}  // namespace

bool ParseProfileRequest(std::string_view text, ProfileRequest* request, std::string_view* wrong) {
  *request = ProfileRequest();
  *wrong = text;
  const char* const end = text.data() + text.size();
  const auto is_last = [end](std::string_view field) { return field.data() + field.size() == end; };
  const std::string_view path = TakeField(&text, ',');
  if (path.empty()) return false;
  TakePath(path, request);
  if (is_last(path)) return request->at_exit = true;
  do {
    *wrong = TakeField(&text, ',');
    if (!TakeOption(*wrong, request)) return false;
  } while (!is_last(*wrong));
  return true;
}

}  // namespace tcmalloc
